"""The kinds of errors against hand-worked cases, EVALB's totals, and the trees themselves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.constituency.evaluate import errors as diagnosis
from sapwood.constituency.evaluate.bracketing import ScoredBrackets, scored_brackets
from sapwood.constituency.evaluate.errors import KINDS, UNARY, WRONG_LABEL
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree
from sapwood.evaluate import BracketError, ErrorReport, bracketing, diagnose


def diagnosed(gold: str, predicted: str) -> ErrorReport:
    return diagnose([Tree.parse(gold)], [Tree.parse(predicted)], raw=True)


def kinds(report: ErrorReport) -> dict[str, tuple[int, int]]:
    return {row.kind: (row.missing, row.extra) for row in report.kinds}


# -- which brackets belong together --------------------------------------------------------------


def test_of_two_that_share_an_edge_the_nearer_is_the_shifted_one() -> None:
    report = diagnosed(
        "(S (NP (A a) (B b) (C c)) (D d) (E e) (F f))",
        "(S (NP (NP (A a) (B b)) (C c) (D d) (E e)) (F f))",
    )
    pairs = {(error.missing, error.extra) for error in report.errors}
    assert pairs == {(("NP", 0, 3), ("NP", 0, 2)), (None, ("NP", 0, 5))}


def test_brackets_that_occur_twice_are_matched_twice() -> None:
    text = "(S (NP (NP (A a) (B b))) (C c))"
    (np,) = (row for row in diagnosed(text, text).labels if row.label == "NP")
    assert (np.gold, np.predicted, np.matched) == (2, 2, 2)


# -- hand-worked cases ----------------------------------------------------------------------------

HIGH = "(S (NP (PRP I)) (VP (VBD saw) (NP (NNS men)) (PP (IN in) (NP (NN town)))))"
LOW = "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (NNS men)) (PP (IN in) (NP (NN town))))))"


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        # The PP belongs to the verb, or to the noun: one NP too few, one too many.
        (LOW, HIGH, {"PP attachment": (1, 0)}),
        (HIGH, LOW, {"PP attachment": (0, 1)}),
        # A PP that hangs one PP too low stretches that PP, its NP and an adjunction with it.
        (
            "(NP (NP (NN a)) (PP (IN of) (NP (NN b))) (PP (IN in) (NP (NN c))))",
            "(NP (NP (NN a)) (PP (IN of) (NP (NP (NN b)) (PP (IN in) (NP (NN c))))))",
            {"PP attachment": (1, 2)},
        ),
        # The same words under another label, and a level more or less.
        ("(S (NP (CD 9)) (X (Z z)))", "(S (QP (CD 9)) (X (Z z)))", {"wrong label": (1, 1)}),
        ("(S (NP (QP (CD 9) (CD 8))))", "(S (NP (CD 9) (CD 8)))", {"unary level": (1, 0)}),
        ("(S (VB go) (RB on))", "(S (VB go) (ADVP (RB on)))", {"unary level": (0, 1)}),
        # Two levels against one of a third name: one pair, and one level missing.
        (
            "(X (S (VP (VB go) (RB on))) (Z z))",
            "(X (NP (VB go) (RB on)) (Z z))",
            {"wrong label": (1, 1), "unary level": (1, 0)},
        ),
        # The clause is part of the object, or follows it.
        (
            "(VP (VB a) (NP (NP (NN b)) (SBAR (IN c) (S (VP (VB d))))) (Z z))",
            "(VP (VB a) (NP (NN b)) (SBAR (IN c) (S (VP (VB d)))) (Z z))",
            {"clause attachment": (1, 0)},
        ),
        # The adverb is in the verb phrase, or before it.
        (
            "(S (NP (NN a)) (ADVP (RB b)) (VP (VB c) (NP (NN d))))",
            "(S (NP (NN a)) (VP (ADVP (RB b)) (VB c) (NP (NN d))))",
            {"modifier attachment": (1, 1)},
        ),
        (
            "(S (NP (NN a)) (RB b) (VP (VB c) (NP (NN d))))",
            "(S (NP (NN a)) (VP (RB b) (VB c) (NP (NN d))))",
            {"modifier attachment": (1, 1)},
        ),
        # A second object, or an apposition.
        (
            "(S (VP (VB a) (NP (NN b)) (NP (NN c))) (Z z))",
            "(S (VP (VB a) (NP (NP (NN b)) (NP (NN c)))) (Z z))",
            {"NP attachment": (0, 1)},
        ),
        (
            "(S (NP (NN a)) (VP (VB b) (VP (VB d))) (Z z))",
            "(S (NP (NN a)) (VP (VB b)) (VP (VB d)) (Z z))",
            {"VP attachment": (1, 1)},
        ),
        # What is joined: `old men and women`.
        (
            "(VP (V v) (NP (NP (JJ old) (NNS men)) (CC and) (NP (NNS women))))",
            "(VP (V v) (NP (JJ old) (NP (NNS men) (CC and) (NP (NNS women)))))",
            {"coordination": (1, 1)},
        ),
        (
            "(VP (V v) (NP (NN a)) (PP (IN b) (NP (NN c) (CC and) (NN d))))",
            "(VP (V v) (NP (NN a)) (PP (IN b) (NP (NN c))) (CC and) (NN d))",
            {"coordination": (2, 2)},
        ),
        # A flat noun phrase, and one that ends too early.
        (
            "(S (NP (NP (DT a) (POS s)) (NN b) (NN c)) (Z z))",
            "(S (NP (DT a) (POS s) (NN b) (NN c)) (Z z))",
            {"NP structure": (1, 0)},
        ),
        (
            "(S (NP (DT a) (NN b) (NN c)) (VP (V v) (V w)))",
            "(S (NP (DT a) (NN b)) (X (NN c) (V v) (V w)))",
            {"span boundary": (1, 1), "other structure": (1, 1)},
        ),
        # A label that no kind knows.
        (
            "(S (VP (V v) (NP (NP (NN a)) (LST (LS 1)))) (Z z))",
            "(S (VP (V v) (NP (NN a)) (LST (LS 1))) (Z z))",
            {"other attachment": (1, 0)},
        ),
    ],
)
def test_kinds(gold: str, predicted: str, expected: dict[str, tuple[int, int]]) -> None:
    assert kinds(diagnosed(f"(TOP {gold})", f"(TOP {predicted})")) == expected


def test_the_moved_phrase_and_its_parents_are_told() -> None:
    report = diagnosed(f"(TOP {LOW})", f"(TOP {HIGH})")
    (error,) = report.errors
    assert error == BracketError(
        "PP attachment",
        sentence=1,
        missing=("NP", 2, 5),
        extra=None,
        phrase=("PP", 3, 5),
        gold_parent=("NP", 2, 5),
        predicted_parent=("VP", 1, 5),
    )
    assert report.phrase_words(1, error.phrase) == "in town"


def test_one_move_is_one_place_however_many_brackets_it_costs() -> None:
    gold = "(TOP (S (VP (V a) (NP (NN b)) (PP (IN of) (NP (NN c)))) (PP (IN d) (NP (NN e))) (Z z)))"
    low = gold.replace(
        "(NP (NN c)))) (PP (IN d) (NP (NN e)))", "(NP (NP (NN c)) (PP (IN d) (NP (NN e))))))"
    )
    report = diagnosed(gold, low)
    assert report.kinds[0][:4] == ("PP attachment", 1, 2, 3)
    assert len(report.examples("PP attachment", 5)) == 1


def test_labels_and_tags() -> None:
    report = diagnosed(
        "(TOP (S (NP (NN a)) (VP (VB b) (NP (NN c)))))",
        "(TOP (S (NP (JJ a)) (VP (NN b) (ADJP (JJ c)))))",
    )
    scores = {row.label: (row.gold, row.predicted, row.matched) for row in report.labels}
    assert scores == {"NP": (2, 1, 1), "S": (1, 1, 1), "VP": (1, 1, 1), "ADJP": (0, 1, 0)}
    noun = report.labels[0]
    assert (noun.recall, noun.precision, noun.missing, noun.extra) == (50, 100, 1, 0)
    assert noun.f1 == pytest.approx(200 / 3, abs=1e-12)
    assert report.wrong_labels == {("NP", "ADJP"): 1}
    assert report.tags == {("NN", "JJ"): 2, ("VB", "NN"): 1}


def test_punctuation_and_equal_labels_are_no_errors() -> None:
    report = diagnosed(
        "(TOP (S (NP (NN a) (, ,)) (VP (VB b) (PRT (RP c))) (. .)))",
        "(TOP (S (NP (NN a)) (, ,) (VP (VB b) (ADVP (RP c)) (. .))))",
    )
    assert (report.errors, report.tags) == ([], {})


def test_dropped_sentences_are_counted_only() -> None:
    a, b = Tree.parse("(TOP (NP (NN a)))"), Tree.parse("(TOP (VP (NN b)))")
    report = diagnose([a, a, a], [a, b, None])
    assert (report.sentences, report.dropped, report.errors) == (1, 2, [])


def test_different_numbers_of_trees() -> None:
    tree = Tree.parse("(TOP (NP (NN a)))")
    with pytest.raises(SapwoodError, match="1 for 2"):
        diagnose([tree, tree], [tree])


def test_as_dict_adds_up() -> None:
    report = diagnosed(f"(TOP {LOW})", f"(TOP {HIGH})").as_dict(examples=1)
    assert (report["missing"], report["extra"]) == (1, 0)
    assert sum(row["missing"] for row in report["labels"].values()) == 1
    (example,) = report["kinds"]["PP attachment"]["examples"]
    assert example["phrase"] == {"label": "PP", "words": "in town"}
    assert example["predicted_parent"] == {"label": "VP", "words": "saw men in town"}
    assert example["extra"] is None


# -- every bracket once ---------------------------------------------------------------------------

LABELS = st.sampled_from(["S", "NP", "VP", "PP", "ADVP", "PRT", "QP"])
TAGS = st.sampled_from(["NN", "VB", "RB", "CC", ",", "."])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """Two bracketings of the same words, sometimes with other tags."""
    tags = draw(st.lists(TAGS, min_size=1, max_size=8))
    other = draw(st.just(tags) | st.lists(TAGS, min_size=len(tags), max_size=len(tags)))
    return _bracket(draw, tags), _bracket(draw, other)


def _bracket(draw: st.DrawFn, tags: list[str]) -> Tree:
    forest = [Tree("NN", "w")] + [Tree(tag, f"w{i}") for i, tag in enumerate(tags)]
    for _ in range(draw(st.integers(0, 8))):
        start = draw(st.integers(0, len(forest) - 1))
        end = draw(st.integers(start + 1, len(forest)))
        forest[start:end] = [Tree(draw(LABELS), forest[start:end])]
    return Tree("TOP", forest)


def check_totals(gold: list[Tree], predicted: list[Tree]) -> None:
    """The kinds share out exactly the brackets, and the tags, that EVALB misses."""
    report, evalb = diagnose(gold, predicted, raw=True), bracketing(gold, predicted, raw=True).all
    assert report.missing == evalb.gold_brackets - evalb.matched
    assert report.extra == evalb.predicted_brackets - evalb.matched
    assert report.tags.total() == evalb.words - evalb.correct_tags
    for part in (report.kinds, report.labels):
        assert sum(row.missing for row in part) == report.missing
        assert sum(row.extra for row in part) == report.extra
    assert {error.kind for error in report.errors} <= set(KINDS)
    assert (report.sentences, report.dropped) == (evalb.valid, evalb.errors + evalb.skipped)
    for row, pair in scored_brackets(gold, predicted, raw=True):
        errors = [error for error in report.errors if error.sentence == row.number]
        if pair:
            check_sentence(errors, pair)


def check_sentence(errors: list[BracketError], pair: ScoredBrackets) -> None:
    """Exactly the wrong brackets, each once, and nothing said of the trees that is not so."""
    gold, predicted = Counter(pair.gold), Counter(pair.predicted)
    assert Counter(e.missing for e in errors if e.missing) == gold - predicted
    assert Counter(e.extra for e in errors if e.extra) == predicted - gold
    for error in errors:
        has_moved = error.phrase not in (error.missing, error.extra)
        for parent, own, tree in (
            (error.gold_parent, error.missing, gold),
            (error.predicted_parent, error.extra, predicted),
        ):
            assert parent in tree or parent == ("TOP", 0, len(pair.words))
            _, start, end = error.phrase if has_moved or own is None else own
            assert parent[1] <= start < end <= parent[2]
        if error.kind.endswith("attachment"):
            check_attachment(error, pair)
        if error.kind == WRONG_LABEL:
            assert error.missing
            assert error.extra
            assert error.missing[1:] == error.extra[1:]
        if error.kind == UNARY:
            assert (error.missing is None) != (error.extra is None)


def check_attachment(error: BracketError, pair: ScoredBrackets) -> None:
    """Both trees have what moved, and hang it below different words."""
    label, start, end = error.phrase
    is_word = end - start == 1 and pair.gold_tags[start] == label
    assert is_word or (error.phrase in pair.gold and error.phrase in pair.predicted)
    assert error.gold_parent[1:] != error.predicted_parent[1:]


@given(st.lists(pairs(), min_size=1, max_size=3))
def test_every_wrong_bracket_has_one_kind(both: list[tuple[Tree, Tree]]) -> None:
    check_totals([a for a, _ in both], [b for _, b in both])


@given(pairs())
def test_swapping_the_sides_swaps_missing_and_extra(both: tuple[Tree, Tree]) -> None:
    there, back = diagnose([both[0]], [both[1]], raw=True), diagnose([both[1]], [both[0]], raw=True)
    assert (there.missing, there.extra) == (back.extra, back.missing)
    for kind in (WRONG_LABEL, UNARY):
        assert kinds(there).get(kind, (0, 0)) == kinds(back).get(kind, (0, 0))[::-1]


@given(pairs())
def test_a_tree_against_itself_has_no_errors(both: tuple[Tree, Tree]) -> None:
    report = diagnose([both[0]], [both[0]], raw=True)
    assert not report.errors
    assert not report.tags


def test_parsed_trees() -> None:
    """Real trees and the bundled grammar's parses of them."""
    gold = [tree for tree in sw.bundled_treebank("dev").trees() if len(tree.words()) < 15][:40]
    parser = sw.Parser(sw.bundled_grammar())
    check_totals(gold, [parser.parse(tree.words()).tree for tree in gold])


def test_depth_is_no_limit() -> None:
    deep = Tree("X", "a")
    for _ in range(3_000):
        deep = Tree("NP", [deep])
    flat = Tree("TOP", [Tree("NP", [Tree("X", "a")])])
    assert kinds(diagnose([Tree("TOP", [deep])], [flat], raw=True)) == {UNARY: (2_999, 0)}


# -- mutants: the checks above must notice --------------------------------------------------------

TWICE = Tree.parse("(TOP (X (NP (NP (NN a) (NN b))) (Z z)))")
ONCE = Tree.parse("(TOP (X (NP (NN a) (NN b)) (Z z)))")
# L ends early or late, but the phrase at its edge has the same parent, X, on both sides.
INSIDE = Tree.parse("(TOP (S (X (L (W a) (W b)) (NP (W c))) (PP (W d)) (W e)))")
OUTSIDE = Tree.parse("(TOP (S (L (X (W a) (W b) (NP (W c))) (PP (W d))) (W e)))")


def test_the_mutants_are_about_something() -> None:
    check_totals([TWICE, INSIDE], [ONCE, OUTSIDE])


def test_mutant_with_sets_for_multisets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_repeats(view: diagnosis._Side) -> list[int]:
        right = {view.brackets[node] for node in view.others}
        return [node for node, bracket in enumerate(view.brackets) if bracket not in right]

    monkeypatch.setattr(diagnosis, "_wrong_nodes", without_repeats)
    with pytest.raises(AssertionError):
        check_totals([TWICE], [ONCE])


def test_mutant_that_blames_what_did_not_move_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis._Sentence, "_hangs_elsewhere", lambda self, unit: True)
    with pytest.raises(AssertionError):
        check_totals([INSIDE], [OUTSIDE])


def test_mutant_that_pairs_labels_without_using_them_up_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = diagnosis._Sentence._pair

    def forgetful(self: diagnosis._Sentence, node: int, other: int, blame: object) -> BracketError:
        error = whole(self, node, other, blame)  # type: ignore[arg-type]
        self.extra.append(other)
        return error

    monkeypatch.setattr(diagnosis._Sentence, "_pair", forgetful)
    with pytest.raises(AssertionError):
        check_totals([Tree.parse("(TOP (NP (NN a)))")], [Tree.parse("(TOP (QP (NN a)))")])
