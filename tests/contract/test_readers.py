"""What every reader of treebanks keeps to, in every notation."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.notations import EXAMPLES, UNRECOGNISED

from sapwood.constituency.data.treebank import read_treebank
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.files import COMPRESSED
from sapwood.corpora.formats import FORMATS, read_trees
from sapwood.corpora.sentences import read_tree_words

TEXTS = EXAMPLES | UNRECOGNISED
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress,
}  # fmt: skip
READERS: dict[str, Callable[..., Iterator[Any]]] = {
    "trees": read_trees,
    "treebank": lambda *args, **options: read_treebank(*args, **options).trees(),
    "sentences": read_tree_words,
}
WHOLE = {"tigerxml"}  # cannot be put behind each other: a document has one root
every_format = pytest.mark.parametrize("format", FORMATS)
every_reader = pytest.mark.parametrize("reader", READERS)


def read(reader: str, source: Any, format: str, **options: Any) -> list[str]:
    return [str(item) for item in READERS[reader](source, format=format, **options)]


def wanted(reader: str, format: str) -> list[str]:
    return read(reader, io.StringIO(TEXTS[format][0]), format)


def cut(format: str) -> str:
    """A text that ends within its last tree."""
    text = TEXTS[format][0]
    return text[: len(text) // 2] if format in WHOLE else text + text[: len(text) // 2]


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


# -- the lists are complete -----------------------------------------------------------------------


def test_every_format_has_an_example() -> None:
    assert set(TEXTS) == set(FORMATS)


def test_every_compression_is_tried() -> None:
    assert set(PACK) == set(COMPRESSED)


# -- where the text is ----------------------------------------------------------------------------


@every_format
def test_an_example_has_its_trees(format: str) -> None:
    assert wanted("trees", format) == TEXTS[format][1]


@every_reader
@every_format
def test_a_path_a_name_several_and_an_open_file(reader: str, format: str, tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    path.write_text(TEXTS[format][0], encoding="utf-8")
    right = wanted(reader, format)
    for source in (path, str(path), [path], str(tmp_path / "*.mrg"), tmp_path):
        assert read(reader, source, format) == right
    assert read(reader, [path, path], format) == right + right
    with path.open(encoding="utf-8") as file:
        assert read(reader, file, format) == right


@every_reader
@every_format
@pytest.mark.parametrize("ending", PACK)
def test_compressed(reader: str, format: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"trees.mrg{ending}"
    path.write_bytes(PACK[ending](TEXTS[format][0].encode()))
    assert read(reader, path, format) == wanted(reader, format)


@every_reader
@every_format
def test_stdin(reader: str, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = wanted(reader, format)
    feed(monkeypatch, TEXTS[format][0].encode())
    assert read(reader, "-", format) == right


@every_reader
@every_format
def test_marks_of_byte_order_and_ends_of_lines(reader: str, format: str, tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    right = wanted(reader, format)
    for data in (
        b"\xef\xbb\xbf" + TEXTS[format][0].encode(),
        TEXTS[format][0].replace("\n", "\r\n").encode(),
        TEXTS[format][0].rstrip("\n").encode(),
        (b"" if format in WHOLE else b"\n\n") + TEXTS[format][0].encode(),
    ):
        path.write_bytes(data)
        assert read(reader, path, format) == right


@every_reader
@every_format
def test_another_encoding(reader: str, format: str, tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    text = TEXTS[format][0].replace('encoding="UTF-8"', 'encoding="UTF-16"')
    path.write_bytes(text.encode("utf-16"))
    assert read(reader, path, format, encoding="utf-16") == wanted(reader, format)
    path.write_bytes(text.encode("utf-8") + b"\xff\xfe\xff")
    with pytest.raises(SapwoodError) as caught:
        read(reader, path, format)
    assert str(path) in str(caught.value)


# -- what cannot be read --------------------------------------------------------------------------


@every_reader
@every_format
@pytest.mark.parametrize("text", ["", "\n \n"], ids=["empty", "blank"])
def test_nothing(reader: str, format: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    path.write_text(text)
    if reader == "treebank" or format in WHOLE:  # a treebank has a tree, and XML an element
        with pytest.raises(CorpusError, match=r"no tree found|expected XML") as caught:
            read(reader, path, format)
        assert caught.value.hint
    else:
        assert read(reader, path, format) == []


@every_reader
def test_a_file_that_is_not_there(reader: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        read(reader, tmp_path / "none.mrg", "penn")
    assert str(tmp_path / "none.mrg") in str(caught.value)


@every_reader
@every_format
def test_a_broken_tree_is_named_with_file_and_line(
    reader: str, format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trees.mrg"
    broken = cut(format)
    path.write_text(broken, encoding="utf-8")
    with pytest.raises(CorpusError) as caught:
        read(reader, path, format)
    assert caught.value.file == str(path)
    assert 1 <= caught.value.line <= broken.count("\n") + 1
    assert str(caught.value).startswith(f"{path}:{caught.value.line}:")
    assert "\n" not in str(caught.value)
    feed(monkeypatch, broken.encode())
    with pytest.raises(CorpusError) as again:
        read(reader, "-", format)
    assert (again.value.line, again.value.message) == (caught.value.line, caught.value.message)
    assert "stdin" in again.value.file


@every_format
def test_broken_trees_are_skipped_and_counted(format: str, tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    path.write_text(cut(format), encoding="utf-8")
    skipped: list[CorpusError] = []
    trees = read("trees", path, format, skipped=skipped)
    assert trees[: len(TEXTS[format][1])] == ([] if format in WHOLE else TEXTS[format][1])
    assert skipped
    assert all(error.file == str(path) for error in skipped)


@every_reader
@pytest.mark.parametrize("ending", PACK)
def test_damaged_compression_names_the_file(reader: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"trees.mrg{ending}"
    path.write_bytes(PACK[ending](TEXTS["penn"][0].encode() * 50)[:-20])
    with pytest.raises(CorpusError) as caught:
        read(reader, path, "penn")
    assert caught.value.file == str(path)
