"""What the page tells of a model before it is asked, and how text becomes the model's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.lm.model.language_model import LanguageModel

_BRACKETS = {"-LRB-": "(", "-RRB-": ")"}
# A dependency parser keeps no list of words, so its marks are those of Universal Dependencies.
_UNIVERSAL = ("the", "of", '"', "[", "]", "{", "}", "–", "—", "…")  # noqa: RUF001


def traits_of(model: Any) -> dict[str, Any]:
    """What the page needs to know of a model to name and describe it rightly.

    Returns
    -------
    dict
        `method`, None where the model does not record it; `n_members` of an ensemble, 0 for a
        single model; `can_sample`, whether trees can be drawn at random from it.
    """
    from sapwood.constituency.grammar.ensemble import Model

    is_of_trees = isinstance(model, Model)
    is_mix = is_of_trees and model.is_ensemble
    return {
        "method": getattr(model, "record", {}).get("method") or ("mix" if is_mix else None),
        "n_members": len(model.members) if is_mix else 0,
        "can_sample": is_of_trees and model.can.sample,
    }


def describe(model: Any) -> str:
    """A line about a model for people: its method and sizes, without the name of its class."""
    _, _, rest = repr(model).strip("<>").replace(":", " :", 1).partition(" ")
    text = rest.replace(" :", ":", 1).lstrip(": ")
    if text.startswith("("):
        text = text[1:].replace(")", "", 1)
    return f"A mix {text}" if text.startswith("of ") else text


def text_tokenizer(model: LanguageModel) -> Callable[[str], list[str]]:
    """Splits text into the words of a language model, as the parser of a grammar does.

    What the model knows stays whole, and a capital at the start of the text says little: the first
    word is looked up in lower case where the model knows it only so.
    """
    from sapwood.corpora.tokenize import PennTokenizer

    penn, known = PennTokenizer(model.words), frozenset(model.words)
    spelling = _BRACKETS if "(" in known else {}

    def tokenise(text: str) -> list[str]:
        words = [spelling.get(word, word) for word in penn(text)]
        if words and words[0][:1].isupper() and words[0] not in known:
            words[0] = words[0].lower() if words[0].lower() in known else words[0]
        return words

    return tokenise


def arc_tokenizer() -> Callable[[str], list[str]]:
    """Splits text for a dependency parser, with marks as Universal Dependencies write them."""
    from sapwood.corpora.tokenize import PennTokenizer

    penn = PennTokenizer(_UNIVERSAL)
    return lambda text: [_BRACKETS.get(word, word) for word in penn(text)]
