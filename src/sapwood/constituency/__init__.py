"""Constituent trees: treebanks, grammars, parsers, learners, evaluation, reports."""
