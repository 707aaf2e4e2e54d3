"""`sapwood hankel`: weighted grammars from bracketed or plain strings, and their uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import log, nan
from sys import intern
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, echo
from sapwood.cli.inputs import HANKEL_LEARN, STDIN, check_files, load_kind, stream_lines
from sapwood.cli.reports import fact_lines, name_some, score_text, show
from sapwood.core.errors import SapwoodError, count
from sapwood.core.learner import Method
from sapwood.core.model_card import PURPOSES, with_provenance
from sapwood.execute.engine import Meter
from sapwood.hankel.learn import BRACKET_METHODS, STRING_METHODS
from sapwood.hankel.report import (
    at_line,
    bracket_record,
    describe_strings,
    learn_report,
    with_lines,
    with_no_pairs,
    with_pairs,
)
from sapwood.report import ScoreReport, to_json

if TYPE_CHECKING:
    from sapwood.hankel.model.string_model import StringModel


def load_strings_model(name: str) -> StringModel:
    """The model of strings that a user names."""
    from sapwood.hankel.model.string_model import StringModel

    expected = "a weighted grammar or automaton"
    found = load_kind(name, StringModel, expected, room="hankel", writer=HANKEL_LEARN)
    return cast("StringModel", found)


def score_strings(model: StringModel, file: str, *, as_json: bool) -> None:
    """Print the log of |f(x)| of each line, and the sign where weights are no probabilities."""
    from sapwood.corpora.files import source_name

    report, name = ScoreReport("strings", model.is_probabilistic), source_name(file)
    for number, words in with_lines(stream_lines(file)):
        if not words:
            print("")
            continue
        try:
            weight = model.signed_log_prob(words)
        except SapwoodError as error:
            raise at_line(error, name, number) from error
        report.add(weight, len(words))
        if not as_json:
            print(score_text(weight, is_probabilistic=report.is_probabilistic))
    found = report.as_dict()
    if as_json:
        print(to_json(found, indent=2))
    measure = "log-probability" if report.is_probabilistic else "log |weight|"
    echo(f"{count(found['scored'], 'string')}  {measure} {found['log_prob']:,.2f}")


def inspect_strings(model: StringModel, name: str, *, as_json: bool) -> None:
    """Print sizes of a model of strings, and its sum over all of them."""
    show(describe_strings(model, name), _string_model_lines, as_json=as_json)


def _string_model_lines(report: dict[str, Any]) -> Iterator[str]:
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


LEARN_EPILOG = """\b
Examples:
  sapwood hankel learn trees.mrg -o grammar.sapwood --states 4 --supervised
  sapwood hankel learn strings.txt -o grammar.sapwood --states 2 --solver direct
  sapwood hankel learn strings.txt -o automaton.sapwood --states 8 --method wfa
"""
VALUES_EPILOG = """\b
Example:
  echo 'a a b b' | sapwood hankel score grammar.sapwood -
"""
BRACKETS_EPILOG = """\b
Signs of --partial, one a symbol, with or without blanks between them:
  ( )   these two are a pair      |   in some pair
  x     in no pair                <   in a pair with a later symbol
  .     nothing is known          >   in a pair with an earlier symbol

\b
Two symbols are a pair as in trees of `sapwood data convert rna`: there is a
bracket from the first to the second whose right child is the second symbol,
and whose left child has the first symbol as its left child.

\b
--json writes one object per line: tree, pairs (in the notation of RNA), and with
--partial constraint_log_prob: the natural logarithm of the fraction of the
string's value that is due to trees with these pairs (the probability of the
pairs given the string, if weights are probabilities); null if not positive.

\b
Examples:
  sapwood hankel parse grammar.sapwood strings.txt > trees.mrg
  sapwood hankel parse rna.sapwood strings-and-pairs.txt --partial > trees.mrg
"""
Solver = Literal["admm", "fista", "direct", "factored"]

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A file written by `sapwood hankel learn`.")
]
Strings = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="Strings, one per line; - for stdin.", show_default="stdin"
    ),
]


def learn_strings(  # noqa: PLR0913 - every option of the command is an argument
    file: str = typer.Argument(
        ...,
        metavar="FILE",
        help="Strings, one per line, symbols separated by blanks; with --supervised, bracketed "
        "trees. - for stdin.",
    ),
    *,
    out: opt.ModelFile,
    states: int | None = typer.Option(
        None,
        min=1,
        max=256,
        metavar="N",
        help="Hidden states. Not more than the rank of the Hankel matrix.",
        show_default="by the gap of singular values; 4 for em",
    ),
    supervised: bool = typer.Option(
        False,
        "--supervised",
        help="FILE has trees, whose labels are ignored; nodes with more than two children are "
        "split to the right.",
    ),
    basis: float | None = typer.Option(
        None,
        min=1e-9,
        max=1.0,
        metavar="F",
        help="Basis factor: the fraction of the inside strings and contexts, the most frequent "
        "ones, that are columns and rows of the Hankel matrix. Not for em.",
        show_default="0.1, and 0.001 without trees",
    ),
    solver: Solver | None = typer.Option(
        None,
        help="How the Hankel matrix is completed without trees: admm minimises its nuclear norm, "
        "fista is the published iteration, direct reads strings of up to three symbols only, "
        "factored is for large bases.",
        show_default="admm",
    ),
    method: str = opt.method_option("spectral", STRING_METHODS),
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the random starts of em."),
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    force: opt.Force = False,
    as_json: opt.Json = False,
) -> None:
    """Learn a weighted grammar without labels, or an automaton, and write it to a file."""
    opt.known_method(method, STRING_METHODS, "--method")
    chosen = (BRACKET_METHODS if supervised else STRING_METHODS)[method]
    given = {"n_states": states, "basis": basis, "solver": solver}
    given = {name: value for name, value in given.items() if value is not None}
    _check_options(chosen, method, given)
    check_files(file, out=out, force=force, is_model=True)
    meter, phases = Meter(), Phases(2)
    with phases.phase("reading") as notes:
        data: Any = _read_bracketed(file) if supervised else _read_strings(file)
        n_strings = len(data) if supervised else sum(data.values())
        notes.append(count(n_strings, "string"))
    with phases.phase("learning"), opt.open_engine(engine, scheduler, jobs) as where:
        if supervised and method == "wfa":
            data = Counter(tuple(tree.words()) for tree in data)
        learner = chosen.train(given | {"seed": seed, "engine": where}, data)
    origin = {"treebanks" if supervised else "texts": [file]}
    with_provenance(learner.model_, (n_strings, "string"), **origin).save(out, force=force)
    report = learn_report(learner) | {"model": str(out)} | meter.as_dict()
    if report["wide_nodes"]:
        wide = count(report["wide_nodes"], "node")
        echo(f"note: {wide} of more than two children split to the right")
    show(report, _learn_text, as_json=as_json)


def _check_options(chosen: Method, method: str, given: Mapping[str, Any]) -> None:
    if "solver" in given and not chosen.has("solver"):
        msg = "completes a Hankel matrix: only without --supervised, and for --method spectral"
        raise typer.BadParameter(msg, param_hint="--solver")
    if "basis" in given and (not chosen.has("basis") or given.get("solver") == "direct"):
        who = "--solver direct" if chosen.has("basis") else f"--method {method}"
        raise typer.BadParameter(f"{who} chooses no basis", param_hint="--basis")


def _read_bracketed(file: str) -> list[Any]:
    from sapwood.corpora.files import FEWER_TREES, TREE_BYTES
    from sapwood.corpora.formats import read_trees

    return list(read_trees(file, memory=(TREE_BYTES, FEWER_TREES)))


def _read_strings(file: str) -> Counter[tuple[str, ...]]:
    from sapwood.corpora.files import (
        FEWER_SENTENCES,
        WORD_BYTES,
        require_reading_memory,
        source_name,
    )
    from sapwood.corpora.sentences import refuse_other_kinds

    name = source_name(file)
    require_reading_memory([file], WORD_BYTES, FEWER_SENTENCES, "text")
    try:
        lines = refuse_other_kinds(stream_lines(file), file)
        # Equal symbols are one object, so that memory holds each of them once.
        strings = (tuple(map(intern, words)) for _, words in with_lines(lines))
        found = Counter(words for words in strings if words)
    except SapwoodError as error:
        if "trees" in str(error):
            error.hint = "add --supervised to learn from the brackets of trees"
        raise
    if not found:
        msg = f"{name}: no strings"
        raise SapwoodError(msg, hint="give one string per line, its symbols separated by blanks")
    return found


def _learn_text(report: dict[str, Any]) -> Iterator[str]:
    total = report["total"]
    facts: dict[str, Any] = {
        "model": report["model"],
        "method": f"{report['method']}, {count(report['states'], 'state')}",
        "strings": f"{report['strings']:,.0f} of {count(len(report['symbols']), 'symbol')}",
    }
    if report["basis"]:
        facts["basis"] = f"{report['basis'][0]:,} contexts x {report['basis'][1]:,} inside strings"
    if report["singular_values"]:
        facts["singular"] = "  ".join(f"{x:.3g}" for x in report["singular_values"][:10])
    if (found := report["conditioning"]) is not None:
        facts["condition"] = (
            f"smallest kept {found['smallest']:.3g}, next {found['next']:.3g}, noise about "
            f"{found['noise']:.2g}: relative error about {found['relative_error']:.2g}"
        )
    if (found := report["solver"]) is not None:
        facts["solver"] = (
            f"{count(found['steps'], 'step')}, feasible to {found['feasibility']:.1g}, gap "
            f"{found['gap']:.1g}"
        )
    if report["log_likelihood"] is not None:
        facts["likelihood"] = (
            f"{report['log_likelihood']:,.2f} after {count(report['iterations'], 'iteration')}"
        )
    facts["sum"] = (
        f"{total['mass']:.6g} over all strings, expected length {total['expected_length']:.4g}"
        if total["converges"]
        else f"diverges over all strings (spectral radius {total['spectral_radius']:.4g})"
    )
    return fact_lines(facts, 12)


def print_values(
    model: Model,
    file: Strings = STDIN,
    *,
    as_log: bool = typer.Option(
        False, "--log", help="Natural logarithms instead; of negative values there is none: nan."
    ),
    as_json: opt.Json = False,
) -> None:
    """Print the value f(x) of each string, one per line; it may be negative.

    An empty line stays empty. The number of negative values is written on stderr.
    """
    from sapwood.corpora.files import source_name

    loaded, name = load_strings_model(model), source_name(file)
    values: list[float | None] = []
    for number, words in with_lines(stream_lines(file)):
        try:
            value = loaded.value(words) if words else None
        except SapwoodError as error:
            raise at_line(error, name, number) from error
        if as_log and value is not None:
            value = log(value) if value > 0 else -float("inf") if value == 0 else nan
        values.append(value)
        if not as_json:
            print("" if value is None else f"{value:.12g}")
    kept = [x for x in values if x is not None]
    n_negative = sum(x < 0 for x in kept) if not as_log else sum(x != x for x in kept)  # noqa: PLR0124 - nan
    if as_json:
        report = {
            "strings": len(kept), "negative": n_negative, "log": as_log, "values": values,
            "is_probabilistic": loaded.is_probabilistic,
        }  # fmt: skip
        show(report, lambda _: (), as_json=True)
    echo(f"{count(len(kept), 'string')}  {n_negative:,} negative")


def parse_strings(
    model: Model,
    file: Strings = STDIN,
    *,
    partial: bool = typer.Option(
        False,
        "--partial",
        help="FILE has constraints on the pairs of each string, on the next line or after a tab, "
        "in the notation of RNA programs (below). Not for strings without constraints: each needs "
        "its signs.",
    ),
    as_json: opt.Json = False,
) -> None:
    """Print the best bracketing of each string, one tree per line, all labels X.

    The best bracketing has the largest sum of posteriors of its brackets. A string with the value
    0 gets right-branching brackets.
    """
    from sapwood.corpora.files import source_name
    from sapwood.hankel.model.weighted_grammar import WeightedGrammar

    loaded = load_strings_model(model)
    if not isinstance(loaded, WeightedGrammar):
        msg = f"{model}: an automaton, which has no brackets"
        raise SapwoodError(msg, hint="learn a grammar: --method spectral or em")
    lines, name = stream_lines(file), source_name(file)
    strings = with_pairs(lines, name) if partial else with_no_pairs(lines)
    for number, words, pairs in strings:
        try:
            found = loaded.best_brackets(words, pairs) if words else None
            if as_json:
                print(to_json(bracket_record(loaded, found, pairs)))
            else:
                print("" if found is None else found.tree())
        except SapwoodError as error:
            raise at_line(error, name, number) from error


app = opt.command_group(
    "Learn weighted grammars from Hankel matrices, with trees and without; score, parse.",
    ("learn", learn_strings, LEARN_EPILOG,
     "Learn a weighted grammar or automaton, and write it to a file."),
    ("score", print_values, VALUES_EPILOG,
     "Print the value f(x) of each string, one per line."),
    ("parse", parse_strings, BRACKETS_EPILOG,
     "Print the best bracketing of each string, one tree per line."),
)  # fmt: skip
