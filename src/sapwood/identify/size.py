"""What can be learnt at one size, for a page that asks while people wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sapwood.core.errors import SapwoodError


def identify_size(
    words: int, states: int, length: int, *, seed: int = 0, check: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """All families and moments at one size, a row each.

    Parameters
    ----------
    states
        For the families that have any.
    check
        Called between cells; raises an error to give up.

    Returns
    -------
    list
        `family`, `moments`, `parameters`, `rank`, `deficit` and `identifiable`; None in all of them
        and a `reason` where sentences of this length have no such moments.

    Examples
    --------
    >>> rows = identify_size(2, 2, 3)
    >>> [row["deficit"] for row in rows if row["family"] == "dep-ies"]
    [0, 0, 0, 0, 0, 0, 0]
    """
    from sapwood.identify import check as rank_of
    from sapwood.identify.families import FAMILIES, NAMED

    names = ("parameters", "rank", "deficit", "identifiable")
    rows = []
    for family, facts in FAMILIES.items():
        for moments in NAMED:
            check()
            row: dict[str, Any] = {"family": family, "moments": moments, "reason": None}
            try:
                found = rank_of(
                    family, words=words, states=states if facts.has_states else None,
                    length=length, moments=moments, n_points=0, seed=seed,
                ).to_dict()  # fmt: skip
                rows.append(row | {name: found[name] for name in names})
            except SapwoodError as error:
                rows.append(row | dict.fromkeys(names) | {"reason": error.message})
    return rows
