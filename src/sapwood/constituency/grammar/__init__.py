"""Grammars with hidden states, span networks and ensembles of both."""
