"""Helpers that may not earn their names: private functions called once, and participle names.

    python tools/confetti.py                    counts by room
    python tools/confetti.py --list             with every name, its file, line and length
    python tools/confetti.py --room corpus      one folder of src/sapwood, with its names

A private function or method that is called from one place only, and is short, makes a reader jump
where reading on would do. It earns its name when it is a step of the algorithm or hides a detail.
So the counts are no limits: they show where confetti gathers. Functions are verbs, or nouns for
pure maths: a participle (`refined`, `counted`) names neither what is done nor what comes back.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src" / "sapwood"
SHORT = 10  # lines, from `def` to the end
_NO_PARTICIPLES = {"seed", "need", "feed", "speed", "embed"}
_VERBS = {
    "is",
    "has",
    "was",
    "check",
    "convert",
    "parse",
    "read",
    "remove",
    "store",
}  # of what was done


class Helper(NamedTuple):
    """A function or method as it stands in its file."""

    room: str
    file: str
    line: int
    name: str
    length: int
    n_uses: int

    @property
    def is_confetti(self) -> bool:
        """Whether it is private, short, and called from one place."""
        return self.name.startswith("_") and self.n_uses == 1 and self.length <= SHORT

    @property
    def is_participle(self) -> bool:
        """Whether it ends in a participle and starts with no verb."""
        words = self.name.strip("_").split("_")
        return (
            words[-1].endswith("ed") and words[-1] not in _NO_PARTICIPLES and words[0] not in _VERBS
        )


def read_helpers(source: Path = SOURCE) -> list[Helper]:
    """Every function and method below a folder, with the number of places that name it."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(source.rglob("*.py"))}
    everywhere = sum((_names_in(tree) for tree in trees.values()), Counter[str]())
    helpers = []
    for path, tree in trees.items():
        parts = path.relative_to(source).parts
        for node in _functions_in(tree):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            helpers.append(
                Helper(parts[0], "/".join(parts), node.lineno, node.name, length,
                       everywhere[node.name])
            )  # fmt: skip
    return helpers


def _functions_in(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions of a module and methods of its classes; functions inside functions are no jumps."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        for function in inner:
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("__"):
                yield function


def _names_in(tree: ast.Module) -> Counter[str]:
    """How often each name is used, called or not."""
    nodes = list(ast.walk(tree))
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return Counter(names + [node.attr for node in nodes if isinstance(node, ast.Attribute)])


def print_report(helpers: list[Helper], *, with_names: bool) -> None:
    """Counts by room, and the names when wanted."""
    print(f"{'room':<14}{'functions':>10}{'called once':>13}{'short too':>11}{'participles':>13}")
    rooms = sorted({helper.room for helper in helpers})
    for room in [*rooms, "all"]:
        of = [helper for helper in helpers if room in (helper.room, "all")]
        once = sum(helper.name.startswith("_") and helper.n_uses == 1 for helper in of)
        short = sum(helper.is_confetti for helper in of)
        participles = sum(helper.is_participle for helper in of)
        print(f"{room:<14}{len(of):>10}{once:>13}{short:>11}{participles:>13}")
    for helper in helpers if with_names else []:
        if helper.is_confetti or helper.is_participle:
            why = "participle" if helper.is_participle else f"{helper.length} lines, called once"
            print(f"{helper.file}:{helper.line}: {helper.name} ({why})")


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description="short helpers called once, participle names")
    parser.add_argument("--room", help="only this folder of src/sapwood, with the names")
    parser.add_argument("--list", action="store_true", help="print the names too")
    arguments = parser.parse_args()
    helpers = read_helpers()
    if arguments.room:
        helpers = [helper for helper in helpers if helper.room == arguments.room]
    print_report(helpers, with_names=arguments.list or bool(arguments.room))


if __name__ == "__main__":
    main()
