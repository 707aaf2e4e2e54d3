"""`sapwood parse`: one tokenised sentence a line in, one tree a line out, as a stream."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import (
    Meter,
    check_output,
    count,
    echo,
    json_text,
    open_output,
    progress_line,
    wipe,
)
from sapwood.cli.inputs import (
    STDIN,
    JobsOption,
    JsonOption,
    ModelArgument,
    load_model,
    read_lines,
    split_words,
)

if TYPE_CHECKING:
    from sapwood.inference.parser import Parse, Parser, ParserStats

EPILOG = """\b
Layouts (TAB between columns):
  (default)     TREE
  --scores      TREE  LOGPROB  SENTENCE_LOGPROB
  --k-best K    RANK  SCORE  LOGPROB  TREE
                best first, and a blank line after each sentence
  --json        one object a line: tree, log_prob, sentence_log_prob,
                fallback, constituents with their posterior probability (null
                without a chart: one word, or a flat tree), and k_best where
                asked for

\b
Logarithms are natural. SENTENCE_LOGPROB sums over the trees that survive
pruning; `sapwood score` sums over all. An empty line in gives an empty line out, so lines
stay aligned (under --json, an object whose tree is null).

\b
Examples:
  sapwood parse model.sapwood sentences.txt > trees.mrg
  echo 'the dog sleeps .' | sapwood parse bundled
  sapwood parse model.sapwood sentences.txt --k-best 5 -o five-best.tsv
"""


class Decoder(StrEnum):
    """Values of `--decoder`."""

    goodman = "goodman"
    max_rule = "max-rule"
    viterbi = "viterbi"


def parse(  # noqa: PLR0913 - every option of the command is an argument
    model: ModelArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Sentences; - for stdin.", show_default="stdin")
    ] = STDIN,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="OUT",
            help="Write here instead of to stdout; the file appears when it is complete. Not when "
            "the next program should start at once.",
        ),
    ] = None,
    k_best: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="The K best trees of each sentence, with scores."),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Add the log-probabilities of the tree and of the sentence."),
    ] = False,
    decoder: Annotated[
        Decoder,
        typer.Option(
            help="goodman: most expected correct constituents; max-rule: largest product of rule "
            "posteriors; viterbi: the likeliest derivation. Not viterbi for F1 with hidden states."
        ),
    ] = Decoder.goodman,
    threshold: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="T",
            help="Drop spans with a lower posterior under the plain grammar. Not above 0.001: it "
            "costs accuracy.",
        ),
    ] = 1e-3,
    jobs: JobsOption = 0,
    memory_limit: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="MB",
            help="A sentence whose chart needs more gets a flat tree; each thread may use so much.",
        ),
    ] = 2000.0,
    as_json: JsonOption = False,
) -> None:
    """Parse tokenised sentences: one a line in, one bracketed tree a line out, in order.

    Every sentence gets a tree; one that the grammar has no parse for gets a flat one and is counted
    on stderr. Words are separated by blanks; tokenise and escape brackets as the treebank does.
    """
    if threshold >= 1:
        msg = f"{threshold:g} would drop every span; it must be below 1"
        raise typer.BadParameter(msg, param_hint="--threshold")
    if out is not None:
        check_output(out, [file])
    from sapwood.inference.parser import Parser

    parser = Parser(
        load_model(model),
        decoder=decoder.value,
        threshold=threshold,
        memory_limit_mb=memory_limit,
    )
    run = _Run(parser, _Layout(k_best, scores, as_json), jobs)
    meter = Meter()
    is_piped = out is not None or not sys.stdout.isatty()
    show = progress_line("lines", is_shown=sys.stderr.isatty() and is_piped)
    with open_output(out) as target, closing(run.answers(read_lines(file))) as answers:
        for number, answer in enumerate(answers, 1):
            target.write(answer)
            if out is None:
                target.flush()  # whoever reads a pipe may be waiting for this very line
            show(number)
    if sys.stderr.isatty() and is_piped:
        wipe()
    for line in _summary(parser.stats, run.n_empty, memory_limit, meter.seconds):
        echo(line)


@dataclass(frozen=True)
class _Layout:
    """How one parsed sentence is written."""

    k_best: int | None
    scores: bool
    as_json: bool

    def text(self, parse: Parse) -> str:
        if self.as_json:
            return json_text(self._object(parse)) + "\n"
        if self.k_best:
            rows = (
                f"{rank}\t{best.score:.6f}\t{best.log_prob:.6f}\t{best.tree}\n"
                for rank, best in enumerate(parse.k_best(self.k_best), 1)
            )
            return "".join(rows) + "\n"
        if self.scores:
            return f"{parse.tree}\t{parse.log_prob:.6f}\t{parse.sentence_log_prob:.6f}\n"
        return f"{parse.tree}\n"

    def empty(self) -> str:
        if not self.as_json:
            return "\n"
        nothing = {"tree": None, "log_prob": None, "sentence_log_prob": None, "fallback": False}
        best: dict[str, Any] = {"k_best": []} if self.k_best else {}
        return json_text(nothing | {"constituents": []} | best) + "\n"

    def _object(self, parse: Parse) -> dict[str, Any]:
        out: dict[str, Any] = {
            "tree": str(parse.tree),
            "log_prob": parse.log_prob,
            "sentence_log_prob": parse.sentence_log_prob,
            "fallback": parse.is_fallback,
            "constituents": _constituents(parse),
        }
        if self.k_best:
            out["k_best"] = [
                {"rank": rank, "score": b.score, "log_prob": b.log_prob, "tree": str(b.tree)}
                for rank, b in enumerate(parse.k_best(self.k_best), 1)
            ]
        return out


def _constituents(parse: Parse) -> list[dict[str, Any]]:
    """Phrases and tags of the tree below its root, each with its posterior."""
    posterior = {(c.label, c.start, c.end): c.probability for c in parse.marginals}
    return [
        {
            "label": label,
            "start": start,
            "end": end,
            "probability": posterior.get((label, start, end)),
        }
        for label, start, end in parse.tree.spans()[1:]
    ]


class _Run:
    """Lines in, answers out, on several threads; remembers how many lines were empty."""

    def __init__(self, parser: Parser, layout: _Layout, jobs: int) -> None:
        self.parser = parser
        self.layout = layout
        self.jobs = jobs
        self.n_empty = 0

    def answers(self, lines: Iterator[str]) -> Generator[str, None, None]:
        from sapwood.execute import ordered_map

        self.parser.parse_many(())  # arranges the rules once, before threads start
        yield from ordered_map(self._answer, self._sentences(lines), jobs=self.jobs)

    def _sentences(self, lines: Iterator[str]) -> Iterator[list[str]]:
        for line in lines:
            words = split_words(line)
            self.n_empty += not words
            yield words

    def _answer(self, words: list[str]) -> str:
        # Written out here, in the worker: k-best lists and posteriors cost as much as the parse.
        return self.layout.text(self.parser.parse(words)) if words else self.layout.empty()


def _summary(stats: ParserStats, n_empty: int, limit: float, seconds: float) -> Iterator[str]:
    rate = stats.sentences / seconds if seconds else 0.0
    n_long = min(stats.too_long, stats.fallbacks)  # a single word needs no chart
    parts = [count(stats.sentences, "sentence"), f"{seconds:.1f} s", f"{rate:,.1f} sentences/s"]
    parts.insert(1, count(stats.fallbacks, "fallback"))
    parts.insert(2, f"{n_long:,} too long")
    if n_empty:
        parts.insert(1, count(n_empty, "empty line"))
    yield "  ".join(parts)
    if stats.fallbacks > n_long:
        unparsed = count(stats.fallbacks - n_long, "flat tree")
        yield f"{unparsed}: the grammar has no parse for the sentence"
    if n_long:
        yield (
            f"{count(n_long, 'flat tree')}: the chart would need more than "
            f"--memory-limit {limit:g} MB"
        )
