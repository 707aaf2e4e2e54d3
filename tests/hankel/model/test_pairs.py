"""Given pairs of symbols: charts against lists of all binary trees, and brackets that obey."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.weighted_grammars import binary_trees, tree_spans, tree_vector

import sapwood as sw
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.hankel.data import (
    Bracketed,
    PairConstraints,
    PairRequest,
    pair_signs,
    read_structures,
    structure_tree,
    tree_structure,
)
from sapwood.hankel.model.kernels import paired_chart
from sapwood.hankel.model.kernels.paired_chart import best_paired_brackets

SIGNS = "().x|<>"


def grammar(seed: int, n_states: int = 2) -> sw.WeightedGrammar:
    rng = np.random.default_rng(seed)
    n, d = n_states, 2
    return sw.WeightedGrammar(
        ("a", "b"), rng.normal(size=n), rng.normal(size=(d, n)), rng.normal(size=(n, n, n))
    )


def tree_pairs(tree: object, start: int = 0) -> tuple[set[tuple[int, int]], int]:
    """The pairs of a tree by their definition, and where the tree ends."""
    if not isinstance(tree, tuple):
        return set(), start + 1
    left, right = tree
    pairs, middle = tree_pairs(left, start)
    more, end = tree_pairs(right, middle)
    pairs |= more
    if isinstance(left, tuple) and not isinstance(right, tuple) and not isinstance(left[0], tuple):
        pairs.add((start, end - 1))
    return pairs, end


def fits(pairs: set[tuple[int, int]], signs: str) -> bool:
    """Whether pairs are those that some signs ask for; signs are balanced."""
    opened: list[int] = []
    for place, sign in enumerate(signs):
        is_first, is_last = (any(pair[k] == place for pair in pairs) for k in range(2))
        if sign == "(":
            opened.append(place)
        if sign == ")" and (opened.pop(), place) not in pairs:
            return False
        wanted = {"x": not (is_first or is_last), "|": is_first or is_last, "<": is_first,
                  ">": is_last}  # fmt: skip
        if not wanted.get(sign, True):
            return False
    return True


def parsed(signs: str) -> PairConstraints | None:
    try:
        return PairConstraints.parse(signs, len(signs))
    except CorpusError:
        return None


def check_clash(message: str, signs: str, pairs: PairConstraints) -> None:
    """The requests that a message names are impossible together, and possible without any one."""
    named = [request for request in pairs.requests() if str(request) in message]
    trees = [tree_pairs(tree)[0] for tree in binary_trees(list(range(len(signs))))]

    def is_possible(some: list[PairRequest]) -> bool:
        return any(fits(found, pairs.only(some).signs) for found in trees)

    if "more" not in message:
        assert named
        assert not is_possible(named)
        assert all(is_possible([x for x in named if x != one]) for one in named)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(SIGNS + "..."), min_size=1, max_size=6), st.integers(0, 20))
def test_charts_sum_over_the_trees_with_the_pairs(drawn: list[str], seed: int) -> None:
    signs = "".join(drawn)
    pairs = parsed(signs)
    if pairs is not None:
        check_sums(grammar(seed), signs, pairs, seed)


def check_sums(model: sw.WeightedGrammar, signs: str, pairs: PairConstraints, seed: int) -> None:
    n = len(signs)
    ids = np.random.default_rng(seed).integers(0, 2, n).tolist()
    words = [model.symbols[x] for x in ids]
    values = []
    for tree in binary_trees(list(range(n))):
        vector = tree_vector(_with_symbols(tree, ids), model.terminals, model.binary)
        values.append((tree, float(model.initial @ vector)))
    left = [(tree, value) for tree, value in values if fits(tree_pairs(tree)[0], signs)]
    share = model.pair_log_prob(words, pairs)
    if not left:
        assert share.sign == 0
        with pytest.raises(SapwoodError, match="no brackets have ") as caught:
            model.best_brackets(words, pairs)
        check_clash(str(caught.value), signs, pairs)
        return
    some, everything = (sum(value for _, value in listed) for listed in (left, values))
    assert share.sign * np.exp(share.log) == pytest.approx(some / everything, rel=1e-6, abs=1e-9)
    expected = np.zeros((n, n + 1))
    for tree, value in left:
        for i, j in tree_spans(tree)[0]:
            expected[i, j] += value / some
    found = model.marginals(words, pairs)
    size = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7 * size)
    best = model.best_brackets(words, pairs)
    gain = np.maximum(found, 0.0)
    most = max(sum(gain[i, j] for i, j in tree_spans(tree)[0]) for tree, _ in left)
    own = sum(gain[i, j] for i, _, j in best.splits) + sum(gain[i, i + 1] for i in range(n))
    assert own == pytest.approx(most, rel=1e-9)
    assert fits(set_of_pairs(best), signs)


def _with_symbols(tree: object, ids: list[int]) -> object:
    if isinstance(tree, tuple):
        return tuple(_with_symbols(child, ids) for child in tree)
    return ids[tree]


def set_of_pairs(found: Bracketed) -> set[tuple[int, int]]:
    opened, pairs = [], set()
    for place, sign in enumerate(pair_signs(found)):
        if sign == "(":
            opened.append(place)
        elif sign == ")":
            pairs.add((opened.pop(), place))
    return pairs


def test_all_signs_of_short_strings() -> None:
    """Every notation of up to four symbols is refused, or summed over the right trees."""
    model, n_kept = grammar(1), 0
    for n in (1, 2, 3, 4):
        for drawn in product(SIGNS, repeat=n):
            pairs = parsed("".join(drawn))
            if pairs is not None:
                n_kept += 1
                check_sums(model, "".join(drawn), pairs, 3)
    assert n_kept > 700


def test_a_mutant_that_forgets_other_pairs_is_noticed() -> None:
    """Where a base may be in no pair although it must, trees without the pair stay in the chart."""
    pairs = PairConstraints.parse("(..).", 5)
    check_sums(grammar(2), pairs.signs, pairs, 3)
    wrong = pairs._replace(free=np.ones(5))
    with pytest.raises(AssertionError):
        check_sums(grammar(2), pairs.signs, wrong, 3)


def test_the_best_tree_does_not_depend_on_what_was_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, n = np.random.default_rng(3), 6
    gain, pairs = rng.normal(size=(n, n + 1)), PairConstraints.parse("." * n, n)
    best = getattr(best_paired_brackets, "py_func", best_paired_brackets)
    found = []
    for number in range(4):
        old = partial(np.full, fill_value=number)
        monkeypatch.setattr(np, "empty", lambda shape, dtype, old=old: old(shape, dtype=dtype))
        split = np.zeros((n, n + 1), np.int64)
        best(gain, pairs.ok, pairs.free, split)
        found.append(split)
    assert found[0].any()
    assert all((split == found[0]).all() for split in found)


def test_compiled_code_gets_arrays_as_large_as_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, it would read beyond the ends of smaller ones without a word."""
    shapes = set()

    def noted(gain, ok, free, split):
        shapes.add((len(free), gain.shape, split.shape))
        return best_paired_brackets(gain, ok, free, split)

    monkeypatch.setattr(paired_chart, "best_paired_brackets", noted)
    model, words = grammar(0), ["a", "b", "a"]
    model.best_brackets(words, PairConstraints.parse("(.)", 3))
    with pytest.raises(SapwoodError, match="no brackets have "):
        model.best_brackets(words, PairConstraints.parse("(|)", 3))
    assert shapes == {(3, (3, 4), (3, 4))}


def test_no_constraint_is_the_chart_without() -> None:
    model, words = grammar(3, 3), list("abbabaab")
    free = PairConstraints.parse("." * 8, 8)
    np.testing.assert_allclose(model.marginals(words, free), model.marginals(words), rtol=1e-9)
    assert model.pair_log_prob(words, free).log == pytest.approx(0.0, abs=1e-12)
    assert model.best_brackets(words, free) == model.best_brackets(words)


def test_random_structures_are_met() -> None:
    """Pairs of random structures of 30 symbols, some of them asked for: always there."""
    rng = np.random.default_rng(0)
    model = grammar(4)
    for _ in range(300):
        n = int(rng.integers(3, 31))
        words = [str(x) for x in rng.choice(["a", "b"], n)]
        full = pair_signs(grammar(int(rng.integers(9))).best_brackets(words))
        asked, opened = list(full), []
        for place, sign in enumerate(full):
            if sign == "(":
                opened.append(place)
            elif sign == ")":
                first = opened.pop()
                if rng.random() < 0.5:
                    asked[first] = asked[place] = "."
            elif rng.random() < 0.3:
                asked[place] = "x"
        signs = "".join(asked)
        found = model.best_brackets(words, PairConstraints.parse(signs, n))
        assert fits(set_of_pairs(found), signs)


def test_long_strings_do_not_underflow() -> None:
    tiny = sw.WeightedGrammar(("a",), np.ones(1), np.full((1, 1), 1e-30), np.full((1, 1, 1), 0.3))
    words, signs = ["a"] * 60, "(" * 20 + "." * 20 + ")" * 20
    share = tiny.pair_log_prob(words, PairConstraints.parse(signs, 60))
    assert share.sign == 1
    assert -200 < share.log < 0
    assert tiny.marginals(words, PairConstraints.parse(signs, 60))[0, 60] == pytest.approx(1.0)


def test_a_string_of_the_value_zero_gets_its_pairs() -> None:
    model = sw.WeightedGrammar(("a", "b"), np.ones(1), np.array([[1.0], [0.0]]), np.ones((1, 1, 1)))
    pairs = PairConstraints.parse("(x.).", 5)
    found = model.best_brackets(list("abaab"), pairs)
    assert pair_signs(found).startswith("(")
    assert model.pair_log_prob(list("abaab"), pairs).sign == 0


def test_trees_of_structures_have_the_pairs_that_are_read() -> None:
    for structure in read_structures([">x", "GGAACCAGCAAAGC", "((..)).((...))"]):
        tree = structure_tree(structure.bases, structure.pairs)
        assert tree_structure(tree) == (structure.bases, structure.pairs)


@pytest.mark.parametrize(
    ("signs", "column", "message"),
    [
        ("(..", 1, "an opening bracket that is not closed"),
        ("..)", 3, "a closing bracket without an opening one"),
        (".. ", 3, "2 signs for a string of 3 symbols"),
        ("....", 4, "4 signs for a string of 3 symbols"),
        ("[.]", 1, "the sign '[' says nothing about pairs"),
        (". ()", 3, "neighbours cannot be a pair"),
    ],
)
def test_bad_signs_are_refused_with_their_column(signs: str, column: int, message: str) -> None:
    with pytest.raises(CorpusError) as caught:
        PairConstraints.parse(signs, 3)
    assert caught.value.column == column
    assert caught.value.message.startswith(message)
    assert caught.value.hint
