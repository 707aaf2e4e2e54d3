"""Signals of errors in dependency trees: what models, counts and repeated words say of an edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

import numpy as np

from sapwood.auditing.nuclei import NIL, Nuclei, Span
from sapwood.dependency.audit.contexts import AnnotatedWords, Contexts
from sapwood.dependency.audit.edits import (
    Edit,
    edits_between,
    p_head,
    relation_edit,
    tag_edit,
)
from sapwood.dependency.audit.located import Annotation, LocatedSentence
from sapwood.dependency.audit.planting import Confusions
from sapwood.dependency.audit.posteriors import Judgement

_FLOOR = 1e-3  # least posterior, in logs
REACH = 3  # words around an edit that are looked at
LEAST_SUPPORT = 2  # other places
# Relations of which a head has one; outer subjects come beside another.
_ROLES = {
    "nsubj": "subject", "nsubj:pass": "subject", "csubj": "subject", "csubj:pass": "subject",
    "obj": "object", "iobj": "indirect object", "cop": "copula",
}  # fmt: skip
LONGEST = 8  # words of a pair that is compared with other places


class ArcFrequencies:
    """How often arcs and tags are annotated, in all folds but one.

    Parameters
    ----------
    sentences, folds
        The sentences, and the fold of each.
    """

    def __init__(self, sentences: Sequence[LocatedSentence], folds: Sequence[int]) -> None:
        self.everywhere: Counter[tuple[str, ...]] = Counter()
        self.of_fold: dict[int, Counter[tuple[str, ...]]] = {}
        for one, fold in zip(sentences, folds, strict=True):
            here = self.of_fold.setdefault(fold, Counter())
            keys = [
                key for k in range(len(one.words)) for key in arc_keys(one.words, one.annotation, k)
            ]
            here.update(keys)
            self.everywhere.update(keys)

    def outside(self, key: tuple[str, ...], fold: int) -> int:
        """How often something is annotated outside a fold."""
        return self.everywhere[key] - self.of_fold[fold][key]

    def log_ratio(self, key: tuple[str, ...], without: tuple[str, ...], fold: int) -> float:
        """Logarithm of the frequency of something among all with the same context."""
        return log((self.outside(key, fold) + 0.1) / (self.outside(without, fold) + 1.0))


def arc_keys(words: Sequence[str], annotation: Annotation, k: int) -> list[tuple[str, ...]]:
    """What is counted of a word: its tag, its relation by tags, and its relation by words."""
    word = words[k]
    below, above, side, relation, head = _arc(words, annotation, k)
    return [
        ("word", word), ("word tag", word, annotation.upos[k]),
        ("tags", below, above, side), ("tags relation", below, above, side, relation),
        ("below", below), ("below above", below, above, side),
        ("words", word, head), ("words relation", word, head, relation),
    ]  # fmt: skip


def _arc(words: Sequence[str], annotation: Annotation, k: int) -> tuple[str, str, str, str, str]:
    """Tags of a word and its head, the side of the head, the relation, and the head's word."""
    head = annotation.heads[k]
    above = annotation.upos[head - 1] if head else "ROOT"
    form = words[head - 1] if head else "ROOT"
    return annotation.upos[k], above, "<" if head > k else ">", annotation.relations[k], form


class Disagreements:
    """Counts of the changes that models suggest over all sentences, by kind of change.

    What models change at most places where a word is annotated so is their bias, or a convention of
    the treebank, rather than an error: prepositions that are stranded behind their clause, or a
    fixed phrase.

    Parameters
    ----------
    sentences, judgements
        The sentences, and what models make of each.
    """

    def __init__(
        self, sentences: Sequence[LocatedSentence], judgements: Sequence[Judgement]
    ) -> None:
        self.changes: Counter[tuple[str, ...]] = Counter()
        self.annotated: Counter[tuple[str, ...]] = Counter()
        self.confused: Counter[tuple[str, str, str]] = Counter()
        self._own: list[set[tuple[int, tuple[str, ...]]]] = []
        for one, judgement in zip(sentences, judgements, strict=True):
            edits = edits_between(one.words, one.annotation, judgement)
            changes = [
                (edit.words[0], keys[1]) for edit in edits
                for keys in change_keys(one.words, one.annotation, edit)
            ]  # fmt: skip
            self._own.append(set(changes))
            self.confused.update(confusion_of(one.annotation, edit) for edit in edits)
            self.changes.update(key for _, key in changes)
            for k in range(len(one.words)):
                self.annotated.update(annotation_keys(one.words, one.annotation, k))

    def signals(self, scene: Scene, edit: Edit) -> list[float]:
        """Fraction of other occurrences of the annotation that models would change in this way."""
        found = []
        for old, change in change_keys(scene.words, scene.annotation, edit):
            is_own = (edit.words[0], change) in self._own[scene.number]
            n, total = self.changes[change] - is_own, self.annotated[old] - is_own
            found += [log((n + 0.1) / (max(total, n) + 1.0)), log(1 + n)]
        return found


def confusion_of(annotation: Annotation, edit: Edit) -> tuple[str, str, str]:
    """The confusion of an edit: the old and the new tag or relation."""
    if edit.tag is not None:
        return "tag", edit.old, edit.tag
    kind = "head" if edit.kind == "head" else "relation"
    return kind, annotation.relations[edit.words[0] - 1], edit.relations[0]


def annotation_keys(words: Sequence[str], annotation: Annotation, k: int) -> list[tuple[str, ...]]:
    """What a word is annotated as: its tag, its relation, and its arc with the side of the head."""
    word, (upos, above, side, relation, _) = words[k].lower(), _arc(words, annotation, k)
    return [
        ("tag", word, upos), ("tag", "", upos),
        ("relation", word, relation), ("relation", f"{upos} {above}", relation),
        ("head", word, relation, side), ("head", upos, relation, side),
    ]  # fmt: skip


def change_keys(
    words: Sequence[str], annotation: Annotation, edit: Edit
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Keys of the change of an edit's first word: for its form, and for all words alike."""
    k = edit.words[0] - 1
    kind = "tag" if edit.is_tag else "head" if edit.kind == "head" else "relation"
    changed = _edit_first_word(annotation, edit, k)
    before = [key for key in annotation_keys(words, annotation, k) if key[0] == kind]
    after = [key for key in annotation_keys(words, changed, k) if key[0] == kind]
    return [(old, (*old, *new[2:])) for old, new in zip(before, after, strict=True)]


def spans_of(annotation: Annotation) -> dict[Span, str]:
    """Annotations as nuclei take them: tags of words, and relations over pairs of words.

    The pair of a word and its head is the span between them; `>` is a head on the left.
    """
    spans: dict[Span, str] = {(k, k + 1): tag for k, tag in enumerate(annotation.upos)}
    for k, (head, relation) in enumerate(
        zip(annotation.heads, annotation.relations, strict=True), 1
    ):
        if head and abs(head - k) < LONGEST:
            low, high = min(head, k), max(head, k)
            spans[low - 1, high] = f"{relation} {'>' if head < k else '<'}"
    return spans


def pair_of(word: int, head: int) -> Span | None:
    """The span of a word and its head; None if it is too long or the head is the root."""
    if not head or abs(head - word) >= LONGEST:
        return None
    return min(word, head) - 1, max(word, head)


def variation_edits(
    number: int, annotated: Annotation, edits: Sequence[Edit], nuclei: Nuclei
) -> list[Edit]:
    """Edits to the tags and relations that most other occurrences of the words have.

    Only of words that no other edit is about.
    """
    taken_tags = {edit.words[0] for edit in edits if edit.is_tag}
    taken = {word for edit in edits if not edit.is_tag for word in edit.words}
    found = []
    repeated = {place.span for place in nuclei.repeated[number]}
    for k, head in enumerate(annotated.heads, 1):
        if k not in taken_tags and (k - 1, k) in repeated:
            most = _majority(nuclei.counts(number, k - 1, k), annotated.upos[k - 1])
            if most is not None and most != NIL:
                found.append(tag_edit("variation", k, annotated, most))
        span = pair_of(k, head)
        if k in taken or span is None or span not in repeated:
            continue
        side = ">" if head < k else "<"
        most = _majority(nuclei.counts(number, *span), f"{annotated.relations[k - 1]} {side}")
        if most is not None and most.endswith(f" {side}"):
            found.append(relation_edit("variation", k, annotated, most.split(" ")[0]))
    return found


def _majority(others: Counter[str], here: str) -> str | None:
    """The annotation of most other occurrences, if it differs from this one."""
    if not others:
        return None
    most, n = max(others.items(), key=lambda item: (item[1], item[0]))
    return most if most != here and n > others[here] else None


class Scene(NamedTuple):
    """A sentence with an annotation, and all that is known of its words.

    Attributes
    ----------
    lifted
        The annotated heads of a projective tree, as `lift_heads` gives them.
    """

    number: int
    words: Sequence[str]
    annotation: Annotation
    fold: int
    judgement: Judgement
    lifted: Sequence[int]


def posteriors_of(scene: Scene, edit: Edit) -> tuple[float, float]:
    """Posteriors of the annotated and of the suggested value for the first word of an edit."""
    k, judgement = edit.words[0] - 1, scene.judgement
    if edit.tag is not None:
        tags = judgement.tags[k]
        return tags.get(scene.annotation.upos[k], 0.0), tags.get(edit.tag, 0.0)
    if edit.kind == "head":
        old = p_head(judgement, scene.annotation.heads, scene.lifted, k)
        return old, judgement.heads[k].get(edit.heads[0], 0.0)
    relations = judgement.relations_to(k, scene.lifted[k])
    return relations.get(scene.annotation.relations[k], 0.0), relations.get(edit.relations[0], 0.0)


class Known(NamedTuple):
    """What is known of a treebank besides the judgements of its sentences."""

    counts: ArcFrequencies
    nuclei: Nuclei
    disagreements: Disagreements
    contexts: Contexts
    confusions: Confusions


def signals_of(scene: Scene, edits: Sequence[Edit], known: Known) -> list[list[float]]:
    """The signals of each edit of a sentence."""
    if not edits:
        return []
    annotation, judgement = scene.annotation, scene.judgement
    heads = [
        _log(p_head(judgement, annotation.heads, scene.lifted, k))
        for k in range(len(annotation.heads))
    ]
    tags = [_log(judgement.tags[k].get(tag, 0.0)) for k, tag in enumerate(annotation.upos)]
    relations = [
        _log(found.get(annotation.relations[k], 0.0)) if found else 0.0
        for k, head in enumerate(scene.lifted)
        for found in [judgement.relations_to(k, head)]
    ]
    here = AnnotatedWords.of(scene.words, annotation, scene.lifted)
    rows = []
    in_contexts = known.contexts.signals(scene.number, here, edits)
    for edit, of_contexts in zip(edits, in_contexts, strict=True):
        k = edit.words[0] - 1
        old, new = posteriors_of(scene, edit)
        moved = {word - 1 for word in edit.words}
        rest = [value for w, value in enumerate(heads) if w not in moved]
        near = [w for w in range(max(0, k - REACH), min(len(heads), k + REACH + 1)) if w != k]
        of_word = judgement.tags[k] if edit.is_tag else judgement.heads[k]
        same, other = _elsewhere(scene, edit, known.nuclei)
        distance = abs(annotation.heads[k] - k - 1) if annotation.heads[k] else 0
        rows.append(
            [
                _log_odds(old), _log_odds(new), _log_odds(max(old, _FLOOR)) - _log_odds(new),
                min(heads[w] for w in moved), relations[k] if edit.is_tag else tags[k],
                heads[k] if edit.is_tag or edit.kind != "head" else 0.0,
                -sum(p * log(p) for p in of_word.values() if p > 0),
                _mean(rest), _mean([tags[w] for w in near]), _mean([heads[w] for w in near]),
                _mean([relations[w] for w in near]),
                *_frequencies(scene, edit, known.counts),
                *known.disagreements.signals(scene, edit), *of_contexts,
                _as_planted(scene, edit, known), *_rivals(annotation, edit),
                log(1 + same), log(1 + other),
                log((other + 0.5) / (same + 0.5)) if same + other else 0.0,
                log(1 + distance), log(len(heads)), log(len(edit.words)), log(len(edits)),
                float(scene.lifted[k] != annotation.heads[k]),
                float(scene.lifted[k] == judgement.best.heads[k]),
            ]
        )  # fmt: skip
    return rows


def _rivals(annotation: Annotation, edit: Edit) -> tuple[float, float]:
    """Number of other dependents in the same role, under the annotation and the suggestion.

    A head has at most one subject, one object, one indirect object and one copula.
    """
    if edit.is_tag:
        return 0.0, 0.0
    k = edit.words[0] - 1
    heads, relations = annotation.heads, annotation.relations
    counts = []
    for head, relation in ((heads[k], relations[k]), (edit.heads[0], edit.relations[0])):
        role = _ROLES.get(relation)
        rivals = [
            w for w, other in enumerate(relations)
            if w != k and heads[w] == head and role is not None and _ROLES.get(other) == role
        ]  # fmt: skip
        counts.append(float(len(rivals)))
    return counts[0], counts[1]


def _as_planted(scene: Scene, edit: Edit, known: Known) -> float:
    """Log-ratio of how often errors make a confusion to how often models suggest it.

    Relations that parsers never give, and tags that they seldom do, are in many suspected places,
    and in hardly any error that the models find likely.
    """
    kind, old, new = confusion_of(scene.annotation, edit)
    if kind == "head":
        return 0.0
    n = known.disagreements.confused[kind, old, new]
    return log((known.confusions.expected_count(kind, old, new) + 1.0) / (n + 1.0))


def _frequencies(scene: Scene, edit: Edit, counts: ArcFrequencies) -> list[float]:
    """Log-frequencies of the annotated and of the suggested value outside the fold."""
    k, fold, words = edit.words[0] - 1, scene.fold, scene.words
    known = log(1 + counts.outside(("word", words[k]), fold))
    changed = _edit_first_word(scene.annotation, edit, k)
    values = []
    for annotation in (scene.annotation, changed):
        below, above, side, relation, head = _arc(words, annotation, k)
        key = ("word tag", words[k], below)
        values += [
            counts.log_ratio(key, ("word", words[k]), fold),
            counts.log_ratio(
                ("tags relation", below, above, side, relation), ("tags", below, above, side), fold
            ),
            counts.log_ratio(("below above", below, above, side), ("below", below), fold),
            counts.log_ratio(
                ("words relation", words[k], head, relation), ("words", words[k], head), fold
            ),
        ]
    return [known, *values, *(b - a for a, b in zip(values[:4], values[4:], strict=True))]


def _edit_first_word(annotation: Annotation, edit: Edit, k: int) -> Annotation:
    """The annotation with the first word of an edit changed; it need not be a tree."""
    upos = list(annotation.upos)
    heads, relations = list(annotation.heads), list(annotation.relations)
    if edit.tag is not None:
        upos[k] = edit.tag
    else:
        heads[k], relations[k] = edit.heads[0], edit.relations[0]
    return Annotation(tuple(upos), tuple(heads), tuple(relations))


def _elsewhere(scene: Scene, edit: Edit, nuclei: Nuclei) -> tuple[int, int]:
    """Number of other occurrences of the words with the same and with other annotations."""
    found, here = elsewhere_of(scene.number, scene.annotation, edit, nuclei)
    same = found[here]
    return same, found.total() - same


def elsewhere_of(
    number: int, annotation: Annotation, edit: Edit, nuclei: Nuclei
) -> tuple[Counter[str], str]:
    """Annotations of other occurrences of an edit's words, and the annotation here."""
    span = span_elsewhere(annotation, edit)
    if span is None:
        return Counter(), NIL
    return nuclei.counts(number, *span), spans_of(annotation).get(span, NIL)


def is_supported(number: int, annotation: Annotation, edit: Edit, nuclei: Nuclei) -> bool:
    """Whether the words occur several times elsewhere, always with another annotation."""
    found, here = elsewhere_of(number, annotation, edit, nuclei)
    return not found[here] and found.total() >= LEAST_SUPPORT


def span_elsewhere(annotation: Annotation, edit: Edit) -> Span | None:
    """The span by which other places of an edit are looked up."""
    word = edit.words[0]
    return edit.span if edit.is_tag else pair_of(word, annotation.heads[word - 1])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def _log(p: float) -> float:
    return log(max(p, _FLOOR))


def _log_odds(p: float) -> float:
    p = min(max(p, _FLOOR), 1 - _FLOOR)
    return log(p / (1 - p))


def label_frequency(annotations: Sequence[Annotation]) -> Mapping[str, int]:
    """How often each tag and relation is annotated."""
    found: Counter[str] = Counter()
    for annotation in annotations:
        found.update(annotation.upos)
        found.update(annotation.relations)
    return found
