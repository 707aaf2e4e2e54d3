"""Reports: a model, a run or a treebank in, plain dictionaries of JSON types out.

The command line prints them under `--json`, and the page shows them. Nothing here prints.
"""

from __future__ import annotations

import json
import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.constituency.report.inspect import identify_bounds as identify_bounds
    from sapwood.constituency.report.inspect import inspect_model as inspect_model
    from sapwood.constituency.report.inspect import inspect_spectrum as inspect_spectrum
    from sapwood.constituency.report.inspect import telling_member as telling_member
    from sapwood.constituency.report.parses import parse_report as parse_report
    from sapwood.constituency.report.training import budget_report as budget_report
    from sapwood.constituency.report.training import checkup as checkup
    from sapwood.constituency.report.training import comparison_row as comparison_row
    from sapwood.constituency.report.training import score_on as score_on
    from sapwood.constituency.report.training import training_report as training_report
    from sapwood.constituency.report.trees import Evaluation as Evaluation
    from sapwood.constituency.report.trees import ScoreReport as ScoreReport
    from sapwood.constituency.report.trees import evaluate_trees as evaluate_trees
    from sapwood.constituency.report.trees import score_sentences as score_sentences
    from sapwood.constituency.report.trees import score_trees as score_trees
    from sapwood.constituency.report.trees import split_report as split_report
    from sapwood.constituency.report.trees import treebank_report as treebank_report
    from sapwood.core.model_card import model_card as model_card
    from sapwood.identify.report import identify_family as identify_family
    from sapwood.identify.report import identify_table as identify_table
    from sapwood.identify.report import unmix_report as unmix_report

# public names by their modules, which are loaded when a name is first used
_NAMES = {
    "sapwood.constituency.report.inspect": "identify_bounds inspect_model inspect_spectrum "
    "telling_member",
    "sapwood.constituency.report.parses": "parse_report",
    "sapwood.constituency.report.training": "budget_report checkup comparison_row score_on "
    "training_report",
    "sapwood.constituency.report.trees": "Evaluation ScoreReport evaluate_trees "
    "score_sentences score_trees split_report treebank_report",
    "sapwood.core.model_card": "model_card",
    "sapwood.identify.report": "identify_family identify_table unmix_report",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted({"to_json", *_HOMES})  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sapwood.report' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def to_json(report: object, *, indent: int | None = None) -> str:
    """A report as JSON; infinities and NaN become null.

    Examples
    --------
    >>> to_json({"log_prob": float("-inf"), "words": 3})
    '{"log_prob": null, "words": 3}'
    """
    return json.dumps(_finite(report), ensure_ascii=False, indent=indent, allow_nan=False)


def _finite(item: object) -> object:
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    if isinstance(item, dict):
        return {key: _finite(value) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return [_finite(value) for value in item]
    return item
