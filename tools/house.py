"""Print the numbers that the sources are held to: sizes, names, docstrings, questions of kind.

    python tools/house.py            the numbers, with the goal of each
    python tools/house.py --list     and everything that is counted, with its file and line
    python tools/house.py --json     a report for machines on stdout

A public name that is defined in two modules makes a reader ask which one is meant. The first line
of a docstring is read alone in an index, so it has more than three words and does not begin with
"Of". What a model can do is asked of the model (`model.can`), not of its class. A short private
function that is called once earns its name only when it is a step of the algorithm or hides a
detail; a participle (`refined`) names neither what is done nor what is returned. These two last
are shown without a goal.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MEMBERS = {"LatentGrammar", "FeatureGrammar", "SpanNetwork", "Ensemble", "Member"}
SHORT = 10  # lines of a helper, from `def` to the end
_VERBS = {"is", "has", "was", "check", "convert", "parse", "read", "remove", "store"}
_NO_PARTICIPLES = {"seed", "need", "feed", "speed", "embed"}
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Trees = dict[str, ast.Module]  # by the file's path below the package


class Number(NamedTuple):
    """A number of the house: its goal, if it has one, and what finds the things it counts."""

    goal: int | None
    find: Callable[[Trees], Iterator[str]]


def read_sources(package: Path) -> Trees:
    """Every module of a package, parsed."""
    paths = sorted(package.rglob("*.py"))
    return {
        path.relative_to(package).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths
    }


def _defined_twice(pairs: Iterator[tuple[str, str]]) -> Iterator[str]:
    """The public names among (name, file) pairs that more than one file defines."""
    files: dict[str, set[str]] = defaultdict(set)
    for name, file in pairs:
        if not name.startswith("_"):
            files[name].add(file)
    yield from (f"{name}: {', '.join(sorted(at))}" for name, at in files.items() if len(at) > 1)


def names_defined_twice(trees: Trees) -> Iterator[str]:
    """Public functions and classes that two or more modules define."""
    found = ((node.name, file) for file, tree in trees.items() for node in tree.body
             if isinstance(node, _Definition))  # fmt: skip
    yield from _defined_twice(found)


def constants_defined_twice(trees: Trees) -> Iterator[str]:
    """Public constants that two or more modules define."""
    found = ((target.id, file) for file, tree in trees.items() for node in tree.body
             if isinstance(node, ast.Assign | ast.AnnAssign)
             for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
             if isinstance(target, ast.Name) and target.id.isupper())  # fmt: skip
    yield from _defined_twice(found)


def _first_lines(trees: Trees) -> Iterator[tuple[str, str]]:
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, _Definition | ast.Module) and (text := ast.get_docstring(node)):
                line = getattr(node, "lineno", 1)
                yield f"{file}:{line}", text.partition("\n")[0]


def short_docstrings(trees: Trees) -> Iterator[str]:
    """First lines of docstrings with at most three words."""
    yield from (f"{at}: {line}" for at, line in _first_lines(trees) if len(line.split()) <= 3)


def docstrings_with_of(trees: Trees) -> Iterator[str]:
    """First lines of docstrings that begin with "Of"."""
    yield from (f"{at}: {line}" for at, line in _first_lines(trees) if line.startswith("Of "))


def _names(node: ast.AST) -> set[str]:
    """The names and attributes in an expression."""
    return {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node)}


def _member_kinds(trees: Trees) -> set[str]:
    """Classes of members, and names of unions of them, such as `Model = Member | Ensemble`."""
    unions = {
        name for tree in trees.values() for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp)
        and _names(node.value) & MEMBERS for target in node.targets for name in _names(target)
    }  # fmt: skip
    return MEMBERS | unions - {""}


def questions_of_kind(trees: Trees) -> Iterator[str]:
    """Calls of `isinstance` that ask which kind of member a model is."""
    members = _member_kinds(trees)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            is_question = isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
            if is_question and _names(node.args[1]) & members:
                yield f"{file}:{node.lineno}: {ast.unparse(node)}"


def info_classes(trees: Trees) -> Iterator[str]:
    """Classes that say how a training went."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Info"):
                yield f"{file}:{node.lineno}: {node.name}"


def _loops_over_iterations(node: ast.AST) -> bool:
    """Whether a statement takes M-steps again and again, or counts iterations."""
    if not isinstance(node, ast.For | ast.While):
        return False
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    called = {name for call in calls for name in _names(call)}
    if any(re.search(r"(^|_)maximise(_|$)", name) for name in called):
        return True
    is_unnamed = isinstance(node, ast.For) and _names(node.target) == {"_", ""}
    return is_unnamed and any("iterations" in name.lower() for name in _names(node.iter))


def em_loops(trees: Trees) -> Iterator[str]:
    """Loops that take E-steps and M-steps in turn."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if _loops_over_iterations(node):
                yield f"{file}:{node.lineno}: {ast.unparse(node).partition(chr(10))[0]}"


def _strings(nodes: Iterable[ast.AST | None]) -> list[str]:
    """The texts among some expressions."""
    found = (node.value for node in nodes if isinstance(node, ast.Constant))
    return [text for text in found if isinstance(text, str)]


def method_lists(trees: Trees) -> Iterator[str]:
    """Lists of three or more names of methods outside the registry that has them."""
    registries = [
        set(_strings(node.keys)) for tree in trees.values() for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        and any(isinstance(x, ast.Call) and _names(x.func) & {"Method"} for x in node.values)
    ]  # fmt: skip
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                names = _strings(node.elts)
                if len(names) == len(node.elts) > 2 and any(
                    x.issuperset(names) for x in registries
                ):
                    yield f"{file}:{node.lineno}: {ast.unparse(node)}"


def parameters_with_of(trees: Trees) -> Iterator[str]:
    """Descriptions of parameters that begin with "Of"."""
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _names(node.func) & {"parameter", "positional"}:
                words = _strings([*node.args[2:3], *(x.value for x in node.keywords)])
                yield from (f"{file}:{node.lineno}: {x}" for x in words if x.startswith("Of "))


def _functions(trees: Trees) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions of modules and methods of classes; functions inside functions are no jumps."""
    for file, tree in trees.items():
        for node in tree.body:
            for function in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(function, ast.FunctionDef) and not function.name.startswith("__"):
                    yield file, function


def helpers_called_once(trees: Trees) -> Iterator[str]:
    """Short private functions that one place names."""
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    uses += Counter(node.attr for node in nodes if isinstance(node, ast.Attribute))
    for file, node in _functions(trees):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if node.name.startswith("_") and uses[node.name] == 1 and length <= SHORT:
            yield f"{file}:{node.lineno}: {node.name}, {length} lines"


def participles(trees: Trees) -> Iterator[str]:
    """Functions whose names end in a participle and start with no verb."""
    for file, node in _functions(trees):
        words = node.name.strip("_").split("_")
        is_one = words[-1].endswith("ed") and words[-1] not in _NO_PARTICIPLES
        if is_one and words[0] not in _VERBS:
            yield f"{file}:{node.lineno}: {node.name}"


NUMBERS = {
    "public names defined twice": Number(15, names_defined_twice),
    "public constants defined twice": Number(None, constants_defined_twice),
    "docstrings of at most three words": Number(0, short_docstrings),
    "docstrings that begin with Of": Number(0, docstrings_with_of),
    "parameters that begin with Of": Number(0, parameters_with_of),
    "EM loops": Number(1, em_loops),
    "copies of method lists": Number(0, method_lists),
    "isinstance on members": Number(4, questions_of_kind),
    "Info classes": Number(1, info_classes),
    "short helpers called once": Number(None, helpers_called_once),
    "participles": Number(None, participles),
}


def house_numbers(package: Path) -> dict[str, list[str]]:
    """Everything that is counted in a package, by the name of its number."""
    trees = read_sources(package)
    return {name: list(number.find(trees)) for name, number in NUMBERS.items()}


def sizes(root: Path) -> dict[str, tuple[int, int]]:
    """Files and lines of the sources and of the tests."""
    files = {
        "files and lines of src": list((root / "src" / "sapwood").rglob("*.py")),
        "files and lines of tests": [
            path for ending in ("py", "toml") for path in (root / "tests").rglob(f"*.{ending}")
        ],
    }
    return {
        name: (len(paths), sum(path.read_text("utf-8").count("\n") for path in paths))
        for name, paths in files.items()
    }


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description="The numbers that the sources are held to.")
    parser.add_argument("--list", action="store_true", help="print everything that is counted")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found, sized = house_numbers(ROOT / "src" / "sapwood"), sizes(ROOT)
    if arguments.json:
        print(json.dumps({name: len(rows) for name, rows in found.items()} | sized, indent=2))
        return
    for name, (n_files, n_lines) in sized.items():
        print(f"{name:<36}{n_files:>8,}{n_lines:>10,}")
    for name, rows in found.items():
        goal = NUMBERS[name].goal
        print(f"{name:<36}{len(rows):>8,}" + ("" if goal is None else f"   goal: at most {goal}"))
        for row in rows if arguments.list else ():
            print(f"    {row}")


if __name__ == "__main__":
    main()
