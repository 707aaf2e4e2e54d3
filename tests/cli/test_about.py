"""`sapwood demo`, `sapwood doctor`, `sapwood data`."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.corpora.fetch import list_corpora


def test_demo_tells_the_story(cli) -> None:
    result = cli("demo")
    assert result.status == 0
    assert [line[:4] for line in result.err.splitlines()[:6]] == [f"{n}/6 " for n in range(1, 7)]
    for expected in ("plain PCFG", "spectral", "true grammar", "F1", "┌", "misses", "invents"):
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

    monkeypatch.setattr("sapwood.cli.corpora.data.run_fetch", fetch)
    result = cli("data", "fetch", "craft", "--folder", tmp_path, "--json")
    assert asked == [("craft", tmp_path)]
    assert json.loads(result.out)["files"] == {"train": str(tmp_path / "train.mrg")}
    assert result.err == "fetching\n"
    assert cli("data", "fetch", "craft", "--folder", tmp_path).out == ""


def test_data_fetch_fails(fails, misused) -> None:
    assert "did you mean craft" in fails("data", "fetch", "crft").err
    misused("data", "fetch")
