"""A small SVG canvas whose drawings work on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1d2129; text-anchor: middle }
.small { font-size: 11px; fill: #5a6270 }
.note { font-size: 12px; fill: #5a6270 }
.strong { font-weight: 600 }
.left { text-anchor: start } .right { text-anchor: end }
.paper { fill: #ffffff }
.line { stroke: #5a6270; stroke-width: 1.3; fill: none }
.thick { stroke: #1d2129; stroke-width: 2; fill: none }
.faint { stroke: #5a6270; stroke-opacity: 0.3; fill: none }
.dash { stroke: #5a6270; stroke-width: 1.3; stroke-dasharray: 4 3; fill: none }
.tip { fill: #5a6270 }
.blue { fill: #eef4ff; stroke: #3568b8 } .orange { fill: #fdf1e3; stroke: #b5752a }
.green { fill: #e9f6ee; stroke: #2f8656 } .red { fill: #fdecec; stroke: #c0413c }
.plain { fill: #f4f5f7; stroke: #8a919e }
.blue-ink { fill: #3568b8 } .orange-ink { fill: #b5752a } .green-ink { fill: #2f8656 }
.red-ink { fill: #c0413c }
.blue-line { stroke: #3568b8; stroke-width: 2; fill: none }
.orange-line { stroke: #b5752a; stroke-width: 2; fill: none }
.green-line { stroke: #2f8656; stroke-width: 2; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #eceef2 } .small, .note { fill: #a9b0bd } .paper { fill: #16181d }
.line, .dash, .faint { stroke: #a9b0bd } .thick { stroke: #eceef2 } .tip { fill: #a9b0bd }
.blue { fill: #1d2a40; stroke: #8ab8ff } .orange { fill: #382a1a; stroke: #e0a763 }
.green { fill: #1a3325; stroke: #7fd1a0 } .red { fill: #3d1f1f; stroke: #f08f89 }
.plain { fill: #22262d; stroke: #7d8592 }
.blue-ink { fill: #8ab8ff } .orange-ink { fill: #e0a763 } .green-ink { fill: #7fd1a0 }
.red-ink { fill: #f08f89 }
.blue-line { stroke: #8ab8ff } .orange-line { stroke: #e0a763 } .green-line { stroke: #7fd1a0 }
}"""


@dataclass
class Canvas:
    """Shapes in the order in which they are drawn, and the size of the drawing in pixels."""

    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write a line of text whose baseline is at y."""
        named = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{named} x="{x:g}" y="{y:g}">{escape(text)}</text>')

    def lines(
        self, x: float, y: float, lines: Sequence[str], kind: str = "", gap: int = 17
    ) -> None:
        """Write lines of text below each other."""
        for row, text in enumerate(lines):
            self.text(x, y + row * gap, text, kind)

    def box(self, at: Point, size: Point, kind: str, *texts: str) -> None:
        """Draw a box at its upper left corner; the first text is its name, the others are small."""
        (x, y), (width, height) = at, size
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"'
        self.parts.append(f'<rect class="{kind}" {shape}/>')
        top = y + height / 2 + 5 - 8 * (len(texts) - 1)
        for row, text in enumerate(texts):
            self.text(x + width / 2, top + 16 * row, text, "small" if row else "")

    def dot(self, at: Point, kind: str, radius: float = 4) -> None:
        """Draw a disc."""
        self.parts.append(
            f'<circle class="{kind}" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}"/>'
        )

    def path(self, points: Sequence[Point], kind: str = "line") -> None:
        """Draw straight lines from point to point."""
        steps = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="M{steps}"/>')

    def curve(self, start: Point, end: Point, lift: float, kind: str = "line") -> None:
        """Draw an arch from start to end, whose top is `lift` pixels above them."""
        (x0, y0), (x1, y1) = start, end
        control = f"{x0:.1f} {y0 - lift:.1f} {x1:.1f} {y1 - lift:.1f}"
        self.parts.append(
            f'<path class="{kind}" d="M{x0:.1f} {y0:.1f}C{control} {x1:.1f} {y1:.1f}"/>'
        )

    def arrow(self, start: Point, end: Point, kind: str = "line") -> None:
        """Draw a straight line with a tip."""
        (x0, y0), (x1, y1) = start, end
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        u, v = (x1 - x0) / length, (y1 - y0) / length
        self.path([start, (x1 - 7 * u, y1 - 7 * v)], kind)
        self.tip(end, (u, v))

    def tip(self, end: Point, direction: Point) -> None:
        """Draw the tip of an arrow; the direction has length 1."""
        (x, y), (u, v) = end, direction
        back = [(x - 8 * u + 4 * v, y - 8 * v - 4 * u), (x - 8 * u - 4 * v, y - 8 * v + 4 * u)]
        corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in [end, *back])
        self.parts.append(f'<polygon class="tip" points="{corners}"/>')

    def svg(self) -> str:
        """Return the drawing."""
        size = (
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        )
        paper = f'<rect class="paper" width="{self.width}" height="{self.height}"/>'
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n{paper}\n{body}\n</svg>\n"
        )


Node = tuple[str, list["Node"]]


def parse_tree(text: str) -> Node:
    """Read a tree in brackets; a leaf is a node without children.

    >>> parse_tree("(S (NP dogs) (VP bark))")
    ('S', [('NP', [('dogs', [])]), ('VP', [('bark', [])])])
    """
    stack: list[Node] = [("", [])]
    for token in text.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            stack.append(("", []))
        elif token == ")":
            done = stack.pop()
            stack[-1][1].append(done)
        elif stack[-1][0] or len(stack) == 1:
            stack[-1][1].append((token, []))
        else:
            stack[-1] = (token, stack[-1][1])
    return stack[0][1][0]


def draw_tree(
    canvas: Canvas, tree: Node, corner: Point, *, step: float = 62, rise: float = 46
) -> dict[tuple[str, int, int], Point]:
    """Draw a tree with its leaves in a row; returns the place of each labelled span."""
    x0, y0 = corner
    depth = _depth(tree)
    places: dict[tuple[str, int, int], Point] = {}

    def draw(node: Node, start: int, level: int) -> tuple[Point, int]:
        label, children = node
        if not children:
            at = (x0 + (start + 0.5) * step, y0 + depth * rise)
            canvas.text(at[0], at[1] + 5, label, "strong")
            return at, start + 1
        middles: list[Point] = []
        end = start
        for child in children:
            middle, end = draw(child, end, level + 1)
            middles.append(middle)
        at = ((middles[0][0] + middles[-1][0]) / 2, y0 + level * rise)
        for middle in middles:
            canvas.path([(at[0], at[1] + 9), (middle[0], middle[1] - 9)], "line")
        canvas.text(at[0], at[1] + 5, label)
        places[label, start, end] = at
        return at, end

    draw(tree, 0, 0)
    return places


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node[1])) if node[1] else 0
