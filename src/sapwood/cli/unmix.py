"""`sapwood unmix`: a model with hidden trees from plain sentences, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import Meter, count, echo, print_json, transient
from sapwood.cli.inputs import STDIN, JsonOption, read_lines, split_words
from sapwood.errors import NotIdentifiableError, SapwoodError
from sapwood.estimators.shared_parameters import REFINEMENTS

if TYPE_CHECKING:
    from sapwood.estimators.unmix_dep_ies import UnmixDEPIES
    from sapwood.estimators.unmix_pcfg_ie import UnmixPCFGIE
    from sapwood.models.uniform_trees import UniformTreeModel

EPILOG = """\b
Families: pcfg-ie (hidden states), dep-ies (words only). `sapwood identify` says what can be learnt
about these and others.

\b
Examples:
  sapwood unmix pcfg-ie --states 2 sentences.txt
  sapwood unmix dep-ies --refine em --json - < sentences.txt
"""


def unmix(  # noqa: PLR0913 - every option of the command is an argument
    family: Annotated[
        str, typer.Argument(metavar="FAMILY", help="pcfg-ie or dep-ies.", show_default=False)
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="One tokenised sentence a line; - for stdin.", show_default="stdin"
        ),
    ] = STDIN,
    *,
    states: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Hidden states; only for pcfg-ie.", show_default="2"),
    ] = None,
    max_length: Annotated[
        int,
        typer.Option(
            min=3,
            max=60,
            metavar="N",
            help="Longest sentences that --refine reads. The closed form itself reads those of "
            "three words, and of two for dep-ies.",
        ),
    ] = 10,
    refine: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help=f"{', '.join(REFINEMENTS)}: go on from the closed form with sentences of all "
            "lengths. `moments` not for more than some twenty words.",
        ),
    ] = "none",
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Words shown in each row; --json has all.")
    ] = 6,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of random directions.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a model with hidden trees from plain sentences.

    The trees of all sentences are taken to be equally likely and are summed out. The parameters
    come from eigenvectors of counts of short sentences, without iterations and without local
    optima. Warnings say where the counts are too few for that.
    """
    meter = Meter()
    family = family.lower()  # papers write them in capitals
    try:
        estimator = _estimator(family, states, refine, max_length, seed)
        _fit(estimator, file)
    except NotIdentifiableError as error:
        _show(error.report)
        raise
    report = _report(estimator) | meter.as_dict()
    if as_json:
        print_json(report)
        return
    print("\n".join(_lines(estimator.model_, report, top)))
    echo(f"{report['seconds']:.1f} s")


def _show(report: object) -> None:
    """Why it cannot be learnt; the error's line and hint follow."""
    from sapwood.decompose.diagonalise import RankReport
    from sapwood.identify.report import Report

    assert isinstance(report, (Report, RankReport))
    for line in report.lines():
        echo(line)


def _fit(estimator: UnmixPCFGIE | UnmixDEPIES, file: str) -> None:
    with transient("reading ..."):
        sentences = [words for line in read_lines(file) if (words := split_words(line))]
    if not sentences:
        msg = f"{'stdin' if file == STDIN else file}: no sentences"
        raise SapwoodError(msg, hint="give one tokenised sentence a line")
    with transient("unmixing ..."):
        estimator.fit(sentences)


def _estimator(
    family: str, states: int | None, refine: str, max_length: int, seed: int
) -> UnmixPCFGIE | UnmixDEPIES:
    from sapwood.estimators.unmix import refuse_family
    from sapwood.estimators.unmix_dep_ies import UnmixDEPIES
    from sapwood.estimators.unmix_pcfg_ie import UnmixPCFGIE

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


def _report(estimator: UnmixPCFGIE | UnmixDEPIES) -> dict[str, Any]:
    model, info = estimator.model_, estimator.info_
    return {
        "family": model.family,
        "states": model.n_states if model.family == "pcfg-ie" else None,
        "words": len(model.vocabulary),
        "sentences": int(sum(info.n_sentences.values())),
        "sentences_by_length": {str(n): int(found) for n, found in info.n_sentences.items()},
        "vocabulary": list(model.vocabulary),
        "parameters": {name: table.tolist() for name, table in model.tables.items()},
        "moment_error": info.moment_error,
        "moment_noise": info.moment_noise,
        "eigengap": info.gap,
        "noise_gain": info.noise_gain,
        "clipped": info.clipped,
        "refine": info.refined,
        "iterations": info.iterations,
        "log_likelihood": info.log_likelihood,
        "warnings": info.warnings,
    }


def _lines(model: UniformTreeModel, report: dict[str, Any], top: int) -> Iterator[str]:
    states = f"  {count(report['states'], 'state')}" if report["states"] else ""
    head = f"{model.family}{states}  {count(report['words'], 'type')} of words"
    yield f"{head}  {count(report['sentences'], 'sentence')}"
    yield ""
    yield from _state_lines(model, top) if report["states"] else _word_lines(model, top)
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
        yield f"refined by {report['refine']}, {report['iterations']} iterations{likelihood}"


def _state_lines(model: UniformTreeModel, top: int) -> Iterator[str]:
    """A row for each state: at the root, as a child of each state, and its words."""
    root, child, words = model.tables.values()
    parents = "".join(f"{f'below {h}':>10}" for h in range(len(root)))
    yield f"state    root{parents}  words"
    for h in range(len(root)):
        below = "".join(f"{p:>10.3f}" for p in child[h])
        yield f"{h:>5}{root[h]:>8.3f}{below}  {_top(model, words[:, h], top)}"


def _word_lines(model: UniformTreeModel, top: int) -> Iterator[str]:
    """A row for each of the commonest words: its share, and its arguments."""
    root, argument = model.tables.values()
    width = max(len(word) for word in (*model.vocabulary[:top], "head"))
    yield f"{'head':<{width}}   share  arguments"
    for x in range(min(top, len(root))):
        yield f"{model.vocabulary[x]:<{width}}{root[x]:>8.3f}  {_top(model, argument[:, x], top)}"
    if top < len(root):
        yield f"... and {len(root) - top:,} more (--top, --json)"


def _top(model: UniformTreeModel, column: Any, top: int) -> str:
    order = (-column).argsort(kind="stable")[:top]
    return "  ".join(f"{model.vocabulary[x]} {column[x]:.3f}" for x in order)
