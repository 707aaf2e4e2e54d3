"""`sapwood unmix`: a model with hidden trees from plain sentences, in closed form; its uses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import STDIN, check_files, stream_lines
from sapwood.cli.reports import more_line, show
from sapwood.core.errors import NotIdentifiableError, SapwoodError, count
from sapwood.core.learner import REFINEMENTS
from sapwood.core.model_card import with_provenance
from sapwood.core.progress import step
from sapwood.execute.engine import Meter
from sapwood.report import ScoreReport, to_json

if TYPE_CHECKING:
    from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
    from sapwood.identify.model.uniform_trees import UniformTreeModel


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
        help="Also write the model to a file, which `sapwood score` and `inspect` read.",
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
        help="Longest sentences that --refine reads. The closed form itself reads those of "
        "three words, and of two for dep-ies.",
    ),
    refine: str = typer.Option(
        "none",
        metavar="HOW",
        help=f"{', '.join(REFINEMENTS)}: go on from the closed form with sentences of all "
        "lengths. `moments` not for more than some twenty words.",
    ),
    top: int = typer.Option(6, min=1, metavar="N", help="Words shown in each row; --json has all."),
    seed: int = typer.Option(0, min=0, metavar="N", help="Of random directions."),
    as_json: opt.Json = False,
) -> None:
    """Learn a model with hidden trees from plain sentences.

    The trees of all sentences are taken to be equally likely and are summed out. The parameters
    come from eigenvectors of counts of short sentences, without iterations and without local
    optima. Warnings say where the counts are too few for that.
    """
    from sapwood.corpora.files import FEWER_SENTENCES, WORD_BYTES, require_reading_memory
    from sapwood.corpora.sentences import split_words

    meter = Meter()
    check_files(file, out=out, force=force, is_model=True)
    family = family.lower()  # papers write them in capitals
    try:
        estimator = _estimator(family, states, refine, max_length, seed)
        require_reading_memory([file], WORD_BYTES, FEWER_SENTENCES, "text")
        with step("reading"):
            # Equal words are one object, so that memory holds each of them once.
            lines = (list(map(intern, split_words(line))) for line in stream_lines(file))
            sentences = [words for words in lines if words]
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
    from sapwood.corpora.files import source_name
    from sapwood.corpora.sentences import refuse_other_kinds, split_words

    report = ScoreReport("sentences", is_probabilistic=True)
    for line in refuse_other_kinds(stream_lines(file), file, source_name(file)):
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
    """A row for each of the commonest words: its share, and its arguments."""
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
