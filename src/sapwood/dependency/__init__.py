"""Dependency trees: banks of arcs, models, parsers, learners, evaluation, reports."""
