"""Counts of n-grams and Kneser-Ney probabilities from dictionaries, one definition at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

START, END = "<s>", "</s>"
Gram = tuple[str, ...]


def count_grams(sentences: Iterable[Sequence[str]], n: int, *, is_stream: bool) -> Counter[Gram]:
    """How often each word ends an n-gram with the words before it; shorter ones where none are."""
    texts = [[w for words in sentences for w in words]] if is_stream else list(sentences)
    found: Counter[Gram] = Counter()
    for words in texts:
        text = list(words) if is_stream else [START, *words, END]
        for i in range(0 if is_stream else 1, len(text)):
            found[tuple(text[max(0, i - n + 1) : i + 1])] += 1
    return found


class KneserNeyTwin:
    """p(w | c) by its definition; see `sapwood.lm.learn.kneser_ney`."""

    def __init__(
        self, sentences: Sequence[Sequence[str]], n: int, vocabulary: Iterable[str], *,
        is_modified: bool, is_stream: bool,
    ) -> None:  # fmt: skip
        self.n = n
        self.vocabulary = set(vocabulary) | (set() if is_stream else {END})
        texts = [[w for words in sentences for w in words]] if is_stream else sentences
        padded = [list(t) if is_stream else [START, *t, END] for t in texts]
        self.a: list[dict[Gram, int]] = []
        for k in range(1, n + 1):
            times: Counter[Gram] = Counter()
            before: dict[Gram, set[str | None]] = {}
            for text in padded:
                for i in range(k - 1, len(text)):
                    gram = tuple(text[i - k + 1 : i + 1])
                    if gram[-1] == START:
                        continue
                    times[gram] += 1
                    left = text[i - k] if i >= k else None
                    before.setdefault(gram, set()).add(left)
            is_top = k == n
            self.a.append({
                gram: t if is_top or gram[0] == START else len(before[gram])
                for gram, t in times.items()
            })  # fmt: skip
        self.discounts = [self._discounts(list(a.values()), is_modified) for a in self.a]

    @staticmethod
    def _discounts(counts: list[int], is_modified: bool) -> list[float]:
        n = [sum(c == k for c in counts) for k in range(5)]
        usual = [0.5, 1.0, 1.5] if is_modified else [0.5, 0.5, 0.5]
        if not n[1] or not n[2]:
            return [0.0, *usual]
        y = n[1] / (n[1] + 2 * n[2])
        if not is_modified:
            return [0.0, y, y, y]
        found = [0.0]
        for k in (1, 2, 3):
            d = k - (k + 1) * y * n[k + 1] / n[k] if n[k] else usual[k - 1]
            found.append(d if 0 < d < k else usual[k - 1])
        return found

    def p(self, word: str, context: Sequence[str]) -> float:
        """The probability of a word after others, at most n - 1 of them."""
        context = (
            tuple(context)[len(context) - self.n + 1 :]
            if len(context) >= self.n
            else tuple(context)
        )
        lower = self.p(word, context[1:]) if context else 1.0 / len(self.vocabulary)
        k = len(context)
        after = {g: c for g, c in self.a[k].items() if g[:-1] == context}
        if not after:
            return lower
        d, total = self.discounts[k], sum(after.values())
        taken = sum(d[min(c, 3)] for c in after.values())
        mine = after.get((*context, word), 0)
        return (mine - d[min(mine, 3)]) / total + taken / total * lower
