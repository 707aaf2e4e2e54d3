"""Draw the rooms of the sources: docs/images/rooms.svg, for light and dark pages.

Families are columns, the rooms of a family are rows, programs stand above and shared rooms below:
imports point down. A cell is drawn where the family has the room, as a folder or as one file.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
FAMILIES = {
    "constituency": "phrase-structure trees",
    "dependency": "dependency trees",
    "lm": "language models",
    "hankel": "weighted grammars",
    "identify": "what can be learnt",
}
ROOMS = {
    "annotation": "edits, suggestions",
    "report": "dictionaries out",
    "audit": "errors in trees",
    "learn": "one file a learner",
    "evaluate": "held-out scores",
    "parse": "charts, decoders",
    "model": "arrays, files",
    "data": "readers, banks",
}
OTHER_NAMES = {("constituency", "model"): "grammar"}
PROGRAMS = {
    "cli": "the command line",
    "web": "the page and its JSON API",
    "integrations": "inside NLTK and spaCy",
}
SHARED = {
    "annotation": "projects, journal",
    "auditing": "findings, scores",
    "networks": "layers, training",
    "execute": "threads, Dask",
    "linalg": "SVD, CCA, pivots",
    "corpora": "trees, formats, words",
    "core": "contracts, EM, files",
}
WIDTH, HEIGHT, GAP, LEFT = 148, 46, 8, 16
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1d2129; text-anchor: middle }
.small { font-size: 11px; fill: #5a6270 }
.side { fill: #5a6270; font-size: 12px }
.paper { fill: #ffffff }
.family { fill: #eef4ff; stroke: #3568b8 }
.program { fill: #fdf1e3; stroke: #b5752a }
.shared { fill: #e9f6ee; stroke: #2f8656 }
@media (prefers-color-scheme: dark) {
text { fill: #eceef2 } .small, .side { fill: #a9b0bd } .paper { fill: #16181d }
.family { fill: #1d2a40; stroke: #8ab8ff }
.program { fill: #382a1a; stroke: #e0a763 }
.shared { fill: #1a3325; stroke: #7fd1a0 }
}"""


def draw(package: Path) -> str:
    """The picture as SVG."""
    width = LEFT * 2 + len(FAMILIES) * (WIDTH + GAP) - GAP
    parts: list[str] = []
    y = LEFT
    parts += _row(PROGRAMS, y, (width - 2 * LEFT + GAP) / len(PROGRAMS) - GAP, "program")
    y += HEIGHT + 14
    parts.append(
        _text(
            width / 2,
            y + 4,
            "a family imports shared rooms, never another family; imports point down",
            "side",
        )
    )
    y += 16
    for column, (family, words) in enumerate(FAMILIES.items()):
        x = LEFT + column * (WIDTH + GAP)
        parts.append(
            _text(x + WIDTH / 2, y + 14, family) + _text(x + WIDTH / 2, y + 30, words, "small")
        )
        for row, (room, holds) in enumerate(ROOMS.items()):
            name = OTHER_NAMES.get((family, room), room)
            at = package / family / name
            if at.is_dir() or at.with_suffix(".py").is_file():
                parts.append(_cell(x, y + 40 + row * (HEIGHT + GAP), WIDTH, name, holds, "family"))
    y += 40 + len(ROOMS) * (HEIGHT + GAP) + 8
    parts += _row(SHARED, y, (width - 2 * LEFT + GAP) / len(SHARED) - GAP, "shared")
    height = y + HEIGHT + LEFT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    paper = f'<rect class="paper" width="{width}" height="{height}"/>'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<title>The rooms of Sapwood</title>\n<style>{STYLE}</style>\n{paper}\n{body}\n</svg>\n"
    )


def _row(rooms: dict[str, str], y: float, width: float, kind: str) -> list[str]:
    cells = enumerate(rooms.items())
    return [_cell(LEFT + i * (width + GAP), y, width, *room, kind) for i, room in cells]


def _cell(x: float, y: float, width: float, name: str, holds: str, kind: str) -> str:
    middle = x + width / 2
    box = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="5"/>'
    return box + _text(middle, y + 19, name) + _text(middle, y + 35, holds, "small")


def _text(x: float, y: float, text: str, kind: str = "name") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{text}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(ROOT / "src" / "sapwood"), encoding="utf-8")
