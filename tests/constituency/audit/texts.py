"""Texts of treebanks and corrections of them, drawn at random."""

from __future__ import annotations

import random

from sapwood.corpora.tree import Tree, clean

LABELS = ("S", "NP", "VP", "PP")
SUFFIXES = ("", "", "-SBJ", "-SBJ-1", "-LOC-CLR", "=2")
TAGS = ("NN", "VB", "IN")
BLANKS = ("", " ", "  ", "\n    ", "\r\n  ", "\t")
EMPTY = ("(-NONE- *T*-1)", "(-NONE- 0)", "(NP-SBJ (-NONE- *))")


def raw_tree(rng: random.Random, n_words: int) -> str:
    """A tree as treebanks publish them: function tags, traces, blanks, perhaps a root."""

    def blank() -> str:
        return rng.choice(BLANKS)

    def build(words: list[str], depth: int) -> str:
        if len(words) == 1 and (depth > 3 or rng.random() < 0.6):
            return f"({rng.choice(TAGS)}{rng.choice(('', '', '-1'))} {words[0]})"
        cuts = sorted(rng.sample(range(1, len(words)), min(len(words) - 1, rng.randint(0, 2))))
        parts = [words[i:j] for i, j in zip([0, *cuts], [*cuts, len(words)], strict=True)]
        kids = []
        for part in parts:
            if rng.random() < 0.15:
                kids.append(rng.choice(EMPTY))
            kids.append(build(part, depth + 1) if depth < 6 else flat(part))
        if rng.random() < 0.1:
            kids.append(rng.choice(EMPTY))
        label = rng.choice(LABELS) + rng.choice(SUFFIXES)
        return f"({label} " + "".join(blank() + kid for kid in kids) + blank() + ")"

    def flat(words: list[str]) -> str:
        return f"({rng.choice(LABELS)}{''.join(f' (NN {word})' for word in words)})"

    whole = build([f"w{k}" for k in range(n_words)], 0)
    if not whole.startswith(tuple(f"({label}" for label in LABELS)):
        whole = f"(S {whole})"
    return rng.choice([f"({blank()}{whole}{blank()})", f"(TOP {whole})", whole])


def other_tree(rng: random.Random, tree: Tree) -> Tree:
    """A cleaned tree over the same words with some other brackets and tags."""
    spans = list(tree.spans())
    tags = [rng.choice(TAGS) if rng.random() < 0.15 else tag for tag in tree.tags()]
    n = len(tags)
    nodes = [
        node for node, leaf in zip(spans, tree.nodes(), strict=True) if not leaf.is_preterminal
    ]
    brackets = [one for one in nodes[1:] if rng.random() < 0.75]
    for _ in range(rng.randint(0, 4)):
        i, j = sorted(rng.sample(range(n + 1), 2))
        new = (rng.choice(LABELS), i, j)
        if not any(a < i < b < j or i < a < j < b for _, a, b in brackets):
            brackets.insert(rng.randint(0, len(brackets)), new)
    brackets = [
        (rng.choice(LABELS) if rng.random() < 0.15 else label, i, j) for label, i, j in brackets
    ]
    order = sorted(brackets, key=lambda one: (one[1], -one[2]))
    made = _nest([("TOP", 0, n), *order], tags, tree.words())
    cleaned = clean(made)
    assert cleaned is not None
    return cleaned


def _nest(brackets: list[tuple[str, int, int]], tags: list[str], words: list[str]) -> Tree:
    built = {
        i: (Tree(tag, word), i + 1) for i, (tag, word) in enumerate(zip(tags, words, strict=True))
    }
    for label, i, j in reversed(brackets):
        kids, at = [], i
        while at < j:
            kid, at = built.pop(at)
            kids.append(kid)
        built[i] = (Tree(label, kids), j)
    return built[0][0]
