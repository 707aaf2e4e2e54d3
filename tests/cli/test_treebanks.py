"""`sapwood words`, `split` and `stats`; trees that are in two treebanks at once."""

from __future__ import annotations

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest
from tests.conftest import bundled

import sapwood as sw
from sapwood.constituency.data.statistics import TreeCounts, describe_treebank

TREE = "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps) (NP (-NONE- *))) (. .)) )"


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    path = tmp_path / "trees.mrg"
    sw.write_trees(list(sw.bundled_treebank("dev").trees())[:100], path)
    return path


# -- words ----------------------------------------------------------------------------------------


def test_words(cli, treebank: Path) -> None:
    result = cli("words", treebank)
    expected = [" ".join(tree.words()) for tree in sw.read_trees(treebank)]
    assert result.out.splitlines() == expected
    assert result.err.startswith("100 sentences  ")


def test_words_to_a_file_from_stdin(cli, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    assert cli("words", "-", "-o", out, stdin=TREE + "\n(X (-NONE- *))\n").out == ""
    assert out.read_text() == "the dog sleeps .\n\n"


def test_words_of_compressed_trees_can_be_parsed(cli, treebank: Path, tmp_path: Path) -> None:
    packed = tmp_path / "trees.mrg.gz"
    packed.write_bytes(gzip.compress(treebank.read_bytes()))
    sentences = cli("words", packed).out
    by_words = cli("parse", "bundled", stdin=sentences).out
    assert by_words == cli("parse", "bundled", packed, "--trees").out


def test_words_of_a_broken_treebank(fails, tmp_path: Path) -> None:
    out = tmp_path / "out.txt"
    assert "<stdin>:1:" in fails("words", "-", "-o", out, stdin="(S (NN a)").err
    assert not out.exists()
    assert "no such file" in fails("words", tmp_path / "none").err


# -- split ----------------------------------------------------------------------------------------


def parts_of(folder: Path, prefix: str) -> dict[str, list[sw.Tree]]:
    names = ("train", "dev", "test")
    return {name: list(sw.read_trees(folder / f"{prefix}{name}.mrg")) for name in names}


def test_split(cli, treebank: Path, tmp_path: Path) -> None:
    result = cli("split", treebank, "-o", f"{tmp_path}/my-", "--dev", "10%", "--test", "7")
    assert result.status == 0
    parts = parts_of(tmp_path, "my-")
    trees = list(sw.read_trees(treebank))
    assert [len(part) for part in parts.values()] == [83, 10, 7]
    assert sorted(map(str, chain(*parts.values()))) == sorted(map(str, trees))
    places = [trees.index(tree) for tree in parts["train"]]
    assert places == sorted(places)
    assert [line.split()[2] for line in result.out.splitlines()[1:]] == ["83", "10", "7"]


def test_split_again_is_the_same_and_another_seed_is_not(cli, treebank: Path, tmp_path) -> None:
    texts = []
    for number, seed in enumerate((0, 0, 1)):
        cli("split", treebank, "-o", tmp_path / f"{number}-", "--seed", seed)
        texts.append((tmp_path / f"{number}-dev.mrg").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_trees_are_written_as_they_were(cli, tmp_path: Path) -> None:
    cli("split", "-", "-o", f"{tmp_path}/", "--dev", 1, "--test", 0, stdin=f"{TREE}\n{TREE}\n")
    assert (tmp_path / "train.mrg").read_text() == f"{sw.Tree.parse(TREE)}\n"
    assert not (tmp_path / "test.mrg").exists()


def test_files_stay_together(cli, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for k in range(6):
        (folder / f"{k}.mrg").write_text(f"(S (NN w{k}) (NN x))\n" * 5)
    result = cli("split", folder, "-o", tmp_path / "my-", "--by", "file", "--json")
    rows = json.loads(result.out)
    assert [row["trees"] for row in rows] == [20, 5, 5]
    assert {row["also_in_train"] for row in rows} == {0}
    words = [{tree.words()[0] for tree in part} for part in parts_of(tmp_path, "my-").values()]
    assert len(set.union(*words)) == sum(map(len, words)) == 6


def test_repeated_trees_are_told(cli, tmp_path: Path) -> None:
    result = cli("split", "-", "-o", tmp_path / "my-", stdin=f"{TREE}\n" * 20)
    assert "2 also in train" in result.out


def test_split_that_cannot_be(fails, misused, treebank: Path, tmp_path: Path) -> None:
    assert "leave none of 100" in fails("split", treebank, "-o", tmp_path / "x-", "--dev", 100).err
    assert "not the size" in fails("split", treebank, "-o", tmp_path / "x-", "--dev", "some").err
    assert "as many files" in fails("split", treebank, "-o", tmp_path / "x", "--by", "file").err
    assert "does not exist" in fails("split", treebank, "-o", tmp_path / "no" / "x").err
    broken = "(S (NN a)"
    assert "<stdin>:1:" in fails("split", "-", "-o", tmp_path / "x-", stdin=broken).err
    assert [path.name for path in tmp_path.iterdir()] == ["trees.mrg"]
    misused("split", treebank)


def test_split_can_skip_broken_trees(cli, tmp_path: Path) -> None:
    text = f"(S a b)\n{TREE}\n{TREE}\n"
    result = cli(
        "split", "-", "-o", tmp_path / "x-", "--dev", 1, "--test", 0, "--skip-bad", stdin=text
    )
    assert result.status == 0
    assert "skipped 1 broken tree; the first: <stdin>:1" in result.err


# -- stats ----------------------------------------------------------------------------------------


def test_stats(cli, treebank: Path) -> None:
    lines = cli("stats", treebank, "--top", 3).out.splitlines()
    assert lines[0].split()[:2] == ["trees", "100"]
    assert any(line.startswith("  NP ") for line in lines)
    assert any("more (--top, --json)" in line for line in lines)


def test_stats_for_programs(cli, treebank: Path) -> None:
    report = json.loads(cli("stats", treebank, "--json").out)
    assert report.pop("treebanks") == [str(treebank)]
    assert report == describe_treebank(TreeCounts.of(sw.read_trees(treebank)))


def test_stats_against(cli, treebank: Path, dev: Path) -> None:
    text = cli("stats", treebank, "--against", dev).out
    assert f"against {dev}, 300 trees" in text
    assert "unknown words   0 different, 0.0% of the text" in text
    assert "shared          100 trees, 100 sentences" in text
    report = json.loads(cli("stats", "-", "--against", dev, "--json", stdin=TREE).out)
    assert report["against"]["treebank"] == str(dev)
    assert report["empty_elements"] == {"*": 1}


def test_stats_that_cannot_be(fails, misused, empty: Path) -> None:
    assert "no tree with a word" in fails("stats", empty).err
    assert "no tree with a word" in fails("stats", "-", stdin="(X (-NONE- *))").err
    misused("stats", "-", "--against", "-")


METHOD = ("--method", "pcfg", "--binarise", "head", "--horizontal", 1, "--vertical", 1)


@pytest.fixture(scope="session")
def trees() -> list[str]:
    return [str(tree) for tree in bundled("train")[:200].trees()]


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
    whole = written(tmp_path / "whole.mrg", [str(t) for t in bundled("train").trees()])
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
    assert "is also the gold file, so the scores are meaningless" in result.err
    assert "hint: give the trees of a parser" in result.err
    assert n_warnings(cli("evaluate", gold, copy).err) == 0  # a perfect parser is no mistake
