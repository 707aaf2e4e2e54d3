"""Annotation of dependency trees: edits as constraints, and suggestions."""
