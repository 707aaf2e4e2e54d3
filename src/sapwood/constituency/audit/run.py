"""The audit of a treebank: cross-fitted posteriors, candidates, planted errors, ranked findings.

trees -> folds of documents -> posteriors by models of the other folds
      -> edits where annotation and best tree differ -> signals -> score
copies with planted errors -> the same edits and signals -> combiner, expected precision
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sapwood import __version__
from sapwood.auditing.combine import (
    weight_of_planted,
)
from sapwood.auditing.findings import Audit, Elsewhere, Finding, Part, Trust, finding_id
from sapwood.auditing.folds import FinishedFolds, hash_items
from sapwood.auditing.nuclei import NIL, Nuclei, count_differences
from sapwood.auditing.scoring import Candidates, Scored, measure, score_candidates
from sapwood.auditing.stages import (
    FoldJudge,
    audit_notes,
    divide,
    expect,
    judge_folds,
    places_elsewhere,
    require_sentences,
    rows_by_sentence,
    unreadable_findings,
)
from sapwood.constituency.audit.located import LocatedTree, LocatedTrees, as_brackets
from sapwood.constituency.audit.parts import KINDS, Edit, apply_edits, crosses, edits_between
from sapwood.constituency.audit.planting import Confusions, Planted, plant_in_tree
from sapwood.constituency.audit.posteriors import (
    FAST_PLAN,
    Judgement,
    Labels,
    judge_fold_of_trees,
    pack,
    unpack,
)
from sapwood.constituency.audit.signals import (
    TREE_SIGNALS,
    FoldCounts,
    Posterior,
    Sentence,
    signals_of,
    spans_of,
    variation_edits,
)
from sapwood.constituency.learn.ensemble import EnsembleLPCFG
from sapwood.constituency.learn.ensemble_budget import Candidate
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import count
from sapwood.core.progress import counted
from sapwood.execute import Engine, Threads


@dataclass(frozen=True)
class AuditSettings:
    """Settings of an audit.

    Attributes
    ----------
    folds
        Parts of the treebank; each is judged by models learnt from the others.
    fast
        Whether only grammars are learnt, in minutes; otherwise the mix of `sapwood train`.
    plan
        The grammars of a fast audit.
    budget
        CPU seconds for all folds together; None for the default of each. Without meaning for a
        fast audit.
    seed
        Seed of the models and of the planted errors.
    error_rate
        Assumed fraction of wrong brackets and tags; None to estimate it from repeated passages.
    planted_rate
        Fraction of brackets and tags that are made wrong in each copy of the trees.
    planted_least
        Fewest errors to plant: small treebanks are copied more often.
    planted_most
        Errors to plant, about: in a large treebank only every so-many-th document is copied.
    most_copies
        Most copies with planted errors.
    least_trees
        Fewest trees that are judged.
    shown
        Least expected precision, relative to that of the best part, of further parts of a finding.
    """

    folds: int = 5
    fast: bool = False
    plan: tuple[Candidate, ...] = FAST_PLAN
    budget: float | None = None
    seed: int = 0
    error_rate: float | None = None
    planted_rate: float = 0.02
    planted_least: int = 3000
    planted_most: int = 12_000
    most_copies: int = 20
    least_trees: int = 10
    shown: float = 0.5


@dataclass
class Evidence:
    """Everything that is known of the sentences, whatever their annotation."""

    trees: Sequence[LocatedTree]
    documents: IntArray  # of each tree
    folds: IntArray  # of each tree
    judgements: Sequence[Judgement]
    labels: Labels
    counts: FoldCounts = field(init=False)
    nuclei: Nuclei = field(init=False)
    confusions: Confusions = field(init=False)

    def __post_init__(self) -> None:
        annotations = [tree.annotation for tree in self.trees]
        words = [tree.words for tree in self.trees]
        self.counts = FoldCounts(annotations, words, self.folds.tolist())
        self.spans = [spans_of(annotation) for annotation in annotations]
        self.nuclei = Nuclei(words, self.spans)
        self.confusions = Confusions()
        for tree, judgement in zip(self.trees, self.judgements, strict=True):
            self.confusions.add(tree.annotation, judgement, self.labels.names)

    @property
    def n_nodes(self) -> int:
        """Number of brackets and tags."""
        return sum(map(self.n_nodes_of, range(len(self.trees))))

    def n_nodes_of(self, k: int) -> int:
        """Number of brackets and tags of one tree."""
        annotation = self.trees[k].annotation
        return len(annotation.tags) + len(annotation.brackets)


def audit_trees(
    located: LocatedTrees,
    settings: AuditSettings | None = None,
    engine: Engine | None = None,
    work: Path | None = None,
) -> Audit:
    """Audit a treebank: its findings, best first, and what planted errors show of them.

    Finished folds are kept in the folder `work`, if given, and an interrupted audit of the same
    trees continues with the others.
    """
    settings, engine = settings or AuditSettings(), engine or Threads(1)
    evidence, documents = judge_trees(located, settings, engine, work)
    return audit_evidence(evidence, located, settings, documents)


def judge_trees(
    located: LocatedTrees, settings: AuditSettings, engine: Engine, work: Path | None = None
) -> tuple[Evidence, str]:
    """Posteriors of all sentences by models of other folds, and what documents are."""
    trees = located.trees
    require_sentences(len(trees), settings.least_trees, "tree", located.skipped)
    marks = [located.file_starts, located.group_starts]
    parts = divide(marks, [len(tree.words) for tree in trees], settings.folds)
    labels = Labels()

    def judge_one(inside: IntArray) -> list[Judgement]:
        return judge_fold_of_trees(trees, inside, _learner(settings, engine), engine, labels)

    judge = FoldJudge(
        judge_one, lambda known: pack(known, labels), lambda data: unpack(data, labels)
    )
    finished = finished_folds(located, parts.documents, settings, work)
    judgements = judge_folds(parts.folds, finished, judge)
    return Evidence(trees, parts.documents, parts.folds, judgements, labels), parts.what


def finished_folds(
    located: LocatedTrees, documents: IntArray, settings: AuditSettings, work: Path | None
) -> FinishedFolds:
    """The finished folds of an audit of these trees with these settings."""
    trees = ((tree.words, tree.annotation) for tree in located.trees)
    origin = {
        "Sapwood": __version__, "trees": hash_items(trees),
        "documents": hash_items(documents.tolist()), "folds": settings.folds,
        "plan": list(map(str, settings.plan)) if settings.fast else "best",
        "budget": settings.budget, "seed": settings.seed,
    }  # fmt: skip
    return FinishedFolds(work, origin)


def _learner(settings: AuditSettings, engine: Engine) -> EnsembleLPCFG:
    budget: Any = None if settings.fast else "auto"
    if settings.budget is not None and not settings.fast:
        budget = settings.budget / settings.folds
    return EnsembleLPCFG(
        plan=settings.plan if settings.fast else None, budget=budget, seed=settings.seed,
        n_jobs=engine.jobs_here,
    )  # fmt: skip


def tree_candidates(
    evidence: Evidence,
    settings: AuditSettings,
    numbers: Sequence[int],
    copy: int | None = None,
) -> Candidates:
    """Edits of some sentences with their signals: of the trees, or of a copy with errors."""
    sentence, edits, rows, y = [], list[Edit](), list[list[float]](), list[float]()
    planted_rows, kinds, weights = list[int](), list[str](), list[float]()
    for k in counted(numbers, unit="tree"):
        tree = evidence.trees[k]
        posterior = Posterior(evidence.judgements[k], evidence.labels.names)
        annotation, planted = tree.annotation, list[Planted]()
        if copy is not None:
            rng = np.random.default_rng([settings.seed, copy, k])
            annotation, planted = plant_in_tree(
                annotation, evidence.confusions, settings.planted_rate, rng
            )
        one = Sentence(k, tree.words, annotation, int(evidence.folds[k]))
        found = edits_between(annotation, posterior.best) if posterior.best else []
        found += variation_edits(one, found, evidence.nuclei)
        signals = signals_of(one, found, posterior, evidence.counts, evidence.nuclei)
        first = len(edits)
        hits = [[error.is_hit(edit) for edit in found] for error in planted]
        kinds += [error.kind for error in planted]
        weights += [
            weight_of_planted(
                error.probability(posterior.tags if error.kind == "tag" else posterior.brackets)
            )
            for error in planted
        ]
        planted_rows += [first + hit.index(True) if True in hit else -1 for hit in hits]
        y += [float(any(hit[e] for hit in hits)) for e in range(len(found))]
        sentence += [k] * len(found)
        edits += found
        rows += signals
    x = np.array(rows, float).reshape(len(edits), len(TREE_SIGNALS))
    confusions = [(e.kind, e.old or e.new or "", e.new or e.old or "") for e in edits]
    return Candidates(
        np.array(sentence, np.int64), edits, confusions, x, np.array(y), planted_rows, kinds,
        weights,
    )  # fmt: skip


def score_edits(evidence: Evidence, settings: AuditSettings) -> Scored:
    """Score all candidates by combiners that were learnt from planted errors elsewhere."""
    copied, part = _copied_trees(evidence, settings)
    nodes = sum(evidence.n_nodes_of(k) for k in copied)
    n = int(np.ceil(settings.planted_least / max(1.0, settings.planted_rate * nodes)))
    frequency: Counter[str] = Counter()
    for tree in evidence.trees:
        frequency.update(tree.annotation.tags)
        frequency.update(label for label, _, _ in tree.annotation.brackets)

    def of(copy: int | None) -> Candidates:
        numbers = range(len(evidence.trees)) if copy is None else copied
        return tree_candidates(evidence, settings, numbers, copy)

    return score_candidates(of, min(max(n, 1), settings.most_copies), part, frequency, KINDS)


def _copied_trees(evidence: Evidence, settings: AuditSettings) -> tuple[list[int], IntArray]:
    """Trees that errors are planted in, and the part of every tree in cross-fitting.

    Documents are taken as a whole, every so-many-th of a large treebank; of these, every second one
    is in the same part.
    """
    every = max(1, int(settings.planted_rate * evidence.n_nodes // settings.planted_most))
    document = evidence.documents
    copied = np.flatnonzero(document % every == 0).tolist()
    return copied, (document // every) % 2


def audit_evidence(
    evidence: Evidence, located: LocatedTrees, settings: AuditSettings, documents: str
) -> Audit:
    """The findings of trees whose sentences have been judged."""
    scored = score_edits(evidence, settings)
    precision, recall, n_planted = measure(scored)
    words = [tree.words for tree in evidence.trees]
    repeated, different = count_differences(words, evidence.spans)
    expected, rate = expect(scored, evidence.n_nodes, settings.error_rate, repeated, different)
    trust = Trust(
        trees=len(evidence.trees), words=sum(map(len, words)),
        documents=int(evidence.documents[-1]) + 1, folds=settings.folds, planted=n_planted,
        planted_rate=settings.planted_rate, precision_at_100=precision, recall=recall,
        error_rate=rate, repeated=repeated if settings.error_rate is None else None,
        models=tuple(map(str, settings.plan)) if settings.fast else ("best",),
    )  # fmt: skip
    notes = audit_notes(
        (documents, len(located.file_starts)), evidence.nuclei, scored, trust,
        ("tree", "brackets and tags"),
    )  # fmt: skip
    findings = [
        _finding(rank, k, rows, evidence, scored, expected)
        for rank, (k, rows) in enumerate(rows_by_sentence(scored, expected, settings.shown), 1)
    ]
    findings += unreadable_findings(located.skipped, len(findings))
    if n := sum(judgement.best is None for judgement in evidence.judgements):
        note = "could not be parsed, and only words that are annotated differently elsewhere are"
        notes += (f"{count(n, 'sentence')} {note} findings there.",)
    trust = replace(trust, notes=notes)
    return Audit(tuple(findings), trust, located.files)


def _finding(
    rank: int, k: int, rows: list[int], evidence: Evidence, scored: Scored, expected: FloatArray
) -> Finding:
    tree, edits = evidence.trees[k], scored.clean.edits
    posterior = Posterior(evidence.judgements[k], evidence.labels.names)
    best = posterior.best or tree.annotation
    suggested, parts, taken = tree.annotation, list[Part](), list[Edit]()
    for row in rows:
        edit = edits[row]
        changed = apply_edits(tree.annotation, best, [*taken, edit])
        if any(crosses(a, b) for a in edit.added for b in changed.brackets) and not edit.is_tag:
            continue  # what two parts suggest does not fit into one tree
        suggested = changed
        taken.append(edit)
        start, end = edit.span
        parts.append(
            Part(
                start, end, edit.kind, edit.old, edit.new, posterior.annotated(edit),
                posterior.suggested(edit), float(expected[row]), float(scored.scores[row]),
                edit.as_dict(),
            )
        )  # fmt: skip
    first = parts[0]
    trees = str(as_brackets(tree.words, tree.annotation)), str(as_brackets(tree.words, suggested))
    return Finding(
        rank, tree.file, tree.line, tree.number, first.start, first.end, first.kind,
        first.annotated, first.suggested, first.p_annotated, first.p_suggested,
        first.expected_precision, finding_id(tree.file, tree.number, tree.words, *trees),
        tree.words, *trees, tuple(parts), _elsewhere(k, edits[rows[0]], evidence),
    )  # fmt: skip


def _elsewhere(k: int, edit: Edit, evidence: Evidence) -> tuple[Elsewhere, ...]:
    """Other places with the same words, those that are annotated otherwise first."""
    here = evidence.spans[k].get(edit.span, NIL)
    return places_elsewhere(evidence.nuclei, evidence.trees, k, edit.span, here)
