"""Reports on language models (next words, meaning of states, surprise) and on vectors of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.core.errors import SapwoodError
from sapwood.lm.data.ngrams import UNKNOWN
from sapwood.lm.model.language_model import LanguageModel
from sapwood.lm.model.latent_models import (
    BigramModel,
    LatentNgramModel,
    LatentTrigramModel,
    MixtureModel,
)

if TYPE_CHECKING:
    from sapwood.corpora.eigenwords import Eigenwords

N_COMMON = 3  # words shown by default


def next_report(model: LanguageModel, context: Sequence[str], top: int) -> list[dict[str, Any]]:
    """The most probable next words and their probabilities."""
    logs = model.next_log_probs(context)
    best = np.argsort(-logs, kind="stable")[:top]
    return [{"word": model.words[x], "p": float(np.exp(logs[x]))} for x in best]


def unknown_words(model: LanguageModel, words: Sequence[str]) -> list[str]:
    """The words that the model does not know, each once, in their order."""
    return list(dict.fromkeys(word for word in words if model.numbers[word.encode()] == UNKNOWN))


def latent_member(model: LanguageModel) -> BigramModel | None:
    """The latent bigram model in a model, if there is one."""
    if isinstance(model, BigramModel):
        return model
    if isinstance(model, (LatentTrigramModel, LatentNgramModel)):
        return model.bigram
    members = model.members if isinstance(model, MixtureModel) else ()
    return next((found for member in members if (found := latent_member(member))), None)


def class_report(model: BigramModel, top: int, word: str | None = None) -> list[dict[str, Any]]:
    """For each state the words it follows and the words it predicts, most frequent first.

    Words before a state are ordered by their joint probability, u[x] r[x, h]. Words after it are
    ordered by s[y, h] log(s[y, h] / u[y]), so that words that are frequent after all states come
    late.
    """
    joint = model.u[:, None] * model.r  # [V, m]
    share = joint.sum(axis=0) / joint.sum()
    order = np.argsort(-share, kind="stable")
    if word is not None:
        x = model.numbers[word.encode()]
        if x == UNKNOWN:
            msg = f"the model does not know {word!r}"
            raise SapwoodError(msg, hint="is it spelt as in the training text?")
        order = np.argsort(-model.r[x], kind="stable")[:top]
    lift = model.s * np.log(np.maximum(model.s, 1e-30) / np.maximum(model.u, 1e-30)[:, None])
    states = []
    for h in order:
        after = np.argsort(-joint[UNKNOWN + 1 :, h], kind="stable")[:top] + UNKNOWN + 1
        then = np.argsort(-lift[UNKNOWN + 1 :, h], kind="stable")[:top] + UNKNOWN + 1
        states.append({
            "state": int(h), "share": float(share[h]),
            "after": [model.words[x] for x in after], "then": [model.words[x] for x in then],
        })  # fmt: skip
    return states


def surprise_report(
    model: LanguageModel,
    words: Sequence[str],
    top: int = 3,
    *,
    check: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """A sentence word by word: how surprising each is, and what would have been likelier.

    Parameters
    ----------
    check
        A function that is called before each word; it can raise an error to stop the work.

    Returns
    -------
    dict
        `bits` in all, `perplexity` per word, and `words`: `word`, whether it is `known`, its
        `bits`, its `rank` among all words from 1 on, the most probable words at its position,
        and, for models with hidden states, the most probable `states` after it.
    """
    rows = model.rows_of(words)
    names = list(words) if model.is_stream else [*words, "</s>"]
    bits = -model.log_probs(rows) / np.log(2.0)
    latent = latent_member(model)
    out = []
    for place, name in enumerate(names):
        if check is not None:
            check()
        logs = model.next_log_probs(words[:place])
        best = np.argsort(-logs, kind="stable")[:top]
        out.append({
            "word": name,
            "known": int(rows[place, 0]) != UNKNOWN,
            "bits": float(bits[place]),
            "rank": 1 + int((logs > logs[rows[place, 0]]).sum()),
            "instead": [{"word": model.words[x], "p": float(np.exp(logs[x]))} for x in best],
            "states": [] if latent is None else _states_behind(latent, int(rows[place, 0])),
        })  # fmt: skip
    total = float(bits.sum())
    return {"bits": total, "perplexity": 2.0 ** (total / max(len(names), 1)), "words": out}


def _states_behind(model: BigramModel, x: int) -> list[dict[str, Any]]:
    order = np.argsort(-model.r[x], kind="stable")[:3]
    return [{"state": int(h), "p": float(model.r[x, h])} for h in order if model.r[x, h] > 0.01]


def describe_language(model: LanguageModel, name: str | None = None) -> dict[str, Any]:
    """Sizes of a language model."""
    latent = latent_member(model)
    return {
        "model": name,
        "kind": type(model).__name__,
        "words": len(model.words),
        "order": model.order,
        "stream": model.is_stream,
        "states": None if latent is None else latent.n_states,
    }


def inspect_words(
    model: Eigenwords, name: str | None = None, words: Sequence[str] = (), *, top: int = 10
) -> dict[str, Any]:
    """Sizes of vectors of words, their training record, and the nearest neighbours of words.

    Returns
    -------
    dict
        `model` (the name), `words`, `classes`, `dimension`, `strengths`, `record`, and
        `neighbours`: rows of `word`, `known` and `nearest`, each `word` and `cosine`.
    """
    known = model.vocabulary.words
    # words are in alphabetical order: examples at equal distances
    chosen = list(words) or list(known[:: max(len(known) // N_COMMON, 1)][:N_COMMON])
    rows = [
        {
            "word": word,
            "known": model.knows(word),
            "nearest": [near._asdict() for near in model.nearest(word, top)],
        }
        for word in chosen
    ]
    return {
        "model": name, "words": len(known), "classes": len(model.vocabulary.classes),
        "dimension": model.dimension, "strengths": model.strengths.tolist(),
        "record": model.record, "neighbours": rows,
    }  # fmt: skip
