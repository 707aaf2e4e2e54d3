"""Expected errors of parses, from calibrated posteriors: what an annotator will have to mend.

    wrong(t)  = sum of 1 - p(b)  over the brackets b of the parser's tree t
    missed(t) = sum of p(b)      over all other brackets

Posteriors of a model that has seen few trees are too sure of themselves. Cross-fitting tells by how
much: a factor makes the expected errors of held-out trees as many as there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sapwood.constituency.annotation.grammar import brackets_of, tree_brackets
from sapwood.constituency.parse.parser import Parse, Parser
from sapwood.corpora.tree import Tree

PRIOR = 5.0  # errors by which a factor from few trees is pulled to 1


def expected_errors(parse: Parse) -> float:
    """The number of brackets of a parse that are expected to be wrong or missing.

    A fallback tree has as many errors as words, at least.

    Examples
    --------
    >>> import sapwood as sw
    >>> parser = sw.Parser(sw.bundled_grammar())
    >>> sure = expected_errors(parser.parse("the dog sleeps .".split()))
    >>> unsure = expected_errors(parser.parse("the man sees the dog with a hat .".split()))
    >>> 0 <= sure < unsure
    True
    """
    said = set(tree_brackets(parse.tree))
    if parse.is_fallback:
        return float(max(len(parse.words), len(said)))
    posterior = brackets_of(parse)
    wrong = sum(1.0 - posterior.get(bracket, 0.0) for bracket in said)
    return wrong + sum(p for bracket, p in posterior.items() if bracket not in said)


def calibration(parser: Parser, held: Iterable[Tree], most: int = 60) -> float:
    """By how much expected errors are to be multiplied, from trees that the model has not seen.

    Cost: one parse per tree.
    """
    expected = actual = PRIOR
    for number, tree in enumerate(held):
        if number == most:
            break
        parse = parser.parse(tree.words())
        right, said = Counter(tree_brackets(tree)), Counter(tree_brackets(parse.tree))
        actual += ((right - said) + (said - right)).total()
        expected += expected_errors(parse)
    return actual / expected


def errors_of_sentences(
    parser: Parser, sentences: Sequence[Sequence[str]], factor: float = 1.0
) -> list[float]:
    """Expected errors of the parser's trees of sentences.

    Cost: a parse per sentence; for long texts give a sample of the sentences.
    """
    return [factor * expected_errors(parse) for parse in parser.parse_many(map(list, sentences))]
