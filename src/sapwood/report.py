"""Reports: a model, a run or a treebank in, plain dictionaries of JSON types out.

What the command line prints under `--json` and what a page would show. Nothing here prints.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.constituency.report.bounds import identify_bounds as identify_bounds
    from sapwood.constituency.report.checkup import checkup as checkup
    from sapwood.constituency.report.inspect import inspect_model as inspect_model
    from sapwood.constituency.report.inspect import inspect_spectrum as inspect_spectrum
    from sapwood.constituency.report.inspect import telling_member as telling_member
    from sapwood.constituency.report.training import budget_report as budget_report
    from sapwood.constituency.report.training import comparison_row as comparison_row
    from sapwood.constituency.report.training import score_on as score_on
    from sapwood.constituency.report.training import training_report as training_report
    from sapwood.constituency.report.trees import Evaluation as Evaluation
    from sapwood.constituency.report.trees import ScoreReport as ScoreReport
    from sapwood.constituency.report.trees import evaluate_trees as evaluate_trees
    from sapwood.constituency.report.trees import parse_report as parse_report
    from sapwood.constituency.report.trees import score_sentences as score_sentences
    from sapwood.constituency.report.trees import score_trees as score_trees
    from sapwood.constituency.report.trees import split_report as split_report
    from sapwood.constituency.report.trees import treebank_report as treebank_report
    from sapwood.core.model_card import model_card as model_card
    from sapwood.core.plain import to_json as to_json
    from sapwood.identify.summaries import identify_family as identify_family
    from sapwood.identify.summaries import identify_table as identify_table
    from sapwood.identify.summaries import unmix_report as unmix_report

# public names by their modules, which are loaded when a name is first used
_NAMES = {
    "sapwood.constituency.report.bounds": "identify_bounds",
    "sapwood.constituency.report.checkup": "checkup",
    "sapwood.constituency.report.inspect": "inspect_model inspect_spectrum telling_member",
    "sapwood.constituency.report.training": "budget_report comparison_row score_on training_report",
    "sapwood.constituency.report.trees": "Evaluation ScoreReport evaluate_trees parse_report "
    "score_sentences score_trees split_report treebank_report",
    "sapwood.core.model_card": "model_card",
    "sapwood.core.plain": "to_json",
    "sapwood.identify.summaries": "identify_family identify_table unmix_report",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module 'sapwood.report' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)
