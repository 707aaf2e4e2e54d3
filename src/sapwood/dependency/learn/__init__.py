"""The methods of learning dependency parsers, and latent models of trees, by name."""

from __future__ import annotations

from collections.abc import Mapping

from sapwood.core.learner import Method

TASK = "arcs"
ARC_METHODS: Mapping[str, Method] = {
    "best": Method(
        "several parsers that are averaged, within --budget",
        ("dependency.learn.crf", "ArcEnsemble"),
        task=TASK,
    ),
    "second": Method(
        "features of arcs, of siblings, and of heads with their heads",
        ("dependency.learn.crf", "ArcCRF"),
        task=TASK,
        fixed={"order": 2},
    ),
    "first": Method(
        "features of single arcs", ("dependency.learn.crf", "ArcCRF"), task=TASK, fixed={"order": 1}
    ),
    "latent": Method(
        "hidden states of words, summed over all trees on the arcs that first leaves",
        ("dependency.learn.crf", "LatentArcCRF"),
        task=TASK,
    ),
    "rerank": Method(
        "second, and a choice among its best trees by tags and latent models",
        ("dependency.learn.reranker", "ArcReranker"),
        task=TASK,
    ),
    "spectral": Method(
        "no parser: hidden states of words from moments, for `depend score`",
        ("dependency.learn.spectral", "SpectralDependency"),
        task=TASK,
    ),
    "em": Method(
        "no parser: hidden states of words by EM, for `depend score`",
        ("dependency.learn.em", "EMDependency"),
        task=TASK,
    ),
}
