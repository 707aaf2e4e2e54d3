from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.files import open_text
from sapwood.corpora.formats import read_trees, write_trees
from sapwood.corpora.formats.brackets import MAX_LINES
from sapwood.corpora.tree import Tree

GOOD = "(S (NP (NNS dogs)) (VP (VBP bark)))"
OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


def read(text: str, **options: str) -> list[Tree]:
    return list(read_trees(io.StringIO(text), **options))  # type: ignore[arg-type]


def read_around(text: str) -> tuple[list[str], list[CorpusError]]:
    """What is read, and what is skipped, when broken trees are tolerated."""
    skipped: list[CorpusError] = []
    trees = [str(tree) for tree in read_trees(io.StringIO(text), skipped=skipped)]
    return trees, skipped


# -- round trips ----------------------------------------------------------------------------------


@given(st.lists(st.from_type(Tree), max_size=4))
def test_read_undoes_write(trees: list[Tree]) -> None:
    file = io.StringIO()
    assert write_trees(trees, file) == len(trees)
    assert read(file.getvalue()) == trees


@given(
    st.lists(st.from_type(Tree), min_size=1, max_size=3), st.sampled_from(["\n  ", "\r\n\t", " "])
)
def test_layout_does_not_matter(trees: list[Tree], blank: str) -> None:
    text = " ".join(str(tree) for tree in trees)
    spread = text.replace(" (", f"{blank}(").replace(")", f"{blank})")
    assert read(spread) == trees


def test_write_to_a_path_is_whole_or_nothing(tmp_path: Path) -> None:
    def failing() -> object:
        yield Tree.parse(GOOD)
        raise KeyboardInterrupt

    path = tmp_path / "out.mrg"
    path.write_text("before")
    with pytest.raises(SapwoodError, match="Sapwood did not write it"):
        write_trees([], path)
    with pytest.raises(KeyboardInterrupt):
        write_trees(failing(), path, force=True)  # type: ignore[arg-type]
    assert path.read_text() == "before"
    assert write_trees([Tree.parse(GOOD)] * 3, path, force=True) == 3
    assert [str(tree) for tree in read_trees(path)] == [GOOD] * 3
    assert [file.name for file in tmp_path.iterdir()] == ["out.mrg"]


# -- what counts as a tree ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("# comment\n%% another\n; third\n// fourth\n*x*x*x*\n" + GOOD, [GOOD]),
        ("(S (X a) (,) (...))", ["(S (X a) (, ,) (... ...))"]),
        (f"{GOOD} {GOOD}\n{GOOD}", [GOOD] * 3),
        ("((S (X a)))", ["( (S (X a)))"]),
        ("( (S (X a)) )", ["( (S (X a)))"]),
        ("(S\n# no comment inside a tree)", ["error"]),
        ("(X\n# )", ["(X #)"]),
        ("(S(X a)(Y b))", ["(S (X a) (Y b))"]),
        ("(X\n\n  a\n\n)", ["(X a)"]),
        ("(X a\u00a0b)", ["(X a\u00a0b)"]),
        ("(X a\u2028b)", ["(X a\u2028b)"]),
    ],
)
def test_what_is_read(text: str, expected: list[str]) -> None:
    if expected == ["error"]:
        with pytest.raises(CorpusError):
            read(text)
    else:
        assert [str(tree) for tree in read(text)] == expected


def test_join_words() -> None:
    assert [str(tree) for tree in read("(NP New York City)", format="joined")] == [
        "(NP New_York_City)"
    ]
    with pytest.raises(CorpusError, match="one word"):
        read("(NP New York)")
    with pytest.raises(CorpusError, match="one word"):
        read("(NP (X a) b)", format="joined")


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("word", 1, 1, "expected '(' to start a tree, found 'word'"),
        (")", 1, 1, "expected '(' to start a tree, found ')'"),
        (f"{GOOD}\n  )", 2, 3, "expected '(' to start a tree, found ')'"),
        (f"{GOOD} junk", 1, len(GOOD) + 2, "expected '(' to start a tree, found 'junk'"),
        ("(S", 1, 1, "expected 1 more ')'"),
        (f"{GOOD}\n (S (NP (X a))", 2, 2, "expected 1 more ')'"),
        ("\n\n(S (NP (X a)", 3, 1, "expected 2 more ')'"),
        ("()", 1, 2, "expected a word or a tree"),
        ("(S (NP ))", 1, 8, "expected a word or a tree after '(NP'"),
        ("(S\n  (NP\n  ))", 3, 3, "expected a word or a tree after '(NP'"),
        ("(S (NP a b))", 1, 4, "expected one word or only trees under 'NP'"),
        ("(S (X a)\n b)", 1, 1, "expected one word or only trees under 'S'"),
        ("( a)", 1, 4, "expected a word or a tree after '(a'"),
        ("(" * 1000, 1, 1, "expected 1000 more ')'"),
        ("(S\n" + " (X a)\n" * (MAX_LINES + 1), 1, 1, "still open after"),
    ],
)
def test_errors_say_where_and_what(text: str, line: int, column: int, expected: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read(text)
    error = caught.value
    assert (error.file, error.line, error.column) == ("<text>", line, column)
    assert expected in error.message
    assert error.hint
    assert str(error) == f"<text>:{line}:{column}: {error.message}"


def test_trees_before_an_error_are_read() -> None:
    stream = read_trees(io.StringIO(f"{GOOD}\n(S"))
    assert str(next(stream)) == GOOD
    with pytest.raises(CorpusError):
        next(stream)


@pytest.mark.parametrize("text", ["", GOOD + GOOD, "(S"])
def test_parse_wants_exactly_one(text: str) -> None:
    with pytest.raises(CorpusError):
        Tree.parse(text)


# -- recovery -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "n_errors"),
    [
        ("(S (NP (X a))", 1),
        ("(S\n  (NP (X a))", 1),
        ("(S (NP ))", 1),
        ("(S\n  (NP )\n  (VP (X a)))", 1),
        ("(S (NP a b))", 1),
        (")", 1),
        ("junk", 1),
        ("junk\nmore junk", 1),
        ("  indented junk\n  (X a)", 1),
        ("(S (X a)))", 1),
        ("(" * 1000, 1),
        ("(S\n" + "  (X a)\n" * (MAX_LINES + 5), 1),
    ],
)
@pytest.mark.parametrize("n_before", [0, 1, 2])
def test_skipping_finds_the_next_tree(bad: str, n_errors: int, n_before: int) -> None:
    before = "".join(f"(B{number} b)\n" for number in range(n_before))
    trees, skipped = read_around(f"{before}{bad}\n(C c)\n(D\n  (E e))\n")
    ours = [tree for tree in trees if tree != "(S (X a))"]  # the good part of `(S (X a)))`
    assert ours == [*(f"(B{number} b)" for number in range(n_before)), "(C c)", "(D (E e))"]
    assert len(skipped) == n_errors
    assert skipped[0].line == n_before + 1 or "\n" in bad


def test_skipping_leaves_no_part_of_a_broken_tree_behind() -> None:
    """The indented lines behind a second error are no trees, also when they are read again."""
    trees, skipped = read_around("(A\n(B )\n   (C c)\n(D d)\n")
    assert trees == ["(D d)"]
    assert len(skipped) == 2


def test_one_lost_bracket_costs_one_tree() -> None:
    lines = [f"(S{number} (X a))" for number in range(3 * MAX_LINES)]
    lines[7] = "(S7 (X a)"
    lines[-1] = "(LAST (X a)"
    trees, skipped = read_around("\n".join(lines))
    assert trees == [line for number, line in enumerate(lines) if number not in {7, len(lines) - 1}]
    assert [error.line for error in skipped] == [8, len(lines)]


@pytest.mark.parametrize("n_lines", [10, MAX_LINES - 1, MAX_LINES, MAX_LINES + 1])
def test_lines_of_lost_brackets(n_lines: int) -> None:
    trees, skipped = read_around("(\n" * n_lines + GOOD)
    assert trees == [GOOD]
    assert len(skipped) <= n_lines
    assert len(skipped) == n_lines or n_lines >= MAX_LINES - 1  # where whole runs are given up


def test_skipped_errors_keep_their_place_over_files(tmp_path: Path) -> None:
    for name in ("a.mrg", "b.mrg"):
        (tmp_path / name).write_text(f"{GOOD}\n(S (X a)\n{GOOD}\n")
    skipped: list[CorpusError] = []
    assert len(list(read_trees(tmp_path, skipped=skipped))) == 4
    assert [(Path(error.file or "").name, error.line) for error in skipped] == [
        ("a.mrg", 2),
        ("b.mrg", 2),
    ]


# -- sources --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.mrg").write_text("(A a)\n")
    (tmp_path / "deep" / "b.psd").write_text("(B b)\n")
    with gzip.open(tmp_path / "deep" / "c.mrg.gz", "wt") as file:
        file.write("(C c)\n")
    (tmp_path / "README.md").write_text("not a tree\n")
    return tmp_path


def labels_of(*sources: str | Path) -> str:
    return "".join(tree.label for tree in read_trees(list(sources)))


def test_folder_glob_and_several(folder: Path) -> None:
    assert labels_of(folder) == "ABC"
    assert labels_of(str(folder)) == "ABC"
    assert labels_of(folder / "**" / "*.mrg*") == "AC"
    assert labels_of(folder / "d*") == "BC"
    assert labels_of(folder / "deep" / "b.psd", folder / "a.mrg") == "BA"


def test_a_file_name_may_look_like_a_glob(tmp_path: Path) -> None:
    path = tmp_path / "a[1].mrg"
    path.write_text(GOOD)
    assert labels_of(path) == "S"


@pytest.mark.parametrize(
    "name", ["missing.mrg", "*.nothing", "x" * 5000, GOOD, "nul\0byte", "~nobody-here/x"]
)
def test_sources_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError) as caught:
        labels_of(name)
    assert caught.value.file == name
    assert caught.value.hint


def test_a_folder_without_treebanks(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no file ending in \.mrg"):
        labels_of(tmp_path)


@pytest.mark.parametrize("ending", OPENERS)
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"junk" + data]
)
def test_damaged_compression(tmp_path: Path, ending: str, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"x.mrg{ending}"
    with OPENERS[ending](path, "wb") as file:
        file.write(os.urandom(2000).hex().join(["(S (X ", "))\n"]).encode() * 50)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorpusError, match="cannot read") as caught:
        list(read_trees(path))
    assert caught.value.file == str(path)


def test_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "x.mrg"
    path.write_bytes("(S (X café))\n".encode("latin-1"))
    with pytest.raises(CorpusError, match="not UTF-8") as caught:
        list(read_trees(path))
    assert "--encoding latin-1" in (caught.value.hint or "")
    with path.open(encoding="utf-8") as file, pytest.raises(CorpusError, match="not UTF-8"):
        list(read_trees(file))


def test_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "x.mrg"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert labels_of(path) == "S"
    with open_text(path) as file:
        assert file.read() == GOOD


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", _Stdin(f"{GOOD}\n(X é)".encode()))
    assert labels_of("-") == "SX"
    assert not sys.stdin.buffer.closed  # it is not ours to close
    assert labels_of("-") == ""


def test_errors_in_stdin_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"(S", b"\xff"):
        monkeypatch.setattr(sys, "stdin", _Stdin(data))
        with pytest.raises(CorpusError) as caught:
            labels_of("-")
        assert caught.value.file == "<stdin>"


# -- fuzzing --------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [
        "(",
        ")",
        " ",
        "\n",
        "\n(",
        "\n (",
        "S",
        "(X a)",
        "()",
        "#",
        "*x*",
        "\r",
        "\u2028",
        "\ufeff",
        "日",
    ]
)
_FUZZ = st.one_of(st.lists(_PIECES, max_size=40).map("".join), st.text(max_size=60))


def check_survives(text: str) -> None:
    try:
        strict = read(text)
    except CorpusError:
        strict = None
    trees, skipped = read_around(text)
    if strict is None:
        assert skipped
    else:
        assert not skipped
        assert trees == [str(tree) for tree in strict]


@given(_FUZZ)
@example("(\n(")
@example("(\n()\n(X a)")
@example("\ufeff(X a)")
def test_no_text_breaks_the_reader(text: str) -> None:
    check_survives(text)


@pytest.mark.slow
@settings(max_examples=10_000, deadline=1000)
@given(_FUZZ)
def test_no_text_breaks_the_reader_at_length(text: str) -> None:
    check_survives(text)


@given(st.binary(max_size=60), st.sampled_from(["", *OPENERS]))
def test_no_bytes_break_the_reader(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz.mrg{ending}"
    path.write_bytes(data)
    try:
        list(read_trees(path, skipped=[]))
    except CorpusError as error:
        assert error.file == str(path)  # noqa: PT017


MANY = 40_000
ADVERSARIES = {
    "one line of brackets": "(" * MANY,
    "lines of brackets": "(\n" * MANY,
    "indented lines of brackets": " (\n" * MANY,
    "brackets and good trees by turns": "(\n(X a)\n" * (MANY // 2),
    "brackets and empty ones by turns": ("(\n" * (MAX_LINES - 2) + "()\n") * (MANY // MAX_LINES),
    "closing brackets": ")" * MANY,
    "lines of closing brackets": ")\n" * MANY,
    "empty brackets": "()" * MANY,
    "one long word": "(X " + "a" * MANY * 10 + ")",
    "one long label": "(" + "a" * MANY * 10,
    "a bracket and blanks": "(" + " " * MANY,
    "a tag and blanks": "(X" + " " * MANY,
    "a leaf and blanks": "(X a" + " " * MANY,
    "blanks": " " * MANY * 10,
    "words": "a " * MANY,
    "trees on one line": "(X a) " * MANY,
    "a wide tree": "(S " + "(X a) " * MANY + ")",
    "wide words": "(S " + "a " * MANY + ")",
    "an endless tree": "(S\n" + "(X a)\n" * MANY,
}


@pytest.mark.parametrize("text", ADVERSARIES.values(), ids=ADVERSARIES.keys())
def test_adversaries_end_quickly(text: str) -> None:
    start = time.process_time()
    check_survives(text)
    # Linear reading takes well below a second; a quadratic step takes half a minute.
    assert time.process_time() - start < 4
