"""`TrainingData`: what all estimators learn from, whatever its shards and whoever asks first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.shards import shards_of

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.ensemble import Member
from sapwood.constituency.learn.pcfg import LexiconSettings, TrainingData
from sapwood.core.errors import SapwoodError
from sapwood.execute import Threads

ESTIMATORS: tuple[Any, ...] = (
    sw.PCFG(), sw.SpectralLPCFG(3), sw.EMLPCFG(2, iterations=2), sw.ClusterLPCFG(2, iterations=1),
    sw.PivotLPCFG(2, iterations=1), sw.SpanCRF(passes=1),
)  # fmt: skip


@pytest.fixture(scope="module")
def data(small_bank: Treebank) -> TrainingData:
    return sw.PCFG().prepare(small_bank, Threads())


def is_same(one: Member, other: Member) -> bool:
    """Equal to the last bit."""
    (ours, header), (theirs, other_header) = one.to_file(), other.to_file()
    is_equal = all(np.array_equal(ours[name], theirs[name]) for name in ours)
    return header == other_header and ours.keys() == theirs.keys() and is_equal


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_treebank_and_its_data_teach_the_same(
    estimator: Any, small_bank: Treebank, data: TrainingData
) -> None:
    """Also when others have learnt from the data before, and left there what they made."""
    from_bank = estimator.fit(small_bank).model_
    assert is_same(estimator.fit(data).model_, from_bank)
    assert is_same(estimator.fit(data).model_, from_bank)


@pytest.mark.parametrize("other", [{"seed": 1}, {"n_states": 4}, {"kappa": 1.0}], ids=str)
def test_what_others_made_is_not_taken_for_ones_own(
    other: dict[str, Any], small_bank: Treebank, data: TrainingData
) -> None:
    learner = sw.SpectralLPCFG(3).fit(data)
    first = learner.model_
    assert is_same(learner.set_params(**other).fit(data).model_, learner.fit(small_bank).model_)
    assert not is_same(learner.model_, first)


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_the_estimator_of_the_plain_grammar_stays_as_it_was(
    estimator: Any, small_bank: Treebank
) -> None:
    plain = sw.PCFG(binarise="right")
    before = dict(vars(plain))
    learner = type(estimator)(**estimator.get_params() | {"plain": plain})
    assert learner.fit(small_bank).model_.transform.binarise == "right"
    assert vars(plain) == before


@pytest.mark.parametrize("n", [2, 7])
def test_shards_change_no_count(n: int, small_bank: Treebank, data: TrainingData) -> None:
    cut = sw.PCFG().prepare(shards_of(small_bank, n), Threads(2))
    assert len(cut.shards) == n
    for name in ("rules", "symbols", "roots", "lexical", "lexical_count"):
        np.testing.assert_array_equal(getattr(cut.counts, name), getattr(data.counts, name))
    assert is_same(cut.grammar, data.grammar)
    for mine, whole in zip(cut.classes, data.classes, strict=True):
        np.testing.assert_array_equal(mine, whole)


def test_classes_are_those_of_the_counted_words(small_bank: Treebank) -> None:
    """Words of the inventory that a part lacks are neither rare nor of a class."""
    part = sw.PCFG().prepare(small_bank[:20], Threads())
    count = part.classes.seen
    assert (count == 0).any()
    assert (part.classes.class_of_word[:, count == 0] == -1).all()
    assert (part.classes.class_of_word[:, count == 1] >= 0).all()


def test_the_lexicon_is_that_of_the_settings(small_bank: Treebank) -> None:
    rare = TrainingData(small_bank, LexiconSettings(rare_count=1), Threads()).grammar.lexicon
    ours = sw.PCFG(lexicon=LexiconSettings(rare_count=1)).fit(small_bank).model_.lexicon
    assert np.array_equal(rare.weights, ours.weights)
    assert not np.array_equal(rare.weights, sw.PCFG().fit(small_bank).model_.lexicon.weights)


def test_a_fingerprint_tells_trees_apart(small_bank: Treebank, data: TrainingData) -> None:
    def digest(small_bank: Treebank, n: int = 1) -> str:
        return sw.PCFG().prepare(shards_of(small_bank, n), Threads(n)).digest()

    assert digest(small_bank) == data.digest()
    others = [small_bank[:-1], small_bank[::-1], sw.bundled_treebank("train")[:150]]
    assert len({data.digest(), *map(digest, others)}) == 4
    other_end = small_bank[[*range(149), 0]]
    assert digest(other_end, 3) != digest(small_bank, 3) == digest(small_bank, 3)


def test_what_is_no_treebank_is_refused() -> None:
    with pytest.raises(SapwoodError, match="expected a treebank, not an int"):
        sw.PCFG().prepare(3, Threads())  # type: ignore[arg-type]
    with pytest.raises(SapwoodError, match="horizontal must be"):
        sw.PCFG(horizontal=-1).prepare(sw.bundled_treebank("dev"), Threads())


def test_a_record_counts_the_trees(small_bank: Treebank, data: TrainingData) -> None:
    assert data.sizes == {"trees": 150, "tokens": small_bank.n_tokens}
    assert data.grammar.record == {"method": "pcfg", **data.sizes}
