"""The models that are learnt, and their files."""
