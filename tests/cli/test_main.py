"""The command line as a whole: help, start-up, `demo`, `doctor` and `data`."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import typer

import sapwood as sw
from sapwood.cli.main import app
from sapwood.corpora.fetch import list_corpora

COMMANDS = (
    ["demo"], ["train"], ["parse"], ["phrases"], ["evaluate"], ["compare"], ["score"], ["inspect"],
    ["sample"], ["surprisal"], ["identify"], ["stats"], ["split"], ["words"], ["doctor"], ["data"],
    ["data", "list"], ["data", "fetch"], ["depend"], ["depend", "evaluate"],
    ["depend", "convert"], ["depend", "draw"], ["depend", "rerank"], ["depend", "score"],
)  # fmt: skip
HELP_SECONDS = 0.5


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(cli, command: list[str], flag: str) -> None:
    result = cli(*command, flag)
    assert result.status == 0
    assert result.out.startswith(f"Usage: sapwood {' '.join(command)}")
    assert result.err == ""


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c not in (["data"], ["depend"])], ids=" ".join
)
def test_help_shows_examples(cli, command: list[str]) -> None:
    help_text = cli(*command, "--help").out
    assert "Example" in help_text
    assert f"sapwood {' '.join(command)}" in help_text.split("Example")[1]


def test_help_of_all_lists_the_commands(cli) -> None:
    listed = cli("--help").out
    assert all(f"\n  {command[0]} " in listed for command in COMMANDS)


def _numbers(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every option with a range of a command and its subcommands, and the words that name it."""
    for name, part in getattr(command, "commands", {}).items():
        yield from _numbers(part, (*path, name))
    for param in command.params:
        if getattr(param, "min", None) is not None and param.opts[0].startswith("-"):
            yield path, param


RANGES = list(_numbers(typer.main.get_command(app)))


@pytest.mark.parametrize(
    ("path", "param"), RANGES, ids=[f"{' '.join(path)} {param.opts[0]}" for path, param in RANGES]
)
def test_a_number_out_of_range_is_refused_in_our_words(
    misused, path: tuple[str, ...], param: Any
) -> None:
    wrong = param.min - 1
    told = misused(*path, f"{param.opts[0]}={wrong}").err.splitlines()
    start = f"error: {' / '.join(param.opts)}: found {wrong}, expected a "
    assert told[0].startswith(start), told
    assert "number of at least" in told[0] or "number from" in told[0]
    assert f"{param.min:g}" in told[0].removeprefix(start)
    assert told[1] == f"hint: `sapwood {' '.join(path)} --help` says what its options take"


def test_options_named_like_their_values_name_themselves() -> None:
    """Typer before 0.29 takes the value's name for the option's: `--METHOD`."""
    folder = Path(sw.__file__).parent / "cli"
    functions = [
        node
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    nameless, n_seen = [], 0
    for function in functions:
        given = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        for option, value in given:
            if not isinstance(value, ast.Call) or ast.unparse(value.func) != "typer.Option":
                continue
            values = [ast.literal_eval(k.value) for k in value.keywords if k.arg == "metavar"]
            if values == [option.arg.upper()]:
                n_seen += 1
                nameless += [option.arg] * (len(value.args) < 2)
    assert n_seen > 3
    assert not nameless


def test_version(cli) -> None:
    assert cli("--version") == (0, f"sapwood {sw.__version__}\n", "")


@pytest.mark.parametrize(
    "args", [["prase"], ["--no-such"], ["data", "lst"], ["demo", "--seeed", "1"]]
)
def test_typos_are_usage_errors(misused, args: list[str]) -> None:
    misused(*args)


def test_a_typo_is_answered_with_the_right_word(misused) -> None:
    assert "'parse'" in misused("prase").err


def test_without_arguments_the_help_comes(cli) -> None:
    result = cli()
    assert "Commands:" in result.out + result.err


def test_debug_shows_the_traceback(cli) -> None:
    from sapwood.cli.main import app

    with pytest.raises(sw.ModelFormatError):
        app(["--debug", "inspect", "nowhere.sapwood"])


def test_unexpected_errors_are_one_line_too(
    fails, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        msg = "first line\nsecond line"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr("sapwood.core.model_files.load_found", broken)
    (tmp_path / "any").touch()
    result = fails("inspect", str(tmp_path / "any"))
    assert "error: unexpected ZeroDivisionError: first line second line\n" in result.err
    assert "--debug" in result.err


def test_interrupt_is_one_line_and_130(
    cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sapwood.core.model_files.load_found", interrupted)
    (tmp_path / "any").touch()
    assert cli("inspect", str(tmp_path / "any")) == (130, "", "interrupted\n")


# -- start-up -------------------------------------------------------------------------------------


def modules_after(environment: dict[str, str], *commands: list[str]) -> set[str]:
    """What is imported when a process has run some commands, one after the other."""
    code = (
        "import sys\nfrom sapwood.cli.main import app\n"
        f"for args in {commands!r}:\n"
        "    try: app(args)\n    except SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return set(done.stderr.split())


def test_nothing_heavy_is_imported_for_help(environment: dict[str, str]) -> None:
    helps = (["--help"], ["train", "--help"], ["compare", "--help"])
    assert modules_after(environment, *helps, ["--version"], ["data", "list"]).isdisjoint(
        {"numpy", "numba", "scipy", "rich", "safetensors", "matplotlib"}
    )
    assert "numpy" in modules_after(environment, ["inspect", "bundled"])  # the check can fail


def test_help_starts_fast(environment: dict[str, str]) -> None:
    def seconds() -> float:
        started = perf_counter()
        subprocess.run(
            [sys.executable, "-m", "sapwood", "--help"],
            capture_output=True, check=True, env=environment,
        )  # fmt: skip
        return perf_counter() - started

    # One of some: other tests may be using all cores meanwhile.
    budget = HELP_SECONDS * (3 if os.environ.get("PYTEST_XDIST_WORKER") else 1)
    assert any(seconds() < budget for _ in range(5))


@pytest.mark.parametrize(("columns", "widest"), [(70, 70), (100, 100), (400, 110)])
def test_help_is_as_wide_as_the_terminal(
    cli, monkeypatch: pytest.MonkeyPatch, columns: int, widest: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = cli("lm", "train", "--help").out.partition("Example")[0]
    assert widest - 15 < max(len(line) for line in text.splitlines()) <= widest


def test_demo_tells_the_story(cli) -> None:
    result = cli("demo")
    assert result.status == 0
    assert [line[:4] for line in result.err.splitlines()[:7]] == [f"{n}/7 " for n in range(1, 8)]
    for expected in (
        "Vienna",
        "(the boy with the telescope)",
        "plain PCFG",
        "spectral",
        "true grammar",
        "F1",
        "┌",
        "misses",
        "invents",
    ):
        assert expected in result.out
    assert "What to try next" in result.err
    assert "\x1b[" not in result.out


def test_demo_as_json(cli) -> None:
    reports = [json.loads(cli("demo", "--json", "--seed", seed).out) for seed in (0, 1)]
    for report in reports:
        assert report["true"]["f1"] > report["spectral"]["f1"] > report["pcfg"]["f1"] > 80
        assert [report[name]["states"] for name in ("pcfg", "spectral")] == [1, 8]
        example = report["example"]
        assert example["true"] == example["spectral"] == example["gold"] != example["pcfg"]
        assert report["seconds"] < 60
        plain, ambiguous = report["english"]
        assert sw.Tree.parse(plain["tree"]).words()[:2] == ["She", "was"]
        assert plain["probability"] > 0.5 > abs(ambiguous["probability"] - 0.5)
    assert reports[0]["example"] != reports[1]["example"]


def test_doctor(cli) -> None:
    result = cli("doctor")
    assert result.status == 0
    for name in ("sapwood", "python", "numpy", "scipy", "numba", "safetensors", "threads", "cache"):
        assert name in result.out


def test_doctor_as_json_after_warming(cli) -> None:
    report = json.loads(cli("doctor", "--warm", "--json").out)
    assert report["sapwood"] == sw.__version__
    assert report["threads"] >= 1
    assert report["kernel_cache"].keys() == {"folder", "exists", "writable"}
    assert report["warm_seconds"] > 0
    assert report["kernels"] >= report["compiled"] >= 0


def test_doctor_misses_a_package(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "scipy":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("importlib.metadata.version", version)
    result = cli("doctor", "--json")
    assert result.status == 1
    assert json.loads(result.out)["packages"]["scipy"] == "missing"
    assert "error: a package is missing" in result.err


def test_data_list(cli) -> None:
    names = [entry.name for entry in list_corpora()]
    text = cli("data", "list").out
    assert all(name in text for name in names)
    assert [row["name"] for row in json.loads(cli("data", "list", "--json").out)] == names


def test_data_fetch(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(name: str, folder: Path, echo, **_: object) -> dict[str, Path]:
        asked.append((name, folder))
        echo("fetching")
        return {"train": folder / "train.mrg"}

    monkeypatch.setattr("sapwood.cli.corpora.run_fetch", fetch)
    result = cli("data", "fetch", "craft", "--folder", tmp_path, "--json")
    assert asked == [("craft", tmp_path)]
    assert json.loads(result.out)["files"] == {"train": str(tmp_path / "train.mrg")}
    assert result.err == "fetching\n"
    assert cli("data", "fetch", "craft", "--folder", tmp_path).out == ""


def test_data_fetch_fails(fails, misused) -> None:
    assert "did you mean craft" in fails("data", "fetch", "crft").err
    misused("data", "fetch")
