"""Reports as JSON."""

from __future__ import annotations

import json
import math


def to_json(report: object, *, indent: int | None = None) -> str:
    """A report as JSON; infinities become null, which JSON can say.

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
