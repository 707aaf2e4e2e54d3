"""The methods of learning weighted grammars and automata, by name."""

from __future__ import annotations

from sapwood.core.learner import Method

STRING_TASK = "strings"
STRING_METHODS: dict[str, Method] = {
    "spectral": Method(
        "a grammar by singular values",
        ("hankel.learn.unsupervised_wcfg", "UnsupervisedWCFG"),
        STRING_TASK,
        usual={"basis": 0.001},
    ),
    "em": Method("a grammar of probabilities", ("hankel.learn.em_wcfg", "EMWCFG"), STRING_TASK),
    "wfa": Method(
        "an automaton by singular values", ("hankel.learn.spectral", "SpectralWFA"), STRING_TASK
    ),
}
# the same names where the strings have brackets
BRACKET_METHODS = STRING_METHODS | {
    "spectral": Method(
        STRING_METHODS["spectral"].summary, ("hankel.learn.spectral", "SpectralWCFG"), "brackets"
    )
}
