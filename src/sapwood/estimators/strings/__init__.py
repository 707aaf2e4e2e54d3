"""Learners of models of plain strings: weighted grammars and automata."""
