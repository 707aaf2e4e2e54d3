"""Warnings of trees that are given twice: the same file, its copies, dev trees trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

import sapwood as sw

METHOD = ("--method", "pcfg", "--binarise", "head", "--horizontal", 1, "--vertical", 1)


@pytest.fixture(scope="session")
def trees() -> list[str]:
    return [str(tree) for tree in sw.bundled_treebank("train")[:200].trees()]


def written(path: Path, trees: list[str]) -> Path:
    path.write_text("\n".join(trees) + "\n")
    return path


def n_warnings(text: str) -> int:
    return sum(line.startswith("warning: ") for line in text.splitlines())


def test_dev_trees_of_the_training_file(cli, tmp_path: Path, trees: list[str]) -> None:
    path = written(tmp_path / "a.mrg", trees)
    for command in (
        ("train", path, "--dev", path, "-o", tmp_path / "m", *METHOD),
        ("compare", path, path, "--methods", "pcfg"),
    ):
        result = cli(*command)
        assert result.status == 0
        assert "warning: 200 of 200 dev trees are also in the training trees" in result.err
        assert "hint: hold out trees" in result.err
        assert n_warnings(result.err) == 1


def test_short_trees_of_the_training_file(cli, tmp_path: Path) -> None:
    path = written(tmp_path / "a.mrg", ["(S (NN dog))"] * 3)
    result = cli("train", path, "--dev", path, "-o", tmp_path / "m", *METHOD)
    assert "warning: 3 of 3 dev trees are also in the training trees" in result.err


def test_dev_trees_that_were_copied(cli, tmp_path: Path, trees: list[str]) -> None:
    """By another name, and among others."""
    train, dev = written(tmp_path / "a.mrg", trees[:120]), written(tmp_path / "b.mrg", trees[80:])
    result = cli("train", train, "--dev", dev, "-o", tmp_path / "m", *METHOD)
    counted = int(result.err.split("warning: ")[1].split()[0])
    assert 40 <= counted < 60  # some are equal by chance
    assert "of 120 dev trees are also in the training trees" in result.err


def test_a_file_named_twice(cli, tmp_path: Path, trees: list[str]) -> None:
    (tmp_path / "folder").mkdir()
    path = written(tmp_path / "folder" / "a.mrg", trees)
    for other in (
        path,
        path.parent,
        str(path.parent / "*.mrg"),
        tmp_path / "folder/../folder/a.mrg",
    ):
        result = cli("train", path, other, "-o", tmp_path / "m", *METHOD)
        assert f"warning: {path}: named more than once" in result.err
        assert "hint: name every file once" in result.err
        assert n_warnings(result.err) == 1


def test_a_file_and_its_copy(cli, tmp_path: Path, trees: list[str]) -> None:
    one, other = written(tmp_path / "a.mrg", trees), written(tmp_path / "b.mrg", trees[:80])
    result = cli("train", one, other, "-o", tmp_path / "m", *METHOD)
    assert "training trees of more than 5 words are copies of others" in result.err
    assert n_warnings(result.err) == 1


def test_trees_that_nobody_shares(cli, tmp_path: Path, dev: Path, trees: list[str]) -> None:
    """Other trees of the same language; and copies inside one file, which are natural."""
    whole = written(tmp_path / "whole.mrg", [str(t) for t in sw.bundled_treebank("train").trees()])
    one, other = written(tmp_path / "a.mrg", trees[:100]), written(tmp_path / "b.mrg", trees[100:])
    again = written(tmp_path / "again.mrg", trees[:5] * 20)
    for sources in ([whole], [one, other], [again]):
        result = cli("train", *sources, "--dev", dev, "-o", tmp_path / "m", *METHOD)
        assert n_warnings(result.err) == 0, result.err
    assert n_warnings(cli("compare", one, dev, "--methods", "pcfg").err) == 0


def test_gold_trees_against_themselves(cli, tmp_path: Path, trees: list[str]) -> None:
    gold = written(tmp_path / "gold.mrg", trees)
    copy = written(tmp_path / "copy.mrg", trees)
    result = cli("evaluate", gold, tmp_path / ".." / tmp_path.name / "gold.mrg")
    assert result.status == 0
    assert "is the gold file too, so that the scores say nothing" in result.err
    assert "hint: give the trees of a parser" in result.err
    assert n_warnings(cli("evaluate", gold, copy).err) == 0  # a perfect parser is no mistake
