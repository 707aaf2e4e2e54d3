"""`sapwood phrases`: the phrases of a text with probability and place, as a table."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import data_on_stdout, echo
from sapwood.cli.constituency.parse import ParserSettings, stream_answers
from sapwood.cli.inputs import STDIN
from sapwood.cli.texts import RawText, Text
from sapwood.core.errors import count
from sapwood.core.progress import step

if TYPE_CHECKING:
    from sapwood.constituency.parse.parser import Parse

PHRASES_EPILOG = """\b
Examples:
  sapwood phrases model.sapwood article.txt --label NP > noun-phrases.tsv
  echo "The king's dog sleeps." | sapwood phrases bundled --label NP
  sapwood phrases model.sapwood article.txt --label NP --label PP --least 0.9
"""


@dataclass(frozen=True)
class _Rows:
    """Writes the phrases of a sentence as JSON, which the command puts into its layout."""

    labels: tuple[str, ...] | None
    least: float

    def text(self, parse: Parse | None) -> str:
        from sapwood.constituency.report.phrases import phrase_rows

        rows = [] if parse is None else list(phrase_rows(parse, self.labels, self.least))
        return json.dumps(rows)


def print_phrases(  # noqa: PLR0913 - every option of the command is an argument
    model: opt.Model,
    file: str = typer.Argument(
        STDIN, metavar="FILE", help="Any text; - for stdin.", show_default="stdin"
    ),
    *,
    label: list[str] | None = typer.Option(
        None,
        "--label",
        "-l",
        metavar="LABEL",
        help="Print only phrases or tags with this label, such as NP; may be repeated.",
        show_default="all phrases, without tags",
    ),
    least: float = typer.Option(
        0.0,
        "--least",
        min=0.0,
        max=1.0,
        metavar="P",
        help="Leave out phrases with a lower probability. Above 0, phrases without a probability "
        "are left out too: those of sentences that the grammar cannot parse.",
    ),
    tokenizer: opt.Tokenizer = None,
    splitter: opt.Splitter = None,
    one_per_line: opt.OnePerLine = False,
    tokens: opt.Tokens = None,
    fast: bool = typer.Option(
        False, "--fast", help="As for `sapwood parse`: more sentences a second, a little less F1."
    ),
    jobs: opt.Jobs = 0,
    engine: opt.StreamEngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Print the phrases of a text with their probability and their place, one per row.

    Columns, separated by tabs, with a header: sentence (from 1), label, start and end (words of
    the sentence, from 0), char_start and char_end (characters of the text, from 0), probability,
    text. The probability is the posterior of the phrase, or NA. --json writes one object for each
    row, with blanks and line ends of the text unchanged.
    """
    from sapwood.constituency.report.phrases import PHRASE_COLUMNS, check_labels

    text = Text(None, True, RawText(tokenizer, splitter, one_per_line, tokens))
    parser = ParserSettings("f1", fast).parser(model)
    check_labels(parser, label or ())
    n_phrases, number = 0, 0
    with ExitStack() as stack:
        stack.enter_context(data_on_stdout(None, file))
        where = stack.enter_context(
            opt.open_engine(engine or ("dask" if scheduler else "processes"), scheduler, jobs)
        )
        rows = _Rows(tuple(label) if label else None, least)
        sentences = text.sentences(file, parser.model)
        answers = stack.enter_context(closing(stream_answers(parser, rows, sentences, where)))
        advance = stack.enter_context(step("parsing", unit="sentence"))
        for number, answer in enumerate(answers, 1):
            if number == 1 and not as_json:  # not before: a refused text leaves no table
                print("\t".join(("sentence", *PHRASE_COLUMNS)))
            for row in json.loads(answer):
                n_phrases += 1
                if as_json:
                    print(json.dumps({"sentence": number} | row, ensure_ascii=False))
                else:
                    print("\t".join((str(number), *map(_cell, row.values()))))
            advance(number)
    if not (number or as_json):
        print("\t".join(("sentence", *PHRASE_COLUMNS)))
    n_joined = parser.stats.fallbacks
    joined = f"  {count(n_joined, 'sentence')} without a parse of the grammar" if n_joined else ""
    echo(f"{count(number, 'sentence')}  {count(n_phrases, 'phrase')}{joined}")


def _cell(value: str | float | None) -> str:
    """A cell as R and pandas read it."""
    if value is None:
        return "NA"
    return f"{value:.4f}" if isinstance(value, float) else " ".join(str(value).split())
