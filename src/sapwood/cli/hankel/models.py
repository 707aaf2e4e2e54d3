"""Models of plain strings: by name, and what `score` and `inspect` do with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sapwood.cli.console import echo
from sapwood.cli.inputs import as_kind, load_any, read_lines
from sapwood.cli.tables import fact_lines, name_some, show
from sapwood.core.errors import SapwoodError, count
from sapwood.core.model_card import PURPOSES
from sapwood.hankel.report import at_line, describe_strings, with_lines
from sapwood.report import ScoreReport, to_json

if TYPE_CHECKING:
    from sapwood.hankel.model.string_model import StringModel

SIGNS = {1: "+", -1: "-", 0: "0"}


def load_strings_model(name: str) -> StringModel:
    """The model of strings that a user names."""
    from sapwood.hankel.model.string_model import StringModel

    model: StringModel = as_kind(
        load_any(name), StringModel, name, "a weighted grammar or automaton",
        "name a file of `sapwood hankel learn`", "hankel",
    )  # fmt: skip
    return model


def score_strings(model: StringModel, file: str, *, as_json: bool) -> None:
    """Print the log of |f(x)| of each line, and its sign where the model has weights."""
    report = ScoreReport("strings", model.is_probabilistic)
    for number, words in with_lines(read_lines(file)):
        if not words:
            print("")
            continue
        try:
            weight = model.signed_log_prob(words)
        except SapwoodError as error:
            raise at_line(error, file, number) from error
        report.add(weight, len(words))
        if not as_json:
            sign = "" if report.is_probabilistic else f"\t{SIGNS[weight.sign]}"
            print(f"{weight.log:.6f}{sign}")
    found = report.as_dict()
    if as_json:
        print(to_json(found, indent=2))
    name = "log-probability" if report.is_probabilistic else "log |weight|"
    echo(f"{count(found['scored'], 'string')}  {name} {found['log_prob']:,.2f}")


def inspect_strings(model: StringModel, name: str, *, as_json: bool) -> None:
    """Print sizes of a model of strings, and its sum over all of them."""
    show(describe_strings(model, name), _text, as_json=as_json)


def _text(report: dict[str, Any]) -> Iterator[str]:
    total, symbols = report["total"], report["symbols"]
    return fact_lines(
        {
            "model": report["model"],
            "kind": PURPOSES[report["kind"]].what,
            **({"method": report["method"]} if report["method"] else {}),
            "weights": "probabilities" if report["probabilistic"] else "not probabilities",
            "states": f"{report['states']:,}",
            "symbols": f"{len(symbols):,}: {name_some(symbols, 12)}",
            "sum": f"{total['mass']:.6g}" if total["converges"] else "diverges",
            "length": f"{total['expected_length']:.4g} expected",
            "radius": f"{total['spectral_radius']:.4g} (below 1: the sum converges)",
            "record": ", ".join(f"{key} {value}" for key, value in report["record"].items())
            or "none: the file does not say how it was made",
        },
        11,
    )
