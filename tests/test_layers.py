"""Imports point down only: the layer picture of CONTRIBUTING.md, enforced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sapwood"

_CORPUS = frozenset({"errors", "arguments", "memory", "outputs", "arrays", "progress", "corpus"})
_MODELS = _CORPUS | {"kernels", "execute", "models", "features", "networks"}
_BELOW_ESTIMATORS = _MODELS | {
    "inference", "moments", "decompose", "evaluate", "identify",
}  # fmt: skip

# room: the rooms it may import, besides itself
ALLOWED: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "arrays": frozenset(),
    "progress": frozenset(),
    "arguments": frozenset({"errors"}),
    "memory": frozenset({"errors"}),
    "outputs": frozenset({"errors"}),
    "resume": frozenset({"errors", "outputs"}),
    "corpus": frozenset({"errors", "arguments", "memory", "outputs", "arrays", "progress"}),
    "kernels": frozenset({"arrays"}),
    "execute": frozenset({"errors", "arguments", "outputs", "progress"}),
    "networks": frozenset({"arrays", "kernels"}),
    "models": _CORPUS | {"kernels", "networks"},
    "features": _CORPUS | {"kernels"},
    "inference": _MODELS,
    "moments": _MODELS | {"inference", "decompose"},
    "evaluate": _CORPUS | {"models", "inference"},
    "decompose": frozenset({"errors", "arrays", "progress"}),
    "identify": _MODELS | {"inference", "moments", "evaluate", "decompose"},
    "estimators": _BELOW_ESTIMATORS,
    "report": _BELOW_ESTIMATORS | {"estimators"},
    "cli": _BELOW_ESTIMATORS | {"estimators", "report", "resume"},
    "web": _BELOW_ESTIMATORS | {"estimators", "report"},
    "__main__": frozenset({"cli"}),
}
OUTERMOST = {"cli", "web"}
# Doors, inside functions: methods of models that ask for charts; the command that starts the page.
DOORS = {
    ("sapwood.models.tree_model", "sapwood.inference.scores"),
    ("sapwood.models.span_network", "sapwood.inference.spans"),
    ("sapwood.cli.serve", "sapwood.web.server"),
    ("sapwood.cli.serve", "sapwood.web.limits"),
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
    room = module.split(".")[1]
    found = []
    for line, target in imported_modules(text, module, is_package=is_package):
        parts = target.split(".")
        if parts[0] != "sapwood":
            continue
        other = parts[1] if len(parts) > 1 else ""
        is_door = (module, ".".join(parts[:3])) in DOORS
        if not is_door and not _may_import(room, other):
            found.append(f"{module}, line {line}: {room} may not import {target}")
    return found


def _may_import(room: str, other: str) -> bool:
    if other == room or other in ALLOWED[room]:
        return True
    if room in OUTERMOST:
        return other not in OUTERMOST
    # A lazy public name of `sapwood` hides where it points; only the version points nowhere.
    return other == "__version__" and "errors" in ALLOWED[room]


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


def test_every_room_has_a_level() -> None:
    rooms = {module.split(".")[1] for module, _ in our_modules()}
    assert rooms <= ALLOWED.keys()


def test_rooms_are_in_order() -> None:
    """No room is allowed to import one that is allowed to import it."""
    for room, below in ALLOWED.items():
        assert not [other for other in below if room in ALLOWED[other]], room


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sapwood.corpus.penn", "from sapwood.models import LatentGrammar"),
        ("sapwood.corpus.penn", "def f():\n    import sapwood.inference.chart"),
        ("sapwood.corpus.penn", "from ..estimators import em"),
        ("sapwood.corpus.penn", "from .. import models"),
        ("sapwood.corpus.penn", "from sapwood import Parser"),
        ("sapwood.corpus.penn", "import sapwood"),
        ("sapwood.kernels.inside", "from sapwood.errors import SapwoodError"),
        ("sapwood.networks.lstm", "if True:\n    from sapwood.corpus import tree"),
        ("sapwood.kernels.inside", "from sapwood import __version__"),
        ("sapwood.decompose.svd", "from sapwood.corpus.tree import Tree"),
        ("sapwood.features.inside", "from sapwood.models import lexicon"),
        ("sapwood.estimators.em", "from sapwood.cli.main import main"),
        ("sapwood.estimators.em", "from sapwood.report import score_on"),
        ("sapwood.report.trees", "from sapwood.cli.console import echo"),
        ("sapwood.cli.main", "from sapwood.web import app"),
    ],
)
def test_a_mutant_is_flagged(module: str, text: str) -> None:
    assert violations(text, module)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sapwood.corpus.penn", "from sapwood.corpus.tree import Tree"),
        ("sapwood.corpus.penn", "from .tree import Tree\nfrom ..errors import CorpusError"),
        ("sapwood.estimators.em", "from sapwood.identify import rank\nimport numpy"),
        ("sapwood.models.storage", "from sapwood import __version__, errors"),
        ("sapwood.cli.main", "import sapwood as sw\nfrom sapwood import Parser"),
    ],
)
def test_a_downward_import_passes(module: str, text: str) -> None:
    assert not violations(text, module)


def test_doors_are_opened_inside_functions() -> None:
    """At the top they would be loaded with the room below, and in a circle."""
    for module, target in DOORS:
        path = SOURCE / Path(*module.split(".")[1:]).with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {
            id(x) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for x in ast.walk(f)
        }
        found = [node for node in ast.walk(tree)
                 if isinstance(node, ast.ImportFrom) and node.module == target]  # fmt: skip
        assert found
        assert all(id(node) in inside for node in found)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("sapwood.models.latent_grammar", "from sapwood.inference.scores import signed_log_prob"),
        ("sapwood.models.tree_model", "from sapwood.inference.charts import plain_inside"),
        ("sapwood.models.tree_model", "from sapwood.estimators.em import EMLPCFG"),
    ],
)
def test_a_door_is_for_one_module_and_leads_to_one(module: str, text: str) -> None:
    assert violations(text, module)


def test_relative_imports_of_a_package_count_from_itself() -> None:
    assert not violations("from . import tree", "sapwood.corpus", is_package=True)
    assert violations("from .. import models", "sapwood.corpus", is_package=True)
