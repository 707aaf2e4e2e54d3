"""The methods of learning language models and vectors of words, by name."""

from __future__ import annotations

from collections.abc import Mapping

from sapwood.core.learner import Method

LM_TASK = "text"
LM_METHODS: Mapping[str, Method] = {
    "mix": Method(
        "kn-mod, em and hidden states after two words, weighted by context",
        ("lm.learn.latent", "LanguageMixture"),
        LM_TASK,
    ),
    "kn": Method(
        "interpolated Kneser-Ney",
        ("lm.learn.kneser_ney", "KneserNey"),
        LM_TASK,
        fixed={"is_modified": False},
    ),
    "kn-mod": Method(
        "Kneser-Ney with three discounts",
        ("lm.learn.kneser_ney", "KneserNey"),
        LM_TASK,
        fixed={"is_modified": True},
    ),
    "kn-latent": Method(
        "kn-mod with hidden states between pairs and single words",
        ("lm.learn.kneser_ney", "LatentKneserNey"),
        LM_TASK,
    ),
    "em": Method(
        "hidden states between two words, by EM", ("lm.learn.latent", "EMBigram"), LM_TASK
    ),
    "pivot": Method(
        "the same by pivot words and convex EM",
        ("lm.learn.pivot", "PivotBigram"),
        LM_TASK,
        fixed={"iterations": 0},
    ),
    "pivot-em": Method(
        "a few iterations of EM from there", ("lm.learn.pivot", "PivotBigram"), LM_TASK
    ),
}
# ways to count neighbours and decompose the counts; only one of them iterates over the text
EMBEDDING_METHODS: Mapping[str, Method] = {
    name: Method(
        summary, ("lm.learn.eigenwords", "WordEmbedding"), LM_TASK,
        fixed={"method": name} | ({} if name == "lr-mvl" else {"iterations": 5}),
    )
    for name, summary in {
        "cca": "words against their neighbours",
        "two-step": "neighbours are first reduced to what left and right ones predict of each "
                    "other",
        "bigram": "plain SVD of pairs of words",
        "lr-mvl": "two-step, iterated, with exponentially smoothed contexts of all words on each "
                  "side",
    }.items()
}  # fmt: skip
