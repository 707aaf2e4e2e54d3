"""Audit of a treebank of constituents: which of its annotations are probably wrong."""
