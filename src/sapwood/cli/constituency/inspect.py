"""`sapwood inspect`: what is in a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.hankel import inspect_strings
from sapwood.cli.inputs import as_grammar, input_files, load_any
from sapwood.cli.reports import (
    check_plot,
    fact_lines,
    more_line,
    number_text,
    plot_spectrum,
    show,
    table_lines,
)
from sapwood.core.errors import count
from sapwood.core.model_names import find_model

INSPECT_EPILOG = """\b
Examples:
  sapwood inspect model.sapwood
  sapwood inspect bundled --label NP --top 5
  sapwood inspect model.sapwood --spectrum --plot spectrum.png
  sapwood inspect model.sapwood --json | jq .sizes
  sapwood inspect ensemble.sapwood --member 2 --label NP
  sapwood inspect words.sapwood --word Monday
  sapwood inspect model.sapwood --card > MODEL_CARD.md
"""


def inspect_file(  # noqa: PLR0913 - every option of the command is an argument
    model: opt.Model,
    *,
    label: str | None = typer.Option(
        None,
        "--label",
        metavar="LABEL",
        help="Show the rules or words of this label, its contexts, and what each state means. "
        "A treebank label such as NP, or a symbol as the model writes it, such as 'S|VP' or "
        "'@VP:>PP'.",
    ),
    word: list[str] | None = typer.Option(
        None,
        "--word",
        metavar="WORD",
        help="Show the words nearest to this one; may be repeated. Only for word vectors.",
    ),
    spectrum: bool = typer.Option(
        False,
        "--spectrum",
        help="Show the singular values of the commonest labels and how many are states; only "
        "for spectral models.",
    ),
    card: bool = typer.Option(
        False,
        "--card",
        help="Write a model card as Markdown: what the model was trained on, how, its scores and "
        "limits. For model files of every kind; with --json the same for programs.",
    ),
    plot: opt.Plot = None,
    force: opt.Force = False,
    member: opt.Member = None,
    top: int = typer.Option(
        10, min=1, metavar="N", help="Rows of each list; JSON lists all symbols."
    ),
    as_json: opt.Json = False,
) -> None:
    """Show what is in a model: method, sizes, states, transform, training record, unknown words.

    Probabilities are conditional: of a rule or word given its symbol (and state), of a tag given
    its class of unknown words. Share is the expected fraction of the nodes of a tree. States of
    the methods pivot and pivot-em are shown with their pivot features. An ensemble is shown as the
    list of its members; --member shows one of them, and --label and --spectrum choose the most
    informative one by default.
    """
    if plot and not spectrum:
        raise typer.BadParameter("--plot draws singular values: it needs --spectrum")
    if card:
        if label is not None or word or spectrum or member is not None:
            msg = (
                "--card describes the whole model: leave --label, --word, --spectrum, --member out"
            )
            raise typer.BadParameter(msg)
        from sapwood.report import model_card

        show(model_card(load_any(model), model), card_text, as_json=as_json)
        return
    if plot:
        file = find_model(model)
        check_plot(plot, [] if file is None else input_files(str(file)), force=force)
    from sapwood.cli.identify import inspect_unmixed
    from sapwood.cli.lm.embed import show_model
    from sapwood.corpora.eigenwords import Eigenwords
    from sapwood.dependency.model.dependency import DependencyModel, HiddenMarkovModel
    from sapwood.hankel.model.string_model import StringModel
    from sapwood.identify.model.uniform_trees import UniformTreeModel
    from sapwood.report import inspect_model, inspect_spectrum

    found = load_any(model)
    if isinstance(found, StringModel):
        inspect_strings(found, model, as_json=as_json)
        return
    if isinstance(found, (Eigenwords, DependencyModel, HiddenMarkovModel)):
        show_model(found, model, word or [], top, as_json=as_json)
        return
    if isinstance(found, UniformTreeModel):
        inspect_unmixed(found, model, top, as_json=as_json)
        return
    loaded = as_grammar(found, model)
    if member is None and (label is not None or spectrum):
        member = _choose_member(loaded, spectrum=spectrum)
    if spectrum:
        report = inspect_spectrum(loaded, model, label=label, member=member)
        show(report, partial(_spectrum_text, top=top), as_json=as_json)
        if plot:
            plot_spectrum(plot, report["spectrum"][:top])
        return
    report = inspect_model(loaded, model, label=label, member=member, top=top)
    if "ensemble" in report:
        show(report, _ensemble_text, as_json=as_json)
    else:
        text = _overview_text if label is None else _label_text
        show(report, partial(text, top=top), as_json=as_json)


def _choose_member(model: Any, *, spectrum: bool) -> int | None:
    """The number of the most informative member of an ensemble, which is announced on stderr."""
    from sapwood.report import telling_member

    best = telling_member(model, spectrum=spectrum)
    if best is not None:
        method = model.members[best - 1].record.get("method") or "unknown"
        echo(
            f"member {best} of {len(model.members)} (method {method}, weight "
            f"{model.weights[best - 1]:.3f}); --member K looks into another"
        )
    return best


def _overview_text(report: dict[str, Any], top: int) -> Iterator[str]:
    symbols, unknown = report["symbols"], report["unknown_words"]
    yield from _facts_text(report)
    yield ""
    yield from table_lines(
        {"symbol": "<24", "kind": " <7", "states": ">7", "share": ">9.2%"},
        ((x["symbol"], x["kind"], x["states"], x["share"]) for x in symbols[:top]),
    )
    yield from more_line(len(symbols), top)
    if any("pivots" in row for row in symbols):
        yield ""
        yield from _pivots_text(symbols, report["record"], top)
    yield ""
    yield "unknown words: class, likeliest tags"
    for row in unknown[:top]:
        tags = "  ".join(f"{tag['tag']} {tag['probability']:.2f}" for tag in row["tags"][:4])
        yield f"  {row['class']:<28} {tags}"
    yield from more_line(len(unknown), top, indent="  ")


def _facts_text(report: dict[str, Any]) -> Iterator[str]:
    sizes, states = report["sizes"], report["states"]
    transform = (f"{key}={value}" for key, value in report["transform"].items())
    facts = {
        "model": report["model"] + (f", member {report['member']}" if "member" in report else ""),
        "method": report["method"] or "unknown",
        "weights": _weights(report),
        "sizes": ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in sizes.items()),
        "states": f"{states['total']:,} in all, {states['least']} to {states['most']} a symbol",
        "transform": " ".join(transform) + f" signatures={report['signatures']}",
        # Singular values have a view of their own, --spectrum, and pivots stand with their states.
        "record": ", ".join(
            f"{key} {number_text(v)}"
            for key, v in report["record"].items()
            if key not in {"spectrum", "pivots", "missing_pivots"}
        ),
    }
    return fact_lines(facts, 11)


def _weights(report: dict[str, Any]) -> str:
    return "probabilities" if report["probabilistic"] else "not probabilities (spectral)"


def _label_text(report: dict[str, Any], top: int) -> Iterator[str]:
    symbols = report["symbols"]
    for place, symbol in enumerate(symbols[:top]):
        if place:
            yield ""
        states = count(symbol["states"], "state")
        yield f"{symbol['symbol']}  {symbol['kind']}  {states}  {symbol['share']:.2%} of all nodes"
        notes = list(_missing_note([symbol["symbol"]], report["record"]))
        if "pivots" in symbol:
            notes += _pivot_note([symbol], report["record"])
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
        twins = row.get("twins", [])
        others = f" and {len(twins)} almost equal ({', '.join(map(str, twins))})" if twins else ""
        yield f"  state {row['state']}{others}{root}"
        if "pivots" in symbol:
            yield f"    pivot: {symbol['pivots'][row['state']]['feature']}"
    elif root or symbol["states"] > 1:
        yield f"  all states{root}" if symbol["states"] > 1 else f"  {root[2:]}"
    arrow = f"{symbol['symbol']} -> "
    for item in row.get("rules") or row.get("words") or ():
        yield f"    {item['probability']:.4f}  {arrow}{item.get('rule') or item.get('word')}"
    if row["contexts"]:
        yield "    found in"
    for item in row["contexts"]:
        yield f"    {item['probability']:.4f}  {item['context']}"


def _pivots_text(
    symbols: list[dict[str, Any]], record: Mapping[str, Any], top: int
) -> Iterator[str]:
    """The pivots of the commonest labels, one line a state."""
    rows = [row for row in symbols if "pivots" in row]
    yield f"pivots of the states of {count(len(rows), 'symbol')}"
    yield from (f"  {line}" for line in _pivot_note(rows, record))
    missing = list(_missing_note(record.get("missing_pivots", {}), record))
    yield from (f"  {line}" for line in missing[:top])
    if len(missing) > top:
        yield f"  ... and for {len(missing) - top:,} more (--top, --json)"
    for row in rows[:top]:
        yield f"  {row['symbol']}"
        for state, pivot in enumerate(row["pivots"]):
            yield f"    state {state:<3} {pivot['feature']}"
    yield from more_line(len(rows), top, indent="  ", see="--top, --label, --json")


def _pivot_note(symbols: Iterable[Mapping[str, Any]], record: Mapping[str, Any]) -> Iterator[str]:
    """Lines that explain pivots, and say whether EM has changed the states since."""
    yield "pivot: the feature that a state was made from, taken to occur in no other state"
    if any(pivot["template"] == "word" for row in symbols for pivot in row["pivots"]):
        yield "a word seen only once stands for its class of unknown words"
    n = record.get("iterations", 0)
    if n:
        since = count(n, "iteration")
        yield f"EM has changed the states since ({since}): pivots say where they came from"


def _missing_note(symbols: Iterable[str], record: Mapping[str, Any]) -> Iterator[str]:
    """Which of some symbols have fewer states than wanted, for want of pivots."""
    for symbol in symbols:
        if symbol in record.get("missing_pivots", {}):
            found, wanted = record["missing_pivots"][symbol]
            yield f"fewer pivots than states for {symbol}: {found} found, {wanted} wanted"


def _ensemble_text(report: dict[str, Any]) -> Iterator[str]:
    rows = report["members"]
    # Trials are a table of their own, in JSON; dev F1 stands with the members.
    told = ", ".join(
        f"{key} {f'{v:,.2f}' if isinstance(v, float) else number_text(v)}"
        for key, v in report["record"].items()
        if key not in {"trials", "method"}
    )
    facts = {
        "model": report["model"],
        "method": f"{report['method'] or 'ensemble'}, {len(rows)} grammars that parse together",
        "posteriors": f"weighted {report['combine']} of the members'",
        "weights": _weights(report),
        "record": told or "none",
    }
    yield from fact_lines(facts, 12)
    yield ""
    columns = {
        "member": "<8", "method": "<12", "states": ">8,", "most": ">6", "weight": ">9.3f",
        "chart": ">7", "binarise": "  <9", "dev F1": ">7.2f",
    }  # fmt: skip
    yield from table_lines(
        columns,
        (
            (
                x["member"], x["method"] or "unknown", *x["states"].values(), x["weight"],
                x["chart"], x["transform"]["binarise"], "" if x["dev_f1"] is None else x["dev_f1"],
            )
            for x in rows
        ),
    )  # fmt: skip
    yield ""
    yield "states: in all, and the most of one symbol. Members with the same number share a chart;"
    yield "trees are looked for in chart 1. --member K looks into one of them."


BLOCKS = "▁▂▃▄▅▆▇█"
MAX_BARS = 40  # more would push the numbers off the screen
N_NUMBERS = 6  # singular values that are also written out


def _spectrum_text(report: dict[str, Any], top: int) -> Iterator[str]:
    """A bar for each singular value of each label, relative to the label's second."""
    rows = report["spectrum"]
    shown = rows[:top]
    bars = [_bars(row["singular_values"], row["states"]) for row in shown]
    longest = max(map(len, bars))
    width = max(10, *(len(row["symbol"]) + 2 for row in shown))
    yield f"{'label':<{width}}{'states':>6}  {'spectrum':<{longest}}  singular values"
    for row, bar in zip(shown, bars, strict=True):
        values = row["singular_values"]
        numbers = " ".join(f"{value:.3g}" for value in values[:N_NUMBERS])
        more = " ..." if len(values) > N_NUMBERS else ""
        yield f"{row['symbol']:<{width}}{row['states']:>6}  {bar:<{longest}}  {numbers}{more}"
    yield from more_line(len(rows), top)
    yield ""
    yield "Bars are relative to the second value, as the first is mostly the label's mean;"
    yield "| stands behind m(a), the last singular value that is a state."


def _bars(values: list[float], states: int) -> str:
    """One block a value, relative to the second (the first is mostly the mean), and the mark.

    Examples
    --------
    >>> _bars([8.0, 2.0, 1.0, 0.0], 2)
    '██|▅▁'
    """
    full = values[1] if len(values) > 1 else 1.0
    heights = [min(1.0, value / full) * (len(BLOCKS) - 1) for value in values]
    blocks = "".join(BLOCKS[round(height)] for height in heights)
    text = f"{blocks[:states]}|{blocks[states:]}"
    return text if len(text) <= MAX_BARS else f"{text[:MAX_BARS]}…"


def card_text(report: dict[str, Any]) -> Iterator[str]:
    """A model card as Markdown."""
    yield f"# {report['model']}"
    yield ""
    yield f"{report['what'][0].upper()}{report['what'][1:]} (`{report['kind']}`). Use it with"
    yield ""
    yield f"    {report['command']}"
    for title, facts in (
        ("Training", report["training"]), ("Scores", report["scores"]), ("Size", report["sizes"]),
    ):  # fmt: skip
        yield f"\n## {title}\n"
        yield from (f"- {name}: {_fact(value)}" for name, value in facts.items())
        if not facts:
            yield "Nothing is in the file."
    if report["members"]:
        yield "\n## Members\n"
        yield "| member | kind | method | weight | dev F1 |"
        yield "|---|---|---|---:|---:|"
        for number, row in enumerate(report["members"], 1):
            f1 = "" if row["dev_f1"] is None else f"{row['dev_f1']:.2f}"
            cells = (number, row["kind"], row["method"] or "unknown", f"{row['weight']:.3f}", f1)
            yield "| " + " | ".join(map(str, cells)) + " |"
    yield "\n## Limits\n"
    yield from (f"- {line}" for line in report["limits"])


def _fact(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_fact, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"`{value}`" if isinstance(value, str) else number_text(value)
