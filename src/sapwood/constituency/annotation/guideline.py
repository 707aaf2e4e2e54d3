"""What a label looked like before, for the guideline beside the tree; and warnings as one types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sapwood.annotation.seen import SeenAnnotations, Variation
from sapwood.auditing.nuclei import Span
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import ROOT, Tree

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model

N_EXAMPLES, N_STATES, N_ROWS = 12, 6, 5
_Place = tuple[str, int, int, list[str]]  # sentence, span, and the labels below


def span_annotations(tree: Tree) -> dict[Span, str]:
    """The labels of each span of a tree, outermost first, without the root `TOP`.

    Examples
    --------
    >>> span_annotations(Tree.parse("(TOP (S (NP (NN dogs)) (VP (VB bark))))"))
    {(0, 2): 'S', (0, 1): 'NP|NN', (1, 2): 'VP|VB'}
    """
    found: dict[Span, str] = {}
    for label, i, j in tree.spans():
        if label != ROOT:
            found[i, j] = f"{found[i, j]}|{label}" if (i, j) in found else label
    return found


def add_tree(seen: SeenAnnotations, id: str, tree: Tree) -> None:
    """Add an accepted tree to those that warnings are made from."""
    seen.add(id, tree.words(), span_annotations(tree))


def tree_variations(seen: SeenAnnotations, tree: Tree, id: str | None = None) -> list[Variation]:
    """Spans of a tree whose words were annotated otherwise before."""
    return seen.variations(tree.words(), span_annotations(tree), id=id)


def label_examples(
    trees: Mapping[str, Tree], label: str, *, is_tag: bool = False, most: int = N_EXAMPLES
) -> dict[str, Any]:
    """How often a label was used, and places where it was, shortest and most different first.

    Returns
    -------
    dict
        `n`, and `examples` with `id`, `text` (words joined by blanks), `start`, `end`, `words`
        (those of the place) and `children` (labels below).

    Examples
    --------
    >>> trees = {"a": Tree.parse("(TOP (S (NP (NN dogs)) (VP (VB bark))))")}
    >>> found = label_examples(trees, "NP")
    >>> found["n"], found["examples"][0]["words"], found["examples"][0]["children"]
    (1, 'dogs', ['NN'])
    """
    rows = []
    for id, tree in trees.items():
        for node, (name, i, j) in zip(tree.nodes(), tree.spans(), strict=True):
            if name == label and node.is_preterminal == is_tag:
                children = [] if node.is_preterminal else [child.label for child in node]
                rows.append((id, i, j, children))
    words = {id: trees[id].words() for id in {row[0] for row in rows}}
    examples = [
        {
            "id": id, "text": " ".join(words[id]), "start": i, "end": j,
            "words": " ".join(words[id][i:j]), "children": children,
        }
        for id, i, j, children in _different(rows, words, most)
    ]  # fmt: skip
    return {"label": label, "n": len(rows), "examples": examples}


def _different(rows: list[_Place], words: Mapping[str, list[str]], most: int) -> list[_Place]:
    """A limited number of places: one of each kind of children or word, then the others."""
    first, others = list[_Place](), list[_Place]()
    known = set[tuple[str, ...]]()
    for row in sorted(rows, key=lambda row: (row[2] - row[1], row[0], row[1])):
        id, i, j, children = row
        kind = tuple(children) or tuple(word.lower() for word in words[id][i:j])
        (others if kind in known else first).append(row)
        known.add(kind)
    return (first + others)[:most]


def label_states(model: Model, label: str) -> list[dict[str, Any]]:
    """The hidden states of a label in the first member that has some: share, words, contexts.

    Returns
    -------
    list
        For each state `share`, `words` (or rules of a phrase) and `contexts`, commonest first;
        empty where no member has states with probabilities, or the model has no such label.
    """
    from sapwood.constituency.report.states import StateAtlas

    for member in model.as_ensemble().members:
        grammar = member.chart_grammar
        if not (member.has_rules and grammar.is_probabilistic) or grammar.is_plain:
            continue
        atlas = StateAtlas(member, N_ROWS)
        try:
            cards = [card for card in atlas.cards(label) if len(card["rows"]) > 1][:1]
        except SapwoodError:  # a label that a person has made, and no model has
            return []
        return [
            {
                "share": round(float(row["share"]), 4),
                "words": [one.get("word") or one["rule"] for one in _likely(row)],
                "contexts": [one["context"] for one in row.get("contexts", [])],
            }
            for card in cards
            for row in sorted(card["rows"][1:], key=lambda row: -row["share"])[:N_STATES]
        ]
    return []


def _likely(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The likeliest words of a state of a tag, or rules of one of a phrase."""
    return [*row.get("words", []), *row.get("rules", [])][:N_ROWS]
