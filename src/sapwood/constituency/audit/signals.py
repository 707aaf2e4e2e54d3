"""Signals of a suspected error: numbers from models that have not learnt from its document.

Each edit (`parts.py`) has one row of signals. The meaning of a signal is left to the
combiner, which learns it from planted errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from typing import Any, NamedTuple

from sapwood.auditing.nuclei import NIL, Nuclei
from sapwood.constituency.audit.located import Annotation, Bracket
from sapwood.constituency.audit.parts import Edit, apply_edits, chains_of, crosses
from sapwood.constituency.audit.posteriors import LEAST_KEPT, Judgement
from sapwood.corpora.tree import ROOT

_FLOOR = LEAST_KEPT / 2  # posterior of what is below the least that is kept
_REACH = 3  # words around an edit that count as near
TREE_SIGNALS = (
    "odds_annotated", "odds_suggested", "least_annotated", "sentence", "sentence_tags", "near",
    "near_tags", "confidence", "rules", "worst_rule", "new_rule", "word_annotated",
    "word_suggested", "word_known", "elsewhere_same", "elsewhere_other", "elsewhere_odds",
    "length", "words", "n_brackets", "n_edits",
)  # fmt: skip


def log_odds(p: float) -> float:
    """Log-odds of a probability, kept away from 0 and 1."""
    p = min(max(p, _FLOOR), 1 - _FLOOR)
    return log(p / (1 - p))


class Posterior:
    """Posteriors of one sentence by bracket and by tag."""

    def __init__(self, judgement: Judgement, names: Sequence[str]) -> None:
        self.brackets: dict[Bracket, float] = {}
        self.tags: dict[Bracket, float] = {}
        columns = (judgement.label, judgement.start, judgement.end, judgement.is_tag, judgement.p)
        for number, i, j, is_tag, p in zip(*(c.tolist() for c in columns), strict=True):
            (self.tags if is_tag else self.brackets)[names[number], i, j] = p
        self.best = judgement.best

    def annotated(self, edit: Edit) -> float:
        """Probability that the place of an edit is as annotated: its least probable bracket."""
        p = self.tags if edit.is_tag else self.brackets
        if edit.removed:
            return min(p.get(b, 0.0) for b in edit.removed)
        return 1.0 - min(p.get(b, 0.0) for b in edit.added)

    def suggested(self, edit: Edit) -> float:
        """Probability that the place of an edit is as suggested."""
        p = self.tags if edit.is_tag else self.brackets
        if edit.added:
            return min(p.get(b, 0.0) for b in edit.added)
        return 1.0 - max(p.get(b, 0.0) for b in edit.removed)


Rule = tuple[str, ...]  # a label, and the labels of its children


def rules_of(annotation: Annotation) -> Iterator[tuple[Rule, int, int]]:
    """The rules of a tree with the words that each covers, children before parents."""
    stack: list[tuple[str, int, int, list[str]]] = [(ROOT, 0, len(annotation.tags), [])]
    at = 0

    def close_up_to(place: int) -> Iterator[tuple[Rule, int, int]]:
        nonlocal at
        while True:
            label, start, end, kids = stack[-1]
            stop = min(place, end)
            if at < stop:
                kids.extend(annotation.tags[at:stop])
                at = stop
            if end > place or len(stack) == 1 or (end == place and at < end):
                break
            stack.pop()
            yield (label, *kids), start, end

    for label, i, j in annotation.brackets:
        yield from close_up_to(i)
        stack[-1][3].append(label)
        stack.append((label, i, j, []))
    yield from close_up_to(len(annotation.tags))
    label, start, end, kids = stack[0]
    yield (label, *kids), start, end


class FoldCounts:
    """Counts of rules and of tagged words in all folds but one.

    P(rule) = c(rule) / c(label)  mixed with  product of P(child | label, child before it)
    """

    def __init__(
        self,
        annotations: Sequence[Annotation],
        words: Sequence[Sequence[str]],
        folds: Sequence[int],
    ) -> None:
        n = max(folds) + 1
        self.total: Counter[Any] = Counter()
        self.by_fold: list[Counter[Any]] = [Counter() for _ in range(n)]
        for annotation, sentence, fold in zip(annotations, words, folds, strict=True):
            count = self.by_fold[fold]
            for rule, _, _ in rules_of(annotation):
                count[rule] += 1
                count["label", rule[0], None] += 1
                before = ""
                for kid in (*rule[1:], "</s>"):
                    count[rule[0], before, kid, None] += 1
                    count[rule[0], before, None, None] += 1
                    count[kid, None, None, None, None] += 1
                    before = kid
            for tag, word in zip(annotation.tags, sentence, strict=True):
                count[word, tag, 0, 0, 0, 0] += 1
                count[word, 0, 0, 0, 0, 0] += 1
        for count in self.by_fold:
            self.total.update(count)
        self.n_kids = sum(self.total[key] for key in self.total if key[1:] == (None,) * 4)
        self._log_rules: dict[tuple[Rule, int], float] = {}

    def outside(self, key: Any, fold: int) -> int:
        """Number of times that something occurs outside a fold."""
        return self.total.get(key, 0) - self.by_fold[fold].get(key, 0)

    def log_rule(self, rule: Rule, fold: int) -> float:
        """Log-probability of a rule, by the counts outside a fold."""
        known = self._log_rules.get((rule, fold))
        if known is None:
            known = self._log_rules[rule, fold] = self._log_rule(rule, fold)
        return known

    def _log_rule(self, rule: Rule, fold: int) -> float:
        n_label, n_rule = self.outside(("label", rule[0], None), fold), self.outside(rule, fold)
        p, before = 1.0, ""
        for kid in (*rule[1:], "</s>"):
            pair = self.outside((rule[0], before, kid, None), fold)
            one = self.outside((rule[0], before, None, None), fold)
            plain = (self.outside((kid, None, None, None, None), fold) + 0.5) / (self.n_kids + 50)
            p *= (pair + 2.0 * plain) / (one + 2.0)
            before = kid
        weight = n_rule / (n_rule + 1.0)
        direct = n_rule / n_label if n_label else 0.0
        return log(max(weight * direct + (1 - weight) * p, 1e-12))

    def log_word(self, word: str, tag: str, fold: int) -> float:
        """Log-probability of a word with a tag, by the counts outside a fold."""
        n_tag = self.outside((tag, None, None, None, None), fold)
        n = self.outside((word, tag, 0, 0, 0, 0), fold)
        return log((n + 0.1) / (n_tag + 1000.0))


class TreeScore(NamedTuple):
    """Log-probability of the rules of a tree, and of its worst rule by the words it covers."""

    total: float
    rules: dict[tuple[int, int], float]


def score_tree(annotation: Annotation, counts: FoldCounts, fold: int) -> TreeScore:
    """Log-probabilities of the rules of a tree by the counts outside a fold."""
    total, rules = 0.0, dict[tuple[int, int], float]()
    for rule, i, j in rules_of(annotation):
        value = counts.log_rule(rule, fold)
        total += value
        rules[i, j] = min(value, rules.get((i, j), 0.0))
    return TreeScore(total, rules)


class Sentence(NamedTuple):
    """A sentence under audit: its number, words, one annotation, and fold."""

    number: int
    words: Sequence[str]
    annotation: Annotation
    fold: int


def signals_of(
    sentence: Sentence,
    edits: Sequence[Edit],
    posterior: Posterior,
    counts: FoldCounts,
    nuclei: Nuclei,
) -> list[list[float]]:
    """A row of signals for each edit of a sentence."""
    annotation, fold = sentence.annotation, sentence.fold
    if not edits:
        return []
    logs = [(b, log(max(posterior.brackets.get(b, 0.0), _FLOOR))) for b in annotation.brackets]
    tag_logs = [
        log(max(posterior.tags.get((tag, i, i + 1), 0.0), _FLOOR))
        for i, tag in enumerate(annotation.tags)
    ]
    sum_logs, sum_tags = sum(value for _, value in logs), sum(tag_logs)
    before = score_tree(annotation, counts, fold)
    best = posterior.best or annotation
    sure = [(b, posterior.brackets.get(b, 0.0)) for b in best.brackets]
    rows = []
    for edit in edits:
        i, j = edit.span
        own = set() if edit.is_tag else set(edit.removed)
        known = posterior.tags if edit.is_tag else posterior.brackets
        others = [value for b, value in logs if b not in own]
        near = [v for b, v in logs if b not in own and b[1] <= j and b[2] >= i]
        low, high = max(0, i - _REACH), min(len(tag_logs), j + _REACH)
        near_tags = [tag_logs[k] for k in range(low, high) if not (edit.is_tag and k == i)]
        n_tags = max(1, len(tag_logs) - edit.is_tag)
        tags_but = sum_tags - (tag_logs[i] if edit.is_tag else 0.0)
        about = [p for b, p in sure if b[1] < j and b[2] > i]
        after = score_tree(apply_edits(annotation, best, [edit]), counts, fold)
        touched = [v for (a, b), v in before.rules.items() if a <= i and j <= b]
        touched_after = [v for (a, b), v in after.rules.items() if a <= i and j <= b]
        same, other = _elsewhere(sentence, edit, nuclei)
        rows.append(
            [
                log_odds(posterior.annotated(edit)),
                log_odds(posterior.suggested(edit)),
                # the most probable of the annotated brackets
                log_odds(max((known.get(b, 0.0) for b in edit.removed), default=0.5)),
                (sum_logs if len(others) == len(logs) else sum(others)) / max(1, len(others)),
                tags_but / n_tags,
                sum(near) / max(1, len(near)),
                sum(near_tags) / max(1, len(near_tags)),
                sum(about) / max(1, len(about)),
                max(-15.0, min(15.0, after.total - before.total)),
                min(touched, default=0.0),
                min(touched_after, default=0.0),
                *_lexical(edit, sentence, counts),
                log(1 + same),
                log(1 + other),
                log((other + 0.5) / (same + 0.5)) if same + other else 0.0,
                log(j - i),
                log(len(sentence.words)),
                log(len(edit.removed) + len(edit.added)),
                log(len(edits)),
            ]
        )
    return rows


def _lexical(edit: Edit, sentence: Sentence, counts: FoldCounts) -> tuple[float, float, float]:
    """Log-probabilities of the annotated and the suggested tag of a word; the word's count."""
    if not edit.is_tag:
        return 0.0, 0.0, 0.0
    i = edit.removed[0][1]
    word, fold = sentence.words[i], sentence.fold
    n = counts.outside((word, 0, 0, 0, 0, 0), fold)
    old, new = (
        log((counts.outside((word, tag, 0, 0, 0, 0), fold) + 0.1) / (n + 1.0))
        for tag in (edit.removed[0][0], edit.added[0][0])
    )
    return old, new, log(1 + n)


def label_at(annotation: Annotation, i: int, j: int) -> str:
    """The name of a span's annotation among the nuclei."""
    if j == i + 1:
        return annotation.tags[i]
    return " ".join(label for label, a, b in annotation.brackets if (a, b) == (i, j)) or NIL


def spans_of(annotation: Annotation) -> dict[tuple[int, int], str]:
    """Annotations of all spans of a sentence, as the nuclei take them."""
    spans = {(i, i + 1): tag for i, tag in enumerate(annotation.tags)}
    for (i, j), chain in chains_of(annotation.brackets).items():
        if j > i + 1:
            spans[i, j] = " ".join(chain)
    return spans


def _elsewhere(sentence: Sentence, edit: Edit, nuclei: Nuclei) -> tuple[int, int]:
    """Number of other places with the same words that are annotated alike, and otherwise."""
    same = other = 0
    spans = {b[1:] for b in edit.removed + edit.added}
    for i, j in spans:
        if j == i + 1 and not edit.is_tag:
            continue
        found = nuclei.counts(sentence.number, i, j)
        alike = found[label_at(sentence.annotation, i, j)]
        same, other = same + alike, other + found.total() - alike
    return same, other


def variation_edits(sentence: Sentence, edits: Sequence[Edit], nuclei: Nuclei) -> list[Edit]:
    """Places that most other places with the same words annotate otherwise, as edits.

    Only places that no other edit is about, and whose suggestion fits into the tree.
    """
    taken = {b[1:] for edit in edits for b in edit.removed + edit.added}
    found = []
    for place in nuclei.repeated[sentence.number]:
        i, j = place.span
        if (i, j) in taken:
            continue
        here = label_at(sentence.annotation, i, j)
        others = nuclei.counts(sentence.number, i, j)
        if not others:
            continue
        most, n = max(others.items(), key=lambda item: (item[1], item[0]))
        if most == here or n <= others[here]:
            continue
        added = tuple((label, i, j) for label in ([] if most == NIL else most.split(" ")))
        removed = tuple((label, i, j) for label in ([] if here == NIL else here.split(" ")))
        edit = Edit("variation", removed, added, is_tag=j == i + 1)
        if not any(crosses(b, other) for b in added for other in sentence.annotation.brackets):
            found.append(edit)
            taken.add((i, j))
    return found
