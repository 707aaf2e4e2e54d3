"""Annotation projects: a folder of sentences and trees, its journal, and the order of work."""
