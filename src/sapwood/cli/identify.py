"""`sapwood identify` and `unmix`: models that can be learnt without trees, and learning them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import (
    STDIN,
    TRAIN,
    as_grammar,
    check_files,
    load_any,
    read_words,
    stream_lines,
)
from sapwood.cli.reports import fact_lines, more_line, show, table_lines
from sapwood.core.errors import NotIdentifiableError, SapwoodError, count
from sapwood.core.learner import REFINEMENTS
from sapwood.core.model_card import with_provenance
from sapwood.core.progress import step
from sapwood.corpora.files import TEXT_SUFFIXES
from sapwood.execute.engine import Meter
from sapwood.report import ScoreReport, to_json

if TYPE_CHECKING:
    from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
    from sapwood.identify.model.uniform_trees import UniformTreeModel


TABLE, BOUNDS = "table", "bounds"
BOUND_LENGTH, EPSILON, DELTA = 20, 0.1, 0.05  # of bounds
MAX_TABLE_WORDS, MAX_TABLE_STATES, MAX_TABLE_LENGTH = 5, 4, 6  # of the table: about half a minute

IDENTIFY_EPILOG = """\b
Families: pcfg, pcfg-i, pcfg-ie (hidden states); dep-i, dep-ie, dep-ies (words only).
Moments: 12, pairs, 123e1, 123, triples-e1, triples, all; or positions, such as 13, 1,10, 12+13.

\b
Examples:
  sapwood identify pcfg-ie --words 5 --states 3 --length 4 --moments pairs
  sapwood identify dep-i --words 4 --length 3 --moments 12+13 --json
  sapwood identify table --max-words 4 --max-states 3 --max-length 5
  sapwood identify bounds model.sapwood --length 10 --epsilon 0.5
"""


def identify_models(  # noqa: PLR0913 - every option of the command is an argument
    family: str = typer.Argument(
        ...,
        metavar="FAMILY",
        help="A family of models, or the word `table` for all of them side by side, or `bounds` "
        "for the number of trees that are enough to learn a grammar.",
    ),
    model: str | None = typer.Argument(
        None,
        metavar="MODEL",
        help="Only for `bounds`: a model file of probabilities, or `bundled`.",
    ),
    *,
    words: int | None = typer.Option(None, min=1, metavar="D", help="Word types."),
    states: int | None = typer.Option(
        None, min=1, metavar="K", help="Hidden states; only for pcfg families."
    ),
    length: int | None = typer.Option(None, min=1, metavar="L", help="Words of a sentence."),
    moments: str | None = typer.Option(
        None, metavar="NAME", help="What is observed of the sentences.", show_default="pairs"
    ),
    directions: bool = typer.Option(
        False,
        "--directions",
        help="With --json: also a random point and the directions there that cannot be learnt.",
    ),
    max_words: int | None = typer.Option(
        None, min=2, metavar="D", help="Most word types of the table.", show_default="5"
    ),
    max_states: int | None = typer.Option(
        None, min=2, metavar="K", help="Most hidden states of the table.", show_default="4"
    ),
    max_length: int | None = typer.Option(
        None, min=2, metavar="L", help="Most words of a sentence of the table.", show_default="6"
    ),
    epsilon: float | None = typer.Option(
        None,
        min=1e-12,
        metavar="E",
        help="For bounds: largest error of probabilities, summed over all trees of a length.",
        show_default=str(EPSILON),
    ),
    delta: float | None = typer.Option(
        None,
        min=1e-12,
        max=0.999,
        metavar="P",
        help="For bounds: probability of a larger error.",
        show_default=str(DELTA),
    ),
    depth: int | None = typer.Option(
        None,
        min=1,
        max=5,
        metavar="N",
        help="For bounds: how many rules below a node the features include; 1 is its own rule or "
        "word. Not above 2 for more than 16 states: it takes long.",
        show_default="1",
    ),
    member: opt.Member = None,
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the random points."),
    as_json: opt.Json = False,
) -> None:
    """Compute whether the parameters of a family of parsing models can be learnt from moments.

    The rank of the moments' Jacobian is computed exactly. A model is identifiable if the rank
    equals the number of free parameters; otherwise the report says what cannot be learnt, and what
    would help. Both answers end with status 0.

    `bounds` treats a grammar as the truth, and prints a number of its trees that is guaranteed to
    be enough for the spectral method to learn it back. The number is far larger than needed.
    """
    family = family.lower()  # papers write them in capitals
    sizes = {"--words": words, "--states": states, "--moments": moments}
    sizes |= {"--directions": directions or None}
    limits = {"--max-words": max_words, "--max-states": max_states, "--max-length": max_length}
    bounds = {"MODEL": model, "--epsilon": epsilon, "--delta": delta, "--depth": depth}
    _refuse_others(family, sizes, length, limits, bounds | {"--member": member})
    asked: dict[str, Any]
    if family == TABLE:
        largest = (
            max_words or MAX_TABLE_WORDS, max_states or MAX_TABLE_STATES,
            max_length or MAX_TABLE_LENGTH,
        )  # fmt: skip
        from sapwood.report import identify_table

        rows = identify_table(*largest, seed=seed)
        show(rows, partial(_table_text, sizes=largest), as_json=as_json)
    elif family == BOUNDS:
        asked = {
            "member": member, "length": length or BOUND_LENGTH, "epsilon": epsilon or EPSILON,
            "delta": delta or DELTA, "depth": depth or 1,
        }  # fmt: skip
        _show_bounds(model, asked, as_json=as_json)
    else:
        asked = {
            "words": words, "states": states, "length": length, "seed": seed,
            "moments": "pairs" if moments is None else moments,
        }  # fmt: skip
        _show_family(family, asked, with_directions=directions, as_json=as_json)


def _refuse_others(
    family: str,
    sizes: Mapping[str, object],
    length: int | None,
    limits: Mapping[str, object],
    bounds: Mapping[str, object],
) -> None:
    """Refuse the options that are for other uses of the command."""
    if family == TABLE:
        why = "the table takes --max-words, --max-states and --max-length instead"
        _refuse({**sizes, "--length": length}, why)
    else:
        _refuse(limits, "it is for `sapwood identify table`")
    if family == BOUNDS:
        _refuse(sizes, "bounds are about a model: give its file, and --length")
    else:
        _refuse(bounds, "it is for `sapwood identify bounds`")


def _refuse(options: Mapping[str, object], why: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(why, param_hint=name)


def _show_bounds(model: str | None, asked: dict[str, Any], *, as_json: bool) -> None:
    """Print how many trees would surely teach a grammar."""
    if model is None:
        raise typer.BadParameter("missing; name a file, or `bundled`", param_hint="MODEL")
    from sapwood.report import identify_bounds

    report = identify_bounds(as_grammar(load_any(model, TRAIN), model), model, **asked)
    show(report, bounds_text, as_json=as_json)


def _show_family(
    family: str, asked: dict[str, Any], *, with_directions: bool, as_json: bool
) -> None:
    """Print whether one family can be learnt from some moments."""
    if with_directions and not as_json:
        raise typer.BadParameter("numbers for machines: add --json", param_hint="--directions")
    from sapwood.identify.model.families import family_of

    family_of(family)  # an unknown name is reported before a missing size
    for name in ("words", "length"):
        if asked[name] is None:
            raise typer.BadParameter("missing; say how many", param_hint=f"--{name}")
    with step("computing ranks"):
        from sapwood.report import identify_family

        report = identify_family(family, **asked)
    if as_json:
        print(to_json(report.to_dict(with_directions=with_directions), indent=2))
    else:
        print("\n".join(report.lines()))
    if asked["states"] is not None and asked["states"] > asked["words"]:
        echo("note: more states than words, which is outside the range of the table")


def _table_text(rows: list[dict[str, Any]], sizes: tuple[int, int, int]) -> Iterator[str]:
    words, states, length = sizes
    columns = {"family": "<9", "moments": "<12", "identifiable": "<42", "in the paper": "<12"}
    papers = ((row["paper"] or "") + ("" if row["agrees"] else "  differs") for row in rows)
    yield from table_lines(
        columns,
        (
            (row["family"], row["moments"], row["answer"], paper)
            for row, paper in zip(rows, papers, strict=True)
        ),
    )
    yield ""
    yield f"Exact ranks for words 2 to {words}, states 2 to {min(words, states)} (at most as many"
    yield f"as words), and every length L from 2 to {length}. Paper: Hsu, Kakade and Liang (2012),"
    yield "Figure 2, as far as the columns of our copy are legible."


N_WEAKEST = 5  # labels that are named
# These numbers are checked in tests/constituency/evaluate/test_sample_bounds.py and
# tests/theorems/test_spectral.py.
CAVEATS = (
    "Enough, but far from necessary: of random grammars of 2 states and 8 words the theorem",
    "asks for more than 1e28 trees for an error of 0.1, where 10,000 are enough. Its constants",
    "are unknown and taken as 1. The numbers compare grammars and labels; they plan no corpus.",
)


def bounds_text(report: dict[str, Any]) -> Iterator[str]:
    """Sizes, samples that the theorem asks for, and the weakest labels."""
    r = report
    sizes = (count(r[f"{name}s"], name) for name in ("phrase", "tag", "word"))
    samples = {
        name: f"{_amount(r[key])} for tensors, {_amount(r[f'{key}_svd'])} for singular vectors"
        for name, key in (("each phrase", "phrase_nodes"), ("each tag", "tag_nodes"))
    }
    facts = {
        "model": r["model"],
        "sizes": f"{', '.join(sizes)}, at most {count(r['states'], 'state')} a label",
        "wanted": f"errors that sum to {r['epsilon']:g} at most over all trees of {r['length']} "
        f"words, but for a chance of {r['delta']:g}",
        "sigma": f"{r['sigma']:.3g}: how well inside and outside of a node show its state",
        "xi": f"{r['xi']:.3g}: how well its rule or word alone does",
        "gamma": f"{r['gamma']:.3g}: the rarest step of a state"
        + (
            f"; {r['impossible']:,} steps that are never taken are left out" * bool(r["impossible"])
        ),
        **samples,
        "roots": _amount(r["roots"]),
        "trees": f"{_amount(r['trees'])}, where each gives one sample",
    }
    if r["trained_on"]:
        facts["trained on"] = f"{count(r['trained_on'], 'tree')}"
    yield from fact_lines(facts, 13)
    yield ""
    columns = {"weakest labels": "<22", "xi": ">11.3g", "sigma": ">11.3g"}
    weakest = r["labels"][:N_WEAKEST]
    yield from table_lines(columns, ((x["label"], x["xi"], x["sigma"]) for x in weakest))
    yield ""
    zero = [name for name in ("sigma", "xi", "gamma") if not r[name]]
    if zero:
        n_alike = sum(not (x["xi"] and x["sigma"]) for x in r["labels"])
        yield f"The theorem promises nothing here, since {' and '.join(zero)} = 0: the features do"
        yield f"not distinguish the states of {n_alike} of {len(r['labels'])} labels."
    yield from CAVEATS


def _amount(n: float) -> str:
    if n == float("inf"):
        return "none promised"
    return f"{n:.2g}" if n >= 1e6 else f"{n:,.0f}"


UNMIX_EPILOG = """\b
Families: pcfg-ie (hidden states), dep-ies (words only). `sapwood identify` says what can be learnt
about these and others.

\b
Examples:
  sapwood unmix pcfg-ie --states 2 sentences.txt
  sapwood unmix pcfg-ie --states 2 sentences.txt -o hidden.sapwood
  sapwood unmix dep-ies --refine em --json - < sentences.txt
"""


def unmix_sentences(  # noqa: PLR0913 - every option of the command is an argument
    family: str = typer.Argument(..., metavar="FAMILY", help="pcfg-ie or dep-ies."),
    file: str = typer.Argument(
        STDIN,
        metavar="FILE",
        help="One tokenised sentence a line; - for stdin.",
        show_default="stdin",
    ),
    *,
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="MODEL",
        help="Also write the model to a file for `sapwood score` and `sapwood inspect`.",
    ),
    force: opt.Force = False,
    states: int | None = typer.Option(
        None, min=1, metavar="K", help="Hidden states; only for pcfg-ie.", show_default="2"
    ),
    max_length: int = typer.Option(
        10,
        min=3,
        max=60,
        metavar="N",
        help="Length of the longest sentences that --refine uses. The closed form uses sentences "
        "of three words, and of two for dep-ies.",
    ),
    refine: str = typer.Option(
        "none",
        metavar="HOW",
        help=f"{', '.join(REFINEMENTS)}: how sentences of all lengths improve on the closed form. "
        "Not `moments` for more than about twenty words.",
    ),
    top: int = typer.Option(6, min=1, metavar="N", help="Words shown in each row; --json has all."),
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the random directions."),
    as_json: opt.Json = False,
) -> None:
    """Learn a model with hidden trees from plain sentences.

    All trees of a sentence are assumed to be equally likely and are summed out. The parameters
    come from eigenvectors of counts of short sentences, without iterations and without local
    optima. Warnings report where the counts are too few.
    """
    meter = Meter()
    check_files(file, out=out, suffixes=TEXT_SUFFIXES, force=force, is_model=True)
    family = family.lower()  # papers write them in capitals
    try:
        estimator = _estimator(family, states, refine, max_length, seed)
        with step("reading"):
            sentences = [words for words in read_words(file) if words]
        if not sentences:
            msg = f"{'stdin' if file == STDIN else file}: no sentences"
            raise SapwoodError(msg, hint="give one tokenised sentence a line")
        with step("unmixing"):
            estimator.fit(sentences)
    except NotIdentifiableError as error:
        for line in error.report.lines():  # why; the error's line and hint follow
            echo(line)
        raise
    if out is not None:
        with_provenance(estimator.model_, texts=[file]).save(out, force=force)
    from sapwood.identify.report import unmix_report

    report = unmix_report(estimator) | meter.as_dict()
    show(report, partial(_unmixed_lines, top=top), as_json=as_json)
    if not as_json:
        echo(f"{report['seconds']:.1f} s")


def _estimator(
    family: str, states: int | None, refine: str, max_length: int, seed: int
) -> UnmixPCFGIE | UnmixDEPIES:
    from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE, refuse_family

    if refine not in REFINEMENTS:
        msg = f"unknown refinement {refine!r}; expected one of {', '.join(REFINEMENTS)}"
        raise typer.BadParameter(msg, param_hint="--refine")
    if family == "pcfg-ie":
        return UnmixPCFGIE(states or 2, refine=refine, max_length=max_length, seed=seed)
    if family != "dep-ies":
        refuse_family(family, states)
    if states is not None:
        msg = "dep-ies has no hidden states: dependencies connect words directly"
        raise SapwoodError(msg, hint="leave --states out")
    return UnmixDEPIES(refine=refine, max_length=max_length)


def score_unmixed(model: UniformTreeModel, file: str, *, as_json: bool) -> None:
    """Print the log-probability of each sentence, given its length."""
    from sapwood.core.arrays import SignedLog
    from sapwood.corpora.sentences import refuse_other_kinds, split_words

    report = ScoreReport("sentences", is_probabilistic=True)
    for line in refuse_other_kinds(stream_lines(file), file):
        words = split_words(line)
        log = float(model.log_probs([words])[0]) if words else 0.0
        report.add(SignedLog(log, int(log > -inf)), len(words))
        if not as_json:
            print(f"{log:.6f}" if words else "")
    found = report.as_dict()
    if as_json:
        print(to_json(found, indent=2))
    total = f"{count(found['scored'], 'sentence')}  log-probability {found['log_prob']:,.2f}"
    impossible = found["impossible"]
    echo(f"{total}  {impossible:,} impossible, left out" if impossible else total)


def inspect_unmixed(model: UniformTreeModel, name: str, top: int, *, as_json: bool) -> None:
    """Print the tables of a model of hidden trees."""
    from sapwood.identify.report import describe_unmixed

    show(
        describe_unmixed(model) | {"model": name, "record": dict(model.record)},
        partial(_tables, top=top),
        as_json=as_json,
    )


def _unmixed_lines(report: dict[str, Any], top: int) -> Iterator[str]:
    yield from _tables(report, top)
    yield ""
    yield (
        f"pairs of words are {report['moment_error']:.4f} (L1) from those counted; "
        f"sampling alone makes it {report['moment_noise']:.4f}"
    )
    yield (
        f"eigengap {report['eigengap']:.3g}  noise gain {report['noise_gain']:.3g}  "
        f"negative mass set to 0 {report['clipped']:.1%}"
    )
    if report["refine"] != "none":
        gained = report["log_likelihood"]
        likelihood = "" if gained is None else f"  log-likelihood {gained:,.2f}"
        iterations = count(report["iterations"], "iteration")
        yield f"refined by {report['refine']}, {iterations}{likelihood}"


def _tables(report: dict[str, Any], top: int) -> Iterator[str]:
    """The sizes of a model, and its states or its words."""
    states = f"  {count(report['states'], 'state')}" if report["states"] else ""
    head = f"{report['family']}{states}  {count(report['words'], 'type')} of words"
    yield f"{head}  {count(report['sentences'], 'sentence')}" if "sentences" in report else head
    yield ""
    yield from _state_lines(report, top) if report["states"] else _word_lines(report, top)


def _state_lines(report: dict[str, Any], top: int) -> Iterator[str]:
    """A row for each state: at the root, as a child of each state, and its words."""
    root, child, words = report["parameters"].values()
    parents = "".join(f"{f'below {h}':>10}" for h in range(len(root)))
    yield f"state    root{parents}  words"
    for h in range(len(root)):
        below = "".join(f"{p:>10.3f}" for p in child[h])
        yield f"{h:>5}{root[h]:>8.3f}{below}  {_likeliest(report, words, h, top)}"


def _word_lines(report: dict[str, Any], top: int) -> Iterator[str]:
    """A row for each of the most frequent words: its frequency, and its arguments."""
    root, argument = report["parameters"].values()
    shown = report["vocabulary"][:top]
    width = max(len(word) for word in (*shown, "head"))
    yield f"{'head':<{width}}   share  arguments"
    for x, word in enumerate(shown):
        yield f"{word:<{width}}{root[x]:>8.3f}  {_likeliest(report, argument, x, top)}"
    yield from more_line(len(root), top)


def _likeliest(report: dict[str, Any], table: list[list[float]], column: int, top: int) -> str:
    """The words with the largest probabilities in a column of a table."""
    pairs = zip(report["vocabulary"], (row[column] for row in table), strict=True)
    ordered = sorted(pairs, key=lambda pair: -pair[1])[:top]
    return "  ".join(f"{word} {p:.3f}" for word, p in ordered)
