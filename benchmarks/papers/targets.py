"""Grammars that learners of strings are tried on: those of the experiments of WCFG, section 5."""

from __future__ import annotations

import numpy as np

from sapwood.hankel.model.weighted_grammar import ClassicForm, WeightedGrammar

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SLOW = 0.99  # spectral radius above which strings take for ever to draw


def dyck() -> WeightedGrammar:
    """Balanced brackets: S -> S S (.2) | a S b (.4) | a b (.4), in binary form.

    Examples
    --------
    >>> round(dyck().value(["a", "b"]), 3), round(dyck().total().expected_length, 6)
    (0.4, 8.0)
    """
    binary = {(0, 0, 0): 0.2, (0, 1, 3): 0.4, (3, 0, 2): 1.0, (0, 1, 2): 0.4}
    return WeightedGrammar.from_classic(
        ClassicForm({0: 1.0}, {(1, "a"): 1.0, (2, "b"): 1.0}, binary)
    )


def random_pcfg(n: int, d: int, rng: np.random.Generator) -> tuple[WeightedGrammar, int]:
    """Uniform weights scaled to probabilities, and how many were drawn until strings ended.

    Only about one in thirty ends with probability 1; the others are no distributions of strings.

    Examples
    --------
    >>> grammar, _ = random_pcfg(2, 2, np.random.default_rng(0))
    >>> grammar.is_probabilistic, round(grammar.total().mass, 9)
    (True, 1.0)
    """
    n_drawn = 0
    while True:
        n_drawn += 1
        initial, terminals, binary = rng.random(n), rng.random((d, n)), rng.random((n, n, n))
        sums = terminals.sum(axis=0) + binary.sum(axis=(1, 2))
        grammar = WeightedGrammar(
            tuple(LETTERS[:d]), initial / initial.sum(), terminals / sums,
            binary / sums[:, None, None],
        )  # fmt: skip
        total = grammar.total()
        if total.spectral_radius < SLOW and abs(total.mass - 1) < 1e-9:
            return grammar, n_drawn
