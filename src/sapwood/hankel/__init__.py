"""Weighted grammars and automata over strings, from Hankel matrices."""
