"""A part-of-speech tagger as the special case of right-branching trees.

Trains on the tag sequences of the bundled treebank, without hidden states (a first-order Markov
tagger) and with them (a spectral hidden Markov model), and prints how many dev tags are right.

    python examples/sequence_tagger.py
"""

from __future__ import annotations

from time import perf_counter

import sapwood as sw
from sapwood.corpus.sequences import sequence_tree, tree_tags

N_STATES = (2, 4, 8)


def sequences(split: str) -> list[sw.Tree]:
    """The sentences of a bundled split with their tags, as right-branching trees."""
    return [sequence_tree(tree.words(), tree.tags()) for tree in sw.bundled_treebank(split).trees()]


def accuracy(model: sw.LatentGrammar, gold: list[sw.Tree]) -> float:
    """Percent of all words whose tag is right."""
    parses = sw.Parser(model).parse_many((tree.words() for tree in gold), jobs=0)
    pairs = [
        (right, found)
        for tree, parse in zip(gold, parses, strict=True)
        for right, found in zip(tree_tags(tree), tree_tags(parse.tree), strict=True)
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
