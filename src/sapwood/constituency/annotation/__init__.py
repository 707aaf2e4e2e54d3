"""Annotation of phrase trees: edits as constraints, suggestions, and learning as one goes."""
