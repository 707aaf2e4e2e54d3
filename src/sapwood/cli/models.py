"""`sapwood models`: what comes with Sapwood, with cards and attributions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.reports import fact_lines, number_text, show
from sapwood.core.errors import SapwoodError, count
from sapwood.core.model_names import BUNDLED, list_models, model_file, model_notice

MODELS_EPILOG = """\b
Examples:
  sapwood models
  sapwood models english
  sapwood models --json
"""
ROOM = 15  # columns of the names of facts


def show_models(
    name: str | None = typer.Argument(
        None, metavar="[NAME]", help="Show the card of this model with all attributions."
    ),
    as_json: opt.Json = False,
) -> None:
    """List the models in the package: task, size, licence, training data, scores.

    Their names can be used wherever a command takes a MODEL. The weights have a licence of their
    own, which follows from their training texts.
    """
    cards = list_models()
    if name is None:
        show(cards, _list_text, as_json=as_json)
        if not as_json:
            echo(f"`sapwood models NAME` shows the whole card; `{BUNDLED}` names a small grammar")
        return
    card = next((card for card in cards if card["name"] == name), None)
    if card is None:
        msg = f"{name}: no model of this name comes with Sapwood"
        hint = f"there are {', '.join(card['name'] for card in cards) or 'none'}; "
        raise SapwoodError(msg, hint=f"{hint}`sapwood inspect {name}` looks into a file")
    show(card | {"file": str(model_file(name))}, _card_text, as_json=as_json)
    if not as_json:
        print(f"\n{model_notice().strip()}")


def _list_text(cards: list[dict[str, Any]]) -> Iterator[str]:
    for number, card in enumerate(cards):
        if number:
            yield ""
        yield f"{card['name']}: {card['title']}"
        facts = {
            "task": f"{card['task']}, language {card['language']}",
            "size": f"{card['bytes'] / 1e6:.1f} MB",
            "licence": f"{card['licence']} (of the weights)",
        }
        yield from fact_lines(facts, ROOM, "  ")
        corpora = (f"{one['name']}, {count(one['trees'], 'tree')}" for one in card["training_data"])
        yield from _rows("learnt from", corpora)
        yield from _rows("scores", _scores(card))


def _rows(name: str, values: Iterable[str], indent: str = "  ") -> Iterator[str]:
    """A name followed by values, each on its own line."""
    for number, value in enumerate(values):
        yield from fact_lines({"" if number else name: value}, ROOM, indent)


def _scores(card: dict[str, Any]) -> Iterator[str]:
    """The scores of a model, a line for each part of a corpus."""
    parts: dict[tuple[str, str, int], list[str]] = {}
    for one in card["scores"]:
        place = one["corpus"], one["part"], one["sentences"]
        parts.setdefault(place, []).append(f"{one['metric']} {one['value']:g}")
    for (corpus, part, n_sentences), numbers in parts.items():
        yield f"{', '.join(numbers)}: {corpus}, {part}, {count(n_sentences, 'sentence')}"


def _card_text(card: dict[str, Any]) -> Iterator[str]:
    yield f"{card['name']}: {card['title']}"
    yield ""
    kept = ("language", "task", "version", "licence", "bytes", "sha256", "command", "file")
    yield from fact_lines({key: number_text(card[key]) for key in kept}, ROOM)
    yield from _rows("scores", _scores(card), "")
    for one in card["training_data"]:
        yield ""
        yield f"Learnt from {one['name']}"
        names = ("source", "commit", "licence", "attribution", "trees", "words")
        yield from fact_lines({key: number_text(one[key]) for key in names}, ROOM, "  ")
