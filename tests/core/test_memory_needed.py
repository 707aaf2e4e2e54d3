"""Every learner knows how much memory it needs, and refuses before it takes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.ensemble import Candidate, EnsembleLPCFG
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.registry import METHODS
from sapwood.core.errors import SapwoodError
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.learn.methods import ARC_METHODS
from sapwood.execute import Threads
from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
from sapwood.lm.data.ngrams import count_sentences
from sapwood.lm.learn.eigenwords import WordEmbedding
from sapwood.lm.learn.methods import LM_METHODS

Limit = Callable[[int], None]
TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat"], ["dogs", "bark"]] * 5
ARCS = [Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"], ["NOUN", "VERB"])] * 8
REFUSED = r"needs about [\d.,]+ GB of memory, and 0\.0 GB are free"


@pytest.mark.parametrize("method", METHODS)
def test_learners_of_trees_refuse(method: str, bank: Treebank, limit_memory: Limit) -> None:
    limit_memory(1000)
    with pytest.raises(SapwoodError, match=REFUSED) as caught:
        METHODS[method].make().fit(bank)
    assert "fewer trees" in str(caught.value.hint)


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"pcfg", "best"}))
def test_learners_of_trees_know_their_own_needs(
    method: str, bank: Treebank, limit_memory: Limit
) -> None:
    data = PCFG().prepare(bank, Threads(1))
    learner = METHODS[method].make()
    needed = learner.memory_needed(data)
    assert needed > 50e6
    limit_memory(int(needed) - 1)
    with pytest.raises(SapwoodError, match=rf"needs about {needed / 1e9:.1f} GB") as caught:
        learner.fit(data)
    assert ("--states" in str(caught.value.hint)) == METHODS[method].has_states


@pytest.mark.parametrize("method", sorted(name for name, m in METHODS.items() if m.has_states))
def test_more_states_need_more_memory(method: str, bank: Treebank) -> None:
    if METHODS[method].has_candidates:
        pytest.skip("its candidates are checked one by one")
    data = PCFG().prepare(bank, Threads(1))
    few, many = (METHODS[method].make(n_states=m).memory_needed(data) for m in (2, 64))
    assert many > few


def test_a_mix_leaves_out_what_does_not_fit(bank: Treebank, limit_memory: Limit) -> None:
    plan = [Candidate("em", 2), Candidate("spectral", 4)]
    data = PCFG().prepare(bank[:60], Threads(1))
    needs = [METHODS[c.method].make(n_states=c.states).memory_needed(data) for c in plan]
    assert needs[1] > needs[0]
    limit_memory(int(sum(needs) / 2))
    mix = EnsembleLPCFG(plan=plan).fit(bank[:60])
    assert len(mix.model_.members) == 1
    assert mix.info_.trials[1].verdict.startswith("skipped: training on 60 trees with 4 states")


@pytest.mark.parametrize("method", ARC_METHODS)
def test_learners_of_arcs_refuse(method: str, limit_memory: Limit) -> None:
    limit_memory(1000)
    with pytest.raises(SapwoodError, match="training on 8 sentences.*" + REFUSED) as caught:
        ARC_METHODS[method].make().fit(ARCS)
    assert "fewer sentences" in str(caught.value.hint)


@pytest.mark.parametrize("method", LM_METHODS)
def test_language_models_refuse(method: str, limit_memory: Limit) -> None:
    counts = count_sentences(TEXT, order=3)
    learner = LM_METHODS[method].make()
    limit_memory(1000)
    with pytest.raises(SapwoodError, match=r"training on \d+ words.*" + REFUSED) as caught:
        learner.fit(counts)
    assert ("--states" in str(caught.value.hint)) == LM_METHODS[method].has("n_states")


def test_states_of_pairs_of_words_are_counted() -> None:
    counts = count_sentences(TEXT, order=3)
    needs = [LM_METHODS[name].make(n_states=4096).memory_needed(counts) for name in ("em", "mix")]
    assert needs[1] > 1.3 * needs[0]


@pytest.mark.parametrize("method", ["cca", "two-step", "bigram", "lr-mvl"])
def test_vectors_of_words_refuse(method: str, limit_memory: Limit) -> None:
    limit_memory(1000)
    with pytest.raises(SapwoodError, match="learning 2 dimensions of .*" + REFUSED):
        WordEmbedding(2, method=method, min_count=1).fit(TEXT)


@pytest.mark.parametrize("family", [UnmixPCFGIE, UnmixDEPIES])
def test_unmixing_refuses(family: type, limit_memory: Limit) -> None:
    limit_memory(1000)
    with pytest.raises(SapwoodError, match="unmixing 8 types of words " + REFUSED):
        family().fit(TEXT)
