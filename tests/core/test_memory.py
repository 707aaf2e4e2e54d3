"""Memory: how much is free, and what learners refuse to begin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.ensemble import Candidate, EnsembleLPCFG
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.registry import METHODS
from sapwood.core.errors import SapwoodError, available_memory, require_memory
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.learn import ARC_METHODS
from sapwood.dependency.learn.moments import latent_bytes
from sapwood.execute import Threads
from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.learn import LM_METHODS
from sapwood.lm.learn.eigenwords import VECTOR_COPIES, WordEmbedding
from sapwood.lm.learn.latent import PAIR_COPIES, EMBigram, LatentTrigram


def test_the_least_of_all_limits_counts(limit_memory, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_memory(3 << 30)
    assert available_memory() == 3 << 30
    monkeypatch.setattr("sapwood.core.errors._process_memory", lambda: 1 << 20)
    assert available_memory() == 1 << 20
    monkeypatch.setattr("sapwood.core.errors._container_memory", lambda: -5)
    assert available_memory() == 0


def test_a_refusal_has_both_numbers(limit_memory) -> None:
    limit_memory(2_000_000_000)
    require_memory(2e9, "counting", "count less")
    with pytest.raises(SapwoodError, match=r"counting needs about 20\.6 GB .* 2\.0 GB are free"):
        require_memory(20.6e9, "counting", "count less")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_limit_of_the_process_is_known() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from sapwood.core.errors import available_memory; print(available_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 100_000_000 < int(done.stdout) < 1 << 30


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


def test_kernels_of_pivots_with_em_are_counted_once(bank: Treebank) -> None:
    """EM after pivots needs the features and what EM needs, in one process."""
    data = PCFG().prepare(bank, Threads(1))
    both, spectral, em = (
        METHODS[name].make(n_states=8).memory_needed(data)
        for name in ("pivot-em", "spectral", "em")
    )
    assert max(spectral, em) < both < spectral + em


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


def test_states_of_symbols_of_arcs_are_counted() -> None:
    """Tables of symbols and states grow with both."""
    of_symbols = [
        latent_bytes(1000, 2000, n_states, 1) - latent_bytes(1000, 1000, n_states, 1)
        for n_states in (8, 16)
    ]
    assert of_symbols[0] >= 8 * 1000 * 8
    assert of_symbols[1] == pytest.approx(2 * of_symbols[0])


@pytest.mark.parametrize("method", LM_METHODS)
def test_language_models_refuse(method: str, limit_memory: Limit) -> None:
    counts = count_sentence_ngrams(TEXT, order=3)
    learner = LM_METHODS[method].make()
    limit_memory(1000)
    with pytest.raises(SapwoodError, match=r"training on \d+ words.*" + REFUSED) as caught:
        learner.fit(counts)
    assert ("--states" in str(caught.value.hint)) == LM_METHODS[method].has("n_states")


def test_states_of_pairs_of_words_are_counted() -> None:
    """Several copies of a vector for each pair of words that was seen."""
    counts = count_sentence_ngrams(TEXT, order=3)
    n_pairs = len({tuple(row) for row in counts.rows[:, :2].tolist()})
    more = LatentTrigram(4096).memory_needed(counts) - EMBigram(4096).memory_needed(counts)
    assert more == pytest.approx(4 * PAIR_COPIES * n_pairs * 4096)
    assert LM_METHODS["mix"].make(n_states=4096).memory_needed(counts) > more


def test_vectors_of_words_and_of_their_contexts_are_counted() -> None:
    """A word has as many contexts as there are places in both windows."""
    for settings, n_contexts in (({"window": 2}, 4), ({"window": 3}, 6), ({"method": "bigram"}, 1)):
        small, large = (
            WordEmbedding(d, **settings).memory_needed(10**6, 1000, 2) for d in (10, 30)
        )
        assert large - small == pytest.approx(8 * VECTOR_COPIES * 20 * 1000 * (1 + n_contexts))


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
