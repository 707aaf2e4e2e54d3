"""Tagged sequences as right-branching trees, which makes a hidden Markov model a grammar.

    the/DT dog/NN barks/VBZ   <->   (DT> (DT the) (NN> (NN dog) (VBZ barks)))

A phrase carries the tag of its first word, so that the rule `DT> -> DT NN>` is the step from one
tag to the next: a plain PCFG of such trees is a first-order tagger, and one with hidden states is a
hidden Markov model whose states refine the tags. Any estimator learns them and `Parser` tags:

    bank = Treebank.from_trees(sequence_tree(words, tags) for words, tags in tagged)
    parser = Parser(SpectralLPCFG().fit(bank).model_)
    tags = tree_tags(parser.parse(words).tree)
"""

from __future__ import annotations

from collections.abc import Sequence

from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError

MARK = ">"  # at the end of a label: this and everything to its right


def sequence_tree(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """The right-branching tree of a tagged sequence; of one word, its tag alone.

    Examples
    --------
    >>> print(sequence_tree(["the", "dog", "barks"], ["DT", "NN", "VBZ"]))
    (DT> (DT the) (NN> (NN dog) (VBZ barks)))
    """
    if isinstance(words, str) or isinstance(tags, str):
        msg = "words and tags are lists of strings, not strings"
        raise SapwoodError(msg, hint="use sentence.split()")
    if len(words) != len(tags) or not words:
        msg = f"{len(words)} words with {len(tags)} tags; expected one tag a word, and a word"
        raise SapwoodError(msg, hint="leave out empty sequences, and check how they were split")
    leaves = [Tree(tag, word) for word, tag in zip(words, tags, strict=True)]
    tree = leaves[-1]
    for leaf in reversed(leaves[:-1]):
        tree = Tree(leaf.label + MARK, (leaf, tree))
    return tree


def tree_tags(tree: Tree) -> list[str]:
    """The tags of a sequence, from any tree over it: built, restored or parsed.

    Examples
    --------
    >>> tree_tags(Tree.parse("(TOP (DT> (DT the) (NN dog)))"))
    ['DT', 'NN']
    """
    return tree.tags()
