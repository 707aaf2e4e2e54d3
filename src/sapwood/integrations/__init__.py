"""Sapwood inside other libraries: a parser of NLTK, and a component of spaCy pipelines.

spaCy finds the component itself: `nlp.add_pipe("sapwood", config={"model": PATH})`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.parse.parser import Parser
    from sapwood.integrations.nltk_parsing import NltkParser


def nltk_parser(model: Model | Parser | str, *, k: int = 1) -> NltkParser:
    """A parser of NLTK, a `ParserI`, that parses with a model.

    Parameters
    ----------
    model
        A model of phrase trees, its file, `bundled`, or a parser.
    k
        How many trees of a sentence `parse` and `parse_all` give at most, the best first.

    Examples
    --------
    >>> import sapwood as sw
    >>> tree = sw.nltk_parser("bundled").parse_one("the dog sleeps .".split())
    >>> tree.label(), tree.leaves()
    ('TOP', ['the', 'dog', 'sleeps', '.'])
    """
    try:
        from sapwood.integrations.nltk_parsing import NltkParser
    except ImportError as error:
        msg = "a parser of NLTK needs NLTK, which is not installed"
        raise SapwoodError(msg, hint="pip install 'sapwood[nltk]'") from error
    return NltkParser(model, k=k)


def as_parser(model: Model | Parser | str, *, fast: bool = False) -> Parser:
    """The parser of a model that may be named by its file."""
    from sapwood.constituency.parse.parser import Parser

    if isinstance(model, Parser):
        return model
    if isinstance(model, str | Path):
        from sapwood.core.model_files import load

        model = cast("Model", load(model))
    return Parser.fast(model) if fast else Parser(model)
