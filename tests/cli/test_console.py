"""What commands write to stderr: phases, errors, warnings, and notices of compiling."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.cli.console import (
    CompileNotice,
    Phases,
    clean_controls,
    echo,
)
from sapwood.cli.main import error_lines, show_warning
from sapwood.core import compiling
from sapwood.core.errors import CorpusError, FewDataWarning, SapwoodError
from sapwood.execute.engine import Meter
from sapwood.report import to_json


def test_phases_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    phases = Phases(2)
    with phases.phase("reading") as notes:
        notes.append("3 trees")
    with phases.phase("training"):
        pass
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert re.fullmatch(r"1/2 reading  3 trees  \d+\.\d s", first)
    assert re.fullmatch(r"2/2 training  \d+\.\d s", second)
    assert out == ""


def test_a_failed_phase_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), Phases(1).phase("reading"):
        raise ValueError("no")
    assert capsys.readouterr().err == ""


def test_meter_has_the_keys_of_the_report() -> None:
    figures = Meter().as_dict()
    assert set(figures) == {"seconds", "cpu_seconds", "peak_memory_mb"}
    assert figures["peak_memory_mb"] > 1


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (SapwoodError("bad", hint="do\nthis"), ["error: bad", "hint: do this"]),
        (SapwoodError("bad"), ["error: bad"]),
        (CorpusError("bad", file="f", line=2, column=3), ["error: f:2:3: bad"]),
    ],
)
def test_errors_are_one_line_each(error: SapwoodError, lines: list[str]) -> None:
    assert error_lines(error) == lines


def test_parameters_are_named_as_options() -> None:
    error = SapwoodError("n_states 9 is too many", hint="lower n_states, or see my_n_states.txt")
    assert error_lines(error) == [
        "error: --states 9 is too many", "hint: lower --states, or see my_n_states.txt",
    ]  # fmt: skip


def test_os_errors_name_the_file() -> None:
    assert error_lines(FileNotFoundError(2, "No such file", "x"))[0] == "error: x: No such file"


def test_json_has_no_infinities() -> None:
    item = {"a": [float("inf"), float("nan"), 1.5], "b": ("é", None, True)}
    assert json.loads(to_json(item)) == {"a": [None, None, 1.5], "b": ["é", None, True]}


def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_warning(UserWarning("two\nlines"), UserWarning, "file.py", 3)
    assert capsys.readouterr().err == "warning: two lines\n"
    show_warning(FewDataWarning("one tree only", "give more"), FewDataWarning, "file.py", 3)
    assert capsys.readouterr().err == "warning: one tree only\nhint: give more\n"


def test_messages_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\x1b[31mb\x9b2Jc\rd\te")
    assert capsys.readouterr().err == "a\\x1b[31mb\\x9b2Jc\\rd\te\n"


def test_drawings_keep_their_own_colours_only() -> None:
    drawn = sw.Tree.parse("(S (X a))").draw(colour=True)
    assert "\x1b[" in drawn
    assert clean_controls(drawn, colours=True) == drawn
    assert "\x1b" not in clean_controls(drawn)
    assert clean_controls("\x1b[8mhidden", colours=True) == "\\x1b[8mhidden"


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_a_lack_of_memory_is_one_line_with_a_hint(error: Exception) -> None:
    message, hint = error_lines(error)
    assert message == "error: out of memory"
    assert hint.startswith("hint: give less data")


PARTS = [("coarse.fill", True), ("coarse.fill", False), ("forest.prune", True),
         ("forest.prune", False)]  # fmt: skip


def test_off_a_terminal_two_lines_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    notice = CompileNotice()
    for name, is_start in PARTS:
        notice.watch(name, is_start)
    notice.finish()
    first, last = capsys.readouterr().err.splitlines()
    assert first == "compiling kernels, once for this machine ..."
    assert last.startswith("compiled 2 kernels in 0.0 s")


def test_nothing_compiled_nothing_said(capsys: pytest.CaptureFixture[str]) -> None:
    CompileNotice().finish()
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_kernel_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    notice = CompileNotice(total=34)
    for name, is_start in PARTS:
        notice.watch(name, is_start)
    text = capsys.readouterr().err
    assert "kernel 1 of 34, coarse.fill" in text
    assert "kernel 2 of 34, forest.prune" in text
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text


@pytest.mark.slow
def test_the_first_parse_says_that_it_compiles_and_the_second_does_not(
    environment: dict[str, str], model: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "sapwood", "parse", str(model)]
    environment = environment | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def parse() -> list[str]:
        done = subprocess.run(
            command, input=4 * "the dog saw a cat . " + "\n", capture_output=True, text=True,
            check=True, env=environment,
        )  # fmt: skip
        return done.stderr.splitlines()

    first, *_, last = parse()
    assert first == "compiling kernels, once for this machine ..."
    assert last.startswith("compiled ")
    assert not any("compil" in line for line in parse())


@pytest.mark.slow
def test_after_warming_no_command_compiles(
    environment: dict[str, str], model: Path, dev: Path, tmp_path: Path
) -> None:
    """`doctor --warm` runs every kernel with the very types of arrays that commands use."""
    environment = environment | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    text = tmp_path / "text"
    text.write_text("a b a\nb a\nb b a b\n" * 20)

    def run(*args: object) -> str:
        command = [sys.executable, "-m", "sapwood", *map(str, args)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert "compiled " in run("doctor", "--warm")
    for method in ("spectral", "em", "cluster", "pivot-em", "crf"):
        states = () if method == "crf" else ("--states", 2)
        err = run("train", dev, "-o", f"{method}.sapwood", "--method", method, *states)
        assert "compil" not in err, method
        for arguments in (("parse", "--k-best", 2), ("score",)):
            command, *options = arguments
            assert "compil" not in run(command, f"{method}.sapwood", text, *options), method
        assert "compil" not in run("score", f"{method}.sapwood", dev), method
    assert "compil" not in run("parse", model, text, "--decoder", "viterbi")
    for family in ("pcfg-ie", "dep-ies"):
        assert "compil" not in run("unmix", family, "--refine", "em", text), family
    assert "compil" not in run("demo")


def test_a_terminal_is_clean_after_compiling(tmp_path: Path) -> None:
    """One line stays; the one that changes is wiped."""
    code = (
        "from sapwood.cli.console import announce_compiling, notice\n"
        "announce_compiling()\n"
        "from sapwood.core.jit import kernel\n"
        "import powers; powers.double(3)\n"
        "notice.finish()"
    )
    (tmp_path / "powers.py").write_text(
        "from sapwood.core.jit import kernel\n\n@kernel\ndef double(x):\n    return 2 * x\n"
    )
    source = Path(__file__).parents[2] / "src"
    master, slave = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", code], check=True, stderr=slave,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{source}"},
    )  # fmt: skip
    shown = os.read(master, 1 << 16).decode()
    os.close(slave)
    os.close(master)
    assert "\r\x1b[Kcompiling once for this machine: kernel 1, powers.double ...\r\x1b[K" in shown
    assert shown.splitlines()[-1].split("\x1b[K")[-1].startswith("compiled 1 kernel in ")


pytestmark = pytest.mark.compiled

CODE = """
import json, sys
import sapwood as sw
from sapwood.core.jit import all_kernels

parser = sw.Parser(sw.bundled_grammar())
words = "the dog saw a cat in the garden .".split()
found = parser.parse_compiled(words) if "compiled" in sys.argv else parser.parse(words)
compiled = [kernel.name for kernel in all_kernels if kernel.overloads]
print(json.dumps([str(found.tree), compiled]))
"""


def run_cold(
    folder: Path, *arguments: str, environment: dict[str, str]
) -> tuple[list[object], str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True,
        env=environment | {"NUMBA_CACHE_DIR": str(folder)},
    )  # fmt: skip
    return json.loads(done.stdout), done.stderr


def test_nothing_is_compiled_for_one_short_sentence(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tree, compiled), err = run_cold(tmp_path, environment=environment)
    assert (compiled, err) == ([], "")
    assert tree == (
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat)) "
        "(PP (IN in) (NP (DT the) (NN garden)))) (. .)))"
    )


@pytest.mark.slow
def test_the_parse_is_the_same_and_compiling_is_told_of_in_python(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    cold_parse, err = run_cold(tmp_path, environment=environment)
    assert (cold_parse[1], err) == ([], "")
    warm_parse, err = run_cold(tmp_path, "compiled", environment=environment)
    assert cold_parse[0] == warm_parse[0]
    assert "coarse.fill" in str(warm_parse[1])
    assert err == (
        "sapwood: compiling kernels, once for this machine; some seconds for most calls, "
        "up to two minutes for all kernels ...\n"
    )
    again, err = run_cold(tmp_path, environment=environment)
    assert again == warm_parse  # loaded, not interpreted
    assert err == ""


def test_interpreting_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(compiling, "perf_counter", lambda: now[0])
    monkeypatch.setattr(compiling, "_spent", 0.0)
    seen = []
    for _ in range(4):
        with compiling.short_work():
            seen.append(compiling.kernel_calls.is_short)
            compiling.kernel_calls.n_calls += 1
            now[0] += 0.9
    assert seen == [True, True, True, False]
    assert not compiling.kernel_calls.is_short


def test_long_work_and_compiled_kernels_take_none_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(compiling, "perf_counter", lambda: now[0])
    monkeypatch.setattr(compiling, "_spent", 0.0)
    with compiling.short_work(is_short=False):
        assert not compiling.kernel_calls.is_short
    with compiling.short_work():  # every kernel is loaded: none is interpreted
        now[0] += 100.0
    with compiling.short_work():
        assert compiling.kernel_calls.is_short
