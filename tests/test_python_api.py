"""Sapwood from Python, as somebody uses it who has read no more than a docstring."""

from __future__ import annotations

import io
import pickle
import traceback
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pytest

import sapwood as sw
from sapwood.execute import Threads

# -- a treebank is a sequence of trees ------------------------------------------------------------


def test_numbers_slices_lists_and_truth_values_choose_trees(bank: sw.Treebank) -> None:
    trees = [bank.tree(index) for index in range(len(bank))]
    assert list(bank) == trees
    assert [bank[3], bank[-1], bank[np.int64(3)]] == [trees[3], trees[-1], trees[3]]
    is_long = np.array([len(tree.words()) > 10 for tree in bank])
    for place in (slice(2, 9), slice(9, 2, -2), [4, 4, -1], np.array([7, 0]), is_long):
        wanted = np.arange(len(bank))[place]
        assert isinstance(bank[place], sw.Treebank)
        assert list(bank[place]) == [trees[k] for k in wanted]


@pytest.mark.parametrize("place", [300, -301, [0, 300], "NP", 1.5, None, [[1]], True])
def test_other_indices_are_refused(bank: sw.Treebank, place: Any) -> None:
    is_far = place in (300, -301, [0, 300])
    error, words = (IndexError, "300 trees") if is_far else (TypeError, "indexed by numbers")
    with pytest.raises(error, match=words):
        bank[place]


# -- what stands for a treebank -------------------------------------------------------------------


def test_pieces_and_nltk_trees_train_the_same_grammar(
    bank: sw.Treebank, plain: sw.LatentGrammar
) -> None:
    for given in (bank[list(range(len(bank)))], [tree.to_nltk() for tree in bank]):
        assert np.array_equal(sw.PCFG().fit(given).model_.rule_weights, plain.rule_weights)


def test_trees_given_as_objects_are_cleaned() -> None:
    raw = sw.Tree.parse("(S (NP-SBJ-1 (NNS dogs)) (VP (VBP bark) (NP (-NONE- *T*-1))))")
    (read,) = sw.PCFG().prepare([raw], Threads()).shards.items
    assert read[0] == sw.clean(raw)


@pytest.mark.parametrize("source", [[1, 2], [None], ["(S (A a))", 3]])
def test_lists_of_other_things_are_refused(source: Any) -> None:
    with pytest.raises(sw.SapwoodError, match="expected a tree"):
        sw.PCFG().fit(source)


def test_nltk_trees_are_scored_and_graded_like_ours(
    bank: sw.Treebank, plain: sw.LatentGrammar
) -> None:
    ours = bank[0]
    theirs = nltk.Tree.fromstring(str(ours))
    assert plain.log_prob(theirs) == plain.log_prob(ours)
    assert plain.log_probs([theirs])[0] == pytest.approx(plain.log_prob(ours))
    assert sw.evaluate.bracketing([theirs], [ours]).f1 == 100.0


# -- estimators -----------------------------------------------------------------------------------


def test_scikit_learn_chooses_the_number_of_states(bank: sw.Treebank) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    search = selection.GridSearchCV(sw.SpectralLPCFG(), {"n_states": [1, 2]}, cv=2)
    search.fit(bank)
    assert search.best_params_["n_states"] in (1, 2)
    assert 50.0 < search.best_score_ <= 100.0
    scores = selection.cross_val_score(sw.PCFG(), list(bank), cv=2)
    assert (scores > 50.0).all()


# -- what is shown --------------------------------------------------------------------------------


def test_a_repr_says_what_it_is_and_shows_no_arrays(
    bank: sw.Treebank, plain: sw.LatentGrammar
) -> None:
    parser, fitted = sw.Parser(plain), sw.SpectralLPCFG(n_states=4).fit(bank)
    for thing in (bank, plain.lexicon, parser, parser.parse(["dogs", "bark"]), fitted):
        assert len(repr(thing)) < 200, repr(thing)[:300]
        assert "array" not in repr(thing)
    assert repr(bank).startswith("<Treebank: 300 trees, ")
    assert "(pcfg)" in repr(plain)
    assert repr(sw.SpectralLPCFG(n_states=4)) == "SpectralLPCFG(n_states=4)"
    assert repr(sw.PCFG()) == "PCFG()"


# -- parsers and sentences ------------------------------------------------------------------------


def test_a_parser_and_its_parse_can_be_pickled(plain: sw.LatentGrammar) -> None:
    parser, words = sw.Parser(plain, decoder="viterbi"), ["the", "dog", "sleeps", "."]
    before = parser.parse(words)
    copy = pickle.loads(pickle.dumps(parser))
    for after in (copy.parse(words), pickle.loads(pickle.dumps(before))):
        assert (after.tree, after.log_prob) == (before.tree, before.log_prob)
        assert after.k_best(3) == before.k_best(3)
    assert (copy.decoder, copy.stats.sentences) == ("viterbi", 2)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("the dog", "not a string"),
        (b"the dog", "list of words, not a bytes"),
        (None, "list of words, not None"),
        (7, "list of words, not an int"),
        ([], "empty sentence"),
        (["the", 7], "word 2 of the sentence: a word is a string, not an int"),
        (["the", None], "word 2 of the sentence"),
        (["New York"], "word 1 of the sentence: the word 'New York' holds a blank"),
        (["a", "tab\there"], "holds a blank"),
        (["a", ""], "word 2 of the sentence: a word is empty"),
    ],
)
def test_a_wrong_sentence_is_explained(plain: sw.LatentGrammar, words: Any, found: str) -> None:
    for use in (sw.Parser(plain).parse, plain.log_prob, sw.Ensemble.of([plain]).log_prob):
        with pytest.raises(sw.SapwoodError, match=found) as caught:
            use(words)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("label", "children"),
    [
        (None, "dog"), ("NN", None), ("NN", 3), ("NN", ["dog", None]), ("NP", [3]),
        ("NN", "two words"), ("NN", ""), ("N N", "dog"), ("N(", "dog"), ("NP", []),
    ],
)  # fmt: skip
def test_a_tree_that_could_not_be_written_is_not_made(label: Any, children: Any) -> None:
    with pytest.raises(sw.SapwoodError):
        sw.Tree(label, children)


def test_brackets_in_words_are_escaped() -> None:
    tree = sw.Tree("S", [sw.Tree("-LRB-", "("), sw.Tree("NN", "a)b")])
    assert sw.Tree.parse(str(tree)).words() == ["-LRB-", "a-RRB-b"]


# -- every wrong type gets our words --------------------------------------------------------------

GRAMMAR = sw.bundled_grammar
MISUSE = {
    "read nothing": lambda: sw.read_treebank(None),
    "read a number": lambda: sw.read_treebank(5),
    "read a list of nothing": lambda: sw.read_treebank([None]),
    "load nothing": lambda: sw.load(None),
    "load a number": lambda: sw.load(5),
    "save nowhere": lambda: GRAMMAR().save(None),
    "draw minus one": lambda: GRAMMAR().sample(-1),
    "draw a string": lambda: GRAMMAR().sample("3"),
    "draw a half": lambda: GRAMMAR().sample(1.5),
    "draw from a mix": lambda: sw.Ensemble.of([GRAMMAR()]).sample("3"),
    "grade nothing": lambda: sw.evaluate.bracketing(None, None),
    "grade numbers": lambda: sw.evaluate.bracketing([1], [1]),
    "write a string": lambda: sw.write_trees(["x"], io.StringIO()),
    "write nothing": lambda: sw.write_trees(None, io.StringIO()),
    "parse brackets of nothing": lambda: sw.Tree.parse(None),
    "clean nothing": lambda: sw.clean(None),
    "clean a string": lambda: sw.clean("(A b)"),
    "states as a string": lambda: sw.SpectralLPCFG(n_states="8").fit(sw.bundled_treebank("dev")),
    "a number for a decoder": lambda: sw.Parser(GRAMMAR(), decoder=3),
    "a string for a threshold": lambda: sw.Parser(GRAMMAR(), threshold="x"),
    "a string for jobs": lambda: list(sw.Parser(GRAMMAR()).parse_many([["a"]], jobs="x")),
    "minus one job": lambda: list(sw.Parser(GRAMMAR()).parse_many([["a"]], jobs=-1)),
    "no sentences": lambda: sw.Parser(GRAMMAR()).parse_many(None),
    "a string for sentences": lambda: sw.Parser(GRAMMAR()).parse_many("the dog"),
    "k as a string": lambda: sw.Parser(GRAMMAR()).parse(["the", "dog"]).k_best("2"),
    "an empty mix": lambda: sw.Ensemble.of([]),
    "a mix of nothing": lambda: sw.Ensemble.of([None]),
    "weights as strings": lambda: sw.Ensemble.of([GRAMMAR()], ["x"]),
    "log-probabilities of sentences": lambda: GRAMMAR().log_probs([["a"]]),
    "log-probabilities of nothing": lambda: GRAMMAR().log_probs(None),
    "a wrong transform": lambda: sw.Transform(horizontal="x"),
    "dev trees as a number": lambda: sw.EMLPCFG(n_states=2).fit(sw.bundled_treebank("dev"), held=3),
    "an unknown parameter": lambda: sw.PCFG().set_params(x=3),
    "unmixing nothing": lambda: sw.UnmixPCFGIE(n_states=2).fit(None),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_explained(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sw.SapwoodError):
        MISUSE[name]()
    assert not list(tmp_path.iterdir())


def test_dev_trees_and_gold_trees_may_be_paths(bank: sw.Treebank, tmp_path: Path) -> None:
    path = tmp_path / "dev.mrg"
    sw.write_trees(bank[:20], path)
    assert sw.evaluate.bracketing(path, str(path)).f1 == 100.0
    fitted = sw.EMLPCFG(n_states=2, iterations=1).fit(bank[20:60], held=path)
    assert fitted.info_.dev_f1


HINTS = {
    "brackets for files": (lambda: sw.PCFG().fit(["(S (X a))"]), "sapwood.Tree.parse(s)"),
    "a file for a model": (lambda: sw.Parser("m.sapwood"), "sapwood.load('m.sapwood')"),
    "nothing for a model": (lambda: sw.Parser(None), "sapwood.load"),
    "an estimator for a model": (lambda: sw.Parser(sw.PCFG()), "estimator.model_"),
    "a string for words": (lambda: sw.Parser(GRAMMAR()).parse("the dog"), "Parser.parse_text"),
}


@pytest.mark.parametrize("name", HINTS)
def test_the_traceback_says_what_to_do(name: str) -> None:
    call, hint = HINTS[name]
    with pytest.raises(sw.SapwoodError) as caught:
        call()
    shown = "".join(traceback.format_exception(caught.value))
    assert hint in shown.splitlines()[-1]


def test_a_hint_that_changes_is_shown_once_also_behind_a_pickle() -> None:
    error = sw.SapwoodError("wrong", hint="first")
    error.add_note("a note")
    error.hint = "second"
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert one.__notes__ == ["a note", "hint: second"]
        assert one.hint == "second"
    error.hint = None
    assert error.__notes__ == ["a note"]
