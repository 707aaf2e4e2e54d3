"""Draw random mistakes in a folder of the source tree and see whether its tests notice them.

    python tools/random_mutants.py lm/model                  20 mutants of src/sapwood/lm/model
    python tools/random_mutants.py lm/model -n 50 --seed 3   50 others, the same at every run
    python tools/random_mutants.py networks/encoder.py --list  name mutants, run no tests

A mutant changes one place of the syntax tree: an operator, a comparison, a constant, a condition,
the order of two arguments, or it drops a statement. The tests that must notice it come from all
test files that import the changed module, name one of its public classes, or lie where the tests
mirror it: `lm/learn/mixture.py` has those of `tests/lm` and `tests/lm/learn`. Examples in its own
docstrings are tests too. These files run once without any mistake, which shows the tests that run
the changed lines, and only those run again with the mistake. All files run where no test was seen
to run the lines, because they are run by another process or when the module is imported. Tests
marked slow are left out unless `--slow` is given. `tools/mutants.py` says how a mutant is run, and
checks mistakes that were written down.

A mutant that lives shows a missing test, or changes nothing that can be observed: read it.

Exit status: 0 when at least `--least` percent were noticed, 1 when not, 2 when the tests fail
without any mistake.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from coverage import CoverageData

from mutants import PACKAGE, ROOT, Mutant, report, try_in_copies

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
SLOWER = 6.0  # how much slower than in the first run the tests of a mutant may be
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
    tests = _tests_by_module(root)
    return [
        Mutant(
            f"{file.relative_to(root / PACKAGE).as_posix()}:{change.name}",
            file.relative_to(root / PACKAGE).as_posix(),
            texts[file],
            change.apply(texts[file]),
            tests(file),
        )
        for file, change in drawn
    ]


def _tests_by_module(root: Path) -> Callable[[Path], tuple[str, ...]]:
    """A function that lists the test files of a module, those named after the module first."""
    texts = {p: p.read_text(encoding="utf-8") for p in sorted((root / "tests").rglob("test_*.py"))}

    def mirrors(test: Path, module: Path) -> bool:
        room, *folders = test.parent.relative_to(root / "tests").parts or ("",)
        return room == module.parts[1] and {*folders} <= {*module.parts[2:-1]}

    def tests(file: Path) -> tuple[str, ...]:
        path = file.relative_to(root / PACKAGE.parent).with_suffix("")
        module = ".".join(path.parts)
        names = [
            node.name
            for node in ast.parse(file.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ]
        imported = rf"from {re.escape('.'.join(path.parts[:-1]))} import .*\b{path.name}\b"
        called = [rf"{re.escape(module)}\b", imported, *(rf"\b{name}\b" for name in names)]
        wanted = re.compile("|".join(called))
        rows = [test for test, text in texts.items() if mirrors(test, path) or wanted.search(text)]
        rows.sort(key=lambda test: (file.stem not in test.stem, path.parent.name not in test.parts))
        own = [file] if ">>> " in file.read_text(encoding="utf-8") else []
        return tuple(test.relative_to(root).as_posix() for test in [*own, *rows])

    return tests


def changed_lines(mutant: Mutant) -> range:
    """Numbers of the lines of the old text that the mutant changes, from 1."""
    matcher = SequenceMatcher(None, mutant.old.splitlines(), mutant.new.splitlines())
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return range(changed[0][1] + 1, max(changed[-1][2], changed[0][1] + 1) + 1)


def tests_of_lines(mutant: Mutant, folder: Path, timeout: float) -> Mutant:
    """The mutant with the tests that run its changed lines, as `.coverage` in a folder has them.

    A test file that runs the lines while it sets up a fixture is taken whole, because other tests
    of the file may use the same fixture. All tests of the mutant are kept, the fastest files first,
    for lines that no test runs, and for lines outside functions, which run when a module is first
    imported. Several times what the chosen tests take without any mistake is added to `timeout`, so
    that a long list of tests on a busy machine is not taken for a loop without end.
    """
    seconds = _seconds_by_file(folder)
    tests = sorted(mutant.tests, key=lambda test: seconds.get(test, 0.0))
    if _is_in_function(ast.parse(mutant.old), changed_lines(mutant)):
        tests = _tests_that_run(mutant, folder) or tests
    files = {test.partition("::")[0] for test in tests}
    limit = timeout + SLOWER * sum(seconds.get(file, 0.0) for file in files)
    return replace(mutant, tests=tuple(tests), seconds=limit)


def _seconds_by_file(folder: Path) -> Counter[str]:
    """Seconds that the tests of each file took in the first run, as pytest wrote them."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(folder / "times.xml").iter("testcase"):
        path = Path(*case.get("classname", "").split(".")).with_suffix(".py")
        if not (folder / path).is_file():  # the last part is a class
            path = path.parent.with_suffix(".py")
        found[path.as_posix()] += float(case.get("time", 0.0))
    return found


def _tests_that_run(mutant: Mutant, folder: Path) -> list[str]:
    data = CoverageData(str(folder / ".coverage"))
    data.read()
    contexts = data.contexts_by_lineno(str(folder / PACKAGE / mutant.file))
    runs = {run for line in changed_lines(mutant) for run in contexts.get(line, ()) if run}
    whole = {run.partition("::")[0] for run in runs if run.endswith("|setup")}
    nodes = {run.rpartition("|")[0] for run in runs}
    chosen = whole | {node for node in nodes if node.partition("::")[0] not in whole}
    order = {test: i for i, test in enumerate(mutant.tests)}
    return sorted(chosen, key=lambda test: (order.get(test.partition("::")[0], len(order)), test))


def _is_in_function(tree: ast.Module, lines: range) -> bool:
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body[0].lineno <= lines.start
        and lines.stop <= (node.end_lineno or node.lineno) + 1
        for node in ast.walk(tree)
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("room", help="a folder or file below src/sapwood, such as lm/model")
    parser.add_argument("-n", type=int, default=20, help="how many mutants are drawn (20)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument(
        "--list", action="store_true", help="name the mutants and their tests, stop"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--tests", nargs="+", metavar="FILE", help="run these test files instead, which is faster"
    )
    parser.add_argument("--slow", action="store_true", help="run tests marked slow too")
    parser.add_argument("--least", type=float, default=85.0, help="percent that must die (85)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        help="seconds for a mutant, besides those of its tests (120)",
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the project")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    options = _arguments(argv)
    root = options.root.resolve()
    if not (root / PACKAGE / options.room).exists():
        sys.exit(f"error: there is no {PACKAGE / options.room}")
    mutants = draw(root, options.room, options.n, options.seed)
    if options.tests:
        mutants = [replace(mutant, tests=tuple(options.tests)) for mutant in mutants]
    if options.list:
        print("\n".join(f"{mutant.id}\n    {' '.join(mutant.tests)}" for mutant in mutants))
        return 0
    orphans = [mutant for mutant in mutants if not mutant.tests]
    flags = () if options.slow else ("-m", "not slow and not browser")
    results = try_in_copies(
        [mutant for mutant in mutants if mutant.tests], root, options.jobs, options.timeout, flags,
        select=partial(tests_of_lines, timeout=options.timeout),
    )  # fmt: skip
    if results is None:
        return 2
    # a module that can no longer be imported was noticed, though no test ran
    results = [replace(r, status="killed") if r.status == "broken" else r for r in results]
    told = report(results)
    told["all"] += len(orphans)
    told["wrong"] += [mutant.id for mutant in orphans]
    percent = 100 * told["killed"] / max(told["all"], 1)
    if options.json:
        print(json.dumps(told, indent=2))
    else:
        print(f"{options.room}: killed {told['killed']} of {told['all']} ({percent:.0f} %)")
        for name in told["wrong"]:
            print(f"lives: {name}")
    return 0 if percent >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
