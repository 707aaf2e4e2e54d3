"""`sapwood depend parse`: sentences in, dependency trees out."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.dependency.reading import ArcReading, Encoding, Out, SkipBad
from sapwood.cli.display import data_on_stdout
from sapwood.cli.engines import EngineOption, SchedulerOption, open_engine
from sapwood.cli.inputs import as_kind, count_lines, input_files, load_any, read_lines
from sapwood.constituency.report.training import Meter
from sapwood.core.errors import count
from sapwood.core.outputs import check_output, is_stdout, open_output
from sapwood.progress import step

if TYPE_CHECKING:
    from sapwood.dependency.data.bank import Arcs
    from sapwood.dependency.parse.parser import ArcParse, ArcParser
    from sapwood.dependency.parse.reranking import RerankedParse, RerankingParser

EPILOG = """\b
Examples:
  sapwood depend parse parser.sapwood test.conllu -o parsed.conllu
  echo 'dogs bark' | sapwood depend parse parser.sapwood --text
  sapwood depend parse parser.sapwood test.conllu --n-best 50 > lists.conllu
"""


_HINTS = {
    "conllu": "leave out --text to parse CoNLL-U",
    "trees": "`sapwood depend convert` makes CoNLL-U of trees, which is parsed without --text",
}


def parse(  # noqa: PLR0913 - every option of the command is an argument
    model: str = typer.Argument(
        ..., metavar="MODEL", help="A file written by `sapwood depend train`."
    ),
    file: str = typer.Argument(
        "-", metavar="[FILE]", help="CoNLL-U, or with --text one sentence a line; - for stdin."
    ),
    *,
    out: Out = None,
    force: opt.Force = False,
    text: bool = typer.Option(
        False,
        "--text",
        help="FILE has one sentence a line, words separated by blanks. Not for text that is not "
        "tokenised as the treebank is.",
    ),
    gold_tags: bool = typer.Option(
        False,
        "--gold-tags",
        help="Take the tags of FILE instead of predicting them. Not to compare parsers on new "
        "text, which has none.",
    ),
    n_best: int | None = typer.Option(
        None,
        "--n-best",
        min=1,
        metavar="K",
        help="The K best trees of each sentence, each with comments that tell its sentence, rank "
        "and score.",
    ),
    scores: bool = typer.Option(
        False, "--scores", help="Add the posterior of each arc to the last column, as Posterior=P."
    ),
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    jobs: opt.Jobs = 0,
    engine: EngineOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Parse sentences: CoNLL-U in and out; only the forms are read.

    Comments, multiword tokens, empty nodes and the columns that a parser does not fill stay as they
    are. Every sentence gets a tree with one root.
    """
    if text and gold_tags:
        msg = "lines of words have no tags"
        raise typer.BadParameter(msg, param_hint="--gold-tags")
    if out is not None and is_stdout(out):
        out = None
    if out is not None:
        check_output(out, inputs=list(input_files(file, model)), force=force, may_stream=True)
    parser = _parser(model, gold_tags=gold_tags)
    layout = _Layout(n_best, scores)
    meter, n_done = Meter(), 0
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    with (
        data_on_stdout(out, file),
        open_engine(engine, scheduler, jobs) as where,
        open_output(out, force=force) as target,
        closing(_sentences(file, reading, text=text)) as sentences,
        step("parsing", total=count_lines(file, blank=not text), unit="sentence") as advance,
    ):
        numbered = enumerate(sentences, 1)
        for n_done, answer in enumerate(where.stream(_answer, numbered, parser, layout), 1):
            target.write(answer)
            if out is None:
                target.flush()  # whoever reads a pipe may be waiting for this very sentence
            advance(n_done)
    reading.tell()
    rate = n_done / meter.seconds if meter.seconds else 0.0
    echo(f"{count(n_done, 'sentence')}  {meter.seconds:.1f} s  {rate:,.1f} sentences/s")


def _parser(name: str, *, gold_tags: bool) -> ArcParser | RerankingParser:
    from sapwood.dependency.model.arc_model import ArcModel
    from sapwood.dependency.model.reranker import ArcRerankModel
    from sapwood.dependency.parse.reranking import arc_parser

    found = as_kind(
        load_any(name), ArcModel | ArcRerankModel, name, "a dependency parser",
        "name a file of `sapwood depend train`", "dependency",
    )  # fmt: skip
    return arc_parser(found, use_tags=gold_tags)


def _sentences(file: str, reading: ArcReading, *, text: bool) -> Generator[Arcs, None, None]:
    from sapwood.corpora.files import source_name
    from sapwood.corpora.sentences import refuse_other_kinds
    from sapwood.dependency.data.bank import UNPARSED, Arcs

    if not text:
        yield from reading.stream(file)
        return
    with closing(read_lines(file, reading.encoding)) as lines:
        for line in refuse_other_kinds(lines, file, source_name(file), _HINTS):
            if words := tuple(line.split()):
                yield Arcs(words, (UNPARSED,) * len(words))


@dataclass(frozen=True)
class _Layout:
    """How one parsed sentence is written."""

    n_best: int | None
    scores: bool

    def text(self, number: int, parse: ArcParse | RerankedParse) -> str:
        if self.n_best:
            return "".join(self._ranked(number, parse, self.n_best))
        arcs = parse.arcs
        return f"{_with_posteriors(arcs, parse.head_posteriors) if self.scores else arcs}\n\n"

    def _ranked(self, number: int, parse: ArcParse | RerankedParse, k: int) -> Iterator[str]:
        for rank, best in enumerate(parse.k_best(k), 1):
            told = (f"# sentence = {number}", f"# rank = {rank}", f"# score = {best.score:.6f}")
            arcs = replace(best.arcs, comments=(*best.arcs.comments, *told))
            if self.scores:
                chosen = [float(parse.posteriors[m, h]) for m, h in enumerate(best.arcs.heads)]
                arcs = _with_posteriors(arcs, chosen)
            yield f"{arcs}\n\n"


def _with_posteriors(arcs: Arcs, posteriors: Iterable[float]) -> Arcs:
    """The posterior of each word's arc in the last column, behind what is there."""
    from sapwood.dependency.data.bank import ID, MISC, NOTHING

    rows, left = arcs.all_rows(), iter(posteriors)
    for row in rows:
        if row[ID].isdecimal():
            told = f"Posterior={next(left):.4f}"
            row[MISC] = told if row[MISC] == NOTHING else f"{row[MISC]}|{told}"
    return replace(arcs, rows=tuple(map(tuple, rows)))


def _answer(
    numbered: tuple[int, Arcs], parser: ArcParser | RerankingParser, layout: _Layout
) -> str:
    # Written out here, in the worker: lists of trees cost more than the parse.
    number, arcs = numbered
    return layout.text(number, parser.parse(arcs))
