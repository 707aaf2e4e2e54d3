"""The methods of learning language models by name."""

from __future__ import annotations

from collections.abc import Mapping

from sapwood.core.registry import Method

TASK = "text"
LM_METHODS: Mapping[str, Method] = {
    "mix": Method(
        "kn-mod, em and hidden states after two words, weighed by context",
        ("lm.learn.mixture", "LanguageMixture"),
        TASK,
    ),
    "kn": Method(
        "interpolated Kneser-Ney",
        ("lm.learn.kneser_ney", "KneserNey"),
        TASK,
        fixed={"is_modified": False},
    ),
    "kn-mod": Method(
        "Kneser-Ney with three discounts",
        ("lm.learn.kneser_ney", "KneserNey"),
        TASK,
        fixed={"is_modified": True},
    ),
    "kn-latent": Method(
        "kn-mod with hidden states between pairs and single words",
        ("lm.learn.latent_kneser_ney", "LatentKneserNey"),
        TASK,
    ),
    "em": Method("hidden states between two words, by EM", ("lm.learn.latent", "EMBigram"), TASK),
    "pivot": Method(
        "the same by pivot words and convex EM",
        ("lm.learn.latent", "PivotBigram"),
        TASK,
        fixed={"iterations": 0},
    ),
    "pivot-em": Method(
        "a few iterations of EM from there", ("lm.learn.latent", "PivotBigram"), TASK
    ),
}
