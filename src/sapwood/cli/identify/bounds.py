"""What `sapwood identify bounds` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sapwood.cli.tables import fact_lines, table_lines
from sapwood.core.errors import count

N_WEAKEST = 5  # labels that are named
# These numbers are checked in tests/constituency/evaluate/test_sample_bounds.py and
# tests/theorems/test_spectral.py.
CAVEATS = (
    "Enough, but far from necessary: of random grammars of 2 states and 8 words the theorem",
    "asks for more than 1e28 trees for an error of 0.1, where 10,000 are enough. Its constants",
    "are unknown and taken as 1. The numbers tell grammars and labels apart, and plan no corpus.",
)


def bounds_text(report: dict[str, Any]) -> Iterator[str]:
    """Sizes, samples that the theorem asks for, and the weakest labels."""
    r = report
    sizes = (count(r[f"{name}s"], name) for name in ("phrase", "tag", "word"))
    samples = {
        name: f"{_amount(r[key])} for tensors, {_amount(r[f'{key}_svd'])} for singular vectors"
        for name, key in (("each phrase", "phrase_nodes"), ("each tag", "tag_nodes"))
    }
    facts = {
        "model": r["model"],
        "sizes": f"{', '.join(sizes)}, at most {count(r['states'], 'state')} a label",
        "wanted": f"errors that sum to {r['epsilon']:g} at most over all trees of {r['length']} "
        f"words, but for a chance of {r['delta']:g}",
        "sigma": f"{r['sigma']:.3g}: how well inside and outside of a node show its state",
        "xi": f"{r['xi']:.3g}: how well its rule or word alone does",
        "gamma": f"{r['gamma']:.3g}: the rarest step of a state"
        + (
            f"; {r['impossible']:,} steps that are never taken are left out" * bool(r["impossible"])
        ),
        **samples,
        "roots": _amount(r["roots"]),
        "trees": f"{_amount(r['trees'])}, where each gives one sample",
    }
    if r["trained_on"]:
        facts["trained on"] = f"{count(r['trained_on'], 'tree')}"
    yield from fact_lines(facts, 13)
    yield ""
    columns = {"weakest labels": "<22", "xi": ">11.3g", "sigma": ">11.3g"}
    weakest = r["labels"][:N_WEAKEST]
    yield from table_lines(columns, ((x["label"], x["xi"], x["sigma"]) for x in weakest))
    yield ""
    zero = [name for name in ("sigma", "xi", "gamma") if not r[name]]
    if zero:
        n_alike = sum(not (x["xi"] and x["sigma"]) for x in r["labels"])
        yield f"The theorem promises nothing here, since {' and '.join(zero)} = 0: the features do"
        yield f"not tell the states of {n_alike} of {len(r['labels'])} labels apart."
    yield from CAVEATS


def _amount(n: float) -> str:
    if n == float("inf"):
        return "none promised"
    return f"{n:.2g}" if n >= 1e6 else f"{n:,.0f}"
