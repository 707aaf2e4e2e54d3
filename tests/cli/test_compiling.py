"""What a user hears of the compiler: once for a machine, and nothing after that."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.cli.console import CompileNotice

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
