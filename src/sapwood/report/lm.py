"""What there is to tell about language models: next words, and what hidden states mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sapwood.corpus.plain_text import UNKNOWN
from sapwood.errors import SapwoodError
from sapwood.models.lm.language_model import LanguageModel
from sapwood.models.lm.latent_models import BigramModel, LatentTrigramModel
from sapwood.models.lm.mixture import MixtureModel


def next_report(model: LanguageModel, context: Sequence[str], top: int) -> list[dict[str, Any]]:
    """The likeliest next words and their probabilities."""
    logs = model.next_log_probs(context)
    best = np.argsort(-logs, kind="stable")[:top]
    return [{"word": model.words[x], "p": float(np.exp(logs[x]))} for x in best]


def latent_member(model: LanguageModel) -> BigramModel | None:
    """The latent bigram model in a model, if there is one."""
    if isinstance(model, BigramModel):
        return model
    if isinstance(model, LatentTrigramModel):
        return model.bigram
    members = model.members if isinstance(model, MixtureModel) else ()
    return next((found for member in members if (found := latent_member(member))), None)


def class_report(model: BigramModel, top: int, word: str | None = None) -> list[dict[str, Any]]:
    """Each state with the words it stands after and those it predicts, the commonest first.

    A word stands for a state by how often both come together: u[x] r[x, h]. Of the words that
    follow, those are shown that the state makes likelier than they are by themselves.
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
