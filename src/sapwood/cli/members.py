"""The members of an ensemble, for `sapwood inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import echo
from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.models.ensemble import Ensemble, Model
    from sapwood.models.latent_grammar import LatentGrammar

MemberOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="K",
        help="Look into grammar K of an ensemble, counted from 1, with all other options. Only for "
        "ensembles.",
    ),
]


def member_of(model: Model, number: int | None, name: str) -> LatentGrammar | None:
    """The grammar to look into; None for a whole ensemble."""
    from sapwood.models.ensemble import Ensemble

    if not isinstance(model, Ensemble):
        if number is None:
            return model
        msg = f"{name}: a single grammar, not an ensemble: it has no members"
        raise SapwoodError(msg, hint="leave --member out")
    n = len(model.members)
    if number is None:
        return model.members[0] if n == 1 else None
    if number > n:
        msg = f"{name}: an ensemble of {n}, which has no member {number}"
        raise SapwoodError(msg, hint=f"give a number from 1 to {n}")
    return model.members[number - 1]


def telling_member(model: Model, *, spectrum: bool) -> int | None:
    """The number of the member that tells most, where a view shows one and nobody said which.

    The heaviest of those that have singular values for a spectrum, of those whose states have
    probabilities for anything else. None for a single grammar.
    """
    from sapwood.models.ensemble import Ensemble

    if not isinstance(model, Ensemble) or len(model.members) == 1:
        return None

    def rank(k: int) -> tuple[bool, bool, float]:
        member = model.members[k]
        has_states = bool((member.n_states > 1).any())
        is_telling = bool(member.record.get("spectrum")) if spectrum else member.is_probabilistic
        return is_telling and has_states, has_states, float(model.weights[k])

    best = max(range(len(model.members)), key=rank)
    method = model.members[best].record.get("method") or "unknown"
    echo(
        f"member {best + 1} of {len(model.members)} (method {method}, weight "
        f"{model.weights[best]:.3f}); --member K looks into another"
    )
    return best + 1


def ensemble_report(model: Ensemble) -> dict[str, Any]:
    """Method, members with their weights, and training record."""
    chart = {k: place for place, group in enumerate(model.groups, 1) for k in group}
    rows = []
    for k, member in enumerate(model.members):
        rows.append(
            {
                "member": k + 1,
                "method": member.record.get("method"),
                "probabilistic": member.is_probabilistic,
                "states": {
                    "total": int(member.n_states.sum()),
                    "most": int(member.n_states.max()),
                },
                "weight": float(model.weights[k]),
                "chart": chart[k],
                "transform": member.transform.as_dict(),
                "dev_f1": member.record.get("dev_f1"),
            }
        )
    return {
        "method": model.record.get("method"),
        "ensemble": True,
        "probabilistic": model.is_probabilistic,
        "combine": model.combine,
        "members": rows,
        "record": dict(model.record),
    }


def ensemble_text(report: dict[str, Any]) -> Iterator[str]:
    """The report for people."""
    rows = report["members"]
    record = report["record"]
    # Trials are a table of their own, in JSON; dev F1 stands with the members.
    told = ", ".join(f"{k} {_value(v)}" for k, v in record.items() if k not in {"trials", "method"})
    facts = {
        "model": report["model"],
        "method": f"{report['method'] or 'ensemble'}, {len(rows)} grammars that parse together",
        "posteriors": f"weighted {report['combine']} of the members'",
        "weights": "probabilities" if report["probabilistic"] else "not probabilities (spectral)",
        "record": told or "none",
    }
    for name, value in facts.items():
        yield f"{name:<12}{value}"
    yield ""
    yield (
        f"{'member':<8}{'method':<12}{'states':>8}{'most':>6}{'weight':>9}{'chart':>7}"
        f"  {'binarise':<9}{'dev F1':>7}"
    )
    for row in rows:
        states, f1 = row["states"], row["dev_f1"]
        yield (
            f"{row['member']:<8}{row['method'] or 'unknown':<12}{states['total']:>8,}"
            f"{states['most']:>6}{row['weight']:>9.3f}{row['chart']:>7}"
            f"  {row['transform']['binarise']:<9}{'' if f1 is None else f'{f1:.2f}':>7}"
        ).rstrip()
    yield ""
    yield "states: in all, and the most of one symbol. Members with the same number share a chart;"
    yield "trees are looked for in chart 1. --member K looks into one of them."


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
