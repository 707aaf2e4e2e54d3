"""`sapwood depend score`: log-probabilities of dependency trees under a latent model."""

from __future__ import annotations

from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.arcs.reading import ArcReading, Encoding, SkipBad
from sapwood.cli.console import echo
from sapwood.cli.inputs import as_kind, load_any
from sapwood.errors import count
from sapwood.report import to_json

EPILOG = """\b
Examples:
  sapwood depend score latent.sapwood dev.conllu > log-probs.txt
  sapwood depend score latent.sapwood dev.conllu --json
"""


def score(
    model: str = typer.Argument(..., metavar="MODEL", help="A latent model of dependency trees."),
    file: str = typer.Argument("-", metavar="[FILE]", help="CoNLL-U; - for stdin."),
    *,
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Print the natural logarithm of the probability of what each tree shows, given its arcs.

    One a line. A spectral model has weights instead of probabilities, and some are negative: each
    line is then the logarithm of the absolute weight, TAB, and its sign (+, - or 0).
    """
    from sapwood.models.arcs.dependency import DependencyModel

    hint = "parsers score their trees by `depend parse --n-best`"
    found: DependencyModel = as_kind(
        load_any(model), DependencyModel, model, "a latent model of arcs", hint, "arcs"
    )
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    bank = reading.arcs([file])
    logs, signs = found.signed_log_probs(bank)
    report = _report(logs, signs, bank.n_tokens, is_probabilistic=found.is_probabilistic)
    if as_json:
        print(to_json(report, indent=2))
    else:
        marks = {1: "\t+", -1: "\t-", 0: "\t0"}
        for log, sign in zip(logs.tolist(), signs.tolist(), strict=True):
            print(f"{log:.6f}{'' if found.is_probabilistic else marks[int(sign)]}")
    reading.tell()
    name = "log-probability" if found.is_probabilistic else "log |weight|"
    parts = [count(len(bank), "tree"), count(bank.n_tokens, "word")]
    echo("  ".join([*parts, f"{name} {report['log_prob']:,.2f}"]))
    if not found.is_probabilistic:
        echo(f"this model holds weights, not probabilities: {report['negative']:,} are negative")


def _report(logs: Any, signs: Any, n_words: int, *, is_probabilistic: bool) -> dict[str, Any]:
    import numpy as np

    return {
        "is_probabilistic": is_probabilistic,
        "trees": len(logs),
        "words": n_words,
        "impossible": int((signs == 0).sum()),
        "negative": int((signs < 0).sum()),
        "log_prob": float(logs[np.isfinite(logs)].sum()),
        "log_probs": logs.tolist(),
        "signs": [int(sign) for sign in signs.tolist()],
    }
