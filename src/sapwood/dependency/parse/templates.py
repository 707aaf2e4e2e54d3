"""Feature templates of dependency parsers.

A template is written as the properties that it conjoins, each of a word:

    "h.X m.W m+1.P"     tag of the head, the modifier's word, and the coarse tag behind it

Letters of words are listed in `sapwood.dependency.kernels.arc_layout`, those of properties in
`sapwood.corpora.vocabulary`; b is the material between head and modifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from sapwood.core.arrays import starts_of
from sapwood.corpora.vocabulary import COLUMN, PROPERTIES
from sapwood.dependency.kernels.arc_layout import BETWEEN, N_ATOMS, PART_KINDS, PLACES, Templates

_ATOM = re.compile(rf"([{PLACES}])([+-][12])?\.([{PROPERTIES}])|b\.([012])")


def parse_templates(**texts: Iterable[str]) -> Templates:
    """Templates by kind of part, from their notation.

    Examples
    --------
    >>> made = parse_templates(arc=["h.X m.W", "h.X m+1.P b.0"])
    >>> made.bounds.tolist()
    [0, 2, 2, 2, 2, 2]
    >>> made.atoms[1, :4].tolist()
    [[2, 13], [8, 14], [63, 0], [-1, -1]]
    """
    rows = [[_atoms(text) for text in texts.get(kind, ())] for kind in PART_KINDS]
    atoms = np.array([row for kind in rows for row in kind], np.int32)
    bounds = starts_of([len(kind) for kind in rows]).astype(np.int32)
    return Templates(atoms.reshape(-1, N_ATOMS, 2), bounds)


def _atoms(text: str) -> list[tuple[int, int]]:
    found = []
    for atom in text.split():
        match = _ATOM.fullmatch(atom)
        assert match is not None, atom
        place, shift, column, inside = match.groups()
        if inside is not None:
            found.append((BETWEEN, int(inside)))
        else:
            found.append((5 * PLACES.index(place) + int(shift or 0) + 2, COLUMN[column]))
    assert len(found) <= N_ATOMS, text
    return found + [(-1, -1)] * (N_ATOMS - len(found))


TAGGER = parse_templates(
    none=[
        "h.F", "h.L", "h.1", "h.2", "h.3", "h.4", "h.5", "h.a", "h.b", "h.c", "h.d", "h.H",
        "h-1.L", "h-2.L", "h+1.L", "h+2.L", "h-1.3", "h+1.3", "h-1.H h.H", "h.H h+1.H",
        "h-1.L h.L", "h.L h+1.L", "h-1.L h+1.L", "h-2.L h-1.L", "h+1.L h+2.L",
        "h-1.L h.3", "h.3 h+1.L", "h-1.3 h.3", "h.3 h+1.3", "h.2 h+1.2", "h-1.2 h.2",
        "h-1.2 h.3 h+1.2", "h.3 h.H", "h.4 h.H", "h.b h.H", "h-1.H h.F", "h-1.F h.H",
    ]
)  # fmt: skip

_TAGS = [
    "h.X m.X", "h.P m.P", "h.X m.P", "h.P m.X", "h.X", "m.X",
    "h.X h+1.P m-1.P m.X", "h-1.P h.X m-1.P m.X", "h.X h+1.P m.X m+1.P", "h-1.P h.X m.X m+1.P",
    "h.X h+1.P m.X", "h-1.P h.X m.X", "h.X m-1.P m.X", "h.X m.X m+1.P",
    "h.P m.P b.0", "h.X m.X b.1 b.2",
]  # fmt: skip
_WORDS = ["h.W m.X", "h.X m.W", "h.W m.W", "h.W", "m.W"]

PRUNER = parse_templates(arc=[*_TAGS, *_WORDS])

_ARC = [
    *_TAGS, *_WORDS,
    "h.W h.X", "m.W m.X", "h.W h.X m.X", "h.X m.W m.X", "h.W h.X m.W", "h.W m.W m.X",
    "h.W h.X m.W m.X", "h.W m.P", "h.P m.W",
    "h.3 m.X", "h.X m.3", "h.3 m.3", "h.3 m.W", "h.W m.3", "h.H m.H h.P m.P",
    "h.P h+1.P h+2.P m.P", "h-2.P h-1.P h.P m.P", "h.P m.P m+1.P m+2.P", "h.P m-2.P m-1.P m.P",
    "h-1.P h.P h+1.P m.P", "h.P m-1.P m.P m+1.P", "h-1.P h.P h+1.P m-1.P m.P m+1.P",
    "h.X m.X m-1.W", "h.X m.X m+1.W", "h.X m.X h-1.W", "h.X m.X h+1.W",
    "h.W m.X m-1.X", "h.W m.X m+1.X", "h.X m.W m-1.X", "h.X m.W m+1.X",
    "h.W h+1.X m.X", "h-1.X h.W m.X", "m.W m-1.W h.P", "m.W m+1.W h.P", "h.W h+1.W m.P",
    "h.W h-1.W m.P", "h.W m.X b.0", "h.X m.W b.0", "h.X m.X b.0", "h.W m.P b.1 b.2",
    "h.P m.W b.1 b.2",
]  # fmt: skip
_LAST = ["h.X", "h.X m.X", "h.W", "h.P m.P", "h.W m.X", "h.X m.W", "h.X m.X m+1.X", "h.W m.W"]
_NONE = ["h.X", "h.W", "h.X h.W", "h-1.X h.X", "h.X h+1.X", "h-1.P h.X h+1.P", "h.W h+1.X",
         "h-1.X h.W", "h.3 h.X"]  # fmt: skip
_SIBLING = [
    "h.X m.X s.X", "h.P m.P s.P", "m.X s.X", "m.P s.P", "m.W s.W", "m.W s.X", "m.X s.W",
    "h.W m.X s.X", "h.X m.W s.X", "h.X m.X s.W", "h.W m.W s.X", "h.W m.X s.W", "h.X m.W s.W",
    "h.P m.X s.X m-1.P", "h.P m.X s.X s+1.P", "h.X m.X s.X m+1.P", "h.P m.P s.P m-1.P s+1.P",
    "h.W m.P s.P", "h.P m.3 s.3",
]  # fmt: skip
_GRAND = [
    "s.X h.X m.X", "s.P h.P m.P", "s.X m.X", "s.P m.P", "s.W m.W", "s.W m.X", "s.X m.W",
    "s.W h.X m.X", "s.X h.W m.X", "s.X h.X m.W", "s.W h.W m.X", "s.X h.W m.W", "s.W h.X m.W",
    "s.P h.X m.X m-1.P", "s.P h.X m.X m+1.P", "s.X h.X m.X h+1.P", "s.X h.X m.X h-1.P",
    "s.P h.W m.P", "s.3 h.P m.3",
]  # fmt: skip

FIRST = parse_templates(arc=_ARC)
SECOND = parse_templates(arc=_ARC, last=_LAST, none=_NONE, sibling=_SIBLING, grand=_GRAND)

_TAGGER_CLUSTERS = parse_templates(
    none=[
        "h.K", "h.J", "h-1.J", "h+1.J", "h-1.K h.K", "h.K h+1.K", "h-1.J h.J", "h.J h+1.J",
        "h-1.K h.K h+1.K", "h-1.K h.L", "h.L h+1.K", "h+1.K h+2.K", "h-2.K h-1.K", "h.J h.H",
        "h.K h.2",
    ]
)  # fmt: skip
_ARC_CLUSTERS = parse_templates(
    arc=[
        "h.K m.K", "h.J m.X", "h.X m.J", "h.J m.J", "h.J m.W", "h.W m.J", "h.K m.X b.0",
        "h.X m.K b.0", "h.J m.X m-1.X", "h.J m.X m+1.X", "h.X m.J m-1.X", "h.X m.J m+1.X",
    ],
    last=["h.J m.X", "h.X m.J"],
    none=["h.J", "h.J h.X"],
    sibling=["h.J m.X s.X", "h.X m.J s.X", "h.X m.X s.J", "m.J s.J"],
    grand=["s.J h.X m.X", "s.X h.J m.X", "s.X h.X m.J", "h.J m.J", "h.J m.X", "h.X m.J"],
)  # fmt: skip


def with_clusters(templates: Templates) -> Templates:
    """Templates, extended by templates of clusters for each kind of part that they have.

    >>> len(with_clusters(FIRST).atoms) - len(FIRST.atoms)
    12
    """
    atoms, bounds = [], [0]
    added = _TAGGER_CLUSTERS if templates is TAGGER else _ARC_CLUSTERS
    for kind in range(len(templates.bounds) - 1):
        own, more = (x.atoms[x.bounds[kind] : x.bounds[kind + 1]] for x in (templates, added))
        atoms += [own, more] if len(own) else []
        bounds.append(bounds[-1] + (len(own) and len(own) + len(more)))
    return Templates(np.concatenate(atoms), np.array(bounds, np.int32))


LABELS = parse_templates(
    grand=[
        "h.X m.X", "h.P m.P", "h.W m.X", "h.X m.W", "h.W m.W", "h.W", "m.W", "m.X", "h.X",
        "m.3 h.X", "m.2 h.X", "h.3 m.X", "m.H m.X", "m.F",
        "m-1.X m.X h.X", "m.X m+1.X h.X", "m-1.W m.X", "m.X m+1.W", "h-1.X h.X m.X",
        "h.X h+1.X m.X", "m-1.X m.X m+1.X h.P", "h.P m.W m+1.X", "h.P m-1.X m.W",
        "s.X h.X m.X", "s.W h.X m.X", "s.X h.W m.P", "s.P h.P m.W",
        "l.X m.X h.X", "r.X m.X h.X", "l.W m.X h.P", "r.W m.X h.P", "l.X m.X r.X h.P",
        "f.X m.X h.X", "e.X m.X h.X", "f.W m.X h.X", "e.W m.X h.X", "f.W m.W h.P", "f.X e.X m.X",
        "f.W h.W m.P", "l.P m.P r.P h.W", "h.W m.X f.W",
        "o.W m.X h.X", "o.X m.X h.X", "t.X m.X h.X", "t.W m.X h.P", "f.W e.X m.X h.P",
        "m-1.W m.W h.P", "f.W f+1.X m.X h.X", "m.4 h.W", "h.4 m.W", "m-1.X m.X h.X h+1.X",
    ]
)  # fmt: skip


def _with_property(letter: str) -> Templates:
    """The templates of second order with another property instead of words."""
    parts = {"arc": _ARC, "last": _LAST, "none": _NONE, "sibling": _SIBLING, "grand": _GRAND}
    swapped = {
        kind: dict.fromkeys(text.replace(".W", f".{letter}") for text in texts)
        for kind, texts in parts.items()
    }
    return parse_templates(**swapped)


MEMBERS = {
    "words": (2, SECOND),
    "endings": (2, _with_property("4")),
    "forms": (2, _with_property("L")),
}
