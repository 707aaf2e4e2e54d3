"""An ensemble is a weighted mean of its members, and its file holds each of them bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, isclose, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Learn
from tests.constituency.grammar.ensemble_toys import toys
from tests.constituency.grammar.file_checks import (
    arrays,
    assert_refused,
    assert_same,
    resigned,
    rewritten,
)
from tests.reference import enumerate as listing
from tests.toys import exact_log, random_bases, random_toy, tree_of

import sapwood as sw
from sapwood.constituency.grammar.ensemble import Ensemble, generative_part, shares_chart
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.prepared import log_mean
from sapwood.core import model_files as kinds
from sapwood.core.errors import SapwoodError, SapwoodWarning

WORDS = ["w0", "w1", "w2", "w0"]
SENTENCE = ["the", "girl", "saw", "a", "dog", "in", "the", "garden", "."]


@pytest.fixture(scope="module")
def stranger(learn: Learn) -> LatentGrammar:
    """One whose trees were made binary in another way."""
    return learn("spectral", binarise="right")


# -- probabilities ----------------------------------------------------------------------------


def mean_by_fractions(weights: list[float], totals: list[Any]) -> float:
    """The slow twin: the exact weighted mean, then its logarithm."""
    from fractions import Fraction

    return exact_log(sum(Fraction(w) * x for w, x in zip(weights, totals, strict=True)))


def test_log_prob_is_the_log_of_the_weighted_mean() -> None:
    several, weights = toys(), [0.5, 0.3, 0.2]
    ensemble = Ensemble.of([toy.grammar() for toy in several], weights)
    weighted = [listing.weighted_trees(*toy.exactly(WORDS)) for toy in several]
    totals = [listing.sentence_weight(w) for w in weighted]
    found = ensemble.log_prob(WORDS)
    assert isclose(found, mean_by_fractions(weights, totals), abs_tol=1e-12)
    # Mutants: the mean of the logarithms, equal weights, weights in another order.
    assert not isclose(found, float(np.dot(weights, [exact_log(x) for x in totals])), abs_tol=1e-3)
    assert not isclose(found, mean_by_fractions([1 / 3] * 3, totals), abs_tol=1e-3)
    assert not isclose(found, mean_by_fractions(weights[::-1], totals), abs_tol=1e-3)
    for place in range(0, len(weighted[0]), 7):
        node = weighted[0][place][0]
        each = [listing.tree_weight(node, *toy.exactly(WORDS)) for toy in several]
        tree = tree_of(node, WORDS, 2)
        assert isclose(ensemble.log_prob(tree), mean_by_fractions(weights, each), abs_tol=1e-12)


@given(
    logs=st.lists(st.floats(-800, 5) | st.just(-inf), min_size=1, max_size=4),
    data=st.data(),
)
def test_means_of_tiny_numbers_do_not_underflow(logs: list[float], data: st.DataObject) -> None:
    raw = data.draw(st.lists(st.integers(1, 9), min_size=len(logs), max_size=len(logs)))
    weights = np.array(raw) / sum(raw)
    column = np.array(logs)[:, None]
    mean, sign = log_mean(column, np.isfinite(column).astype(float), weights)
    found = float(mean[0])
    assert sign[0] == (max(logs) > -inf)
    top = max(logs)
    if top == -inf:
        assert found == -inf
    else:
        expected = top + log(sum(w * exp(x - top) for w, x in zip(weights, logs, strict=True)))
        assert isclose(found, expected, abs_tol=1e-9)


def test_many_trees_at_once(family: list[LatentGrammar], bank: sw.Treebank) -> None:
    ensemble = Ensemble.of(family, [1, 2, 3])
    trees = [bank.tree(i) for i in range(20)]
    together = ensemble.log_probs(trees)
    alone = [ensemble.log_prob(tree) for tree in trees]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    strange = sw.Tree.parse("(TOP (FOO (BAR dog) (BAZ cat)))")
    assert ensemble.log_prob(strange) == -inf


def test_members_of_other_binarisations_score_treebank_trees(
    family: list[LatentGrammar], stranger: LatentGrammar, bank: sw.Treebank
) -> None:
    ensemble = Ensemble.of([family[0], stranger])
    tree = bank.tree(0)
    each = [m.log_prob(tree) for m in ensemble.members]
    top = max(each)
    assert isclose(
        ensemble.log_prob(tree),
        top + log(sum(exp(x - top) for x in each) / 2),
        abs_tol=1e-12,
    )


# -- groups, weights --------------------------------------------------------------------------


def test_groups_share_symbols_and_plain_grammar(
    family: list[LatentGrammar], stranger: LatentGrammar
) -> None:
    a, b, c = family
    assert Ensemble.of([a, stranger, b, c]).groups == ((0, 2, 3), (1,))
    assert Ensemble.of([stranger, a, stranger]).groups == ((0, 2), (1,))
    assert Ensemble.of([a]).groups == ((0,),)


def with_vocabulary(g: LatentGrammar, **change: Any) -> LatentGrammar:
    vocabulary = replace(g.lexicon.vocabulary, **change)
    return replace(g, lexicon=replace(g.lexicon, vocabulary=vocabulary))


CHANGES: dict[str, Callable[[LatentGrammar], LatentGrammar]] = {
    "plain rules": lambda g: replace(g, coarse=replace(g.coarse, rules=g.coarse.rules * 0.5)),
    "plain roots": lambda g: replace(g, coarse=replace(g.coarse, root=g.coarse.root * 0.5)),
    "plain words": lambda g: replace(g, coarse=replace(g.coarse, lexical=g.coarse.lexical * 0.5)),
    "words": lambda g: with_vocabulary(g, words=(*g.lexicon.words[:-1], "another")),
    "symbols": lambda g: replace(g, phrases=g.phrases[::-1]),
    "transform": lambda g: replace(g, transform=replace(g.transform, binarise="left")),
    "signatures": lambda g: with_vocabulary(g, style="english"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_grammars_that_prune_differently_share_no_chart(change: str) -> None:
    one, other = (toy.grammar() for toy in toys(2))
    assert shares_chart(one, other)
    assert not shares_chart(one, CHANGES[change](other))


@pytest.mark.parametrize("weights", [[1, -1], [2, -1], [1, float("nan")], [1, inf], [1], [0, 0]])
def test_bad_weights_are_refused(weights: list[float]) -> None:
    members = [toy.grammar() for toy in toys(2)]
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(SapwoodError, match="weights of"),
    ):
        Ensemble.of(members, weights)


def test_what_an_ensemble_must_be() -> None:
    members = tuple(toy.grammar() for toy in toys(2))
    with pytest.raises(SapwoodError, match="at least one"):
        Ensemble.of([])
    with pytest.raises(SapwoodError, match="sum to 1, not to 2") as caught:
        Ensemble(members, np.ones(2))
    assert "Ensemble.of" in str(caught.value.hint)
    with pytest.raises(SapwoodError, match="combine must be one of mean, product"):
        Ensemble(members, np.full(2, 0.5), "vote")
    assert Ensemble.of(members, [3, 1]).weights.tolist() == [0.75, 0.25]


# -- samples ----------------------------------------------------------------------------------


def test_samples_come_from_members_by_weight(bank: sw.Treebank) -> None:
    plain = sw.PCFG().fit(bank).model_
    ensemble = Ensemble.of([plain, sw.bundled_grammar()], [1, 3])
    trees = ensemble.sample(400, seed=1)
    assert trees == ensemble.sample(400, seed=1)
    assert trees != ensemble.sample(400, seed=2)
    # Words that only the bundled grammar has: its vocabulary is larger than that of 300 trees.
    known = set(plain.lexicon.words)
    n_strange = sum(not known.issuperset(tree.words()) for tree in trees)
    alone = sum(
        not known.issuperset(tree.words()) for tree in sw.bundled_grammar().sample(400, seed=1)
    )
    assert 0.6 * alone < n_strange < 0.9 * alone  # 0.75, five standard errors either side
    assert ensemble.sample(0) == []
    only = Ensemble.of([plain, sw.bundled_grammar()], [1, 0])
    assert all(known.issuperset(tree.words()) for tree in only.sample(50))


def test_members_without_probabilities_are_left_out_of_samples(
    bank: sw.Treebank, family: list[LatentGrammar], learn: Learn
) -> None:
    """A mix draws from its generative members, by their weights among themselves."""
    plain, other = sw.PCFG().fit(bank).model_, sw.bundled_grammar()
    mixed = Ensemble.of([family[0], plain, other, learn("crf")], [5, 1, 3, 1])
    with pytest.warns(SapwoodWarning, match=r"pcfg \(25%\).*left out: spectral and crf"):
        drawn = mixed.sample(40, seed=3)
    assert drawn == Ensemble.of([plain, other], [1, 3]).sample(40, seed=3)
    unweighted = Ensemble.of([family[0], plain], [1, 0])
    assert generative_part(unweighted).weights.tolist() == [1.0]


def test_a_mix_without_any_probabilities_has_no_samples(family: list[LatentGrammar]) -> None:
    with pytest.raises(SapwoodError, match="by their probabilities, and spectral has none"):
        Ensemble.of(family[:1] * 2).sample(1)


# -- files ------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "ensemble.sapwood"
    Ensemble.of([toy.grammar() for toy in toys()], [5, 3, 2]).save(path)
    return path


@pytest.mark.parametrize("sharpness", [0.0, -1.0, np.inf, np.nan])
def test_bad_sharpness_is_refused(sharpness: float, family: list[LatentGrammar]) -> None:
    with pytest.raises(SapwoodError, match="sharpness must be"):
        replace(Ensemble.of(family), sharpness=sharpness)


def test_sharpness_is_that_of_probabilities_only(family: list[LatentGrammar]) -> None:
    """It moves marginals away from a half, and leaves their order as it is."""
    plain, sharp = (replace(Ensemble.of(family), sharpness=a) for a in (1.0, 2.0))
    one, other = (sw.Parser(e).parse(SENTENCE).marginals for e in (plain, sharp))
    before = {c[:3]: c.probability for c in one}
    for c in (c for c in other if c.end - c.start > 1):  # the tags of a word then sum to 1 again
        p = before[c[:3]]
        assert c.probability == pytest.approx(p**2 / (p**2 + (1 - p) ** 2), abs=1e-9)


def test_an_ensemble_comes_back_the_same(
    family: list[LatentGrammar], stranger: LatentGrammar, tmp_path: Path
) -> None:
    path = tmp_path / "ensemble.sapwood"
    before = replace(
        Ensemble.of([family[0], stranger, *family[1:]], [1, 2, 3, 4]),
        combine="product",
        sharpness=1.25,
        record={"method": "best", "dev_f1": 89.5},
    )
    before.save(path)
    after = sw.load(path)
    assert isinstance(after, Ensemble)
    assert after.weights.tobytes() == before.weights.tobytes()
    assert (after.combine, after.record) == ("product", {"method": "best", "dev_f1": 89.5})
    assert after.sharpness == 1.25
    assert after.groups == before.groups == ((0, 2, 3), (1,))
    for one, other in zip(before.members, after.members, strict=True):
        assert_same(one.rounded(), other)
        assert np.array_equal(one.rule_rank, other.rule_rank)
    one, other = (sw.Parser(e).parse(SENTENCE) for e in (before, after))
    assert one.tree == other.tree
    assert [c[:3] for c in one.marginals] == [c[:3] for c in other.marginals]
    p, q = (np.array([c.probability for c in parse.marginals]) for parse in (one, other))
    np.testing.assert_allclose(p, q, atol=1e-6)  # rules are rounded to 24 bits
    after.save(tmp_path / "again.sapwood")
    assert (tmp_path / "again.sapwood").read_bytes() == path.read_bytes()


def test_members_of_one_treebank_are_stored_with_what_they_share_once(
    family: list[LatentGrammar], tmp_path: Path
) -> None:
    for place, member in enumerate(family):
        member.save(tmp_path / f"{place}.sapwood")
    alone = sum((tmp_path / f"{place}.sapwood").stat().st_size for place in range(len(family)))
    path = tmp_path / "ensemble.sapwood"
    Ensemble.of(family).save(path)
    tensors, header = kinds._read(path)
    shared = [k for k in tensors if k.endswith(".rules") or k.endswith(".lexicon_row_start")]
    assert sorted(shared) == ["0.lexicon_row_start", "0.rules"]
    assert [("words" in member) for member in header["model"]["members"]] == [True, False, False]
    # Two of three copies of words, rules and the plain grammar are gone.
    kept = sum(array.nbytes for name, array in tensors.items() if name[0] != "0")
    own = sum(a.nbytes for m in family[1:] for a in (m.n_states, m.root, m.lexicon.weights))
    assert kept < own + sum(m.rule_weights.nbytes for m in family[1:]) + 100
    assert path.stat().st_size < alone - sum(
        a.nbytes for m in family[1:] for a in (m.rules, m.lexicon.row_start, m.lexicon.entry_tag)
    )


def test_another_way_to_combine_is_noticed(saved: Path) -> None:
    rewritten(saved, lambda header: header["model"].update(combine="product"))
    assert_refused(saved, "do not match its checksum")


BROKEN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no members": lambda model: model.pop("members"),
    "an empty list": lambda model: model.update(members=[]),
    "members no list": lambda model: model.update(members=7),
    "a member too many": lambda model: model["members"].append(model["members"][1]),
    "a member too few": lambda model: model["members"].pop(),
    "like nobody": lambda model: model["members"][1].update(like=9),
    "like no number": lambda model: model["members"][1].update(like="first"),
    "like itself": lambda model: model["members"][1].update(like=1),
    "no like": lambda model: model["members"][1].pop("like"),
    "the wrong combination": lambda model: model.update(combine="vote"),
    "no record": lambda model: model.pop("record"),
    "words gone": lambda model: model["members"][0].pop("words"),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_ensemble_is_refused(change: str, saved: Path) -> None:
    resigned(saved, BROKEN[change])
    assert_refused(saved, "not a valid model")


@pytest.mark.parametrize("name", ["weights", "0.rules", "2.rule_codes", "2.n_states"])
def test_missing_or_misshapen_tensors_are_refused(name: str, saved: Path) -> None:
    for changed in (None, np.empty(0), np.full(7, -1.0)):
        tensors, header = kinds._read(saved)
        spoilt = {key: array for key, array in tensors.items() if key != name}
        spoilt |= {} if changed is None else {name: changed}
        header["sha256"] = kinds.digest_of(spoilt, header["model"])
        path = saved.with_name("spoilt.sapwood")
        kinds.write_atomically(path, spoilt, header)
        assert_refused(path, "not a valid model")


def test_weights_that_do_not_sum_to_one_are_refused(saved: Path) -> None:
    tensors, header = kinds._read(saved)
    tensors["weights"] = tensors["weights"] * 2
    header["sha256"] = kinds.digest_of(tensors, header["model"])
    kinds.write_atomically(saved, tensors, header)
    assert_refused(saved, "sum to 1")


@settings(max_examples=10)
@given(seed=st.integers(0, 999))
def test_rebased_members_come_back_too(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Weights of either sign, in the same symbols: shared parts are found by what they hold."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_states=3)
    members = [toy.grammar(), toy.rebased(random_bases(rng, toy.n_states)).grammar()]
    path = tmp_path_factory.mktemp("e") / "e.sapwood"
    Ensemble.of(members).save(path)
    after = sw.load(path)
    assert isinstance(after, Ensemble)
    for one, other in zip((one.rounded() for one in members), after.members, strict=True):
        assert [a.tobytes() for a in arrays(one)] == [b.tobytes() for b in arrays(other)]


def test_a_mean_that_overflows_has_no_sign() -> None:
    with np.errstate(invalid="ignore"):
        mean, sign = log_mean(np.array([[np.inf]]), np.array([[1.0]]), np.ones(1))
        nothing, none = log_mean(np.array([[np.nan]]), np.array([[1.0]]), np.ones(1))
    assert (mean[0], sign[0]) == (np.inf, 1.0)
    assert np.isnan(nothing[0])
    assert none[0] == 0.0
