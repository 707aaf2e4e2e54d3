"""`sapwood inspect --spectrum`: the singular values behind a spectral model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.cli.plots import Curve, plot_spectrum
from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.models.latent_grammar import LatentGrammar

BLOCKS = "▁▂▃▄▅▆▇█"
MAX_BARS = 40  # more would push the numbers off the screen
N_NUMBERS = 6  # singular values that are also written out
MAX_CURVES = 10  # more labels than colours cannot be told apart


def spectrum_rows(
    model: LatentGrammar, symbols: list[dict[str, Any]], name: str
) -> list[dict[str, Any]]:
    """The given symbols with their singular values, where the model has kept them."""
    kept = model.record.get("spectrum") or {}
    if not kept:
        method = model.record.get("method") or "unknown"
        msg = f"{name}: no singular values in this model (method {method})"
        raise SapwoodError(msg, hint="train one with: sapwood train ... --method spectral")
    rows = [
        row | {"singular_values": kept[row["symbol"]]} for row in symbols if row["symbol"] in kept
    ]
    if not rows:
        msg = f"{name}: singular values are kept for the {len(kept)} commonest labels only"
        raise SapwoodError(msg, hint=f"among them {', '.join(list(kept)[:8])}")
    return rows


def spectrum_text(rows: list[dict[str, Any]], top: int) -> Iterator[str]:
    """A bar for each singular value of each label, relative to the label's second."""
    shown = rows[:top]
    longest = max(len(_bars(row["singular_values"], row["states"])) for row in shown)
    width = max(10, *(len(row["symbol"]) + 2 for row in shown))
    yield f"{'label':<{width}}{'states':>6}  {'spectrum':<{longest}}  singular values"
    for row in shown:
        values = row["singular_values"]
        numbers = " ".join(f"{value:.3g}" for value in values[:N_NUMBERS])
        more = " ..." if len(values) > N_NUMBERS else ""
        bars = _bars(values, row["states"])
        yield f"{row['symbol']:<{width}}{row['states']:>6}  {bars:<{longest}}  {numbers}{more}"
    if len(rows) > top:
        yield f"... and {len(rows) - top:,} more (--top, --json)"
    yield ""
    yield "Bars are relative to the second value, as the first is mostly the label's mean;"
    yield "| stands behind m(a), the last singular value that is a state."


def _bars(values: list[float], states: int) -> str:
    """One block a value, relative to the second (the first is mostly the mean), and the mark.

    Examples
    --------
    >>> _bars([8.0, 2.0, 1.0, 0.0], 2)
    '██|▅▁'
    """
    full = values[1] if len(values) > 1 else 1.0
    heights = [min(1.0, value / full) * (len(BLOCKS) - 1) for value in values]
    blocks = "".join(BLOCKS[round(height)] for height in heights)
    text = f"{blocks[:states]}|{blocks[states:]}"
    return text if len(text) <= MAX_BARS else f"{text[:MAX_BARS]}…"


def draw_spectrum(path: Path, rows: list[dict[str, Any]]) -> None:
    """One curve for each label; zeros, which a logarithm cannot show, end it."""
    curves = {}
    for row in rows[:MAX_CURVES]:
        values = [value for value in row["singular_values"] if value > 0]
        mark = row["states"] - 1 if row["states"] <= len(values) else None
        curves[row["symbol"]] = Curve(range(1, len(values) + 1), values, mark)
    plot_spectrum(path, curves)
