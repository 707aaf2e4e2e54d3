"""`sapwood words`, `sapwood split` and `sapwood stats`."""

from __future__ import annotations

import gzip
import json
from itertools import chain
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.constituency.data.statistics import TreeCounts, describe

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
    assert "no size" in fails("split", treebank, "-o", tmp_path / "x-", "--dev", "some").err
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
    assert report == describe(TreeCounts.of(sw.read_trees(treebank)))


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
