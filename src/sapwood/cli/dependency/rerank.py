"""`sapwood depend rerank`: the best tree of each list of another parser, or of our own."""

from __future__ import annotations

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.dependency.reading import ArcReading, Encoding, Out, SkipBad
from sapwood.cli.inputs import as_kind, input_files, load_any
from sapwood.core.errors import count
from sapwood.core.outputs import check_output, open_output

EPILOG = """\b
Examples:
  sapwood depend train train.conllu -o reranker.sapwood --method rerank
  sapwood depend parse reranker.sapwood dev.conllu > reranked.conllu
  sapwood depend parse parser.sapwood dev.conllu --n-best 50 > lists.conllu
  sapwood depend rerank reranker.sapwood lists.conllu > reranked.conllu
"""


def rerank(
    model: str = typer.Argument(
        ..., metavar="MODEL", help="A file written by `sapwood depend train --method rerank`."
    ),
    file: str = typer.Argument(
        "-", metavar="[LISTS]", help="CoNLL-U with several trees a sentence; - for stdin."
    ),
    *,
    out: Out = None,
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    force: opt.Force = False,
) -> None:
    """Choose one tree of each list: CoNLL-U in and out.

    The trees of a sentence stand one after the other, each with the comments `# sentence = N`, the
    same for all of them, and `# score = X`, as `sapwood depend parse --n-best` writes them. Scores
    should be log-probabilities, on which the reranker has learnt.
    """
    from sapwood.dependency.data.lists import without_list_comments
    from sapwood.dependency.data.reader import write_arcs
    from sapwood.dependency.model.reranker import ArcRerankModel
    from sapwood.dependency.parse.reranking import choose_trees

    if out is not None:
        check_output(out, inputs=list(input_files(file, model)), force=force, may_stream=True)
    hint = "name a file of `sapwood depend train --method rerank`"
    found: ArcRerankModel = as_kind(
        load_any(model), ArcRerankModel, model, "a reranker", hint, "dependency"
    )
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    lists = reading.lists([file])
    chosen = choose_trees(found, lists)
    with open_output(out, force=force) as target:
        write_arcs((without_list_comments(lists.bank[tree]) for tree in chosen.tolist()), target)
    reading.tell()
    n_other = int((chosen != lists.best(lists.score)).sum())
    echo(f"{count(len(lists), 'sentence')}  {n_other:,} with another tree than the parser's best")
