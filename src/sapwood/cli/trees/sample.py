"""`sapwood sample`: trees drawn from a model."""

from __future__ import annotations

import typer

from sapwood.cli import options as opt
from sapwood.cli.inputs import as_grammar, load_any
from sapwood.errors import SapwoodError

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
    weight. Unknown words are not drawn. Not for spectral models, which hold weights and no
    probabilities, nor for crf and encoder, which know trees only given their sentences, nor
    for ensembles with one.
    """
    from sapwood.models.latent_grammar import FeatureGrammar
    from sapwood.models.span_network import SpanNetwork
    from sapwood.models.strings.string_model import StringModel

    loaded = load_any(model)
    if not isinstance(loaded, StringModel):
        loaded = as_grammar(loaded, model)

    if isinstance(loaded, FeatureGrammar | SpanNetwork):
        msg = f"{model}: knows trees only given their sentences, so none can be drawn from it"
        raise SapwoodError(msg, hint="train with --method pcfg, em, pivot or cluster to sample")
    import numpy as np

    rng = np.random.default_rng(seed)
    for first in range(0, n, CHUNK):
        for tree in loaded.sample(min(CHUNK, n - first), seed=rng):
            print(" ".join(tree.words()) if words else tree)
