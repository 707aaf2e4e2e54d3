"""Lexicons of plain and latent grammars, and classes of rare words."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from tests.shards import rows_of

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import Lexicon
from sapwood.constituency.learn.em_states import matsuzaki_start
from sapwood.constituency.learn.em_steps import TrainingTrees, latent_grammar
from sapwood.constituency.learn.features import leaf_entries, project_nodes
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.spectral import SpectralLPCFG
from sapwood.constituency.learn.training_data import (
    LexiconSettings,
    TrainingData,
    TreebankCounts,
    WordClasses,
)
from sapwood.core.arrays import IntArray
from sapwood.corpora.tree import Tree
from sapwood.corpora.vocabulary import UNKNOWN, signatures
from sapwood.execute import Threads

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


@pytest.fixture(scope="module")
def lexicon(bank: Treebank) -> Lexicon:
    return PCFG().fit(bank).model_.lexicon


def test_words_seen_once_stand_for_their_class_in_features(
    bank: Treebank, lexicon: Lexicon
) -> None:
    count = np.bincount(bank.word[bank.word >= 0])
    classes, words = (
        WordClasses.of(TreebankCounts.of(bank), bank.inventory, lexicon),
        bank.inventory.words,
    )
    assert {1, 2, 3} <= set(count.tolist())
    for word, name in enumerate(words):
        chains = [lexicon.vocabulary.class_row(name, is_first=first) for first in (False, True)]
        assert classes.own_row[word] == lexicon.words.index(name)
        expected = chains[0] if count[word] == 1 else classes.own_row[word]
        assert classes.row_of_word[word] == expected
        rare = count[word] <= 2
        assert classes.class_of_word[:, word].tolist() == (chains if rare else [-1, -1])


def test_leaves_are_instances_of_their_word_and_of_the_class_of_their_place(
    bank: Treebank, lexicon: Lexicon
) -> None:
    """Leaf by leaf; frequent words have no class, and a tag may be unknown to a row."""
    classes = WordClasses.of(TreebankCounts.of(bank), bank.inventory, lexicon)
    leaves = np.flatnonzero(bank.word >= 0)
    found = leaf_entries(bank, leaves, classes, lexicon)
    assert found.shape == (2, len(leaves))
    for leaf, (own, of_class) in zip(leaves.tolist(), found.T.tolist(), strict=True):
        word, is_first = int(bank.word[leaf]), int(bank.start[leaf] == 0)
        tag = int(bank.label[leaf]) - len(bank.inventory.phrases)
        for row, entry in (
            (int(classes.own_row[word]), own),
            (int(classes.class_of_word[is_first, word]), of_class),
        ):
            tags = lexicon.entry_tag[lexicon.entries(row)].tolist() if row >= 0 else []
            expected = lexicon.entries(row).start + tags.index(tag) if tag in tags else -1
            assert entry == expected
    assert (found[0] >= 0).all()  # these trees are those that the lexicon was made of
    assert 0 < (found[1] >= 0).mean() < 0.5
    assert (classes.class_of_word[0] != classes.class_of_word[1]).any()


@pytest.mark.parametrize("n", [2, 5])
def test_entries_of_shards_are_those_of_the_whole(n: int, bank: Treebank, lexicon: Lexicon) -> None:
    classes = WordClasses.of(TreebankCounts.of(bank), bank.inventory, lexicon)

    def entries(shard: Treebank) -> IntArray:
        return leaf_entries(shard, np.flatnonzero(shard.word >= 0), classes, lexicon)

    parts = [entries(shard) for shard in bank.shards(n)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), entries(bank))


RARE = 2  # words seen so often or less teach their classes
STRENGTH = 5.0  # pseudo-tokens of the class behind a word's states
Vectors = dict[tuple[int, int], Any]  # of row and tag


@pytest.fixture(scope="module")
def data(small_bank: Treebank) -> TrainingData:
    return PCFG().prepare(small_bank, Threads())


def vectors_of(lexicon: Lexicon) -> Vectors:
    return {
        (row, int(lexicon.entry_tag[e])): lexicon.weights[
            lexicon.weight_start[e] : lexicon.weight_start[e + 1]
        ]
        for row in range(lexicon.n_rows)
        for e in range(lexicon.entries(row).start, lexicon.entries(row).stop)
    }


class Rows:
    """Rows of words, and of the classes of rare ones."""

    def __init__(self, small_bank: Treebank, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.words = small_bank.inventory.words
        self.count = Counter(small_bank.word[small_bank.word >= 0].tolist())

    def own(self, word: int) -> int:
        return self.lexicon.words.index(self.words[word])

    def behind(self, word: int, is_first: bool) -> int | None:
        if self.count[word] > RARE:
            return None
        return self.lexicon.vocabulary.class_row(self.words[word], is_first=is_first)


def shares(expected: dict[tuple[int, int], Any], rows: Rows, entries: Vectors) -> Vectors:
    """P(h | a, x) = (e(a, x, h) + u P(h | a, class of x)) / (n(a, x) + u), as the module says."""
    prior: dict[int, Any] = defaultdict(float)
    of_class: Vectors = defaultdict(float)
    for (tag, word), e in expected.items():
        prior[tag] = prior[tag] + e
        if (row := rows.behind(word, is_first=False)) is not None:
            of_class[row, tag] = of_class[row, tag] + e
    prior = {tag: e / e.sum() for tag, e in prior.items()}
    n_words = len(rows.lexicon.words)

    def pulled(e: Any, behind: Any) -> Any:
        return (e + STRENGTH * behind) / (np.sum(e) + STRENGTH)

    out = {
        (row, tag): pulled(of_class.get((row, tag), 0.0), prior[tag])
        for row, tag in entries
        if row >= n_words
    }
    word_of_row = {rows.own(word): word for word in rows.count}
    for row, tag in entries:
        if row < n_words:
            word = word_of_row[row]
            behind = out.get((rows.behind(word, is_first=False) or -1, tag), prior[tag])
            out[row, tag] = pulled(expected.get((tag, word), 0.0), behind)
    return out


def test_states_of_rare_words_are_those_of_their_class(
    small_bank: Treebank, data: TrainingData
) -> None:
    model, trees = data.grammar, TrainingTrees(data)
    target = np.minimum(trees.limit, np.arange(len(trees.limit)) % 3 + 1)
    parameters = matsuzaki_start(trees.plain_parameters(), target, np.random.default_rng(3))
    counts = trees.expect(parameters)
    found = latent_grammar(data, trees.pairs, parameters, counts, {})
    n_words = len(small_bank.inventory.words)
    expected = {
        (code // n_words, code % n_words): e
        for code, e in zip(
            trees.pairs.tolist(), np.split(counts.words, parameters.word_start[1:-1]), strict=True
        )
    }
    rows, entries = Rows(small_bank, model.lexicon), vectors_of(model.lexicon)
    assert any(rows.behind(word, is_first=False) is not None for word in rows.count)
    joint = {key: entries[key] * share for key, share in shares(expected, rows, entries).items()}
    totals: dict[int, Any] = defaultdict(float)
    for (_, tag), vector in joint.items():
        totals[tag] = totals[tag] + vector
    for key, vector in vectors_of(found.lexicon).items():
        np.testing.assert_allclose(vector, joint[key] / totals[key[1]], rtol=1e-9, err_msg=str(key))
    assert (found.n_states > 1).any()


@pytest.mark.parametrize("trust", [0.0, 0.6, 1.0])
def test_spectral_emissions_mix_a_words_own_vector_with_its_tags(
    small_bank: Treebank, data: TrainingData, trust: float
) -> None:
    """c_inf[a -> x] = q(x | a) (trust * mean z over a -> x + (1 - trust) * mean z of a).

    A class has the mean over the tokens of its rare words, by where in the sentence they stand.
    """
    seen, model = project_nodes(data, 3), SpectralLPCFG(3, word_trust=trust).fit(data).model_
    Y, Z = seen.vectors.vectors(rows_of(seen))  # noqa: N806
    m, n_phrases, label = seen.m, model.n_phrases, small_bank.label.astype(int)
    sigma = {a: (Y * Z)[label == a, : m[a]].mean(axis=0) for a in np.unique(label).tolist()}
    lexicon = data.grammar.lexicon
    rows, of_entry, of_tag = Rows(small_bank, lexicon), defaultdict(list), defaultdict(list)
    for node in np.flatnonzero(small_bank.word >= 0).tolist():
        a, word = int(label[node]), int(small_bank.word[node])
        z = Z[node, : m[a]] / sigma[a]
        of_tag[a - n_phrases].append(z)
        of_entry[rows.own(word), a - n_phrases].append(z)
        if (row := rows.behind(word, bool(small_bank.start[node] == 0))) is not None:
            of_entry[row, a - n_phrases].append(z)
    found = vectors_of(model.lexicon)
    is_seen = [key in of_entry for key in found]
    assert 0 < sum(is_seen) < len(is_seen)
    for key, weight in vectors_of(lexicon).items():
        mean = np.mean(of_tag[key[1]], axis=0)
        own = np.mean(of_entry[key], axis=0) if key in of_entry else mean
        expected = weight * (trust * own + (1 - trust) * mean)
        np.testing.assert_allclose(found[key], expected, rtol=1e-8, atol=1e-12, err_msg=str(key))
