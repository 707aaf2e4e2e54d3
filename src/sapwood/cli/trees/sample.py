"""`sapwood sample`: trees drawn from a model."""

from __future__ import annotations

import typer

from sapwood.cli import options as opt
from sapwood.cli.inputs import load_model

CHUNK = 1000  # trees drawn before they are written: a large draw starts at once

EPILOG = """\b
Examples:
  sapwood sample bundled -n 3
  sapwood sample model.sapwood -n 1000 --words --seed 7 > sentences.txt
"""


def sample(
    model: opt.Model,
    n: int = typer.Option(10, "--n", "-n", min=0, metavar="N", help="How many trees."),
    seed: int = typer.Option(0, min=0, metavar="N", help="Another number draws other trees."),
    words: bool = typer.Option(
        False, "--words", help="Only the sentences, one a line, without their trees."
    ),
) -> None:
    """Draw trees from a model, one a line.

    The same seed and N draw the same trees; an ensemble draws each from a member picked by its
    weight. Unknown words are not drawn. Not for spectral models, nor for ensembles with one, which
    hold weights and no probabilities.
    """
    loaded = load_model(model)
    import numpy as np

    rng = np.random.default_rng(seed)
    for first in range(0, n, CHUNK):
        for tree in loaded.sample(min(CHUNK, n - first), seed=rng):
            print(" ".join(tree.words()) if words else tree)
