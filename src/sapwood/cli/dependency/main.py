"""`sapwood depend`: puts the commands about dependency trees together."""

from __future__ import annotations

import typer

from sapwood.cli.dependency import convert, draw, evaluate, parse, rerank, score, train

app = typer.Typer(
    help="Dependency trees: learn parsers, parse, convert, draw and score.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# command: the line that --help shows for it
_COMMANDS = (
    (train.train, train.EPILOG, "Learn a parser from dependency trees."),
    (parse.parse, parse.EPILOG, "Parse sentences: words or CoNLL-U in, CoNLL-U out."),
    (evaluate.evaluate, evaluate.EPILOG, "Score predicted arcs: UAS, LAS, complete trees, tags."),
    (rerank.rerank, rerank.EPILOG, "Choose among the best trees of a parser."),
    (score.score, score.EPILOG, "Print log-probabilities of trees under a latent model."),
    (convert.convert, convert.EPILOG, "Make arcs of phrase-structure trees; lift or lower arcs."),
    (draw.draw, draw.EPILOG, "Draw sentences as text, SVG or LaTeX."),
)
for _run, _epilog, _summary in _COMMANDS:
    app.command(epilog=_epilog, short_help=_summary)(_run)
