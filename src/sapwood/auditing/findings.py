"""Findings of an audit: places of a treebank whose annotation is probably wrong, and their JSON.

One sentence is one finding. Its parts are the places in it; the finding has the numbers of its
best part. Start and end are words, half open, counted from 0; trees are counted from 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

AUDIT_VERSION = 1  # of the JSON
N_FIRST = 100  # findings whose precision is reported


@dataclass(frozen=True)
class Part:
    """One place of a sentence where the annotation is probably wrong.

    Attributes
    ----------
    start, end
        Words of the place.
    kind
        Such as `label`, `tag`, `boundary`, `missing`, `extra`, `variation`, `head`, `relation`.
    annotated, suggested
        Labels in the treebank and labels that models suggest; None for no bracket.
    p_annotated, p_suggested
        Probability that the place is as annotated, and as suggested, by models that have not
        learnt from the document.
    expected_precision
        Expected fraction of real errors among this part and all parts that rank higher.
    score
        Log-odds by which parts are ranked.
    edit
        What accepting the part changes, as plain data: brackets, or heads, relations and a tag.
    """

    start: int
    end: int
    kind: str
    annotated: str | None
    suggested: str | None
    p_annotated: float
    p_suggested: float
    expected_precision: float
    score: float = 0.0
    edit: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Elsewhere:
    """Another place with the same words, and how it is annotated."""

    file: str
    line: int
    tree: int
    annotation: str


@dataclass(frozen=True)
class Finding:
    """A sentence with its suspected errors, best part first.

    The first fields are the place and the numbers of the best part, as `Part` has them.

    Attributes
    ----------
    id
        A hash of the place, the words, and the annotated and suggested tree: it is the same in
        every run that finds the same.
    annotated_tree, suggested_tree
        The sentence as it is in the treebank, and with all parts corrected: brackets, or the heads
        and relations of a dependency tree.
    elsewhere
        Other places with the same words as the best part, where these are annotated otherwise.
    """

    rank: int
    file: str
    line: int
    tree: int
    start: int
    end: int
    kind: str
    annotated: str | None
    suggested: str | None
    p_annotated: float
    p_suggested: float
    expected_precision: float
    id: str = ""
    words: tuple[str, ...] = ()
    annotated_tree: str = ""
    suggested_tree: str = ""
    parts: tuple[Part, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain data, numbers rounded as the JSON has them."""
        return dict(_rounded(asdict(self)))


@dataclass(frozen=True)
class Trust:
    """How an audit did on errors planted in this treebank.

    Attributes
    ----------
    planted
        Number of planted errors behind the numbers below.
    precision_at_100
        Fraction of planted errors among the first 100 parts of copies with planted errors; real
        errors there count as wrong, so that it is a lower bound. None where too few were planted.
    recall
        Fraction of the planted errors of each kind, and of `all`, among twice as many parts as
        errors were planted.
    error_rate
        Assumed fraction of brackets and tags (or of heads and relations) that are wrong.
    repeated
        Number of repeated brackets and tags by which the error rate was estimated; None where it
        was given.
    notes
        What could not be judged, in whole sentences.
    """

    trees: int = 0
    words: int = 0
    documents: int = 0
    folds: int = 0
    planted: int = 0
    planted_rate: float = 0.0
    precision_at_100: float | None = None
    recall: Mapping[str, float] = field(default_factory=dict)
    error_rate: float = 0.01
    repeated: int | None = None
    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The numbers as plain data, rounded as the JSON has them."""
        return dict(_rounded(asdict(self)))


@dataclass(frozen=True)
class Audit:
    """The findings of an audit, best first, and how far they can be trusted."""

    findings: tuple[Finding, ...]
    trust: Trust
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of each file

    def as_dict(self) -> dict[str, Any]:
        """The audit as plain data: the JSON of `sapwood audit --json`."""
        return {
            "sapwood": f"audit {AUDIT_VERSION}",
            "findings": [one.as_dict() for one in self.findings],
            "trust": self.trust.as_dict(),
            "files": dict(self.files),
        }


def finding_id(file: str, tree: int, words: Sequence[str], annotated: str, suggested: str) -> str:
    """A hash of a finding by its contents.

    Examples
    --------
    >>> finding_id("a.mrg", 1, ["dogs", "bark"], "(S x)", "(NP x)")
    '5c580fd07b1a'
    """
    text = "\0".join((file.rpartition("/")[2], str(tree), " ".join(words), annotated, suggested))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _rounded(item: Any) -> Any:
    if isinstance(item, float):
        return round(item, 4)
    if isinstance(item, dict):
        return {key: _rounded(value) for key, value in item.items()}
    return [_rounded(value) for value in item] if isinstance(item, (list, tuple)) else item
