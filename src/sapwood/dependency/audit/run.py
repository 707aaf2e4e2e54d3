"""The audit of a dependency treebank: cross-fitted posteriors, edits, planted errors, findings.

It follows the audit of constituents (`sapwood.constituency.audit`); heads, relations and tags take
the place of brackets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sapwood import __version__
from sapwood.auditing.combine import weight_of_planted
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
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.progress import counted
from sapwood.dependency.audit.contexts import AnnotatedWords, Contexts
from sapwood.dependency.audit.edits import KINDS, Edit, apply_edits, edits_between
from sapwood.dependency.audit.located import Annotation, LocatedSentence, LocatedSentences
from sapwood.dependency.audit.planting import Confusions, Planted, plant
from sapwood.dependency.audit.posteriors import (
    Judgement,
    judge_fold,
    pack_judgements,
    unpack_judgements,
)
from sapwood.dependency.audit.signals import (
    ArcFrequencies,
    Disagreements,
    Known,
    Scene,
    confusion_of,
    is_supported,
    label_frequency,
    posteriors_of,
    signals_of,
    span_elsewhere,
    spans_of,
    variation_edits,
)
from sapwood.dependency.data.transform import lift_heads
from sapwood.dependency.learn.crf import ArcCRF, ArcEnsemble
from sapwood.execute import Engine, Threads
from sapwood.networks.training import NetworkPlan


@dataclass(frozen=True)
class ArcAuditSettings:
    """Settings of an audit of dependency trees.

    Attributes
    ----------
    folds
        Parts of the treebank; each is judged by models learnt from the others.
    fast
        Whether the models are parsers by features of single arcs, in minutes; otherwise the parsers
        of `sapwood depend train`, a network among them.
    budget
        CPU seconds for all folds together; None trains all. Without meaning for a fast audit.
    seed
        Seed of the models and of the planted errors.
    error_rate
        Assumed fraction of wrong arcs and tags; None to estimate it from repeated passages.
    planted_rate
        Fraction of arcs and tags that are made wrong in each copy of the trees.
    planted_least
        Fewest errors to plant: small treebanks are copied more often.
    most_copies
        Most copies with planted errors.
    least_sentences
        Fewest sentences that are judged.
    shown
        Least expected precision, relative to that of the best part, of further parts of a finding.
    """

    folds: int = 5
    fast: bool = False
    budget: float | None = None
    seed: int = 0
    error_rate: float | None = None
    planted_rate: float = 0.02
    planted_least: int = 3000
    most_copies: int = 20
    least_sentences: int = 10
    shown: float = 0.5


@dataclass
class ArcEvidence:
    """Everything that is known of the sentences, whatever their annotation."""

    sentences: list[LocatedSentence]
    documents: IntArray  # of each sentence
    folds: IntArray  # of each sentence
    judgements: list[Judgement]
    counts: ArcFrequencies = field(init=False)
    nuclei: Nuclei = field(init=False)
    confusions: Confusions = field(init=False)
    disagreements: Disagreements = field(init=False)
    contexts: Contexts = field(init=False)

    def __post_init__(self) -> None:
        self.counts = ArcFrequencies(self.sentences, self.folds.tolist())
        self.spans = [spans_of(one.annotation) for one in self.sentences]
        self.nuclei = Nuclei([one.words for one in self.sentences], self.spans)
        self.disagreements = Disagreements(self.sentences, self.judgements)
        self.contexts = Contexts(self.sentences)
        self.confusions = Confusions()
        for one, judgement in zip(self.sentences, self.judgements, strict=True):
            self.confusions.add(one.annotation, judgement)

        self.known = Known(
            self.counts, self.nuclei, self.disagreements, self.contexts, self.confusions
        )

    @property
    def n_nodes(self) -> int:
        """Number of arcs and tags."""
        return 2 * sum(len(one.words) for one in self.sentences)

    def scene(self, k: int, annotation: Annotation | None = None) -> Scene:
        """A sentence with its own annotation, or with another."""
        one = self.sentences[k]
        annotation = annotation or one.annotation
        lifted = lift_heads(annotation.heads)
        return Scene(k, one.words, annotation, int(self.folds[k]), self.judgements[k], lifted)


def audit_sentences(
    located: LocatedSentences,
    settings: ArcAuditSettings | None = None,
    engine: Engine | None = None,
    work: Path | None = None,
) -> Audit:
    """Audit dependency trees: the findings, best first, and what planted errors show of them.

    Finished folds are kept in the folder `work`, if given, and an interrupted audit of the same
    sentences resumes with the remaining folds.
    """
    settings, engine = settings or ArcAuditSettings(), engine or Threads(1)
    evidence, documents = judge_all(located, settings, engine, work)
    return rank_findings(evidence, located, settings, documents)


def judge_all(
    located: LocatedSentences,
    settings: ArcAuditSettings,
    engine: Engine,
    work: Path | None = None,
) -> tuple[ArcEvidence, str]:
    """Posteriors of all sentences by models of other folds, and what documents are."""
    sentences = located.sentences
    require_sentences(len(sentences), settings.least_sentences, "sentence", located.skipped)
    marks = [located.document_starts, located.file_starts]
    lengths = [len(one.words) for one in sentences]
    parts = divide(marks, lengths, settings.folds)

    def judge_one(inside: IntArray) -> list[Judgement]:
        n_words = sum(lengths) - sum(lengths[k] for k in inside.tolist())
        learner = _learner(settings, engine, n_words)
        return list(judge_fold(sentences, inside, learner, engine))

    judge = FoldJudge(judge_one, pack_judgements, unpack_judgements)
    finished = finished_arc_folds(located, parts.documents, settings, work)
    judgements = judge_folds(parts.folds, finished, judge)
    return ArcEvidence(sentences, parts.documents, parts.folds, judgements), parts.what


def finished_arc_folds(
    located: LocatedSentences, documents: IntArray, settings: ArcAuditSettings, work: Path | None
) -> FinishedFolds:
    """The finished folds of an audit of these sentences with these settings."""
    sentences = ((one.words, one.xpos, one.annotation) for one in located.sentences)
    origin = {
        "Sapwood": __version__, "sentences": hash_items(sentences),
        "documents": hash_items(documents.tolist()), "folds": settings.folds,
        "plan": "first" if settings.fast else "best", "budget": settings.budget,
        "seed": settings.seed, "crossing arcs": "lifted",
    }  # fmt: skip
    return FinishedFolds(work, origin)


def _learner(settings: ArcAuditSettings, engine: Engine, n_words: int) -> ArcCRF | ArcEnsemble:
    """The learner of a fold; one network of few passes, since every fold trains its own."""
    jobs = engine.jobs_here
    if settings.fast:
        return ArcCRF(order=1, seed=settings.seed, n_jobs=jobs)
    budget = None if settings.budget is None else settings.budget / settings.folds
    passes = NetworkPlan.usual(n_words).passes
    return ArcEnsemble(
        budget=budget, networks=1, encoder_passes=passes, seed=settings.seed, n_jobs=jobs
    )


def candidates(
    evidence: ArcEvidence, settings: ArcAuditSettings, copy: int | None = None
) -> Candidates:
    """Edits of all sentences with their signals: of the trees, or of a copy with planted errors.

    Of a copy, edits that nothing was planted for and that all other places with the same words
    support are left out: many are real inconsistencies, and would teach that these are none.
    """
    sentence, edits, x, y = list[int](), list[Edit](), list[list[float]](), list[float]()
    confusions = list[tuple[str, str, str]]()
    rows, kinds, weights = list[int](), list[str](), list[float]()
    for k, one in enumerate(counted(evidence.sentences, unit="sentence")):
        judgement = evidence.judgements[k]
        annotation, planted = one.annotation, list[Planted]()
        if copy is not None:
            rng = np.random.default_rng([settings.seed, copy, k])
            annotation, planted = plant(
                annotation, judgement, evidence.confusions, settings.planted_rate, rng
            )
        scene = evidence.scene(k, annotation)
        found = edits_between(one.words, annotation, judgement, scene.lifted)
        found = [edit for edit in found if not _is_usual_crossing(evidence, scene, edit)]
        found += variation_edits(k, annotation, found, evidence.nuclei)
        if copy is not None:
            found = [
                edit for edit in found
                if any(error.is_hit(edit) for error in planted)
                or not is_supported(k, annotation, edit, evidence.nuclei)
            ]  # fmt: skip
        hits = [[error.is_hit(edit) for edit in found] for error in planted]
        kinds += [error.kind for error in planted]
        weights += [
            weight_of_planted(error.probability(annotation, judgement)) for error in planted
        ]
        rows += [len(edits) + hit.index(True) if True in hit else -1 for hit in hits]
        y += [float(any(hit[e] for hit in hits)) for e in range(len(found))]
        x += signals_of(scene, found, evidence.known)
        confusions += [confusion_of(annotation, edit) for edit in found]
        sentence += [k] * len(found)
        edits += found
    return Candidates(
        np.array(sentence, np.int64), edits, confusions,
        np.array(x, float).reshape(len(edits), -1 if edits else 0), np.array(y), rows, kinds,
        weights,
    )  # fmt: skip


def _is_usual_crossing(evidence: ArcEvidence, scene: Scene, edit: Edit) -> bool:
    """Whether an edit would only lift an arc that usually crosses others."""
    k = edit.words[0]
    is_lifted = scene.lifted[k - 1] == edit.heads[0] if edit.kind == "head" else False
    if not is_lifted or len(edit.words) > 1:
        return False
    here = AnnotatedWords.of(scene.words, scene.annotation, scene.lifted)
    return evidence.contexts.is_usual_crossing(scene.number, here, k)


def score_arc_edits(evidence: ArcEvidence, settings: ArcAuditSettings) -> Scored:
    """Score all candidates by combiners that were learnt from planted errors elsewhere."""
    per_copy = max(1.0, settings.planted_rate * evidence.n_nodes)
    n = int(np.clip(np.ceil(settings.planted_least / per_copy), 1, settings.most_copies))
    return score_candidates(
        lambda copy: candidates(evidence, settings, copy), n, evidence.documents,
        label_frequency([one.annotation for one in evidence.sentences]), KINDS,
    )  # fmt: skip


def rank_findings(
    evidence: ArcEvidence,
    located: LocatedSentences,
    settings: ArcAuditSettings,
    documents: str,
    scored: Scored | None = None,
) -> Audit:
    """The findings of sentences that have been judged, and scored if they have been."""
    scored = scored or score_arc_edits(evidence, settings)
    precision, recall, n_planted = measure(scored)
    words = [one.words for one in evidence.sentences]
    repeated, different = count_differences(words, evidence.spans)
    # judged findings of English EWT: without the limit twice as many were expected as were real
    expected, rate = expect(
        scored, evidence.n_nodes, settings.error_rate, repeated, different, is_limited=True
    )
    trust = Trust(
        trees=len(words), words=sum(map(len, words)), documents=int(evidence.documents[-1]) + 1,
        folds=settings.folds, planted=n_planted, planted_rate=settings.planted_rate,
        precision_at_100=precision, recall=recall, error_rate=rate,
        repeated=repeated if settings.error_rate is None else None,
        models=("first",) if settings.fast else ("best",),
    )  # fmt: skip
    notes = audit_notes(
        (documents, len(located.file_starts)), evidence.nuclei, scored, trust,
        ("sentence", "arcs and tags"),
    )  # fmt: skip
    found = [
        _finding(place, k, rows, evidence, scored, expected)
        for place, (k, rows) in enumerate(rows_by_sentence(scored, expected, settings.shown), 1)
    ]
    found += unreadable_findings(located.skipped, len(found))
    return Audit(tuple(found), replace(trust, notes=notes), located.files)


def _finding(
    rank: int,
    k: int,
    rows: list[int],
    evidence: ArcEvidence,
    scored: Scored,
    expected: FloatArray,
) -> Finding:
    one, scene = evidence.sentences[k], evidence.scene(k)
    rows = _compatible(rows, scored)
    edits = [scored.clean.edits[row] for row in rows]
    parts = []
    for row, edit in zip(rows, edits, strict=True):
        (start, end), (old, new) = edit.span, posteriors_of(scene, edit)
        numbers = old, new, float(expected[row]), float(scored.scores[row])
        parts.append(Part(start, end, edit.kind, edit.old, edit.new, *numbers, edit.as_dict()))
    suggested = apply_edits(one.annotation, edits)
    trees = str(one.arcs()), str(one.arcs(suggested))
    first = parts[0]
    return Finding(
        rank, one.file, one.line, one.number, first.start, first.end, first.kind, first.annotated,
        first.suggested, first.p_annotated, first.p_suggested, first.expected_precision,
        finding_id(one.file, one.number, one.words, *trees), one.words, *trees, tuple(parts),
        _elsewhere(k, edits[0], evidence),
    )  # fmt: skip


def _compatible(rows: list[int], scored: Scored) -> list[int]:
    """Drop rows that change the tag or the arc of a word that an earlier row changes."""
    taken, kept = set[tuple[bool, int]](), []
    for row in rows:
        edit = scored.clean.edits[row]
        mine = {(edit.is_tag, word) for word in edit.words}
        if not mine & taken:
            taken |= mine
            kept.append(row)
    return kept


def _elsewhere(k: int, edit: Edit, evidence: ArcEvidence) -> tuple[Elsewhere, ...]:
    """Other occurrences of the same words, differently annotated ones first."""
    span = span_elsewhere(evidence.sentences[k].annotation, edit)
    if span is None:
        return ()
    here = evidence.spans[k].get(span, NIL)
    return places_elsewhere(evidence.nuclei, evidence.sentences, k, span, here)
