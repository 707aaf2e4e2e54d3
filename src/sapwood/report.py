"""Reports: a model, a run or a treebank in, plain dictionaries of JSON types out.

What the command line prints under `--json` and what a page would show. Nothing here prints.
"""

from sapwood.constituency.report.bounds import identify_bounds
from sapwood.constituency.report.checkup import checkup
from sapwood.constituency.report.inspect import inspect_model, inspect_spectrum, telling_member
from sapwood.constituency.report.training import (
    budget_report,
    comparison_row,
    score_on,
    training_report,
)
from sapwood.constituency.report.trees import (
    Evaluation,
    ScoreReport,
    evaluate_trees,
    parse_report,
    score_sentences,
    score_trees,
    split_report,
    treebank_report,
)
from sapwood.core.model_card import model_card
from sapwood.core.plain import to_json
from sapwood.identify.summaries import identify_family, identify_table, unmix_report

__all__ = [
    "Evaluation",
    "ScoreReport",
    "budget_report",
    "checkup",
    "comparison_row",
    "evaluate_trees",
    "identify_bounds",
    "identify_family",
    "identify_table",
    "inspect_model",
    "inspect_spectrum",
    "model_card",
    "parse_report",
    "score_on",
    "score_sentences",
    "score_trees",
    "split_report",
    "telling_member",
    "to_json",
    "training_report",
    "treebank_report",
    "unmix_report",
]
