"""Draw random mistakes in folders of the source tree and see whether the tests notice them.

    python tools/random_mutants.py lm/model                  20 mutants of src/sapwood/lm/model
    python tools/random_mutants.py lm hankel -n 50 --seed 3  50 others of each, the same every time
    python tools/random_mutants.py networks/network.py --list  name mutants, run no tests
    python tools/random_mutants.py lm --only mixture.py:153  one of those that are drawn

A mutant changes one place of the syntax tree: an operator, a comparison, a constant, a condition,
the order of two arguments, or it drops a statement. The tests that must notice it are those that
reach the changed module by imports, name one of its public classes, or lie where the tests mirror
it; its own docstring's examples are tests too. The closest files run first and the first failure
ends a mutant, so that most take seconds; one that lives has passed the `--files` closest ones.
Tests marked slow are left out unless `--slow` is given. `tools/mutants.py` says how a mutant is
run, and checks mistakes that were written down.

All kernels are compiled once, in the project or in its copy, and only those of a changed file are
compiled again. In the end the tests that noticed a mutant run without any mistake: a mutant whose
tests then fail, or take too long, counts as one that lives.

A mutant that lives shows a missing test, or changes nothing that can be observed: read it.

Exit status: 0 when at least `--least` percent were noticed in each folder, 1 when not.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import mutants as known
from mutants import PACKAGE, PASSED, ROOT, Mutant, Result, run_pytest, try_all

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.MatMult: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
TWINS = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax",
    "argmax": "argmin", "all": "any", "any": "all", "ones": "zeros", "zeros": "ones",
}  # fmt: skip
CLOSEST = 3  # test files that run before all others
FAR = 9  # steps of imports to a test file that does not reach a module
SYMMETRIC = {"min", "max", "minimum", "maximum", "logaddexp", "isclose", "add", "multiply", "zip"}


@dataclass(frozen=True)
class Change:
    """A node of a syntax tree and the node that takes its place."""

    node: ast.expr | ast.stmt
    new: ast.AST

    def apply(self, text: str) -> str:
        """The text of the module with the change made, and every other character as it was."""
        lines = text.encode().splitlines(keepends=True)  # columns of syntax trees count bytes
        node = self.node
        first, last = lines[node.lineno - 1], lines[(node.end_lineno or node.lineno) - 1]
        before, after = first[: node.col_offset], last[node.end_col_offset :]
        new = ast.unparse(self.new).encode()
        if isinstance(node, ast.expr):
            new = b"(" + new + b")"  # the new operator may bind less strongly
        made = [*lines[: node.lineno - 1], before + new + after, *lines[node.end_lineno :]]
        return b"".join(made).decode()

    @property
    def name(self) -> str:
        """Line, old and new code, on one line."""
        old, new = (" ".join(ast.unparse(code).split()) for code in (self.node, self.new))
        return f"{self.node.lineno}  {old[:60]}  ->  {new[:60]}"


# -- changes of one node --------------------------------------------------------------------------


def changes(tree: ast.Module) -> Iterator[Change]:
    """All changes that may be drawn in a module, in the order of its text."""
    for node in _code(tree):
        if isinstance(node, ast.expr):
            yield from (Change(node, new) for new in _other_expressions(node))
        elif isinstance(node, ast.If | ast.While):
            yield Change(node.test, ast.UnaryOp(ast.Not(), node.test))
        elif _can_be_dropped(node):
            yield Change(node, ast.Pass())  # type: ignore[arg-type]


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that do something at run time: no annotations, messages, texts in f-strings."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Assert):
            continue
        if isinstance(node, ast.AnnAssign | ast.arg) and child is node.annotation:
            continue
        if isinstance(node, ast.FunctionDef) and child is node.returns:
            continue
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and child in node.decorator_list:
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _code(child)


def _other_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(op)](), *node.ops[1:]])
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_text(node):
            yield _with(node, op=OPERATORS[type(node.op)]())
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield ast.Constant(2 * value if value else 1.0)
        case ast.Call(args=[first, second, *rest], func=called):
            if not isinstance(first, ast.Starred | ast.GeneratorExp) and (
                not isinstance(second, ast.Starred) and _name(called) not in SYMMETRIC
            ):
                yield _with(node, args=[second, first, *rest])
            yield from _twin_calls(node, called)
        case ast.Call(func=called):
            yield from _twin_calls(node, called)
        case ast.IfExp():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _twin_calls(node: ast.Call, called: ast.expr) -> Iterator[ast.expr]:
    if isinstance(called, ast.Name) and called.id in TWINS:
        yield _with(node, func=ast.Name(TWINS[called.id]))
    elif isinstance(called, ast.Attribute) and called.attr in TWINS:
        yield _with(node, func=_with(called, attr=TWINS[called.attr]))


def _can_be_dropped(node: ast.AST) -> bool:
    """Whether a statement can go: a call for its effect, a step of a sum, a value that is kept."""
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await)
    return isinstance(node, ast.Assign) and isinstance(
        node.targets[0], ast.Attribute | ast.Subscript
    )


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides)


def _with(node: ast.AST, **fields: object) -> ast.expr:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made  # type: ignore[return-value]


# -- mutants of a folder --------------------------------------------------------------------------


def draw(root: Path, room: str, n: int, seed: int) -> list[Mutant]:
    """Mutants of the modules of a folder or of one module; each change is equally likely."""
    at = root / PACKAGE / room
    files = [at] if at.is_file() else sorted(at.rglob("*.py"))
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    found = [(file, change) for file in files for change in changes(ast.parse(texts[file]))]
    drawn = random.Random(seed).sample(found, min(n, len(found)))
    imports = ImportMap(root)
    return [
        Mutant(
            f"{file.relative_to(root / PACKAGE).as_posix()}:{change.name}",
            file.relative_to(root / PACKAGE).as_posix(),
            texts[file],
            change.apply(texts[file]),
            imports.tests_of(file),
        )
        for file, change in drawn
    ]


@dataclass(frozen=True)
class ImportMap:
    """Which modules and tests of a project import which modules, also inside functions."""

    root: Path

    @cached_property
    def texts(self) -> dict[Path, str]:
        """Test files and what they say."""
        found = sorted((self.root / "tests").rglob("test_*.py"))
        return {path: path.read_text(encoding="utf-8") for path in found}

    @cached_property
    def importers(self) -> dict[str, set[Path]]:
        """Files of tests and sources by the module that they import."""
        found: dict[str, set[Path]] = {}
        sources = sorted((self.root / PACKAGE).rglob("*.py"))
        for path in (*sources, *self.texts):
            for name in _imported(path.read_text(encoding="utf-8")):
                found.setdefault(name, set()).add(path)
        return found

    def steps(self, file: Path) -> dict[Path, int]:
        """How many imports lie between a module and each file that reaches it."""
        steps, latest = {file: 0}, [file]
        while latest:
            nearer, latest = latest, []
            for path in nearer:
                for importer in sorted(self.importers.get(_module(path, self.root), ())):
                    if importer not in steps:
                        steps[importer] = steps[path] + 1
                        latest.append(importer)
        return steps

    def tests_of(self, file: Path) -> tuple[str, ...]:
        """Test files of a module, the closest first; its own examples before all."""
        text, steps = file.read_text(encoding="utf-8"), self.steps(file)
        room, *folders = file.relative_to(self.root / PACKAGE).parts[:-1] or ("",)
        names = [
            node.name
            for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ]
        named = re.compile("|".join(rf"\b{name}\b" for name in names) or r"(?!)")

        def distance(test: Path) -> tuple[int, int, str]:
            first, *others = test.parent.relative_to(self.root / "tests").parts or ("",)
            mirrors = first == room and {*others} <= {*folders}
            far = 1 if named.search(self.texts[test]) else steps.get(test, FAR)
            if mirrors:
                far = min(far, 3) - 1
            elif any(len(part) > 1 and room.startswith(part) for part in test.stem.split("_")):
                far = min(far, 2)  # commands of a family, which import nothing of it
            return far - 3 * (mirrors and file.stem in test.stem), len(self.texts[test]), str(test)

        rows = sorted((distance(test), test) for test in self.texts)
        near = [test for (far, *_), test in rows if far < FAR]
        own = [file] if ">>> " in text else []
        return tuple(test.relative_to(self.root).as_posix() for test in [*own, *near])


def _module(path: Path, root: Path) -> str:
    """Name by which a source file is imported; that of a test is nobody's."""
    if not path.is_relative_to(root / PACKAGE):
        return ""
    parts = path.relative_to(root / PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(text: str) -> Iterator[str]:
    """Modules of this package that a text imports; names that may be modules too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# -- tests of mutants -----------------------------------------------------------------------------


def try_drawn(
    mutants: Sequence[Mutant], root: Path, jobs: int, timeout: float, flags: Sequence[str]
) -> list[Result]:
    """What became of each mutant: the closest tests of all, then the others of those that live."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        base = Path(scratch) / "base"
        known.copy_project(root, base)
        known.compile_kernels(base)
        near = [replace(mutant, tests=mutant.tests[:CLOSEST]) for mutant in mutants]
        results = {result.id: result for result in try_all(near, base, jobs, timeout, flags)}
        rest = [
            replace(mutant, tests=mutant.tests[CLOSEST:])
            for mutant in mutants
            if results[mutant.id].status == "survived" and mutant.tests[CLOSEST:]
        ]
        results |= {result.id: result for result in try_all(rest, base, jobs, timeout, flags)}
        wrong = _tests_that_fail(mutants, [*results.values()], base, jobs, timeout, flags)
    return [
        replace(results[mutant.id], status="survived")
        if wrong & _noticed_by(mutant, results[mutant.id])
        else results[mutant.id]
        for mutant in mutants
    ]


def _noticed_by(mutant: Mutant, result: Result) -> set[str]:
    """The test that failed; all files of the mutant where none is known, since it hung."""
    if result.killed_by:
        return {result.killed_by}
    return set(mutant.tests) if result.status in {"hung", "crashed"} else set()


def _tests_that_fail(
    mutants: Sequence[Mutant], results: Sequence[Result], base: Path, jobs: int, timeout: float,
    flags: Sequence[str],
) -> set[str]:  # fmt: skip
    """Of the tests that noticed a mutant, those that fail without it, each file in one run."""
    noticed: set[str] = set()
    by_id = {mutant.id: mutant for mutant in mutants}
    for result in results:
        noticed |= _noticed_by(by_id[result.id], result)
    files = sorted({test.partition("::")[0] for test in noticed})

    def failing(file: str) -> set[str]:
        tests = sorted(test for test in noticed if test.partition("::")[0] == file)
        given = [file] if file in tests else tests
        code, output = run_pytest(base, given, timeout, flags=flags)
        if code != PASSED:
            print(output[-2000:], file=sys.stderr)
            print(f"error: {file} fails, or hangs, without any mistake", file=sys.stderr)
        return set() if code == PASSED else set(tests)

    with ThreadPoolExecutor(jobs) as pool:
        return set().union(*pool.map(failing, files))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "rooms", nargs="+", help="folders or files below src/sapwood, such as lm/model"
    )
    parser.add_argument("-n", type=int, default=20, help="how many mutants of each (20)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument(
        "--list", action="store_true", help="name the mutants and their tests, stop"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--tests", nargs="+", metavar="FILE", help="run these test files instead, which is faster"
    )
    parser.add_argument("--only", nargs="+", default=[""], help="mutants with this in their name")
    parser.add_argument("--files", type=int, default=12, help="test files for a mutant (12)")
    parser.add_argument("--slow", action="store_true", help="run tests marked slow too")
    parser.add_argument("--least", type=float, default=85.0, help="percent that must die (85)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds after which tests hang (300)"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the project")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    options = _arguments(argv)
    root = options.root.resolve()
    drawn: dict[str, list[Mutant]] = {}
    for room in options.rooms:
        if not (root / PACKAGE / room).exists():
            sys.exit(f"error: there is no {PACKAGE / room}")
        found = draw(root, room, options.n, options.seed)
        drawn[room] = [
            replace(mutant, tests=tuple(options.tests or mutant.tests[: options.files]))
            for mutant in found
            if any(part in mutant.id for part in options.only)
        ]
    mutants = list({mutant.id: mutant for room in drawn.values() for mutant in room}.values())
    if options.list:
        print("\n".join(f"{mutant.id}\n    {' '.join(mutant.tests)}" for mutant in mutants))
        return 0
    flags = () if options.slow else ("-m", "not slow and not browser")
    with_tests = [mutant for mutant in mutants if mutant.tests]
    results = {
        # a module that can no longer be imported was noticed, though no test ran
        result.id: replace(result, status="killed") if result.status == "broken" else result
        for result in try_drawn(with_tests, root, options.jobs, options.timeout, flags)
    }
    told = {
        room: _report([results[m.id] for m in of_room if m.id in results], of_room)
        for room, of_room in drawn.items()
    }
    if options.json:
        print(json.dumps(told, indent=2))
    for room, row in () if options.json else told.items():
        percent = f"{row['percent']:.0f} %"
        print(f"{room}: killed {row['killed']} of {row['all']} ({percent}), {row['hung']} hung")
        for name in row["wrong"]:
            print(f"lives: {name}")
    return 0 if all(row["percent"] >= options.least for row in told.values()) else 1


def _report(results: list[Result], drawn: Sequence[Mutant]) -> dict[str, Any]:
    """The report of a room; mutants that no test reaches live."""
    told = known.report(results)
    tried = {result.id for result in results}
    told["wrong"] += [mutant.id for mutant in drawn if mutant.id not in tried]
    told["all"] = len(drawn)
    told["hung"] = sum(result.status == "hung" for result in results)
    told["percent"] = 100 * told["killed"] / max(len(drawn), 1)
    return told


if __name__ == "__main__":
    sys.exit(main())
