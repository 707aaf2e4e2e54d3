"""A part-of-speech tagger as the special case of right-branching trees.

    the/DT dog/NN barks/VBZ   <->   (DT> (DT the) (NN> (NN dog) (VBZ barks)))

A phrase carries the tag of its first word, so that the rule `DT> -> DT NN>` is the step from one
tag to the next: a plain PCFG of such trees is a first-order tagger, and one with hidden states is a
hidden Markov model whose states refine the tags.

Trains on the tag sequences of the bundled treebank, without hidden states (a first-order Markov
tagger) and with them (a spectral hidden Markov model), and prints how many dev tags are right.

    python examples/sequence_tagger.py
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import sapwood as sw

N_STATES = (2, 4, 8)
MARK = ">"  # at the end of a label: this and everything to its right


def sequence_tree(words: Sequence[str], tags: Sequence[str]) -> sw.Tree:
    """The right-branching tree of a tagged sequence; of one word, its tag alone.

    Examples
    --------
    >>> print(sequence_tree(["the", "dog", "barks"], ["DT", "NN", "VBZ"]))
    (DT> (DT the) (NN> (NN dog) (VBZ barks)))
    """
    if isinstance(words, str) or isinstance(tags, str):
        msg = "words and tags are lists of strings, not strings"
        raise sw.SapwoodError(msg, hint="use sentence.split()")
    if len(words) != len(tags) or not words:
        msg = f"{len(words)} words with {len(tags)} tags; expected one tag per word, and a word"
        raise sw.SapwoodError(msg, hint="leave out empty sequences, and check how they were split")
    leaves = [sw.Tree(tag, word) for word, tag in zip(words, tags, strict=True)]
    tree = leaves[-1]
    for leaf in reversed(leaves[:-1]):
        tree = sw.Tree(leaf.label + MARK, (leaf, tree))
    return tree


def sequences(split: str) -> list[sw.Tree]:
    """The sentences of a bundled split with their tags, as right-branching trees."""
    return [sequence_tree(tree.words(), tree.tags()) for tree in sw.bundled_treebank(split).trees()]


def accuracy(model: sw.LatentGrammar, gold: list[sw.Tree]) -> float:
    """Percent of all words whose tag is right."""
    parses = sw.Parser(model).parse_many((tree.words() for tree in gold), jobs=0)
    pairs = [
        (right, found)
        for tree, parse in zip(gold, parses, strict=True)
        for right, found in zip(tree.tags(), parse.tree.tags(), strict=True)
    ]
    return 100 * sum(right == found for right, found in pairs) / len(pairs)


def main() -> None:
    """Train, tag, print."""
    bank, gold = sw.Treebank.from_trees(sequences("train")), sequences("dev")
    learners: dict[str, sw.PCFG | sw.SpectralLPCFG] = {"no hidden states": sw.PCFG()}
    learners |= {f"spectral, {m} states": sw.SpectralLPCFG(m, n_jobs=0) for m in N_STATES}
    print(f"{'tagger':<22}{'accuracy':>10}{'seconds':>10}")
    for name, learner in learners.items():
        started = perf_counter()
        percent = accuracy(learner.fit(bank).model_, gold)
        print(f"{name:<22}{percent:>10.2f}{perf_counter() - started:>10.1f}")


if __name__ == "__main__":
    main()
