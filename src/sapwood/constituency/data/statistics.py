"""Counts over a treebank, cutting it into parts, and doubts about the parts of a run.

Words, labels and rules are those of the cleaned trees (`sapwood.corpora.tree`), which models are
learnt from; empty elements are counted as they are written. A treebank is cut into parts to train
on, to choose with and to report on. Doubts are about files that are named twice, and dev trees that
were trained on.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from sapwood.constituency.data.treebank import StoredTreebank, Treebank
from sapwood.core.errors import SapwoodError, count
from sapwood.corpora.formats import treebank_files
from sapwood.corpora.tree import Tree, clean, is_empty

PARTS = ("train", "dev", "test")


def part_size(text: str, n_trees: int) -> int:
    """The number of trees that a size such as `10%` or `500` asks for.

    Examples
    --------
    >>> part_size("10%", 300), part_size("500", 3000), part_size("0", 10), part_size("0.5%", 300)
    (30, 500, 0, 2)
    """
    try:
        size = Fraction(text.removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        size = Fraction(-1)
    is_count = not text.endswith("%")
    if size < 0 or (size >= 100 and not is_count) or (is_count and size.denominator > 1):
        raise SapwoodError(
            f"{text!r} is not the size of a part; expected a percentage or a number of trees",
            hint="write 10% or 500",
        )
    return int(size) if is_count else round(size * n_trees / 100)


def split_trees(
    files: Sequence[int], n_dev: int, n_test: int, *, by: str = "tree", seed: int = 0
) -> list[int]:
    """The part of each tree: 0 train, 1 dev, 2 test.

    Parameters
    ----------
    files
        The number of the file that each tree is from.
    n_dev, n_test
        How many trees the parts should have; whole files may make them a little larger.
    by
        `tree` draws trees at random. `file` draws whole files, so that no text is in two parts.
        `order` keeps the order of the trees: train, then dev, then test.

    Examples
    --------
    >>> split_trees([0] * 6, 1, 2, by="order")
    [0, 0, 0, 1, 2, 2]
    >>> split_trees([0, 0, 1, 1, 2, 2], 2, 2, by="file", seed=1)
    [0, 0, 1, 1, 2, 2]
    """
    n = len(files)
    if n_dev + n_test >= n:
        raise SapwoodError(
            f"dev ({n_dev:,}) and test ({n_test:,}) leave none of {n:,} trees to train on",
            hint="ask for smaller parts",
        )
    if by == "order":
        return [0] * (n - n_dev - n_test) + [1] * n_dev + [2] * n_test
    if by == "file":
        return _by_file(files, n_dev, n_test, seed)
    parts = [0] * n
    shuffled = _shuffle(range(n), seed)
    for place in shuffled[:n_dev]:
        parts[place] = 1
    for place in shuffled[n_dev : n_dev + n_test]:
        parts[place] = 2
    return parts


def _by_file(files: Sequence[int], n_dev: int, n_test: int, seed: int) -> list[int]:
    sizes = Counter(files)
    wanted = [(part, size) for part, size in ((1, n_dev), (2, n_test)) if size]
    if len(sizes) <= len(wanted):
        n_parts = len(wanted) + 1
        raise SapwoodError(
            f"{n_parts} parts of whole files need as many files, but there are {len(sizes)}",
            hint="split by tree, or by order, which keeps neighbours together",
        )
    ahead = _shuffle(sorted(sizes), seed)
    part_of: dict[int, int] = {}
    for place, (part, size) in enumerate(wanted):
        n_reserved = len(wanted) - place  # a file for each later part, and one to train on
        n_taken = 0
        while n_taken < size and len(ahead) > n_reserved:
            file = ahead.pop()
            part_of[file] = part
            n_taken += sizes[file]
    return [part_of.get(file, 0) for file in files]


def _shuffle(items: Sequence[int], seed: int) -> list[int]:
    # random() is the one part of the module that Python promises never to change.
    draw = random.Random(seed).random
    return [item for _, item in sorted((draw(), item) for item in items)]


SHORT_TREE = 5  # words: "Thank you ." and its like occur in any two files
CHANCE_OVERLAP = 0.1  # of the longer trees: a larger overlap is no chance


class Doubt(NamedTuple):
    """A reason to distrust the scores of a run, and what to do about it."""

    message: str
    hint: str


def doubt_training_trees(
    bank: Treebank | StoredTreebank, sources: Sequence[str]
) -> Iterator[Doubt]:
    """Doubts about files that are named twice or share many trees; not about copies in one file."""
    files = Counter(_files(sources))
    twice = [path for path, n in files.items() if n > 1]
    if twice:
        more = f" and {count(len(twice) - 1, 'other file')}" if len(twice) > 1 else ""
        yield Doubt(
            f"{twice[0]}{more}: named more than once, so that its trees count double",
            "name every file once, also where a folder or a glob holds it",
        )
    if twice or len(files) < 2:
        return
    seen, n_long, n_again = set[bytes](), 0, 0
    for shard in _shards(bank):
        for first, last in zip(shard.offsets, shard.offsets[1:], strict=False):
            if shard.end[last - 1] > SHORT_TREE:
                key = shard.label[first:last].tobytes() + shard.word[first:last].tobytes()
                n_long, n_again = n_long + 1, n_again + (key in seen)
                seen.add(key)
    if n_again > CHANCE_OVERLAP * n_long:
        yield Doubt(
            f"{n_again:,} of {n_long:,} training trees of more than {SHORT_TREE} words are "
            "copies of others",
            "do two of the files hold the same trees?",
        )


def doubt_dev_trees(
    bank: Treebank | StoredTreebank, sources: Sequence[str], gold: Sequence[Tree], dev: str
) -> Iterator[Doubt]:
    """Doubts about dev trees that are training trees too, where they are more than chance."""
    wanted = {tuple(tree.words()) for tree in gold}
    known = {
        shard.tree(index)
        for shard in _shards(bank)
        for index in range(shard.n_trees)
        if tuple(shard.words(index)) in wanted
    }
    shared = [tree for tree in gold if tree in known]
    n_long = sum(len(tree.words()) > SHORT_TREE for tree in gold)
    n_long_shared = sum(len(tree.words()) > SHORT_TREE for tree in shared)
    is_same_file = not set(_files([dev])).isdisjoint(_files(sources))
    if is_same_file or n_long_shared > CHANCE_OVERLAP * n_long:
        yield Doubt(
            f"{len(shared):,} of {count(len(gold), 'dev tree')} are also in the training "
            "trees, so scores on them do not predict scores on new sentences",
            "hold out trees that are not trained on",
        )


def doubt_comparison(gold: str, predicted: str) -> Iterator[Doubt]:
    """Doubts about gold trees that are compared with themselves."""
    one, other = Path(gold), Path(predicted)
    if one.is_file() and other.is_file() and one.samefile(other):
        yield Doubt(
            f"{predicted}: is also the gold file, so the scores are meaningless",
            "give the trees of a parser: sapwood parse MODEL FILE > PREDICTED",
        )


def _shards(bank: Treebank | StoredTreebank) -> Iterator[Treebank]:
    """The shards of a treebank, one in memory at a time."""
    for shard in bank.shards():
        yield shard if isinstance(shard, Treebank) else shard.load()


def _files(sources: Iterable[str]) -> list[Path]:
    """The files of names, globs and folders, without stdin."""
    named = treebank_files(list(sources))
    return [Path(file).resolve() for file in named if isinstance(file, (str, Path)) and file != "-"]


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
                self.chains[_unary_chain(node)] += 1
            ahead += [(kid, level + 1, is_unary) for kid in node]
        self.depths.append(depth)


def _unary_chain(node: Tree) -> tuple[str, ...]:
    """The labels from a node down to the first with a word or several children."""
    labels = [node.label]
    while not node.is_preterminal and len(node.children) == 1:
        node = node[0]
        labels.append(node.label)
    return tuple(labels)


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
