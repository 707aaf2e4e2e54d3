"""Words that were annotated otherwise before: incremental, and as variation nuclei find them."""

from __future__ import annotations

from collections import Counter

import sapwood as sw
from sapwood.annotation.seen import SeenAnnotations, name_of
from sapwood.auditing.nuclei import MAX_LENGTH, NIL, Nuclei
from sapwood.constituency.annotation.guideline import (
    add_tree,
    label_examples,
    label_states,
    span_annotations,
    tree_variations,
)
from sapwood.constituency.annotation.start import map_tree
from sapwood.constituency.learn.cluster import ClusterLPCFG
from sapwood.corpora.tree import Tree

TREES = list(sw.bundled_treebank("dev"))[:150]
# some sentences again, annotated alike or otherwise
OTHERS = [map_tree(tree, {"NN": "NX", "PP": None}) for tree in TREES[:20]]
REPEATED = [*TREES[:40], *OTHERS, *OTHERS[:10], *TREES[10:15]]


def seen_of(trees: list[Tree]) -> SeenAnnotations:
    seen = SeenAnnotations()
    for k, tree in enumerate(trees):
        add_tree(seen, str(k), tree)
    return seen


def test_variations_are_those_of_the_nuclei() -> None:
    """For every sentence, against all others, the counts are those of `Nuclei`."""
    seen = seen_of(REPEATED)
    words = [tree.words() for tree in REPEATED]
    nuclei = Nuclei(words, [span_annotations(tree) for tree in REPEATED])
    n_found = 0
    for k, tree in enumerate(REPEATED):
        own = span_annotations(tree)
        found = {(v.start, v.end): v.counts for v in tree_variations(seen, tree, str(k))}
        expected = {}
        for one in nuclei.repeated[k]:
            counts = nuclei.counts(k, *one.span)
            mine = own.get(one.span, NIL)
            others = sum(n for label, n in counts.items() if label != mine)
            if others > counts[mine]:
                expected[one.span] = Counter(counts)
        assert found == expected
        n_found += len(found)
    assert n_found > 0


def test_removed_sentences_are_forgotten() -> None:
    seen, fewer = seen_of(TREES[:60]), seen_of(TREES[:40])
    for k in range(40, 60):
        seen.remove(str(k))
    seen.add("3", TREES[50].words(), span_annotations(TREES[50]))
    seen.add("3", TREES[3].words(), span_annotations(TREES[3]))
    assert vars(seen) == vars(fewer)
    assert len(seen) == 40


def test_a_phrase_that_was_none_before() -> None:
    old = Tree.parse("(TOP (S (NP (D a)) (VP (V saw) (NP (D the) (N man)) (PP (P on) (N top)))))")
    new = Tree.parse(
        "(TOP (S (NP (D a)) (VP (V saw) (NP (NP (D the) (N man)) (PP (P on) (N top))))))"
    )
    seen = seen_of([old])
    found = tree_variations(seen, new)
    assert [(v.start, v.end, v.own, dict(v.counts)) for v in found] == [(2, 6, "NP", {NIL: 1})]
    text = found[0].text(new.words())
    assert (
        text == "'the man on top' is NP here, and was no phrase (1) between the same words before."
    )
    assert found[0].examples[0][:3] == ("0", 2, 6)
    assert tree_variations(seen_of([new]), old)[0].own == NIL
    assert tree_variations(seen, old, "0") == []


def test_the_usual_annotation_is_no_warning() -> None:
    right, wrong = (
        Tree.parse(f"(TOP (S (NP (D the) (N man)) (VP (V {tag})) (X (X .))))")
        for tag in ("runs", "runs")
    )
    odd = Tree.parse("(TOP (S (NP (D the) (A man)) (VP (V runs)) (X (X .))))")
    seen = seen_of([right, wrong, odd])
    assert not tree_variations(seen, right)
    assert [v.own for v in tree_variations(seen, odd)] == ["A"]


def test_long_spans_are_left_out() -> None:
    tree = Tree("TOP", [Tree("S", [Tree("N", f"w{k}") for k in range(MAX_LENGTH + 4)])])
    assert tree_variations(seen_of([tree, tree]), tree) == []


def test_names_in_words() -> None:
    assert (name_of("S|VP|V"), name_of(NIL)) == ("S over VP over V", "no phrase")


def test_examples_of_a_label() -> None:
    trees = {str(k): tree for k, tree in enumerate(TREES)}
    found = label_examples(trees, "NP")
    total = sum(label == "NP" for tree in TREES for label, _, _ in tree.spans())
    assert found["n"] == total
    kinds = [tuple(one["children"]) for one in found["examples"]]
    assert len(set(kinds)) == len(kinds) == 12  # the treebank has more kinds than are shown
    for one in found["examples"]:
        tree = trees[one["id"]]
        assert ("NP", one["start"], one["end"]) in tree.spans()
        assert one["text"].split(" ") == tree.words()
    tags = label_examples(trees, "DT", is_tag=True)
    assert tags["n"] == sum(node.label == "DT" for tree in TREES for node in tree.nodes())
    assert label_examples(trees, "NOPE") == {"label": "NOPE", "n": 0, "examples": []}


def test_states_of_a_label() -> None:
    model = ClusterLPCFG(3).fit(TREES).model_
    rows = label_states(model, "NP")
    assert len(rows) == 3
    assert sum(row["share"] for row in rows) == 1.0 or abs(sum(r["share"] for r in rows) - 1) < 1e-3
    assert all(row["words"] and row["contexts"] for row in rows)
    assert label_states(sw.PCFG().fit(TREES).model_, "NP") == []
