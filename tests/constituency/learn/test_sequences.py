"""Tagged sequences as right-branching trees, and the taggers that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from examples.sequence_tagger import sequence_tree
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw

TEXT = st.text("abc>|@:^-=0", min_size=1, max_size=3)
STOP = 0.15
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)


@given(PAIRS)
def test_there_and_back(pairs: list[tuple[str, str]]) -> None:
    words, tags = [word for word, _ in pairs], [tag for _, tag in pairs]
    tree = sequence_tree(words, tags)
    assert (tree.words(), tree.tags()) == (words, tags)


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_there_and_back_through_a_treebank(sequences: list[list[tuple[str, str]]]) -> None:
    trees = [sequence_tree(*map(list, zip(*pairs, strict=True))) for pairs in sequences]
    bank = sw.Treebank.from_trees(trees)
    for tree, restored in zip(trees, bank.trees(), strict=True):
        assert restored.tags() == tree.tags()
        assert restored.words() == tree.words()


@given(PAIRS)
def test_every_step_branches_to_the_right(pairs: list[tuple[str, str]]) -> None:
    tree = sequence_tree([word for word, _ in pairs], [tag for _, tag in pairs])
    while not tree.is_preterminal:
        assert len(tree) == 2
        assert tree[0].is_preterminal
        assert tree.label == tree[0].label + ">"
        tree = tree[1]


def test_long_sequences_need_no_recursion() -> None:
    tree = sequence_tree(["w"] * 5000, ["T"] * 5000)
    assert tree.tags() == ["T"] * 5000


def test_one_word_is_learnt_and_tagged() -> None:
    bank = sw.Treebank.from_trees([sequence_tree(["dog"], ["NN"])] * 3)
    for learner in (sw.PCFG(), sw.SpectralLPCFG(2)):
        parser = sw.Parser(learner.fit(bank).model_)
        assert parser.parse(["dog"]).tree.tags() == ["NN"]
        assert len(parser.parse(["two", "dogs"]).tree.tags()) == 2


@pytest.mark.parametrize(
    ("words", "tags"),
    [([], []), (["a"], []), (["a"], ["X", "Y"]), ("ab", ["X", "Y"]), (["a"], "X")],
)
def test_what_is_no_sequence(words: list[str], tags: list[str]) -> None:
    with pytest.raises(sw.SapwoodError):
        sequence_tree(words, tags)


# -- a hidden Markov model whose states refine its tags -------------------------------------------


@dataclass
class Markov:
    """States 0 .. 5 in three tags; words are told apart by the hidden half of the state only."""

    start: np.ndarray  # [6]
    step: np.ndarray  # [6, 6]
    emit: np.ndarray  # [6, n_words]

    TAG = np.array([0, 0, 1, 1, 2, 2])

    @classmethod
    def draw(cls, rng: np.random.Generator, n_words: int = 9) -> Markov:
        return cls(
            rng.dirichlet(np.full(6, 0.5)),
            rng.dirichlet(np.full(6, 0.25), size=6),
            rng.dirichlet(np.full(n_words, 0.4), size=6),
        )

    def sample(self, n: int, rng: np.random.Generator) -> Iterator[tuple[list[str], list[str]]]:
        for _ in range(n):
            states = [rng.choice(6, p=self.start)]
            while rng.random() > STOP:  # a length without memory, or states would have to count
                states.append(rng.choice(6, p=self.step[states[-1]]))
            words = [rng.choice(self.emit.shape[1], p=self.emit[h]) for h in states]
            yield [f"w{x}" for x in words], [f"T{self.TAG[h]}" for h in states]

    def posterior_tags(self, words: list[str]) -> list[str]:
        """The likeliest tag at each place, by the forward-backward algorithm."""
        likelihood = [self.emit[:, int(word[1:])] for word in words]
        forward = [self.start * likelihood[0]]
        for column in likelihood[1:]:
            forward.append((forward[-1] @ self.step) * column)
        backward = [np.ones(6)]
        for column in likelihood[:0:-1]:
            backward.append(self.step @ (column * backward[-1]))
        mass = np.array(forward) * np.array(backward[::-1])
        by_tag = mass.reshape(len(words), 3, 2).sum(axis=2)
        return [f"T{tag}" for tag in by_tag.argmax(axis=1)]


@pytest.mark.parametrize("seed", [1, 6])
def test_a_spectral_tagger_is_close_to_the_exact_posterior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    markov = Markov.draw(rng)
    train, test = list(markov.sample(3000, rng)), list(markov.sample(300, rng))
    bank = sw.Treebank.from_trees(sequence_tree(*pair) for pair in train)

    def accuracy(tagged: list[list[str]]) -> float:
        pairs = [pair for (_, gold), tags in zip(test, tagged, strict=True)
                 for pair in zip(gold, tags, strict=True)]  # fmt: skip
        return float(np.mean([gold == tag for gold, tag in pairs]))

    def by(learner: sw.PCFG | sw.SpectralLPCFG) -> float:
        parser = sw.Parser(learner.fit(bank).model_, threshold=0.0, beam=0.0)
        return accuracy([parser.parse(words).tree.tags() for words, _ in test])

    exact = accuracy([markov.posterior_tags(words) for words, _ in test])
    plain = by(sw.PCFG())
    spectral = by(
        sw.SpectralLPCFG(2, shrinkage=0.0, word_trust=1.0)
    )  # the data are its own model's
    assert plain < spectral - 0.02  # the plain tagger cannot see the hidden half
    assert spectral > exact - 0.015  # what estimating from 3,000 sequences costs
