"""`sapwood depend`: puts the commands about dependency trees together."""

from __future__ import annotations

from sapwood.cli import options as opt
from sapwood.cli.dependency import audit, parse, train, trees

app = opt.command_group(
    "Dependency trees: learn parsers, parse, convert, draw and score.",
    ("train", train.train_on_arcs, train.TRAIN_ARCS_EPILOG,
     "Learn a parser from dependency trees."),
    ("parse", parse.parse_arcs, parse.PARSE_ARCS_EPILOG,
     "Parse sentences: words or CoNLL-U in, CoNLL-U out."),
    ("evaluate", trees.evaluate_arcs, trees.EVALUATE_ARCS_EPILOG,
     "Score predicted arcs: UAS, LAS, complete trees, tags."),
    ("rerank", parse.rerank_lists, parse.RERANK_EPILOG,
     "Choose among the best trees of a parser."),
    ("score", parse.score_arcs, parse.SCORE_ARCS_EPILOG,
     "Print log-probabilities of trees under a latent model."),
    ("convert", trees.convert_to_arcs, trees.CONVERT_ARCS_EPILOG,
     "Make arcs of phrase-structure trees; lift or lower arcs."),
    ("audit", audit.audit_arc_files, audit.AUDIT_ARCS_EPILOG,
     "List heads, relations and tags that are probably wrong."),
    ("draw", trees.draw_arc_trees, trees.DRAW_EPILOG, "Draw sentences as text, SVG or LaTeX."),
)  # fmt: skip
