"""How states share the words of the plain lexicon, worked out entry by entry."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from tests.shards import rows_of

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import Lexicon
from sapwood.constituency.learn.em_steps import TrainingTrees, latent_grammar
from sapwood.constituency.learn.latent_parameters import matsuzaki
from sapwood.constituency.learn.pcfg import PCFG, TrainingData
from sapwood.constituency.learn.spectral import SpectralLPCFG, project
from sapwood.execute import Threads

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
    parameters = matsuzaki(trees.plain_parameters(), target, np.random.default_rng(3))
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
    seen, model = project(data, 3), SpectralLPCFG(3, word_trust=trust).fit(data).model_
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
