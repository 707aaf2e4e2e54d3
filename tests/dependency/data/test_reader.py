"""CoNLL-U, read and written."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path

import pytest
from tests.dependency.data.draws import corpus_files

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.data.reader import read_arcs

GOOD = (
    "# sent_id = 1\n# text = I don't.\n"
    "1\tI\tI\tPRON\tPRP\tCase=Nom\t2\tnsubj\t2:nsubj\t_\n"
    "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "2\tdo\tdo\tVERB\tVBP\t_\t0\troot\t_\t_\n"
    "3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_\n"
    "3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t2:conj\t_\n"
    "4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_\n\n"
)
ROW = "{}\tw\t_\tX\tX\t_\t{}\tdep\t_\t_\n"


def rows(*pairs: tuple[object, object]) -> str:
    return "".join(ROW.format(name, head) for name, head in pairs) + "\n"


def read(text: str, **options: object) -> ArcBank:
    return read_arcs(io.StringIO(text), **options)


def test_everything_written_comes_out() -> None:
    bank = read(GOOD * 2)
    out = io.StringIO()
    assert sw.write_arcs(bank, out) == 2
    assert out.getvalue() == GOOD * 2
    assert bank[0].words == ("I", "do", "n't", ".")
    assert bank[0].heads == (2, 0, 2, 2)
    assert bank[1].xpos == ("PRP", "VBP", "RB", ".")


def test_the_last_sentence_needs_no_blank_line_and_others_may_have_more() -> None:
    assert len(read("\n\n" + GOOD + "\n\n" + GOOD.rstrip("\n"))) == 2
    assert len(read(GOOD.replace("\n", "\r\n"))) == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (rows((1, 2), (2, 1)), 1, "words 1 and 2 depend on each other in a cycle"),
        (rows((1, 0), (2, 0)), 2, "two roots: words 1 and 2"),
        (rows((1, 0), (2, "_")), 2, "word 2 has no head"),
        (rows((1, 0), (2, "x")), 2, "word 2 has the head 'x', expected a number"),
        (rows((1, 0), (2, "-1")), 2, "the head '-1'"),
        (rows((1, 0), (2, " 1")), 2, "the head ' 1'"),
        (rows((1, 0), (2, "1" * 5000)), 2, "expected a number"),
        (rows((1, 0), (2, "\u0661")), 2, "expected a number"),
        (rows((1, 0), (2, 3)), 2, "word 2 has the head 3, but the sentence has 2 words"),
        (rows((1, 0), (2, 2)), 2, "word 2 is its own head"),
        (rows((1, 0), (3, 1)), 2, "expected a row numbered 2, 2-N or 1.1, found '3'"),
        (rows((2, 0)), 1, "found '2'"),
        (rows(("0.2", "_"), (1, 0)), 1, "found '0.2'"),
        (rows((1, 0), ("2-1", "_"), (2, 1)), 2, "found '2-1'"),
        (rows(("1-3", "_"), (1, 0), (2, 1)), 1, "up to word 3, but only 2 words"),
        (rows(("1-2", "_"), (1, 0), ("2-3", "_"), (2, 1), (3, 1)), 3, "found '2-3'"),
        (rows(("1-1", "_")).replace("1-1", "0.1"), None, "without a word"),
        ("1\tdogs\tNOUN\t0\troot\n", 1, "expected 10 columns between tabs, found 5"),
        (rows((1, 0)).replace("\t", " "), 1, "found 1"),
        (rows((1, 0), (2, 1)).replace("\n2", "\n# x\n2"), 2, "a comment among the rows"),
        (rows((1, 0)).replace("\tw\t", "\t\t"), 1, "column 2 is empty"),
        ("(S (NP (NN dogs)))\n", 1, "expected 10 columns"),
        ("PK\x03\x04\0\0\0\n", 1, "expected 10 columns"),
    ],
)  # fmt: skip
def test_bad_sentences_are_refused_with_their_line(
    text: str, line: int | None, message: str
) -> None:
    for before, shift in (("", 0), (GOOD, 9)):
        with pytest.raises(CorpusError) as caught:
            read(before + text)
        error = caught.value
        assert message in error.message
        assert error.line == (line + shift if line else None)
        assert error.hint
    skipped: list[CorpusError] = []
    assert len(read(GOOD + text + "\n" + GOOD, skipped=skipped)) == 2
    assert [message in error.message for error in skipped] == [True]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (rows((1, 0)).replace("\t", " "), "put tabs"),
        ("(S (NP (NN dogs)))\n", "sapwood depend convert"),
        ("Dogs bark .\n", "--text"),
        ("PK\x03\x04\0\0\0\n", ".gz"),
    ],
)
def test_hints_know_what_people_bring(text: str, hint: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read(text)
    assert hint in (caught.value.hint or "")


def test_without_heads_columns_may_say_anything() -> None:
    bank = read(rows((1, "_"), (2, 99)), has_heads=False)
    assert bank.head.tolist() == [-1, -1]
    assert bank[0].words == ("w", "w")
    with pytest.raises(CorpusError, match="found '7'"):
        read(rows((7, "_")), has_heads=False)


def test_nothing_to_read_is_an_error() -> None:
    for text in ("", "\n\n", "# a comment alone\n\n"):
        with pytest.raises(CorpusError, match="no sentence found"):
            read(text)
        assert len(read(text, may_be_empty=True)) == 0
    for may_be_empty in (False, True):
        with pytest.raises(CorpusError, match="no sentence found"):
            read(rows((1, 7)), skipped=[], may_be_empty=may_be_empty)


def test_files_folders_globs_and_compression(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.conllu.gz").write_bytes(gzip.compress(GOOD.encode()))
    (tmp_path / "c.conll.xz").write_bytes(lzma.compress(("\ufeff" + GOOD).encode()))
    (tmp_path / "notes.md").write_text("no trees")
    left_out: list[str] = []
    assert len(read_arcs(tmp_path, left_out=left_out)) == 3
    assert [Path(name).name for name in left_out] == ["notes.md"]
    assert len(read_arcs(str(tmp_path / "*.conllu*"))) == 2
    assert len(read_arcs([tmp_path / "a.conllu", tmp_path / "b.conllu.gz"])) == 2
    with pytest.raises(CorpusError, match="no such file"):
        read_arcs(tmp_path / "missing.conllu")
    (tmp_path / "b.conllu.gz").write_bytes(gzip.compress(GOOD.encode())[:40])
    with pytest.raises(CorpusError, match="cannot read"):
        read_arcs(tmp_path / "b.conllu.gz")
    (tmp_path / "a.conllu").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(CorpusError, match="not UTF-8"):
        read_arcs(tmp_path / "a.conllu")


def test_a_sentence_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapwood.dependency.data.reader.MAX_CHARACTERS", 300)
    with pytest.raises(CorpusError, match="more than 300 characters"):
        read(rows(*((i, i - 1) for i in range(1, 40))))


def test_one_sentence_is_one_sentence() -> None:
    with pytest.raises(CorpusError, match="expected one sentence, found 2"):
        sw.Arcs.parse(GOOD * 2)
    with pytest.raises(sw.SapwoodError, match="expected CoNLL-U in a string"):
        sw.Arcs.parse(3)  # type: ignore[arg-type]


@pytest.mark.corpora
@pytest.mark.skipif(not corpus_files(), reason="SAPWOOD_DATA names no folder with CoNLL-U")
@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_files_come_out_byte_for_byte(path: Path) -> None:
    out = io.StringIO()
    sw.write_arcs(sw.read_arcs(path), out)
    assert out.getvalue().encode() == lzma.decompress(path.read_bytes())
