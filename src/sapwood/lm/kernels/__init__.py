"""Compiled recursions, one file each."""
