"""What `sapwood inspect --card` writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sapwood.cli.tables import number_text


def card_text(report: dict[str, Any]) -> Iterator[str]:
    """A model card as Markdown."""
    yield f"# {report['model']}"
    yield ""
    yield f"{report['what'][0].upper()}{report['what'][1:]} (`{report['kind']}`). Use it with"
    yield ""
    yield f"    {report['command']}"
    for title, facts in (
        ("Training", report["training"]), ("Scores", report["scores"]), ("Size", report["sizes"]),
    ):  # fmt: skip
        yield f"\n## {title}\n"
        yield from (f"- {name}: {_fact(value)}" for name, value in facts.items())
        if not facts:
            yield "Nothing is in the file."
    if report["members"]:
        yield "\n## Members\n"
        yield "| member | kind | method | weight | dev F1 |"
        yield "|---|---|---|---:|---:|"
        for number, row in enumerate(report["members"], 1):
            f1 = "" if row["dev_f1"] is None else f"{row['dev_f1']:.2f}"
            cells = (number, row["kind"], row["method"] or "unknown", f"{row['weight']:.3f}", f1)
            yield "| " + " | ".join(map(str, cells)) + " |"
    yield "\n## Limits\n"
    yield from (f"- {line}" for line in report["limits"])


def _fact(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_fact, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"`{value}`" if isinstance(value, str) else number_text(value)
