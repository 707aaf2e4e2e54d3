"""`sapwood compare`."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from tests.cli.conftest import TREE

import sapwood as sw
from sapwood.cli.constituency import compare
from sapwood.constituency.learn.dev_scores import DevSet
from sapwood.constituency.learn.registry import METHODS

ROW_KEYS = {
    "method", "states", "f1", "strict_f1", "tagging_accuracy", "iterations", "seconds",
    "cpu_seconds", "parse_cpu_seconds", "sentences_per_cpu_second", "peak_memory_mb", "sentences",
    "fallbacks", "best_iteration",
}  # fmt: skip
SMALL = ("--states", "2,3", "--limit", "20")


def test_no_row_is_made_before_all_of_them_fit_into_memory(
    fails, trees: Path, limit_memory
) -> None:
    limit_memory(100_000_000)
    done = fails("compare", trees, trees, "--methods", "pcfg,em", "--states", "2")
    assert "error: training on 5 trees with 2 states needs about 0." in done.err
    assert "hint: use fewer --states" in done.err
    assert not done.out


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the last row of three is being made."""
    whole = compare.comparison_row

    def row(*args: Any, states: int, **how: Any) -> dict[str, Any]:
        if states == 3:
            raise KeyboardInterrupt
        return whole(*args, states=states, **how)

    monkeypatch.setattr(compare, "comparison_row", row)


def test_a_row_for_each_method_and_number_of_states(cli, dev: Path) -> None:
    result = cli("compare", dev, dev, *SMALL, "--json")
    rows = json.loads(result.out)
    assert [(row["method"], row["states"]) for row in rows] == [
        ("pcfg", 1), ("spectral", 2), ("spectral", 3),
    ]  # fmt: skip
    for row in rows:
        assert row.keys() == ROW_KEYS
        assert row["sentences"] == 20
        assert row["iterations"] == 0
        assert 80 < row["f1"] <= 100
        assert row["cpu_seconds"] >= 0
    shapes = (
        "1/5 reading  300 trees  20 dev sentences", "2/5 warming up", "3/5 pcfg  F1 ",
        "4/5 spectral  2 states  F1 ", "5/5 spectral  3 states  F1 ",
    )  # fmt: skip
    reading, *warned, warming = result.err.splitlines()[:4]
    assert [line.split(":")[0] for line in warned] == ["warning", "hint"]  # dev is train
    lines = [reading, warming, *result.err.splitlines()[4:]]
    assert all(line.startswith(shape) for line, shape in zip(lines, shapes, strict=True))


def test_table(cli, trees: Path) -> None:
    text = cli("compare", trees, trees, "--states", "2").out
    assert "Iterations:" not in text  # there are none without EM
    header, *rows = text.splitlines()[:3]
    assert header.split()[:3] == ["method", "states", "F1"]
    cells = [row.split()[:3] for row in rows]
    assert cells == [["pcfg", "1", "100.00"], ["spectral", "2", "100.00"]]  # the quick methods


def test_methods_and_states_in_their_order_and_once(cli, trees: Path) -> None:
    options = ("--methods", "spectral, pcfg,pcfg", "--states", "4,2,,4", "--json")
    rows = json.loads(cli("compare", trees, trees, *options).out)
    assert [(row["method"], row["states"]) for row in rows] == [
        ("spectral", 4), ("spectral", 2), ("pcfg", 1),
    ]  # fmt: skip


def test_every_method_can_be_compared(cli, few: Path, short_plan: Any) -> None:
    methods = [method for method in METHODS if method != "encoder"]  # which takes half a minute
    small = ("--states", "2", "--limit", "20")
    rows = json.loads(
        cli("compare", few, few, "--methods", ",".join(methods), *small, "--json").out
    )
    assert [row["method"] for row in rows] == methods
    assert all(row["f1"] > 80 for row in rows)  # scored on the trees they were learnt from
    found = {row["method"]: row for row in rows}
    for name in ("pcfg", "spectral", "pivot", "cluster"):  # clusters run no EM unless told
        assert (found[name]["iterations"], found[name]["best_iteration"]) == (0, None)
    assert found["em"]["iterations"] == 20
    assert found["pivot-em"]["iterations"] == 10
    for name in ("em", "pivot-em"):
        assert 0 <= found[name]["best_iteration"] <= found[name]["iterations"]


def test_em_keeps_the_iteration_that_parses_dev_best(cli, few: Path) -> None:
    options = ("--methods", "pcfg,em", "--states", "2", "--limit", "30", "--jobs", "1")
    row = json.loads(cli("compare", few, few, *options, "--json").out)[1]
    bank = sw.read_treebank(few)
    em = sw.EMLPCFG(2).fit(bank, list(bank.trees())[:30])
    assert row["best_iteration"] == em.info_.best_iteration
    assert row["f1"] == max(f1 for _, f1 in em.info_.dev_f1)
    table = cli("compare", few, few, *options).out
    assert re.search(rf"^em +2 .* {row['best_iteration']}/20 ", table, re.MULTILINE)
    assert re.search(r"^pcfg +1( +[\d.]+){3} +0 ", table, re.MULTILINE)
    assert "The best is kept." in table


def test_grading_is_not_part_of_the_time(cli, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Grading is made slow by busy loops, before the charts and before each F1."""
    whole, f1 = DevSet.__init__, DevSet.f1

    def busy() -> None:
        end = process_time() + 0.03
        while process_time() < end:
            pass

    def slow_charts(self: DevSet, *args: Any) -> None:
        busy()
        whole(self, *args)

    def slow_f1(self: DevSet, *args: Any) -> float:
        busy()
        return f1(self, *args)

    monkeypatch.setattr(DevSet, "__init__", slow_charts)
    monkeypatch.setattr(DevSet, "f1", slow_f1)
    options = ("--methods", "em", "--states", "2", "--limit", "5", "--json")
    row = json.loads(cli("compare", few, few, *options).out)[0]
    assert 0 < row["cpu_seconds"] < 0.03 * 22  # that is what the busy loops took


def test_seeds_and_jobs(cli, dev: Path) -> None:
    def f1(*options: object) -> list[float]:
        command = ("compare", dev, dev, "--methods", "spectral", *SMALL, "--json", *options)
        return [row["f1"] for row in json.loads(cli(*command).out)]

    assert f1("--jobs", 1, "--seed", 3) == f1("--jobs", 2, "--seed", 3)


def test_stdin(cli, trees: Path) -> None:
    options = ("--methods", "pcfg", "--json")
    assert json.loads(cli("compare", "-", trees, *options, stdin=TREE).out)[0]["f1"] == 100
    assert json.loads(cli("compare", trees, "-", *options, stdin=TREE).out)[0]["sentences"] == 1


# -- plots ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("methods", ["pcfg,spectral", "pcfg", "spectral"])
def test_plot(cli, trees: Path, tmp_path: Path, methods: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "f1.png"
    options = ("--methods", methods, "--states", "2,4", "--plot", path)
    assert cli("compare", trees, trees, *options).status == 0
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


@pytest.mark.usefixtures("no_matplotlib")
def test_a_missing_matplotlib_is_told_before_anything_else(fails, tmp_path: Path) -> None:
    # The treebanks do not exist, yet Matplotlib is what is complained about.
    result = fails("compare", "no.mrg", "no.mrg", "--plot", tmp_path / "f1.png")
    assert "pip install matplotlib" in result.err


@pytest.mark.parametrize("name", ["f1.doc", "f1", "no/f1.png"])
def test_a_plot_that_cannot_be_written(fails, tmp_path: Path, name: str) -> None:
    assert name in fails("compare", "no.mrg", "no.mrg", "--plot", tmp_path / name).err


# -- interruptions --------------------------------------------------------------------------------


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_keeps_what_was_done(cli, dev: Path, tmp_path: Path) -> None:
    plot = tmp_path / "f1.png"
    result = cli("compare", dev, dev, *SMALL, "--json", "--plot", plot)
    assert result.status == 130
    assert [row["states"] for row in json.loads(result.out)] == [1, 2]
    assert result.err.endswith("interrupted\n")
    assert plot.exists()
    text = cli("compare", dev, dev, *SMALL)
    assert re.findall(r"^(\w+) +\d", text.out, re.MULTILINE) == ["pcfg", "spectral"]


@pytest.mark.usefixtures("interrupted")
def test_ctrl_c_before_the_first_row(cli, dev: Path) -> None:
    result = cli("compare", dev, dev, "--methods", "spectral", "--states", "3", "--limit", "5")
    assert (result.status, result.out) == (130, "")


def test_a_signal_to_the_process(start, dev: Path) -> None:
    with start("compare", dev, dev, "--states", "2,200", "--json") as process:
        for line in process.stderr:
            if "spectral  2 states" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert [row["states"] for row in json.loads(out)] == [1, 2]
    assert err == "interrupted\n"


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--states 0", ""), ("--states 257", ""), ("--states 4,many", ""), ("--states -2", ""),
        ("--states ,", ""), ("--states 1e9", ""), ("--methods ,", ""), ("--limit 0", ""),
        ("--methods pcfg,magic", "pcfg, spectral"), ("--jobs -1", ""),
        ("--states 1000", "1 to 256"),
    ],
)  # fmt: skip
def test_misuse(misused, trees: Path, options: str, message: str) -> None:
    assert message in misused("compare", trees, trees, *options.split()).err


def test_inputs_that_fail(fails, misused, trees: Path, empty: Path) -> None:
    assert "only once" in misused("compare", "-", "-").err
    misused("compare", trees)
    for wrong, message in (("nowhere.mrg", "no such file"), (empty, f"{empty}: no tree found")):
        assert message in fails("compare", trees, wrong).err
        assert message in fails("compare", wrong, trees).err
