"""`sapwood inspect`: what is in a model."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from sapwood.cli.console import print_json
from sapwood.cli.inputs import BUNDLED, ForceOption, JsonOption, ModelArgument, load_model
from sapwood.cli.members import (
    MemberOption,
    ensemble_report,
    ensemble_text,
    member_of,
    telling_member,
)
from sapwood.cli.pivots import missing_note, pivot_note, pivot_of, pivots_text
from sapwood.cli.plots import PlotOption, check_plot
from sapwood.cli.spectrum import draw_spectrum, spectrum_rows, spectrum_text
from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sapwood.cli.directions import Pull, StateVectors
    from sapwood.models.ensemble import Ensemble
    from sapwood.models.latent_grammar import LatentGrammar

EPILOG = """\b
Examples:
  sapwood inspect model.sapwood
  sapwood inspect bundled --label NP --top 5
  sapwood inspect model.sapwood --spectrum --plot spectrum.png
  sapwood inspect model.sapwood --json | jq .sizes
  sapwood inspect ensemble.sapwood --member 2 --label NP
"""


def inspect(  # noqa: PLR0913 - every option of the command is an argument
    model: ModelArgument,
    *,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Show the rules or words of this label, its contexts, and what each state means. "
            "A treebank label such as NP, or a symbol as the model writes it, such as 'S|VP' or "
            "'@VP:>PP'.",
        ),
    ] = None,
    spectrum: Annotated[
        bool,
        typer.Option(
            "--spectrum",
            help="Show the singular values of the commonest labels and how many are states; only "
            "for spectral models.",
        ),
    ] = False,
    plot: PlotOption = None,
    force: ForceOption = False,
    member: MemberOption = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows of each list; JSON lists all symbols.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show what is in a model: method, sizes, states, transform, training record, unknown words.

    Probabilities are conditional: of a rule or word given its symbol (and state), of a tag given
    its class of unknown words. Share is the part of all nodes of a random tree. States of the
    methods pivot and pivot-em come with the feature that each was made from. An ensemble is shown
    as the list of its members; --member looks into one, and --label and --spectrum into the one
    that tells most unless told otherwise.
    """
    if plot and not spectrum:
        msg = "--plot draws singular values: it needs --spectrum"
        raise typer.BadParameter(msg)
    if plot:
        check_plot(plot, [] if model == BUNDLED else [model], force=force)
    loaded = load_model(model)
    if member is None and (label is not None or spectrum):
        member = telling_member(loaded, spectrum=spectrum)
    grammar = member_of(loaded, member, model)
    if grammar is None:
        _show_ensemble(cast("Ensemble", loaded), model, as_json=as_json)
        return
    view = View(grammar, top)
    if spectrum:
        rows = spectrum_rows(view.model, view.of_spectrum(label), model)
        _show_spectrum(rows, model, top, plot, as_json=as_json)
        return
    report: dict[str, Any] = {"model": model} | ({"member": member} if member else {})
    report |= view.overview()
    if label is None:
        report |= {"symbols": view.symbols(), "unknown_words": view.unknown_words()}
    else:
        report |= {"label": label, "symbols": view.of_label(label)}
    if as_json:
        print_json(report)
    else:
        print("\n".join(_label_text(report, top) if label else _overview_text(report, top)))


def _show_ensemble(ensemble: Ensemble, model: str, *, as_json: bool) -> None:
    report = {"model": model} | ensemble_report(ensemble)
    if as_json:
        print_json(report)
    else:
        print("\n".join(ensemble_text(report)))


def _show_spectrum(
    rows: list[dict[str, Any]], model: str, top: int, plot: Path | None, *, as_json: bool
) -> None:
    if as_json:
        print_json({"model": model, "spectrum": rows})
    else:
        print("\n".join(spectrum_text(rows, top)))
    if plot:
        draw_spectrum(plot, rows[:top])


class View:
    """Readable facts about a grammar.

    Parameters
    ----------
    model
        Any latent grammar.
    top
        How many rules, words or tags to list for each symbol, state or class.
    """

    def __init__(self, model: LatentGrammar, top: int) -> None:
        self.model = model
        self.top = top
        self.names = [str(symbol) for symbol in model.symbols]

    @cached_property
    def share(self) -> npt.NDArray[np.float64]:
        """Share of each symbol among the nodes of a random tree, shape [n_symbols]."""
        share: npt.NDArray[np.float64] = self.model.visits / self.model.visits.sum()
        return share

    @cached_property
    def vectors(self) -> StateVectors:
        """Rules, words and contexts as vectors over states."""
        from sapwood.cli.directions import StateVectors

        return StateVectors(self.model)

    @cached_property
    def entry_row(self) -> npt.NDArray[np.int64]:
        """The lexicon row of each entry."""
        import numpy as np

        lexicon = self.model.lexicon
        return np.repeat(np.arange(lexicon.n_rows), np.diff(lexicon.row_start))

    def overview(self) -> dict[str, Any]:
        """Method, sizes, transform and training record."""
        model = self.model
        parts = (model.root, model.rule_weights, model.lexicon.weights)
        return {
            "method": model.record.get("method"),
            "probabilistic": model.is_probabilistic,
            "sizes": {
                "phrases": model.n_phrases,
                "tags": len(model.tags),
                "rules": len(model.rules),
                "words": len(model.lexicon.words),
                "unknown_classes": len(model.lexicon.classes),
                "parameters": sum(len(part) for part in parts),
            },
            "states": {
                "total": int(model.n_states.sum()),
                "least": int(model.n_states.min()),
                "most": int(model.n_states.max()),
            },
            "transform": model.transform.as_dict(),
            "signatures": model.lexicon.style,
            "record": dict(model.record),
        }

    def symbols(self) -> list[dict[str, Any]]:
        """All symbols with their states, commonest first."""
        return [self._symbol(a) for a in self._by_share(range(self.model.n_symbols))]

    def unknown_words(self) -> list[dict[str, Any]]:
        """Classes of unknown words with their likeliest tags."""
        model, lexicon = self.model, self.model.lexicon
        out = []
        for place, name in enumerate(lexicon.classes):
            entries = lexicon.entries(len(lexicon.words) + place)
            tags = model.n_phrases + lexicon.entry_tag[entries].astype(int)
            weight = model.coarse.lexical[entries] * self.share[tags]
            total = float(weight.sum()) or 1.0
            pairs = ((self.names[a], p / total) for a, p in zip(tags, weight.tolist(), strict=True))
            out.append({"class": name, "tags": self._best("tag", pairs)})
        return out

    def of_label(self, label: str) -> list[dict[str, Any]]:
        """Rules or words and contexts of every symbol of a label, over all states and in each."""
        return [self._symbol(a) | self._meaning(a) for a in self._find(label)]

    def of_spectrum(self, label: str | None) -> list[dict[str, Any]]:
        """The symbols of a label, or all, commonest first."""
        return self.symbols() if label is None else [self._symbol(a) for a in self._find(label)]

    def _find(self, label: str) -> list[int]:
        """The symbol written so, else those that stand for the label, commonest first."""
        if label in self.names:
            return [self.names.index(label)]
        symbols = self.model.symbols
        found = [a for a, s in enumerate(symbols) if label in s.chain and not s.is_intermediate]
        if found:
            return self._by_share(found)
        labels = dict.fromkeys([part for s in symbols for part in s.chain] + self.names)
        near = difflib.get_close_matches(label, labels, n=3) or list(labels)[:8]
        msg = f"the model has no label {label!r}; it has, among others, {', '.join(near)}"
        raise SapwoodError(msg, hint="`sapwood inspect MODEL --json` lists all symbols")

    def _by_share(self, numbers: Iterable[int]) -> list[int]:
        return sorted(numbers, key=lambda a: -self.share[a])

    def _symbol(self, a: int) -> dict[str, Any]:
        is_phrase = a < self.model.n_phrases
        found: dict[str, Any] = {
            "symbol": self.names[a],
            "kind": "phrase" if is_phrase else "tag",
            "states": int(self.model.n_states[a]),
            "share": float(self.share[a]),
        }
        pivots = self.model.record.get("pivots", {}).get(self.names[a])
        if pivots and found["states"] > 1:
            found["pivots"] = [pivot_of(name, is_phrase=is_phrase) for name in pivots]
        return found

    def _meaning(self, a: int) -> dict[str, Any]:
        """One row over all states, then one for each state, or for each dimension of a basis."""
        rows = [self._row(a, None)]
        n_states = int(self.model.n_states[a])
        if n_states == 1:
            return {"rows": rows}
        if self.model.is_probabilistic:
            return {"rows": rows + [self._row(a, h) for h in range(n_states)]}
        # The states of a spectral model are known only up to a change of basis: rows mean nothing.
        return {"rows": rows, "dimensions": self._dimensions(a)}

    def _dimensions(self, a: int) -> list[dict[str, Any]]:
        """What lies furthest to either side of each axis of a spectral label's basis."""
        from sapwood.cli.directions import pulls

        vectors = self.vectors
        kind = "rule" if a < self.model.n_phrases else "word"
        families = {
            kind: list(vectors.rules(a) if kind == "rule" else vectors.words(a)),
            "context": list(vectors.contexts(a)),
        }
        values = self.model.record.get("spectrum", {}).get(self.names[a], [])
        out = []
        for d in range(int(self.model.n_states[a])):
            sides: dict[str, Any] = {"positive": {}, "negative": {}}
            for name, items in families.items():
                for side, found in zip(sides, pulls(items, d, self.top), strict=True):
                    sides[side][f"{name}s"] = [_pull(name, one) for one in found]
            value = values[d] if d < len(values) else None
            out.append({"dimension": d + 1, "singular_value": value} | sides)
        return out

    def _row(self, a: int, state: int | None) -> dict[str, Any]:
        model = self.model
        root = model.coarse.root[a] if state is None else model.root_vector(a)[state]
        is_phrase = a < model.n_phrases
        listed = self._rules(a, state) if is_phrase else self._words(a, state)
        kind = "rule" if is_phrase else "word"
        return {
            "state": state,
            "root": float(root),
            f"{kind}s": self._best(kind, listed),
            "contexts": self._best("context", self._contexts(a, state)),
        }

    def _contexts(self, a: int, state: int | None) -> Iterator[tuple[str, float]]:
        if state is None:
            return ((place.name, place.probability) for place in self.vectors.places(a))
        return ((item.name, float(item.vector[state])) for item in self.vectors.contexts(a))

    def _rules(self, a: int, state: int | None) -> Iterator[tuple[str, float]]:
        model = self.model
        for r, (parent, b, c) in enumerate(model.rules.tolist()):
            if parent == a:
                p = model.coarse.rules[r] if state is None else model.tensor(r)[state].sum()
                yield f"{self.names[b]} {self.names[c]}", float(p)

    def _words(self, a: int, state: int | None) -> Iterator[tuple[str, float]]:
        lexicon = self.model.lexicon
        names = lexicon.words + lexicon.classes
        for entry in (lexicon.entry_tag == a - self.model.n_phrases).nonzero()[0].tolist():
            weights = self.model.coarse.lexical if state is None else lexicon.weights
            at = entry if state is None else int(lexicon.weight_start[entry]) + state
            yield names[self.entry_row[entry]], float(weights[at])

    def _best(self, kind: str, pairs: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        ordered = sorted((pair for pair in pairs if pair[1]), key=lambda pair: (-pair[1], pair[0]))
        return [{kind: name, "probability": p} for name, p in ordered[: self.top]]


def _pull(kind: str, one: Pull) -> dict[str, Any]:
    return {kind: one.name, "pull": round(one.pull, 3), "probability": one.probability}


# -- text -----------------------------------------------------------------------------------------


def _overview_text(report: dict[str, Any], top: int) -> Iterator[str]:
    yield from _facts_text(report)
    yield ""
    yield f"{'symbol':<24} {'kind':<7}{'states':>7}{'share':>9}"
    for row in report["symbols"][:top]:
        yield f"{row['symbol']:<24} {row['kind']:<7}{row['states']:>7}{row['share']:>9.2%}"
    n_more = len(report["symbols"]) - top
    if n_more > 0:
        yield f"... and {n_more:,} more (--top, --json)"
    if any("pivots" in row for row in report["symbols"]):
        yield ""
        yield from pivots_text(report["symbols"], report["record"], top)
    yield ""
    yield "unknown words: class, likeliest tags"
    for row in report["unknown_words"][:top]:
        tags = "  ".join(f"{tag['tag']} {tag['probability']:.2f}" for tag in row["tags"][:4])
        yield f"  {row['class']:<28} {tags}"
    n_more = len(report["unknown_words"]) - top
    if n_more > 0:
        yield f"  ... and {n_more:,} more (--top, --json)"


def _facts_text(report: dict[str, Any]) -> Iterator[str]:
    sizes, states = report["sizes"], report["states"]
    transform = (f"{key}={value}" for key, value in report["transform"].items())
    facts = {
        "model": report["model"] + (f", member {report['member']}" if "member" in report else ""),
        "method": report["method"] or "unknown",
        "weights": "probabilities" if report["probabilistic"] else "not probabilities (spectral)",
        "sizes": ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in sizes.items()),
        "states": f"{states['total']:,} in all, {states['least']} to {states['most']} a symbol",
        "transform": " ".join(transform) + f" signatures={report['signatures']}",
        # Singular values have a view of their own, --spectrum, and pivots stand with their states.
        "record": ", ".join(
            f"{key} {_value(v)}"
            for key, v in report["record"].items()
            if key not in {"spectrum", "pivots", "missing_pivots"}
        ),
    }
    for name, value in facts.items():
        yield f"{name:<11}{value}"


def _value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _label_text(report: dict[str, Any], top: int) -> Iterator[str]:
    symbols = report["symbols"]
    for place, symbol in enumerate(symbols[:top]):
        if place:
            yield ""
        n = symbol["states"]
        states = f"{n} state" if n == 1 else f"{n} states"
        yield f"{symbol['symbol']}  {symbol['kind']}  {states}  {symbol['share']:.2%} of all nodes"
        notes = list(missing_note([symbol["symbol"]], report["record"]))
        if "pivots" in symbol:
            notes += pivot_note([symbol], report["record"])
        yield from (f"  {line}" for line in notes)
        for row in symbol["rows"]:
            yield from _row_text(symbol, row)
        if "dimensions" in symbol:
            yield from BASIS_NOTE
            for dimension in symbol["dimensions"]:
                yield from _dimension_text(dimension)
    if len(symbols) > top:
        yield f"\n... and {len(symbols) - top:,} more symbols with this label (--top, --json)"


BASIS_NOTE = (
    "  The dimensions below are directions of a basis found by SVD, not states: they carry no",
    "  probabilities, and which side is + is chance. Listed: what lies furthest from the label's",
    "  mean on either side, with its distance in standard deviations.",
)


def _dimension_text(dimension: dict[str, Any]) -> Iterator[str]:
    value = dimension["singular_value"]
    yield f"  dimension {dimension['dimension']}" + (f", singular value {value}" if value else "")
    for sign, side in (("+", "positive"), ("-", "negative")):
        for family, items in dimension[side].items():
            found = ", ".join(f"{item[family[:-1]]} {item['pull']:+.1f}" for item in items)
            yield f"    {sign} {family:<9} {found or 'none'}"


def _row_text(symbol: dict[str, Any], row: dict[str, Any]) -> Iterator[str]:
    root = f", root with probability {row['root']:.4f}" if row["root"] else ""
    if row["state"] is not None:
        yield f"  state {row['state']}{root}"
    elif root or symbol["states"] > 1:
        yield f"  all states{root}" if symbol["states"] > 1 else f"  {root[2:]}"
    if row["state"] is not None and "pivots" in symbol:
        yield f"    pivot: {symbol['pivots'][row['state']]['feature']}"
    arrow = f"{symbol['symbol']} -> "
    for item in row.get("rules") or row.get("words") or ():
        yield f"    {item['probability']:.4f}  {arrow}{item.get('rule') or item.get('word')}"
    if row["contexts"]:
        yield "    found in"
    for item in row["contexts"]:
        yield f"    {item['probability']:.4f}  {item['context']}"
