"""Counts over a treebank, as plain dictionaries: what `sapwood stats` prints.

Words, labels and rules are those of the cleaned trees (`sapwood.corpora.tree`), which models are
learnt from; empty elements are counted as they are written.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from sapwood.corpora.tree import Tree, clean, is_empty, unary_chain

BUCKETS = (5, 10, 20, 30, 40, 60, 100)  # longest sentence of each row of the histogram
WIDEST = 5  # children that have a row of their own
_INDEX = re.compile(r"-\d+$")


@dataclass
class TreeCounts:
    """Counts of words, labels, rules and unary chains over trees."""

    lengths: list[int] = field(default_factory=list)  # words of each tree
    depths: list[int] = field(default_factory=list)  # nodes on its longest path from root to word
    n_empty_trees: int = 0  # trees without a word after cleaning
    # for each word, how often it has each tag
    tags_of: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    # a rule is a label with those of its children, a chain the labels of nodes with one child
    tags: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    rules: Counter[tuple[str, ...]] = field(default_factory=Counter)
    chains: Counter[tuple[str, ...]] = field(default_factory=Counter)
    empties: Counter[str] = field(default_factory=Counter)
    trees: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, trees: Iterable[Tree]) -> TreeCounts:
        """Counts over trees as they are written."""
        counts = cls()
        for tree in trees:
            counts.add(tree)
        return counts

    def add(self, tree: Tree) -> None:
        """Add one tree to the counts."""
        for node in tree.nodes():
            if node.is_preterminal and is_empty(node.label, node.word):
                self.empties[_INDEX.sub("", node.word)] += 1
        kept = clean(tree)
        if kept is None:
            self.n_empty_trees += 1
            return
        self.trees[str(kept)] += 1
        self.lengths.append(len(kept.words()))
        self._add_nodes(kept)

    def _add_nodes(self, tree: Tree) -> None:
        self.rules.update(_rules(tree))
        depth = 0
        ahead = [(tree, 1, False)]  # with its depth, and whether it continues a unary chain
        while ahead:  # no recursion: depth is no limit
            node, level, is_inside = ahead.pop()
            depth = max(depth, level)
            if node.is_preterminal:
                self.tags[node.label] += 1
                self.tags_of[node.word][node.label] += 1
                continue
            is_root = node is tree
            is_unary = len(node.children) == 1 and not is_root
            if not is_root:
                self.labels[node.label] += 1
            if is_unary and not is_inside:
                self.chains[unary_chain(node)[0]] += 1
            ahead += [(kid, level + 1, is_unary) for kid in node]
        self.depths.append(depth)


def describe_treebank(counts: TreeCounts) -> dict[str, Any]:
    """One flat dictionary of numbers and tables; tables list the most frequent first.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VB saw) (NP (-NONE- *T*-1))) (. .))")
    >>> report = describe_treebank(TreeCounts.of([tree]))
    >>> report["trees"], report["words"], report["tags"]["DT"], report["empty_elements"]
    (1, 4, 1, {'*T*': 1})
    >>> report["unary_chains"]
    {'VP > VB': 1}
    """
    lengths = counts.lengths
    frequency = {word: tagged.total() for word, tagged in counts.tags_of.items()}
    n_words = sum(lengths)
    ambiguous = [word for word, tagged in counts.tags_of.items() if len(tagged) > 1]
    return {
        "trees": len(lengths) + counts.n_empty_trees,
        "empty_trees": counts.n_empty_trees,
        "repeated_trees": counts.trees.total() - len(counts.trees),
        "words": n_words,
        "vocabulary": len(frequency),
        "words_seen_once": sum(n == 1 for n in frequency.values()),
        **_spread("length", lengths),
        "lengths": _histogram(lengths),
        **_spread("depth", counts.depths),
        "phrases": counts.labels.total(),
        "labels": _table(counts.labels),
        "tags": _table(counts.tags),
        "tags_per_word": _ratio(sum(map(len, counts.tags_of.values())), len(frequency)),
        "ambiguous_words": len(ambiguous),
        "ambiguous_tokens": sum(frequency[word] for word in ambiguous),
        "rules": len(counts.rules),
        "rules_seen_once": sum(n == 1 for n in counts.rules.values()),
        **_branching(counts.rules),
        "unary_nodes": sum((len(chain) - 1) * n for chain, n in counts.chains.items()),
        "unary_chains": _table(
            Counter({" > ".join(chain): n for chain, n in counts.chains.items()})
        ),
        "longest_unary_chain": max((len(chain) - 1 for chain in counts.chains), default=0),
        "empty_elements": _table(counts.empties),
    }


def _spread(name: str, values: list[int]) -> dict[str, float]:
    given = values or [0]
    return {
        f"{name}_min": min(given),
        f"{name}_median": median(given),
        f"{name}_mean": round(fmean(given), 3),
        f"{name}_max": max(given),
    }


def _histogram(lengths: list[int]) -> dict[str, int]:
    """Number of sentences by length; empty buckets are listed too."""
    out, first = {}, 1
    for last in BUCKETS:
        out[f"{first}-{last}"] = sum(first <= n <= last for n in lengths)
        first = last + 1
    return out | {f"{first}-": sum(n >= first for n in lengths)}


def _branching(rules: Mapping[tuple[str, ...], int]) -> dict[str, Any]:
    widths: Counter[int] = Counter()
    for rule, n in rules.items():
        widths[len(rule) - 1] += n
    narrow = {str(k): widths[k] for k in range(1, WIDEST)}
    wide = sum(n for k, n in widths.items() if k >= WIDEST)
    return {
        "children_mean": _ratio(sum(k * n for k, n in widths.items()), widths.total()),
        "children_max": max(widths, default=0),
        "children": narrow | {f"{WIDEST}-": wide},
    }


def _table(counts: Counter[str]) -> dict[str, int]:
    """Counts in falling order, ties by name: the order of the trees does not matter."""
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def coverage(counts: TreeCounts, known: TreeCounts) -> dict[str, Any]:
    """Words, labels, rules and trees that do not occur, or occur again, in training trees.

    Examples
    --------
    >>> train = TreeCounts.of([Tree.parse("(S (NP (NN dogs)) (VP (VB bark)))")])
    >>> dev = TreeCounts.of([Tree.parse("(S (NP (NN cats)) (VP (VB bark) (RB now)))")])
    >>> report = coverage(dev, train)
    >>> report["unknown_words"], report["unknown_tokens"], report["unknown_tags"]
    (2, 2, {'RB': 1})
    >>> report["unseen_rules"], report["trees_with_unseen_rules"], report["shared_trees"]
    (1, 1, 0)
    """
    unknown = {w: t.total() for w, t in counts.tags_of.items() if w not in known.tags_of}
    unseen = {rule: n for rule, n in counts.rules.items() if rule not in known.rules}
    new_pairs = sum(
        n
        for word, tagged in counts.tags_of.items()
        if word in known.tags_of
        for tag, n in tagged.items()
        if tag not in known.tags_of[word]
    )
    sentences = {tuple(Tree.parse(text).words()) for text in known.trees}
    parsed = [(Tree.parse(text), n) for text, n in counts.trees.items()]
    return {
        "trees": known.trees.total() + known.n_empty_trees,
        "unknown_words": len(unknown),
        "unknown_tokens": sum(unknown.values()),
        "unknown_tokens_share": _ratio(sum(unknown.values()), sum(counts.lengths)),
        "known_words_with_new_tags": new_pairs,
        "unknown_tags": _table(_without(counts.tags, known.tags)),
        "unknown_labels": _table(_without(counts.labels, known.labels)),
        "unseen_rules": len(unseen),
        "unseen_rule_nodes": sum(unseen.values()),
        "unseen_rule_nodes_share": _ratio(sum(unseen.values()), counts.rules.total()),
        "trees_with_unseen_rules": sum(
            n for tree, n in parsed if not unseen.keys().isdisjoint(_rules(tree))
        ),
        "shared_trees": sum(n for text, n in counts.trees.items() if text in known.trees),
        "shared_sentences": sum(n for tree, n in parsed if tuple(tree.words()) in sentences),
    }


def _without(counts: Counter[str], known: Counter[str]) -> Counter[str]:
    return Counter({name: n for name, n in counts.items() if name not in known})


def _rules(tree: Tree) -> Iterator[tuple[str, ...]]:
    for node in tree.nodes():
        if not node.is_preterminal:
            yield (node.label, *(kid.label for kid in node))
