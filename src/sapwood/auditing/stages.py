"""Stages that the audits of phrases and of dependencies share: folds, parts by sentence, notes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from sapwood.auditing.combine import (
    estimate_error_rate,
    expected_precision,
    planted_like_rate,
)
from sapwood.auditing.findings import N_FIRST, Elsewhere, Finding, Trust, finding_id
from sapwood.auditing.folds import FinishedFolds, assign_folds, document_starts
from sapwood.auditing.nuclei import Nuclei, Span
from sapwood.auditing.scoring import Scored, precision_at_planted
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import CorpusError, count
from sapwood.core.progress import step

T = TypeVar("T")
MOST_ELSEWHERE = 10  # other places that a finding lists


class Located(Protocol):
    """A sentence with its place."""

    @property
    def file(self) -> str:
        """The name of its file."""
        ...

    @property
    def line(self) -> int:
        """The line on which it starts."""
        ...

    @property
    def number(self) -> int:
        """Its number from 1, in the order read."""
        ...


class Division(NamedTuple):
    """The document and the fold of each sentence, and the kind of document."""

    documents: IntArray
    folds: IntArray
    what: str


def divide(marks: Sequence[Sequence[int]], sizes: Sequence[int], n_folds: int) -> Division:
    """Divide sentences into folds of whole documents.

    Parameters
    ----------
    marks
        Candidates for the first sentences of documents; see `document_starts`.
    sizes
        Number of words of each sentence.
    """
    starts, what = document_starts(marks, len(sizes), n_folds)
    documents = np.searchsorted(starts, np.arange(len(sizes)), side="right") - 1
    return Division(documents, assign_folds(starts, sizes, n_folds)[documents], what)


class FoldJudge(NamedTuple, Generic[T]):
    """Judges the sentences of a fold by models of the others, and packs the judgements."""

    judge: Callable[[IntArray], Sequence[T]]
    pack: Callable[[Sequence[T]], bytes]
    unpack: Callable[[bytes], Sequence[T]]


def judge_folds(folds: IntArray, finished: FinishedFolds, judge: FoldJudge[T]) -> list[T]:
    """The judgements of all sentences, fold by fold; finished folds are read instead."""
    found: dict[int, T] = {}
    n_folds = int(folds.max()) + 1
    with step("folds", total=n_folds, unit="fold") as advance:
        for k in range(n_folds):
            inside = np.flatnonzero(folds == k)
            known = finished.load(k, judge.unpack)
            if known is None or len(known) != len(inside):
                known = judge.judge(inside)
                finished.keep(k, judge.pack(known))
            found.update(zip(inside.tolist(), known, strict=True))
            advance(k + 1)
    return [found[k] for k in range(len(folds))]


def rows_by_sentence(
    scored: Scored, expected: FloatArray, shown: float
) -> list[tuple[int, list[int]]]:
    """Sentences by their best edit, each with the rows of its edits that are worth showing.

    Parameters
    ----------
    shown
        Least expected precision of a row, relative to that of the best one of its sentence.
    """
    rows: dict[int, list[int]] = defaultdict(list)
    for row in np.argsort(-scored.scores, kind="stable").tolist():
        rows[int(scored.clean.sentence[row])].append(row)
    return [
        (k, [r for r in mine if expected[r] >= shown * expected[mine[0]]])
        for k, mine in rows.items()
    ]


def places_elsewhere(
    nuclei: Nuclei, sentences: Sequence[Located], k: int, span: Span, here: str
) -> tuple[Elsewhere, ...]:
    """Other places with the words of a span, those that are annotated otherwise first."""
    others = nuclei.others(k, *span, last=here, most=MOST_ELSEWHERE)
    return tuple(
        Elsewhere(one.file, one.line, one.number, annotation)
        for number, _, annotation in others
        for one in [sentences[number]]
    )


def unreadable_findings(skipped: Iterable[CorpusError], n: int) -> list[Finding]:
    """Sentences that could not be read, as findings after n others."""
    return [
        Finding(
            n + place, error.file or "", error.line or 0, 0, 0, 0, "unreadable", None, None, 0.0,
            0.0, 1.0, finding_id(error.file or "", error.line or 0, [], str(error), ""),
            annotated_tree="", suggested_tree=error.message,
        )
        for place, error in enumerate(skipped, 1)
    ]  # fmt: skip


def expect(
    scored: Scored,
    n_nodes: int,
    given: float | None,
    repeated: int,
    different: int,
    *,
    is_limited: bool = False,
) -> tuple[FloatArray, float]:
    """The expected precision down to each candidate, and the error rate that is assumed.

    Parameters
    ----------
    n_nodes
        Number of annotations of the treebank.
    given
        The error rate, if the user gives it.
    repeated, different
        Annotations in passages that occur twice, and those of them that differ.
    is_limited
        As `expected_precision` takes it.
    """
    planted = scored.planted_scores()
    rate = given
    if rate is None:
        by_repetition = estimate_error_rate(repeated, different)
        rate = max(by_repetition, planted_like_rate(scored.scores, planted[0], n_nodes))
    found = expected_precision(scored.scores, *planted, n_nodes, rate, is_limited=is_limited)
    return found, rate


def audit_notes(
    division: tuple[str, int], nuclei: Nuclei, scored: Scored, trust: Trust, nouns: tuple[str, str]
) -> tuple[str, ...]:
    """Limits of the audit and their reasons, in whole sentences.

    Parameters
    ----------
    division
        The kind of document, and the number of files.
    nouns
        The audited unit, in the singular, and its annotations, in the plural.
    """
    (documents, n_files), (noun, annotations) = division, nouns
    notes = []
    if trust.precision_at_100 is None:
        n = trust.planted // len(scored.copies)
        shown = (
            f"of the first {n} places of a copy with {n} planted errors, "
            f"{precision_at_planted(scored):.0%} were planted errors, and "
            f"{trust.recall['all']:.0%} of these were among twice as many places."
            if n
            else "most copies of them have no planted error at all."
        )
        notes.append(
            f"{count(trust.trees, noun)} are too few for a list that can be trusted: {shown} The "
            f"precision among the first {N_FIRST} is not known."
        )
    if documents != "documents":
        why = (
            f"{n_files} files are too few for {trust.folds} folds of whole documents"
            if n_files > 1
            else "No documents are marked"
        )
        notes.append(
            f"{why}, so that folds are made of {documents}: neighbours on both "
            "sides of a border may be alike, and the models look a little better than they are."
        )
    if not any(nuclei.repeated):
        notes.append(
            "No words are repeated in the same context, so that nothing can be compared with other "
            "places."
        )
    if trust.repeated is not None and trust.repeated < N_FIRST:
        few = f"Only {trust.repeated:,}" if trust.repeated else "No"
        notes.append(
            f"{few} {annotations} stand in passages that occur twice, so that the error rate is "
            "mostly assumed."
        )
    return tuple(notes)


def require_sentences(n: int, least: int, noun: str, skipped: Sequence[CorpusError]) -> None:
    """Refuse to audit fewer sentences than models can be learnt from.

    Parameters
    ----------
    skipped
        The errors of sentences that could not be read.
    """
    if n >= least:
        return
    msg = f"an audit needs at least {least} {noun}s, but there are {n}"
    if skipped:
        msg += f", beside {len(skipped):,} that cannot be read (the first: {skipped[0]})"
    raise CorpusError(msg, hint=f"models that judge a {noun} are learnt from the others")
