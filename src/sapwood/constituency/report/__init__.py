"""A model or a run in, plain dictionaries out."""
