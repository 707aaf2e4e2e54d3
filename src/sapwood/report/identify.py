"""What can be learnt at all, from how many trees, and what was learnt from plain sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sapwood.errors import SapwoodError
from sapwood.report.inspect import member_of

if TYPE_CHECKING:
    from sapwood.estimators.unmix import UnmixDEPIES, UnmixPCFGIE
    from sapwood.identify.report import Report
    from sapwood.models.ensemble import Model


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
    progress: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """All families and moments side by side, a row each; see `sapwood.identify.figure`."""
    from sapwood.identify.figure import as_row, figure

    cells = figure(max_words, max_states, max_length, seed=seed, progress=progress)
    return [as_row(cell) for cell in cells]


def identify_size(
    words: int, states: int, length: int, *, seed: int = 0, check: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """All families and moments at one size, a row each.

    Parameters
    ----------
    states
        For the families that have any.
    check
        Called between cells; raises an error to give up.

    Returns
    -------
    list
        `family`, `moments`, `parameters`, `rank`, `deficit` and `identifiable`; None in all of them
        and a `reason` where sentences of this length have no such moments.

    Examples
    --------
    >>> rows = identify_size(2, 2, 3)
    >>> [row["deficit"] for row in rows if row["family"] == "dep-ies"]
    [0, 0, 0, 0, 0, 0, 0]
    """
    from sapwood.identify import check as rank_of
    from sapwood.identify.families import FAMILIES, NAMED

    names = ("parameters", "rank", "deficit", "identifiable")
    rows = []
    for family, facts in FAMILIES.items():
        for moments in NAMED:
            check()
            row: dict[str, Any] = {"family": family, "moments": moments, "reason": None}
            try:
                found = rank_of(
                    family, words=words, states=states if facts.has_states else None,
                    length=length, moments=moments, n_points=0, seed=seed,
                ).to_dict()  # fmt: skip
                rows.append(row | {name: found[name] for name in names})
            except SapwoodError as error:
                rows.append(row | dict.fromkeys(names) | {"reason": error.message})
    return rows


def identify_bounds(
    model: Model,
    name: str | None = None,
    *,
    member: int | None = None,
    length: int = 20,
    epsilon: float = 0.1,
    delta: float = 0.05,
    depth: int = 1,
) -> dict[str, Any]:
    """How many trees of a grammar would surely be enough to learn it back by the spectral method.

    The grammar is taken as the truth that made the data (SPECTRAL, Theorem 8). The bounds are
    enough, and far from necessary.

    Parameters
    ----------
    model
        A grammar of probabilities: of the methods pcfg, em, cluster, pivot or pivot-em.
    name, member
        As `inspect_model` takes them.
    length
        Words of the sentences whose trees are bounded.
    epsilon, delta
        The sum of errors allowed over all trees of that length, and the probability of more.
    depth
        How many rules below a node its features tell; see `sapwood.identify.bounds`.

    Returns
    -------
    dict
        `model`; what the theorem depends on (`states`, `phrases`, `tags`, `words`, `length`,
        `depth`, `epsilon`, `delta`, `sigma`, `xi`, `gamma`); samples that it asks for
        (`phrase_nodes`, `tag_nodes`, `phrase_nodes_svd`, `tag_nodes_svd`, `roots`, `trees`),
        infinite where it promises nothing; `labels` with their own `xi` and `sigma`, the weakest
        first; `impossible`, steps that some state never takes; `trained_on`, the trees that the
        model was learnt from, if it says so; and the assumed `constants`.

    Raises
    ------
    SapwoodError
        For a model without probabilities, which has neither xi nor gamma.
    """
    from sapwood.identify.bounds import BoundInputs, hidden_constants, sample_bounds
    from sapwood.models.latent_grammar import LatentGrammar

    place = f"{name}: " if name else ""
    grammar = member_of(model, member, name)
    if grammar is None:
        msg = f"{place}an ensemble: the theorem is about the states of one grammar"
        raise SapwoodError(msg, hint="--member K takes one of them; `sapwood inspect` lists them")
    if not isinstance(grammar, LatentGrammar) or not grammar.is_probabilistic:
        method = grammar.record.get("method") or "unknown"
        msg = f"{place}holds weights, not probabilities of hidden states (method {method})"
        hint = "give a grammar of method pcfg, em, cluster, pivot or pivot-em, or `bundled`"
        raise SapwoodError(msg, hint=hint)
    hidden = hidden_constants(grammar, depth=depth)
    inputs = BoundInputs(
        n_states=int(grammar.n_states.max()),
        n_phrases=grammar.n_phrases,
        n_tags=len(grammar.tags),
        n_words=len(grammar.lexicon.words),
        n_binary=max(1, length - 1),
        epsilon=epsilon,
        delta=delta,
        sigma=hidden.sigma,
        xi=hidden.xi,
        gamma=hidden.gamma,
    )
    bounds = sample_bounds(inputs)
    needed = ("phrase_nodes", "tag_nodes", "phrase_nodes_svd", "tag_nodes_svd", "roots", "trees")
    found = asdict(inputs)
    labels = [
        {"label": label, "xi": xi, "sigma": hidden.sigma_by_label[label]}
        for label, xi in hidden.by_label.items()
    ]
    return (
        {"model": name}
        | {size: found[f"n_{size}"] for size in ("states", "phrases", "tags", "words")}
        | {"length": length, "depth": depth}
        | {symbol: found[symbol] for symbol in ("epsilon", "delta", "sigma", "xi", "gamma")}
        | {size: getattr(bounds, size) for size in needed}
        | {
            "labels": sorted(labels, key=lambda row: (row["xi"], row["sigma"])),
            "impossible": hidden.n_impossible,
            "trained_on": grammar.record.get("trees"),
            "constants": list(bounds.constants),
        }
    )


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
