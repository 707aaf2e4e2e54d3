from __future__ import annotations

import json
import re

import pytest

from sapwood.cli.corpora import list_text, run_fetch, size_text
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora import fetch
from sapwood.corpora.fetch import (
    CONVERTERS,
    CorpusEntry,
    RemoteFile,
    SplitRange,
    find_corpus,
    list_corpora,
)

NAMES = {entry.name for entry in list_corpora()}


def small(name: str, **facts: object) -> CorpusEntry:
    given: dict[str, object] = {
        "title": "t",
        "kind": "trees",
        "format": "penn",
        "base_url": "http://127.0.0.1/",
        "files": (RemoteFile("a.mrg", "0" * 64, 10, "train"),),
    }
    return CorpusEntry(name=name, **(given | facts))  # type: ignore[arg-type]


def test_the_promised_corpora_are_there():
    assert {
        "craft", "icepahc", "ptb-sample", "ptb-sample-dep", "brown", "floresta", "cess_esp",
        "sinica_treebank", "ud-french-sequoia", "ud-vietnamese-vtb", "ud-czech-cltt",
        "gum-open", "ud-english-ewt",
    } == NAMES  # fmt: skip


@pytest.mark.parametrize("entry", list_corpora(), ids=lambda entry: entry.name)
def test_every_entry_is_complete(entry):
    assert entry.kind in {"trees", "dependencies", "text"}
    assert entry.format in {*CONVERTERS, "raw"}
    assert entry.title
    assert entry.licence
    assert re.fullmatch(r"https://github\.com/[^/]+/[^/]+/tree/[0-9a-f]{40}", entry.source)
    assert entry.base_url.startswith("https://")
    assert entry.base_url.endswith("/")
    assert entry.files
    assert len({file.path for file in entry.files}) == len(entry.files)
    for file in entry.files:
        checked = [file] if file.sha256 else [x for x in entry.written if x.split == file.split]
        assert checked
        for one in checked:
            assert re.fullmatch(r"[0-9a-f]{64}", one.sha256)
            assert one.size > 0
        assert not file.path.startswith("/")
        assert ".." not in file.path
        assert file.path.endswith(".zip") == bool(entry.members)
    "".encode(entry.encoding)  # a wrong name of an encoding raises


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("craft", {"train": 60, "dev": 7, "test": 30}),
        ("icepahc", {"train": 49, "dev": 6, "test": 6}),
        ("ud-french-sequoia", {"train": 1, "dev": 1, "test": 1}),
        ("gum-open", {"train": 84, "dev": 12}),
        ("ud-english-ewt", {"train": 1, "dev": 1}),
    ],
)
def test_files_by_split(name, sizes):
    entry = find_corpus(name)
    splits = [file.split for file in entry.files]
    assert {split: splits.count(split) for split in entry.splits} == sizes
    assert list(entry.splits) == list(sizes)


def test_the_two_penn_samples_are_split_alike():
    trees, arcs = find_corpus("ptb-sample"), find_corpus("ptb-sample-dep")
    assert trees.ranges == arcs.ranges
    assert trees.splits == ("train", "dev", "test")
    expected = {1: "train", 159: "train", 160: "dev", 179: "dev", 180: "test", 199: "test"}
    assert {n: trees.split_of(f"wsj_{n:04}") for n in expected} == expected
    assert trees.split_of("wsj_0200") is None


def test_corpora_without_a_split_say_so():
    assert find_corpus("brown").splits == ("all",)
    assert find_corpus("brown").split_of("ca01") == "all"
    assert find_corpus("sinica_treebank").splits == ("all",)
    assert small("x", files=(), format="raw").splits == ("raw",)


def test_size_is_the_sum_of_the_files():
    entry = small(
        "x", files=(RemoteFile("a", "0" * 64, 10, "test"), RemoteFile("b", "1" * 64, 5, "train"))
    )
    assert entry.size == 15
    assert entry.splits == ("train", "test")


def test_ranges_are_closed():
    part = SplitRange("dev", "b", "d")
    assert [stem in part for stem in "abcde"] == [False, True, True, True, False]


def test_as_dict_survives_json():
    entry = find_corpus("craft")
    read = json.loads(json.dumps(entry.as_dict()))
    assert read["name"] == "craft"
    assert read["splits"] == ["train", "dev", "test"]
    assert read["bytes"] == entry.size
    assert read["n_files"] == 97


@pytest.mark.parametrize(
    ("name", "expected"),
    [("CRAFT", "craft"), (" craft ", "craft"), ("cess-esp", "cess_esp"),
     ("ptb_sample", "ptb-sample")],
)  # fmt: skip
def test_capitals_and_dashes_do_not_matter(name, expected):
    assert find_corpus(name).name == expected


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all():
    with pytest.raises(SapwoodError, match=r"'crafft'.*did you mean craft\?") as caught:
        find_corpus("crafft")
    assert "brown" not in str(caught.value)
    assert "data list" in caught.value.hint
    with pytest.raises(SapwoodError) as caught:
        find_corpus("qqqq")
    assert all(name in str(caught.value) for name in NAMES)


def test_list_text_has_a_line_for_each_corpus():
    lines = list(list_text([entry.as_dict() for entry in list_corpora()]))
    header = lines[0].split()
    assert header == ["name", "kind", "size", "splits", "licence", "what"]
    assert {line.split()[0] for line in lines[1 : len(NAMES) + 1]} == NAMES
    assert any(line.startswith("sinica_treebank: no official split") for line in lines)
    starts = {
        line.index(entry.title) for line, entry in zip(lines[1:], list_corpora(), strict=False)
    }
    assert starts == {lines[0].index("what")}  # the columns stand below each other


def test_list_text_without_notes_has_no_tail():
    assert len(list(list_text([small("mine").as_dict()]))) == 2
    assert len(list(list_text([]))) == 1


def test_size_text():
    assert [size_text(n) for n in (999, 999_000, 1_000_000)] == ["1 kB", "999 kB", "1.0 MB"]


def test_run_fetch_of_an_unknown_corpus(tmp_path):
    said: list[str] = []
    with pytest.raises(SapwoodError, match="did you mean"):
        run_fetch("icepach", tmp_path, said.append)
    assert said == []
    assert list(tmp_path.iterdir()) == []


LINE = "toy\tToy\ttrees\tpenn\tutf-8\t-\t-\tfree\there\thttp://127.0.0.1\t-\n"


@pytest.mark.parametrize(
    ("corpora", "files", "message"),
    [
        ("# only\ntoy\tToy\n", "", "corpora.tsv:2: expected 11 fields, found 2"),
        (LINE, "a.mrg\t00\n", "toy.tsv:1: expected 4 fields, found 2"),
        (LINE, "a.mrg\t00\tmany\ttrain\n", "a.mrg has 'many' bytes, expected a number"),
        (
            LINE.replace("\t-\t-\tfree", "\t-\ttrain:a\tfree"),
            "",
            "'train:a' is no range of files of a split",
        ),
        (LINE, "a.mrg\t-\t-\ttrain\n", "neither a.mrg nor the split train has a checksum"),
        (LINE, None, "toy.tsv: a table of the registry cannot be read"),
        ("\udcff", "", "corpora.tsv: a table of the registry cannot be read"),
    ],
)
def test_a_damaged_registry_is_explained(corpora, files, message, tmp_path, monkeypatch):
    folder = tmp_path / "registry_data"
    folder.mkdir()
    (folder / "corpora.tsv").write_bytes(corpora.encode(errors="surrogateescape"))
    if files is not None:
        (folder / "toy.tsv").write_text(files)
    monkeypatch.setattr(fetch, "files", lambda package: tmp_path)
    fetch._registry.cache_clear()
    try:
        with pytest.raises(CorpusError, match=re.escape(message)) as caught:
            list_corpora()
        assert "install it again" in str(caught.value.hint)
    finally:
        fetch._registry.cache_clear()
