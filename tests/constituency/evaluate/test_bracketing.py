"""Bracketing scores against hand-worked numbers, against properties, and against EVALB itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.corpora.formats import read_trees
from sapwood.corpora.tree import Tree
from sapwood.evaluate import BracketingReport, SentenceScore, bracketing

# The function has the name of its module, and hides it in the package.
MODULE = sys.modules[bracketing.__module__]


def score(gold: str, predicted: str, *, raw: bool = True) -> BracketingReport:
    return bracketing([Tree.parse(gold)], [Tree.parse(predicted)], raw=raw)


def counts(row: SentenceScore) -> tuple[int, int, int, int, int, int]:
    return (
        row.matched,
        row.gold_brackets,
        row.predicted_brackets,
        row.crossing,
        row.words,
        row.correct_tags,
    )


# -- a complete match ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "predicted", "complete"),
    [
        ("(S (A a) (B b))", "(S (A a) (B b))", 100),
        ("(S (A a) (B b))", "(S (X (A a)) (B b))", 0),  # all are found, and one too many
        ("(S (X (A a)) (B b))", "(S (A a) (B b))", 0),  # all are right, and one is missing
    ],
    ids=["same", "extra", "missing"],
)
def test_a_complete_match_has_the_same_brackets(gold: str, predicted: str, complete: float) -> None:
    assert score(gold, predicted).all.complete_match == complete


# -- hand-worked cases ----------------------------------------------------------------------------

# Words without the full stop: 0 old, 1 men, 2 saw, 3 birds, 4 there.
# Gold: S 0-5, NP 0-2, VP 2-5, NP 3-4, ADVP 4-5.
GOLD = "(TOP (S (NP (JJ old) (NNS men)) (VP (VBD saw) (NP (NNS birds)) (ADVP (RB there))) (. .)))"
# Predicted: S 0-5, NP 0-1, NP 1-3, NP 1-2, VP 2-3, NP 3-5, PRT 4-5.
ATTACHED = (
    "(TOP (S (NP (JJ old)) (NP (NP (NNS men)) (VP (VBN saw)))"
    " (NP (NNS birds) (PRT (RB there))) (. .)))"
)


def test_hand_worked_sentence() -> None:
    """Matched: S 0-5 and ADVP = PRT 4-5. Crossing: only NP 1-3 (it cuts NP 0-2 and VP 2-5)."""
    report = score(GOLD, ATTACHED)
    row = report.sentences[0]
    assert counts(row) == (2, 5, 7, 1, 5, 4)  # VBD against VBN is the wrong tag
    assert row.length == 6  # the full stop counts for the length
    assert row.recall == pytest.approx(100 * 2 / 5, abs=1e-12)
    assert row.precision == pytest.approx(100 * 2 / 7, abs=1e-12)
    assert report.f1 == pytest.approx(100 * 4 / 12, abs=1e-12)  # 2 matched / (gold + predicted)
    assert report.all.complete_match == 0
    assert report.all.average_crossing == 1
    assert report.all.tagging_accuracy == 80


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        # A bracket that occurs twice is found as often as the other side has it.
        ("(TOP (NP (NP (NN a))))", "(TOP (NP (NN a)))", (1, 2, 1, 0, 1, 1)),
        ("(TOP (NP (NN a)))", "(TOP (NP (NP (NP (NN a)))))", (1, 1, 3, 0, 1, 1)),
        # A tag under the root leaves no brackets at all.
        ("(TOP (NP (NN a)))", "(TOP (NN a))", (0, 1, 0, 0, 1, 1)),
        # A phrase over punctuation only is no bracket; where punctuation hangs is no matter.
        (
            "(TOP (S (NP (NN a)) (PRN (: --)) (VP (VB b) (, ,))))",
            "(TOP (S (NP (NN a) (: --)) (VP (VB b)) (, ,)))",
            (3, 3, 3, 0, 2, 2),
        ),
        # Function tags go from phrases, never from tags; traces are not there.
        (
            "(TOP (S (NP-SBJ-1 (NN-X a)) (VP=2 (VB b) (NP (-NONE- *-1)))))",
            "(TOP (S (NP (NN a)) (VP (VB b))))",
            (3, 3, 3, 0, 2, 1),
        ),
        # The customary roots are no brackets at the root, but `ROOT` further down is.
        ("(S1 (NP (NN a)))", "(ROOT (NP (NN a)))", (1, 1, 1, 0, 1, 1)),
        ("(TOP (ROOT (NP (NN a))))", "(TOP (NP (NN a)))", (1, 2, 1, 0, 1, 1)),
        # EVALB's equal labels hold for tags too.
        ("(TOP (NP (PRT a)))", "(TOP (NP (ADVP a)))", (1, 1, 1, 0, 1, 1)),
        # Nothing to match on either side is a complete match with recall 0, as EVALB has it.
        ("(TOP (NN a))", "(TOP (NN a))", (0, 0, 0, 0, 1, 1)),
    ],
)
def test_edge_cases(gold: str, predicted: str, expected: tuple[int, ...]) -> None:
    assert counts(score(gold, predicted).sentences[0]) == expected


def test_every_overlap_crosses_once() -> None:
    """[0,2) [2,4) against [1,3) [1,4): both predicted brackets cross, each counted once."""
    gold = "(TOP (S (A (X a) (X b)) (B (X c) (X d))))"
    predicted = "(TOP (S (X a) (C (D (X b) (X c)) (X d))))"
    assert score(gold, predicted).sentences[0].crossing == 2


def test_cleaning_collapses_what_raw_counts_twice() -> None:
    gold, predicted = "(TOP (NP (NP (NN a))))", "(NP (NN a))"
    assert counts(score(gold, predicted, raw=True).sentences[0])[:3] == (1, 2, 1)
    assert counts(score(gold, predicted, raw=False).sentences[0])[:3] == (1, 1, 1)


def test_original_treebank_as_gold() -> None:
    gold = "( (S (NP-SBJ-1 (DT a) (NN cat)) (VP (VBD sat) (NP (-NONE- *-1))) (. .)) )"
    predicted = "(TOP (S (NP (DT a) (NN cat)) (VP (VBD sat)) (. .)))"
    report = score(gold, predicted, raw=False)
    assert report.f1 == report.strict.f1 == 100


# -- sentences that EVALB drops -------------------------------------------------------------------


def test_mistagged_punctuation_is_an_error_but_not_in_strict() -> None:
    gold = "(TOP (S (NP (NN a)) (: -) (VP (VB b))))"
    predicted = "(TOP (S (NP (NN a) (SYM -)) (VP (VB b))))"
    report = score(gold, predicted)
    row = report.sentences[0]
    assert (row.status, row.length, row.problem) == (1, 3, "Length unmatch (2|3)")
    assert counts(row) == (0, 0, 0, 0, 0, 0)
    assert (report.all.errors, report.all.valid, report.f1) == (1, 0, 0.0)
    assert counts(report.strict_sentences[0]) == (3, 3, 3, 0, 2, 2)


def test_word_mistagged_as_punctuation_is_a_wrong_tag_in_strict() -> None:
    report = score("(TOP (S (NP (NN a)) (VP (VB b))))", "(TOP (S (NP (: a)) (VP (VB b))))")
    assert report.all.errors == 1
    assert counts(report.strict_sentences[0]) == (3, 3, 3, 0, 2, 1)


def test_mistagging_that_evalb_cannot_see() -> None:
    """The same word deleted in different places: EVALB scores one `a`, strict the gold one."""
    report = score("(TOP (S (NP (NN a)) (, a)))", "(TOP (S (NP (, a)) (VP (NN a))))")
    assert counts(report.sentences[0]) == (1, 2, 2, 0, 1, 1)  # S; NP against VP
    assert counts(report.strict_sentences[0]) == (2, 2, 2, 0, 1, 0)  # S, NP; the tag is wrong


def test_other_words_count_fully_against_strict() -> None:
    """Sentence 1 matches 2 of 2; sentence 2 adds 3 missed and 2 wrong: 2/5, 2/4, 1 of 3 tags."""
    gold = ["(TOP (S (NP (NN a))))", "(TOP (S (NP (NN a)) (VP (VB b)) (. .)))"]
    predicted = ["(TOP (S (NP (NN a))))", "(TOP (S (NP (NN a) (NN c)) (. .)))"]
    report = bracketing(map(Tree.parse, gold), map(Tree.parse, predicted), raw=True)
    assert report.sentences[1].problem == "Words unmatch (b|c)"
    assert (report.all.errors, report.all.f1) == (1, 100.0)
    strict = report.strict
    assert (strict.errors, strict.valid, strict.recall, strict.precision) == (0, 2, 40.0, 50.0)
    assert strict.tagging_accuracy == pytest.approx(100 / 3, abs=1e-12)
    assert strict.crossing == 2  # brackets that cannot be placed all count as crossing
    assert (strict.complete_match, strict.no_crossing, strict.two_or_less_crossing) == (50, 50, 50)


def test_only_punctuation_predicted_is_skipped() -> None:
    report = score("(TOP (NP (NN a)))", "(TOP (NP (. a)))")
    assert (report.all.errors, report.all.skipped, report.all.valid) == (0, 1, 0)
    assert report.strict.recall == 100  # NP 0-1 is there; only its tag is wrong
    assert report.strict.tagging_accuracy == 0


@pytest.mark.parametrize("nothing", [None, Tree.parse("(TOP (NP (-NONE- *)))")])
def test_nothing_left_is_an_error(nothing: Tree | None) -> None:
    tree = Tree.parse("(TOP (S (NP (NN a))))")
    report = bracketing([tree, nothing, nothing], [nothing, tree, nothing])
    assert [row.status for row in report.sentences] == [1, 1, 1]
    strict = report.strict
    assert (strict.matched, strict.gold_brackets, strict.predicted_brackets) == (0, 2, 2)


@pytest.mark.parametrize(("n_gold", "n_predicted"), [(3, 5), (5, 3), (0, 1)])
def test_different_numbers_of_trees(n_gold: int, n_predicted: int) -> None:
    tree = Tree.parse("(TOP (NP (NN a)))")
    with pytest.raises(SapwoodError, match=f"{n_predicted} for {n_gold}") as error:
        bracketing([tree] * n_gold, iter([tree] * n_predicted))
    assert error.value.hint


def test_no_trees_at_all() -> None:
    report = bracketing([], [])
    assert report.all.sentences == 0
    assert report.f1 == report.strict.f1 == 0.0


# -- totals and printing --------------------------------------------------------------------------


def test_length_cutoff_counts_punctuation_but_not_traces() -> None:
    def tree(n_words: int) -> Tree:
        words = " ".join(f"(NN w{i})" for i in range(n_words))
        return Tree.parse(f"(TOP (NP {words} (, ,) (-NONE- *)))")

    trees = [tree(39), tree(40)]
    report = bracketing(trees, trees, raw=True)
    assert [row.length for row in report.sentences] == [40, 41]
    assert (report.all.sentences, report.len40.sentences) == (2, 1)


def test_as_dict_is_flat_and_stable() -> None:
    scores = score(GOLD, ATTACHED).as_dict()
    assert list(scores) == ["all", "len40", "strict"]
    assert list(scores["all"]) == [
        "sentences", "errors", "skipped", "valid", "recall", "precision", "f1", "complete_match",
        "average_crossing", "no_crossing", "two_or_less_crossing", "tagging_accuracy",
        "matched", "gold_brackets", "predicted_brackets", "crossing", "words", "correct_tags",
    ]  # fmt: skip
    assert scores["all"]["recall"] == scores["strict"]["recall"] == 40.0


def test_text_and_table_show_the_same_numbers() -> None:
    report = score(GOLD, ATTACHED)
    assert "Bracketing Recall           40.00    40.00    40.00" in report.text()
    table = report.evalb_table()
    row = "   1    6    0   40.00  28.57     2      5    7      1      5     4    80.00\n"
    assert row in table
    assert "Bracketing FMeasure       =  33.33\n" in table


def test_depth_is_no_limit() -> None:
    tree = Tree("X", "a")
    for _ in range(5_000):
        tree = Tree("NP", [tree])
    assert bracketing([tree], [tree], raw=True).sentences[0].matched == 5_000


# -- properties -----------------------------------------------------------------------------------

WRITTEN = ["NN", "VB", "RP", ",", ".", "``"]
TAGS = st.sampled_from([*WRITTEN, "-NONE-"])
LABELS = st.sampled_from(["S", "NP", "VP", "ADVP", "PRT", "NP-SBJ"])
leaves = st.builds(Tree, TAGS, st.sampled_from(["a", "b"]))
phrases = st.recursive(
    leaves,
    lambda kids: st.builds(Tree, LABELS, st.lists(kids, min_size=1, max_size=4)),
    max_leaves=12,
)
# One sure word and one sure bracket, so that nothing is skipped and 100 can be reached.
sentences = phrases.map(lambda t: Tree("TOP", [Tree("S", [Tree("NN", "w"), t])]))


@st.composite
def pairs(draw: st.DrawFn, tag: st.SearchStrategy[str] = TAGS) -> tuple[Tree, Tree]:
    """Two bracketings of the same words, often with the same tags."""
    tags = draw(st.lists(tag, min_size=1, max_size=8))
    others = st.lists(tag, min_size=len(tags), max_size=len(tags))
    other = draw(st.just(tags) | others)
    return _bracket(draw, tags), _bracket(draw, other)


def _bracket(draw: st.DrawFn, tags: list[str]) -> Tree:
    forest = [Tree("NN", "w")] + [Tree(tag, f"w{i}") for i, tag in enumerate(tags)]
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(forest) - 1))
        end = draw(st.integers(start + 1, len(forest)))
        forest[start:end] = [Tree(draw(LABELS), forest[start:end])]
    return Tree("TOP", forest)


@given(st.lists(sentences, min_size=1, max_size=4), st.booleans())
def test_a_tree_against_itself_is_perfect(trees: list[Tree], raw: bool) -> None:
    report = bracketing(trees, trees, raw=raw)
    for t in (report.all, report.strict):
        assert (t.recall, t.precision, t.f1) == (100, 100, 100)
        assert (t.complete_match, t.no_crossing, t.tagging_accuracy) == (100, 100, 100)


@given(st.lists(pairs(), min_size=1, max_size=4))
def test_swapping_the_sides_swaps_recall_and_precision(both: list[tuple[Tree, Tree]]) -> None:
    gold, predicted = zip(*both, strict=True)
    there, back = bracketing(gold, predicted, raw=True), bracketing(predicted, gold, raw=True)
    assert (there.recall, there.precision) == (back.precision, back.recall)
    assert there.all.errors == back.all.errors
    assert there.all.correct_tags == back.all.correct_tags


@given(st.lists(st.tuples(phrases, phrases) | pairs(), max_size=4), st.booleans())
def test_bounds_and_strict_without_errors(both: list[tuple[Tree, Tree]], raw: bool) -> None:
    report = bracketing([a for a, _ in both], [b for _, b in both], raw=raw)
    for totals in (report.all, report.len40, report.strict):
        assert 0 <= totals.f1 <= 100 + 1e-9  # 2pr/(p+r) may round up in the last bit
        assert totals.matched <= min(totals.gold_brackets, totals.predicted_brackets)
    strict = report.strict
    assert (strict.errors, strict.skipped, strict.valid) == (0, 0, len(both))
    assert strict.gold_brackets >= report.all.gold_brackets
    assert report.text()
    assert report.evalb_table()


@given(pairs(st.sampled_from(WRITTEN)))
def test_crossing_agrees_with_its_definition(pair: tuple[Tree, Tree]) -> None:
    """The fencepost tables count what the quadratic definition counts."""
    gold, predicted = pair
    row = bracketing([gold], [predicted], raw=True).strict_sentences[0]
    kept = [tag not in {",", ".", "``"} for tag in gold.tags()]
    left, right = _phrases(gold, kept), _phrases(predicted, kept)
    assert row.crossing == sum(any(_cross(a, b) for a in left) for b in right)


def _phrases(tree: Tree, kept: list[bool]) -> list[tuple[int, int]]:
    nodes = zip(tree.nodes(), tree.spans(), strict=True)
    spans = [(sum(kept[:i]), sum(kept[:j])) for node, (_, i, j) in nodes if not node.is_preterminal]
    return [(i, j) for i, j in spans[1:] if i < j]  # without the root


def _cross(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[0] < a[1] < b[1] or b[0] < a[0] < b[1] < a[1]


# -- mutants: the hand-worked cases must notice a broken rule -------------------------------------


def _matched_as_sets(gold: Iterable[object], predicted: Iterable[object]) -> int:
    return len(set(gold) & set(predicted))


def test_mutant_without_the_duplicate_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """NP over NP, twice on both sides: two matches as multisets, one as sets."""
    twice = "(TOP (NP (NP (NN a))))"
    assert score(twice, twice).f1 == 100
    monkeypatch.setattr(MODULE, "_n_matches", _matched_as_sets)
    assert score(twice, twice).f1 == 50


def test_mutant_without_equal_labels_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, predicted = "(TOP (QX (PRT (RP up))))", "(TOP (QX (ADVP (RP up))))"
    assert score(gold, predicted).sentences[0].matched == 2
    monkeypatch.setattr(MODULE, "_bracket_label", lambda label: None if label == "TOP" else label)
    assert score(gold, predicted).sentences[0].matched == 1


# -- EVALB itself ---------------------------------------------------------------------------------


@pytest.mark.corpora
def test_every_number_equals_evalb() -> None:
    """Every row, total and error message that EVALB printed for 308 pairs of trees."""
    root = os.environ.get("SAPWOOD_DATA")
    if not root:
        pytest.skip("set SAPWOOD_DATA to the folder of corpora")
    folder = Path(root) / "evalb_cases"
    gold, predicted = read_trees(folder / "gold.mrg"), read_trees(folder / "predicted.mrg")
    report = bracketing(gold, predicted, raw=True)
    printed = (folder / "evalb.txt").read_text(encoding="utf-8")
    for row in report.sentences:
        if row.status:
            # EVALB's messages went to the other stream and landed in the middle of its rows.
            message = f"{row.number} : {row.problem}\n"
            assert printed.count(message) == 1
            printed = printed.replace(message, "")
    assert report.evalb_table() == printed
    assert report.strict.sentences == report.strict.valid == 308
