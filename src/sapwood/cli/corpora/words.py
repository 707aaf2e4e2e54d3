"""`sapwood words`: the sentences of a treebank, one a line."""

from __future__ import annotations

from pathlib import Path

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import Reading, claim_stdin, input_files
from sapwood.core.errors import count
from sapwood.core.outputs import check_output, open_output

EPILOG = """\b
Examples:
  sapwood words gold.mrg > sentences.txt
  sapwood words 'wsj/**/*.mrg' -o sentences.txt
  sapwood words en_ewt-ud-dev.conllu | sapwood parse model.sapwood
"""


def words(
    treebanks: opt.Treebanks,
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="OUT",
        help="Write here instead of to stdout (-); the file appears when it is complete.",
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    skip_bad: opt.SkipBad = False,
    force: opt.Force = False,
) -> None:
    """Write the sentences of a treebank, one a line, words with blanks between them.

    Empty elements are left out, as in training. A tree of nothing else gives an empty line, so that
    lines stay aligned with trees. CoNLL-U is read too: of its words, the column FORM.
    """
    from sapwood.corpora.sentences import read_sentences

    claim_stdin(*treebanks)
    reading = Reading(format, encoding, skip_bad=skip_bad)
    if out is not None:
        check_output(out, inputs=input_files(*treebanks), force=force, may_stream=True)
    n_sentences = n_words = 0
    with open_output(out, force=force) as target:
        for sentence in read_sentences(
            treebanks,
            format=format,
            encoding=encoding,
            skipped=reading.skipped if skip_bad else None,
            left_out=reading.left_out,
        ):
            target.write(" ".join(sentence) + "\n")
            n_sentences += bool(sentence)
            n_words += len(sentence)
    reading.tell()
    echo(f"{count(n_sentences, 'sentence')}  {count(n_words, 'word')}")
