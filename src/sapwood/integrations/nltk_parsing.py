"""A parser of NLTK that parses with a model of Sapwood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

from nltk.parse.api import ParserI
from nltk.tree import ProbabilisticTree

from sapwood.core.errors import as_count
from sapwood.core.model_names import ENGLISH
from sapwood.integrations import as_parser

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.parse.parser import Parse, Parser
    from sapwood.corpora.tree import Tree

Posteriors = Mapping[tuple[str, int, int], float]


class NltkParser(ParserI):  # type: ignore[misc]
    """Parses lists of words into `nltk.tree.ProbabilisticTree`, the best tree first.

    `prob()` and `logprob()` (to base 2) of a tree are those of the tree together with its words; of
    the nodes below, the posterior of the phrase or tag given the sentence. They are None where a
    model gives none: for trees joined from pieces, and phrases that were pruned.

    Parameters
    ----------
    model
        The name of a model that comes with Sapwood, a file, a model of phrase trees, or a parser.
    k
        How many trees of a sentence are given at most.
    """

    def __init__(self, model: Model | Parser | str = ENGLISH, *, k: int = 1) -> None:
        self.parser = as_parser(model)
        self.k = as_count(k, "k")

    def parse(self, sent: Sequence[str]) -> Iterator[ProbabilisticTree]:
        """The k best trees of a sentence; those after the first are searched on demand."""
        return self._trees(self.parser.parse(sent), list(sent))

    def parse_sents(self, sents: Iterable[Sequence[str]]) -> Iterator[Iterator[ProbabilisticTree]]:
        """The k best trees of each sentence; networks read sentences in batches."""
        given = [list(sent) for sent in sents]
        for words, parse in zip(given, self.parser.parse_many(given), strict=True):
            yield self._trees(parse, words)

    def _trees(self, parse: Parse, words: list[str]) -> Iterator[ProbabilisticTree]:
        posteriors = {c[:3]: c.probability for c in parse.marginals}
        yield as_nltk(parse.tree, parse.log_prob, words, posteriors)
        if self.k > 1:
            for scored in parse.k_best(self.k)[1:]:
                yield as_nltk(scored.tree, scored.log_prob, words, posteriors)


def as_nltk(
    tree: Tree, log_prob: float, words: Sequence[str], posteriors: Posteriors
) -> ProbabilisticTree:
    """A tree of NLTK over the words as they were given.

    Parameters
    ----------
    log_prob
        The natural logarithm of the probability of the tree.
    posteriors
        Of phrases and tags, by label, first word and the position after the last.
    """
    built: list[ProbabilisticTree] = []  # subtrees without their parents, the first one on top
    nodes = list(zip(tree.nodes(), tree.spans(), strict=True))
    for node, (label, start, end) in reversed(nodes):  # children before parents
        kids = [words[start]] if node.is_preterminal else [built.pop() for _ in node]
        built.append(ProbabilisticTree(label, kids, prob=posteriors.get((label, start, end))))
    (root,) = built
    if log_prob > float("-inf"):
        return ProbabilisticTree(root.label(), list(root), logprob=log_prob / log(2))
    return root
