"""What was learnt from strings: a model, how it was found, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import CorpusError, SapwoodError

if TYPE_CHECKING:
    from sapwood.hankel.model.string_model import StringModel


def learn_report(learner: Any) -> dict[str, Any]:
    """A fitted learner from strings.

    Returns
    -------
    dict
        `model`, `method`, `states`, `symbols`, `strings`, `basis`, `singular_values`,
        `conditioning`, `solver`, `risks`, `iterations`, `log_likelihood`, `wide_nodes`, `warnings`,
        and `total`: the sum over all strings.
    """
    info = learner.info_
    return describe_strings(learner.model_) | {
        "strings": info.n_strings,
        "basis": list(info.basis) if info.basis else None,
        "singular_values": info.singular_values[:32].tolist(),
        "conditioning": info.conditioning._asdict() if info.conditioning else None,
        "solver": info.solver or None,
        "risks": {str(n): found for n, found in info.risks.items()} or None,
        "iterations": info.iterations,
        "log_likelihood": info.log_likelihood,
        "wide_nodes": info.n_wide,
        "warnings": info.warnings,
    }


def describe_strings(model: StringModel, name: str | None = None) -> dict[str, Any]:
    """Sizes of a model of strings, and its sum over all of them."""
    total = model.total()
    return {
        "model": name,
        "kind": type(model).__name__,
        "method": model.record.get("method"),
        "states": model.n_states,
        "symbols": list(model.symbols),
        "probabilistic": model.is_probabilistic,
        "total": {
            "mass": total.mass,
            "expected_length": total.expected_length,
            "spectral_radius": total.spectral_radius,
            "converges": total.converges,
        },
        "record": dict(model.record),
    }


def with_lines(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Symbols of each line, with its number; none for an empty one."""
    from sapwood.corpora.sentences import split_words

    return ((number, split_words(line)) for number, line in enumerate(lines, 1))


def at_line(error: SapwoodError, file: str, line: int) -> CorpusError:
    """An error about a string with the place where it stands."""
    return CorpusError(error.message, file=file, line=line, hint=error.hint)
