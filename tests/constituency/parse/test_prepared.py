"""`PreparedGrammar`: made once, complete, shared by who prunes alike, gone with its grammar."""

from __future__ import annotations

import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from tests.toys import random_toy

import sapwood as sw
from sapwood.constituency.grammar import discriminative
from sapwood.constituency.grammar.discriminative import FeatureGrammar, SpanFeatures
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse import prepared as module
from sapwood.constituency.parse.prepared import prepare, prepare_grammars

WORDS = ["w0", "w1", "w2", "w0"]


@pytest.fixture
def grammar() -> LatentGrammar:
    return random_toy(np.random.default_rng(0), n_states=2).grammar()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The grammars whose plain tables were made."""
    made: list[object] = []
    right = module._plain_tables

    def plain_tables(grammar: LatentGrammar) -> module.PlainTables:
        made.append(grammar)
        return right(grammar)

    monkeypatch.setattr(module, "_plain_tables", plain_tables)
    return made


def test_many_questions_prepare_a_grammar_once(
    grammar: LatentGrammar, counted: list[object]
) -> None:
    parser = sw.Parser(grammar)
    tree = parser.parse(WORDS).tree
    for _ in range(3):
        grammar.log_prob(tree)
        grammar.log_prob(WORDS)
        grammar.log_probs([tree])
        sw.Parser(grammar).parse(WORDS)
    assert len(counted) == 1


def test_threads_that_start_together_prepare_a_grammar_once(
    grammar: LatentGrammar, counted: list[object]
) -> None:
    n, together = 8, Barrier(8)

    def ask(_: int) -> float:
        together.wait()
        return grammar.log_prob(WORDS)

    with ThreadPoolExecutor(n) as threads:
        found = set(threads.map(ask, range(n)))
    assert len(found) == 1
    assert len(counted) == 1


def test_a_grammar_that_nobody_uses_is_forgotten() -> None:
    grammar = random_toy(np.random.default_rng(1)).grammar()
    grammar.log_prob(WORDS)
    tables = weakref.ref(prepare(grammar).plain.visits)
    gone = weakref.ref(grammar)
    del grammar
    gc.collect()
    assert gone() is None
    assert tables() is None


def test_members_that_prune_alike_share_the_tables_of_their_plain_grammar(
    counted: list[object],
) -> None:
    bank = sw.bundled_treebank("dev")
    plain = sw.PCFG().fit(bank).model_
    spectral = sw.SpectralLPCFG(2).fit(bank).model_
    right = sw.PCFG(binarise="right").fit(bank).model_
    counted.clear()  # of training
    ensemble = sw.Ensemble.of([spectral, right, plain])
    assert ensemble.groups == ((0, 2), (1,))
    one, other, same = prepare_grammars(ensemble)
    assert one.plain is same.plain
    assert one.plain is not other.plain
    assert [p.grammar for p in (one, other, same)] == list(ensemble.members)
    parse = sw.Parser(ensemble).parse(["the", "dog", "sleeps", "."])
    assert np.isfinite([parse.log_prob, ensemble.log_prob(parse.tree)]).all()
    assert len(counted) == 2


def test_prepared_in_whatever_order_parses_are_the_same() -> None:
    bank = sw.bundled_treebank("dev")
    words = ["the", "girl", "saw", "a", "dog", "in", "the", "garden", "."]
    found = []
    for first in (0, 1):
        members = [sw.PCFG().fit(bank).model_, sw.SpectralLPCFG(2).fit(bank).model_]
        members[first].log_prob(words)
        parse = sw.Parser(sw.Ensemble.of(members)).parse(words)
        found.append((parse.tree, parse.log_prob, parse.marginals))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["latent", "crf", "ensemble"])
def test_no_table_travels(kind: str) -> None:
    """A pickled parse or parser has the model, and no more; it works like the first one."""
    bank = sw.bundled_treebank("dev")
    plain = sw.PCFG().fit(bank).model_
    crf = FeatureGrammar(
        plain, np.ones(4, np.float32), np.ones(len(plain.lexicon.words), np.bool_), plain.record
    )
    latent = sw.SpectralLPCFG(2).fit(bank).model_
    model = {"latent": latent, "crf": crf, "ensemble": sw.Ensemble.of([crf, latent])}[kind]
    parser, words = sw.Parser(model), ["the", "girl", "saw", "a", "dog", "in", "the", "garden", "."]
    parse = parser.parse(words)
    for whole in (parser, parse):
        assert len(pickle.dumps(whole)) < 1.2 * len(pickle.dumps(model)) + 50_000
    same, again = pickle.loads(pickle.dumps(parse)), pickle.loads(pickle.dumps(parser)).parse(words)
    for other in (same, again):
        assert (other.tree, other.marginals) == (parse.tree, parse.marginals)
        assert other.k_best(3) == parse.k_best(3)


def test_features_remember_words_while_others_forget_them(
    grammar: LatentGrammar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full memory is emptied by one thread while another one looks a word up."""
    monkeypatch.setattr(discriminative, "MOST_CACHED", 2)
    plain = random_toy(np.random.default_rng(0)).grammar()
    n_words = len(plain.lexicon.words)
    model = FeatureGrammar(plain, np.zeros(4, np.float32), np.ones(n_words, np.bool_))
    features = SpanFeatures(model)
    sentences = [[f"x{k % 7}", "w0", f"y{k % 5}"] for k in range(400)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(features.word_properties, sentences))
    for words, seen in zip(sentences, found, strict=True):
        np.testing.assert_array_equal(seen, SpanFeatures(model).word_properties(words))


def test_a_model_of_features_has_a_plain_grammar(grammar: LatentGrammar) -> None:
    n_words = len(grammar.lexicon.words)
    with pytest.raises(sw.SapwoodError, match="has hidden states, expected a plain one"):
        FeatureGrammar(grammar, np.zeros(4, np.float32), np.ones(n_words, np.bool_))
