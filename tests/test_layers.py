"""The layout of the source tree: families import shared rooms, never each other, and point down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sapwood"

# shared room: the shared rooms it may import, besides itself
SHARED: dict[str, frozenset[str]] = {
    "core": frozenset(),
    "corpora": frozenset({"core"}),
    "linalg": frozenset({"core"}),
    "execute": frozenset({"core"}),
    "auditing": frozenset({"core", "corpora", "execute"}),
    "annotation": frozenset({"auditing", "core", "corpora"}),
    "networks": frozenset({"core", "corpora", "execute"}),
}
FAMILIES = ("constituency", "dependency", "hankel", "lm", "identify")
# Inside a family, from the data up. Kernels know nothing of ours and are open to all of a family.
ROOMS = ("data", "grammar", "model", "parse", "evaluate", "learn", "audit", "report", "annotation")
# Modules that gather public names of several families, and the two programs.
GATHERING = ("errors", "evaluate", "incremental", "progress", "report", "treebank_audit")
PROGRAMS = ("cli", "web", "integrations", "__main__")
STARTS = {("__main__", "cli"), ("cli", "web")}  # who starts whom
# Imports that point up, inside functions only, with the reason.
DOORS = {
    # Methods of models that need charts: log_prob of a tree, posteriors of a network's spans.
    ("constituency.grammar.member", "constituency.parse.prepared"),
    ("constituency.grammar.discriminative", "constituency.parse.posteriors"),
    # Learners make their engine when they are fitted.
    ("core.learner", "execute"),
}


def imported_modules(
    text: str, module: str, *, is_package: bool = False
) -> Iterator[tuple[int, str]]:
    """Every module that the text of `module` imports, anywhere in it, with its line."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package=is_package)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _absolute(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def violations(text: str, module: str, *, is_package: bool = False) -> list[str]:
    """The imports of a module of ours that its room may not make."""
    # in a function, or for type checkers only
    inside = {node.lineno for f in ast.walk(ast.parse(text))
              if isinstance(f, ast.FunctionDef | ast.If)
              for node in ast.walk(f) if isinstance(node, ast.ImportFrom)}  # fmt: skip
    ours = module.split(".")[1:]
    found = []
    for line, target in imported_modules(text, module, is_package=is_package):
        theirs = target.split(".")[1:]
        if target.split(".")[0] != "sapwood" or _may_import(ours, theirs):
            continue
        if not (_is_door(ours, theirs) and line in inside):
            found.append(f"{module}, line {line}: may not import {target}")
    return found


def _is_door(ours: list[str], theirs: list[str]) -> bool:
    return any(
        ours == door.split(".") and theirs[: len(target.split("."))] == target.split(".")
        for door, target in DOORS
    )


def _may_import(ours: list[str], theirs: list[str]) -> bool:
    room, other = ours[0], theirs[0] if theirs else ""
    if room in PROGRAMS:
        return other not in set(PROGRAMS) - {room} or (room, other) in STARTS
    if room in GATHERING:
        return other in SHARED or other in FAMILIES
    if room in SHARED:
        return other in {room, *SHARED[room]} or (room != "linalg" and other == "__version__")
    if other != room:
        return other in SHARED or other == "__version__"
    return _points_down(ours[1:], theirs[1:])


def _points_down(ours: list[str], theirs: list[str]) -> bool:
    """Whether a room of a family may import another room of the same family."""
    if "kernels" in ours or "kernels" in theirs:
        return "kernels" in theirs
    rooms = [ROOMS.index(path[0]) for path in (ours, theirs) if path and path[0] in ROOMS]
    return len(rooms) < 2 or rooms[1] <= rooms[0]


def our_modules() -> list[tuple[str, Path]]:
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]
    return [(_module_name(path), path) for path in paths]


def _module_name(path: Path) -> str:
    parts = ["sapwood", *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_point_down() -> None:
    found = []
    for module, path in our_modules():
        text = path.read_text(encoding="utf-8")
        found += violations(text, module, is_package=path.name == "__init__.py")
    assert not found, "\n".join(found)


def test_every_room_is_known() -> None:
    known = {*SHARED, *FAMILIES, *GATHERING, *PROGRAMS}
    assert {module.split(".")[1] for module, _ in our_modules()} <= known


def test_shared_rooms_are_in_order() -> None:
    """No shared room is allowed to import one that is allowed to import it."""
    for room, below in SHARED.items():
        assert not [other for other in below if room in SHARED[other]], room


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sapwood.corpora.tree", "from sapwood.constituency.grammar import LatentGrammar"),
        ("sapwood.corpora.tree", "def f():\n    import sapwood.dependency.parse.parser"),
        ("sapwood.corpora.tree", "from ..constituency import learn"),
        ("sapwood.corpora.tree", "from .. import hankel"),
        ("sapwood.corpora.tree", "from sapwood import Parser"),
        ("sapwood.corpora.tree", "import sapwood"),
        ("sapwood.linalg.svd", "from sapwood.corpora.tree import Tree"),
        ("sapwood.core.arrays", "from sapwood.corpora.files import open_file"),
        ("sapwood.dependency.learn.crf", "from sapwood.constituency.learn.crf import SpanCRF"),
        ("sapwood.lm.model.mixture", "def f():\n    from sapwood.hankel.model import string_model"),
        ("sapwood.constituency.data.treebank", "from sapwood.constituency.learn.pcfg import PCFG"),
        ("sapwood.lm.kernels.bigrams", "from sapwood.lm.model import mixture"),
        ("sapwood.constituency.learn.em", "from sapwood.cli.main import main"),
        ("sapwood.constituency.learn.em", "from sapwood.report import score_on"),
        ("sapwood.constituency.report.trees", "from sapwood.cli.console import echo"),
        ("sapwood.evaluate", "from sapwood.web.app import app"),
    ],
)
def test_a_mutant_is_flagged(module: str, text: str) -> None:
    assert violations(text, module)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sapwood.corpora.formats", "from .tree import Tree\nfrom ..core.errors import count"),
        ("sapwood.constituency.learn.em", "from sapwood.constituency.parse.charts import fill"),
        ("sapwood.lm.data.ngrams", "from sapwood.lm.kernels import bigrams"),
        ("sapwood.core.model_files", "from sapwood import __version__"),
        ("sapwood.cli.main", "import sapwood as sw\nfrom sapwood import Parser"),
    ],
)
def test_a_downward_import_passes(module: str, text: str) -> None:
    assert not violations(text, module)


@pytest.mark.parametrize("module", ["constituency.grammar.member", "core.learner"])
def test_a_door_opens_inside_functions_only(module: str) -> None:
    target = next(to for from_, to in DOORS if from_ == module)
    line = f"from sapwood.{target} import anything"
    assert not violations(f"def f():\n    {line}", f"sapwood.{module}")
    assert violations(line, f"sapwood.{module}")
    assert violations(f"def f():\n    {line}", "sapwood.corpora.tree")


def test_relative_imports_of_a_package_count_from_itself() -> None:
    assert not violations("from . import tree", "sapwood.corpora", is_package=True)
    assert violations("from .. import lm", "sapwood.corpora", is_package=True)
