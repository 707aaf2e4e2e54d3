"""What can be learnt at all, and what was learnt from plain sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.identify.learn.unmix import UnmixDEPIES, UnmixPCFGIE
    from sapwood.identify.model.uniform_trees import UniformTreeModel
    from sapwood.identify.report import Report


def identify_family(
    family: str,
    *,
    words: int,
    length: int,
    states: int | None = None,
    moments: str = "pairs",
    seed: int = 0,
) -> Report:
    """Whether a family of models can be learnt from moments, and what would help if not.

    `Report.to_dict` gives plain data. Parameters are those of `sapwood.identify.check`.

    Examples
    --------
    >>> found = identify_family("pcfg-ie", words=3, states=2, length=3, moments="12").to_dict()
    >>> found["identifiable"], found["deficit"]
    (False, 2)
    """
    from sapwood.identify import check, remedy

    report = check(family, words=words, states=states, length=length, moments=moments, seed=seed)
    return replace(report, hint=remedy(report))


def identify_table(
    max_words: int,
    max_states: int,
    max_length: int,
    *,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """All families and moments side by side, a row each; see `sapwood.identify.figure`."""
    from sapwood.identify.figure import as_row, figure

    cells = figure(max_words, max_states, max_length, seed=seed)
    return [as_row(cell) for cell in cells]


def describe_unmixed(model: UniformTreeModel) -> dict[str, Any]:
    """The family, sizes, words and tables of a model whose trees are hidden."""
    return {
        "family": model.family,
        "states": model.n_states if model.family == "pcfg-ie" else None,
        "words": len(model.vocabulary),
        "vocabulary": list(model.vocabulary),
        "parameters": {name: table.tolist() for name, table in model.tables.items()},
    }


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
    return describe_unmixed(model) | {
        "sentences": int(sum(info.n_sentences.values())),
        "sentences_by_length": {str(n): int(found) for n, found in info.n_sentences.items()},
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
