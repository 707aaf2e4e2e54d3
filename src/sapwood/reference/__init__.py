"""Slow, obvious twins of the kernels: what the fast code is checked against.

Notation
--------
    root[a]            weights of symbol a at the root, one number per state
    rules[a, b, c]     tensor [m(a)][m(b)][m(c)] of the rule a -> b c, as nested sequences
    emissions[i][t]    weights with which tag t emits the word at position i, one number per state

Grammars are plain Python data and any numbers will do: with `fractions.Fraction` all results are
exact, whatever the size of the weights. Nothing else of Sapwood is imported here, so a mistake in
the library cannot repeat itself.
"""
