"""Sapwood inside other libraries: a parser of NLTK, and a component of spaCy pipelines.

spaCy finds the component itself: `nlp.add_pipe("sapwood")`. Both parse with `english` where no
other model is named.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from sapwood.core.errors import SapwoodError
from sapwood.core.model_names import ENGLISH

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.parse.parser import Parser
    from sapwood.integrations.nltk_parsing import NltkParser


def nltk_parser(model: Model | Parser | str = ENGLISH, *, k: int = 1) -> NltkParser:
    """A parser of NLTK, a `ParserI`, that parses with a model.

    Parameters
    ----------
    model
        The name of a model that comes with Sapwood, a file, a model of phrase trees, or a parser.
    k
        How many trees of a sentence `parse` and `parse_all` give at most, the best first.

    Examples
    --------
    >>> import sapwood as sw
    >>> tree = sw.nltk_parser().parse_one("The dog sleeps .".split())
    >>> tree.leaves()
    ['The', 'dog', 'sleeps', '.']
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
