"""Additive statistics of treebanks."""
