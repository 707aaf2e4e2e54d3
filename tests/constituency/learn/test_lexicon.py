"""The lexicon of a plain grammar against its formulas, worked out word by word."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import Lexicon
from sapwood.constituency.learn.pcfg import PCFG, LexiconSettings
from sapwood.corpora.tree import Tree
from sapwood.corpora.vocabulary import UNKNOWN, signatures

Weights = dict[tuple[str, int], float]  # of row and tag


class Twin:
    """The formulas of `sapwood.constituency.learn.pcfg`, with dictionaries instead of matrices."""

    def __init__(self, bank: Treebank, settings: LexiconSettings, style: str) -> None:
        self.settings, self.style = settings, style
        self.bases = [symbol.chain[-1] for symbol in bank.inventory.tags]
        n_phrases, words = len(bank.inventory.phrases), bank.inventory.words
        rows = zip(bank.label.tolist(), bank.word.tolist(), bank.start.tolist(), strict=True)
        self.tokens = Counter((a - n_phrases, words[x], i == 0) for a, x, i in rows if x >= 0)
        self.tag_word, self.base_word, self.word = Counter(), Counter(), Counter()
        for (tag, word, _), n in self.tokens.items():
            self.tag_word[tag, word] += n
            self.base_word[self.bases[tag], word] += n
            self.word[word] += n
        distinct = Counter(base for base, _ in self.base_word)
        self.prior = {base: n / distinct.total() for base, n in distinct.items()}
        self.classes = self._classes()

    def _classes(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {UNKNOWN: Counter()}
        for (tag, word, is_first), n in self.tokens.items():
            if self.word[word] <= self.settings.rare_count:
                for name in signatures(word, is_first=is_first, style=self.style):
                    found.setdefault(name, Counter())[self.bases[tag]] += n
        least = self.settings.class_count
        return {k: v for k, v in found.items() if k == UNKNOWN or v.total() >= least}

    def known(self, word: str, is_first: bool) -> list[str]:
        chain = signatures(word, is_first=is_first, style=self.style)
        return [name for name in chain if name in self.classes]

    def share(self, chain: list[str]) -> dict[str, float]:
        """P(B | class), from the plainest class to the most telling one."""
        p = self.prior
        for name in reversed(chain):
            seen = self.classes[name]
            p = {base: (seen[base] + 3.0 * p[base]) / (seen.total() + 3.0) for base in p}
        kept = {base: x for base, x in p.items() if x >= 1e-3 * max(p.values())}
        return {base: x / sum(kept.values()) for base, x in kept.items()}

    def soft(self) -> Weights:
        """n(x) P(B | x) of words, and of classes as often as unknown words are expected."""
        u, out = self.settings.class_weight, defaultdict(float)
        for (base, word), n in self.base_word.items():
            keep = self.word[word] / (self.word[word] + u) if self.word[word] <= 100 else 1.0
            out[word, base] += n * keep
        for word, n in self.word.items():
            if n <= 100:
                for base, p in self.share(self.known(word, False)).items():
                    out[word, base] += u * p * n / (n + u)
        for name, n in self.expected().items():
            plainer = [
                c for c in sorted(self.classes, key=len, reverse=True) if is_plainer(c, name)
            ]
            for base, p in self.share(plainer).items():
                out[name, base] += n * p
        return out

    def expected(self) -> dict[str, float]:
        """Unknown words: as many as were seen once, in the class that tells most about each."""
        out = dict.fromkeys(self.classes, 0.1)
        for _, word, is_first in self.tokens:
            if self.word[word] == 1:
                out[self.known(word, is_first)[0]] += 1.0
        return out

    def weights(self) -> Weights:
        """q(x | a), with joint tags sharing words through their base tag."""
        soft, base_total = self.soft(), Counter()
        for (_, base), value in soft.items():
            base_total[base] += value
        q: Weights = {}
        for tag, base in enumerate(self.bases):
            own = {word: n for (a, word), n in self.tag_word.items() if a == tag}
            k = self.settings.sharing * len(own)
            for (row, other), value in soft.items():
                if other == base:
                    behind = value / base_total[base]
                    q[row, tag] = (own.get(row, 0) + k * behind) / (sum(own.values()) + k)
        return self._cut(q)

    def _cut(self, q: Weights) -> Weights:
        total: Counter[int] = Counter()
        for (tag, _), n in self.tag_word.items():
            total[tag] += n
        largest: dict[str, float] = defaultdict(float)
        for (row, tag), value in q.items():
            largest[row] = max(largest[row], value * total[tag])
        kept = {k: v for k, v in q.items() if v * total[k[1]] >= 1e-4 * largest[k[0]]}
        sums: dict[int, float] = defaultdict(float)
        for (_, tag), value in kept.items():
            sums[tag] += value
        return {(row, tag): value / sums[tag] for (row, tag), value in kept.items()}


def is_plainer(name: str, other: str) -> bool:
    """Whether a class is another one or what is left of it without its last marks."""
    return other == name or other.startswith(name[:-1] + "-")


def weights_of(lexicon: Lexicon) -> Weights:
    names = lexicon.words + lexicon.vocabulary.classes
    return {
        (name, int(lexicon.entry_tag[e])): float(lexicon.weights[e])
        for row, name in enumerate(names)
        for e in range(lexicon.entries(row).start, lexicon.entries(row).stop)
    }


@pytest.mark.parametrize(
    "settings",
    [
        LexiconSettings(),
        LexiconSettings(rare_count=2, class_count=3, sharing=1.0, class_weight=2.5),
        LexiconSettings(style="generic", class_count=1),
    ],
    ids=["defaults", "others", "generic"],
)
def test_weights_are_those_of_the_formulas(bank: Treebank, settings: LexiconSettings) -> None:
    lexicon = PCFG(lexicon=settings).fit(bank).model_.lexicon
    style = "english" if settings.style == "auto" else settings.style
    twin = Twin(bank, settings, style)
    assert lexicon.vocabulary.style == style
    assert max(twin.word.values()) > 100  # some word is frequent
    assert min(twin.word.values()) == 1  # and some were seen once
    assert any("-" in name for name in twin.classes)
    assert any(len(symbol.chain) > 1 for symbol in bank.inventory.tags)
    found, expected = weights_of(lexicon), twin.weights()
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-9)


def test_unknown_words_are_expected_as_often_as_words_seen_once() -> None:
    """By hand: two words were seen once and one twice, all of one tag and one class."""
    trees = [Tree.parse(text) for text in ("(X (A cat) (A dog))", "(X (A emu) (A emu))")]
    settings = LexiconSettings(style="generic", class_count=100)
    lexicon = PCFG(lexicon=settings).fit(Treebank.from_trees(trees)).model_.lexicon
    assert lexicon.vocabulary.classes == (UNKNOWN,)
    # soft counts 1, 1, 2 and 2 + 0.1; 4 T(a) = 12 of them behind 4 tokens
    q = {"cat": 1 / 6.1, "dog": 1 / 6.1, "emu": 2 / 6.1, UNKNOWN: 2.1 / 6.1}
    n = {"cat": 1, "dog": 1, "emu": 2, UNKNOWN: 0}
    expected = {(word, 0): (n[word] + 12 * q[word]) / 16 for word in q}
    assert weights_of(lexicon) == pytest.approx(expected, rel=1e-12)
