"""`sapwood sample`: trees drawn from a model."""

from __future__ import annotations

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import as_grammar, load_any
from sapwood.core.errors import SapwoodError

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

    The same seed and N draw the same trees. An ensemble draws each tree from a member picked by its
    weight, among the members that have probabilities (pcfg, em, pivot, cluster); a line on stderr
    says which. Unknown words are not drawn. Not for a spectral model alone, which holds weights and
    no probabilities, nor for crf or encoder alone, which know trees only given their sentences.
    """
    from sapwood.constituency.grammar.ensemble import describe_draw, generative_part
    from sapwood.hankel.model.string_model import StringModel

    loaded = load_any(model)
    if not isinstance(loaded, StringModel):
        whole = as_grammar(loaded, model)
        try:
            loaded = generative_part(whole)
        except SapwoodError as error:
            msg = f"{model}: {error}"
            raise SapwoodError(msg, hint=error.hint) from error
        if loaded is not whole:
            echo(f"{model}: {describe_draw(whole, loaded)}")
    import numpy as np

    rng = np.random.default_rng(seed)
    for first in range(0, n, CHUNK):
        for tree in loaded.sample(min(CHUNK, n - first), seed=rng):
            print(" ".join(tree.words()) if words else tree)
