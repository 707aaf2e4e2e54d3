"""What was learnt about hidden trees from plain sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.estimators.unmix import UnmixDEPIES, UnmixPCFGIE


def unmix_report(estimator: UnmixPCFGIE | UnmixDEPIES) -> dict[str, Any]:
    """The tables of a fitted estimator as nested lists, and how far they can be trusted.

    Returns
    -------
    dict
        `family`, `states`, `vocabulary`, `parameters` by table; `sentences` read, also by length;
        `moment_error` of the counted pairs beside the `moment_noise` of sampling; `eigengap`,
        `noise_gain` and `clipped` of the closed form; `refine`, `iterations`, `log_likelihood`;
        `warnings`.
    """
    model, info = estimator.model_, estimator.info_
    return {
        "family": model.family,
        "states": model.n_states if model.family == "pcfg-ie" else None,
        "words": len(model.vocabulary),
        "sentences": int(sum(info.n_sentences.values())),
        "sentences_by_length": {str(n): int(found) for n, found in info.n_sentences.items()},
        "vocabulary": list(model.vocabulary),
        "parameters": {name: table.tolist() for name, table in model.tables.items()},
        "moment_error": info.moment_error,
        "moment_noise": info.moment_noise,
        "eigengap": info.gap,
        "noise_gain": info.noise_gain,
        "clipped": info.clipped,
        "refine": info.refined,
        "iterations": info.iterations,
        "log_likelihood": info.log_likelihood,
        "warnings": info.warnings,
    }
