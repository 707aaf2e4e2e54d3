"""Every notation: what is read, what is said about broken trees, and how it is recognised."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.notations import (
    EXAMPLES,
    EXPORT,
    EXPORT_FUNCTIONS,
    FLORESTA,
    GAP,
    HISTORICAL,
    LEMMAS,
    NUMBERED,
    NUMBERED_TREE,
    PENN,
    SINICA,
    SINICA_ROLES,
    SINICA_TREES,
    TIGER,
    TIGER_TREE,
)

from sapwood.cli.options import FORMAT_NAMES
from sapwood.constituency.data.treebank import read_treebank
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.formats import (
    FORMATS,
    find_format,
    foreign_kind,
    read_lines,
    read_trees,
    recognise,
)
from sapwood.corpora.tree import Tree, clean


def read(text: str, format: str | None = None, **options: bool) -> list[str]:
    return [str(tree) for tree in read_trees(io.StringIO(text), format=format, **options)]


def read_around(text: str, format: str | None = None) -> tuple[list[str], list[CorpusError]]:
    skipped: list[CorpusError] = []
    trees = [str(tree) for tree in read_trees(io.StringIO(text), format=format, skipped=skipped)]
    return trees, skipped


def error_of(text: str, format: str | None = None) -> CorpusError:
    with pytest.raises(CorpusError) as caught:
        read(text, format)
    return caught.value


# -- what all of them share -----------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_is_recognised_and_read(name: str) -> None:
    text, trees = EXAMPLES[name]
    found = recognise(text)
    assert found is not None
    assert found.name == name
    assert read(text) == trees
    assert read(text, name) == trees
    assert read("\ufeff" + text) == trees


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("keep_functions", [False, True])
def test_brackets_read_back(name: str, keep_functions: bool) -> None:
    """What is written as brackets is recognised as such and gives the same trees."""
    written = read(EXAMPLES[name][0], keep_functions=keep_functions)
    text = "".join(f"{line}\n" for line in written)
    found = recognise(text)
    assert found is not None
    assert found.name == "penn"
    assert read(text) == written


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_is_cleaned_to_its_words(name: str) -> None:
    """Neither lemmas nor codes nor numbers are left when a treebank is made."""
    bank = read_treebank(io.StringIO(EXAMPLES[name][0]))
    trees = [clean(Tree.parse(text)) for text in EXAMPLES[name][1]]
    assert list(bank.trees()) == trees


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("other", EXAMPLES)
def test_a_wrong_format_is_named(name: str, other: str) -> None:
    """Either the text can be read so, or the error says what it looks like."""
    skipped: list[CorpusError] = []
    trees = list(read_trees(io.StringIO(EXAMPLES[name][0]), format=other, skipped=skipped))
    if not trees and skipped and other != name:
        assert f"this looks like {FORMATS[name].title}" in str(skipped[0])
        assert f"--format {name}" in str(skipped[0].hint)
        error = error_of(EXAMPLES[name][0], other)
        assert str(error) == str(skipped[0])


def test_wrong_formats_are_not_read_in_silence() -> None:
    for name, other in [("export", "penn"), ("penn", "export"), ("sinica", "tigerxml")]:
        assert "this looks like" in str(error_of(EXAMPLES[name][0], other))


def test_names() -> None:
    assert set(FORMAT_NAMES) == set(FORMATS)
    assert all(find_format(name).name == name for name in FORMATS)
    with pytest.raises(SapwoodError, match="no format of trees is called 'ptb'") as caught:
        find_format("ptb")
    assert "penn" in str(caught.value.hint)
    with pytest.raises(SapwoodError, match="no format"):
        read(PENN, "ptb")


@given(st.text(max_size=80), st.sampled_from(sorted(FORMATS)))
def test_no_text_breaks_a_reader(text: str, name: str) -> None:
    skipped: list[CorpusError] = []
    list(read_lines(io.StringIO(text), "x", name, skipped=skipped))
    assert all(error.file == "x" and error.hint for error in skipped)


@given(st.data())
def test_no_damage_breaks_a_reader(data: st.DataObject) -> None:
    """Cut out a piece of an example, put another in: trees or errors, with their places."""
    name = data.draw(st.sampled_from(sorted(EXAMPLES)))
    text = EXAMPLES[name][0]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    piece = data.draw(st.sampled_from(["", "(", ")", "\n", "|", ":", "#", "0", "<", '"', "#EOS\n"]))
    skipped: list[CorpusError] = []
    trees = list(
        read_lines(io.StringIO(text[:start] + piece + text[end:]), "x", name, skipped=skipped)
    )
    assert all(Tree.parse(str(tree)) == tree for tree in trees)
    assert all(error.file == "x" and error.hint for error in skipped)


# -- brackets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("%% comment\n# another\n(S (X a))", "penn"),
        ("// comment\n(S (X a))", "penn"),
        ("(S (NP a b))", "penn"),  # one such leaf is a mistake, not a lemma
        ("(S (X a) (NP a b) (NP c d) (NP e f) (NP g h) (Y i) (Z j))", "penn"),
        ("(S (X a) (ID b))", "penn"),  # a tag that happens to be called so
        ("(S (NP+X a) (ADV+Q b))", "penn"),
        ("(A 1=x)", "discbracket"),
        ("(A 1=x) (B b)", "penn"),
    ],
)
def test_dialects_of_brackets(text: str, name: str) -> None:
    found = recognise(text)
    assert found is not None
    assert found.name == name


def test_floresta_functions_go_behind() -> None:
    (tree,) = read(FLORESTA, keep_functions=True)
    assert tree.startswith("(fcl-STA (np-SUBJ (art->N O) (n-H padeiro)) (v-fin-P canta)")
    assert "(pp-N</ADVL[-1] (prp-H em) (n-P< casa))" in tree


def test_floresta_columns_stay_right() -> None:
    error = error_of("(STA+fcl (() (H+n))", "floresta")
    assert (error.line, error.column) == (1, 18)
    assert "expected a word or a tree after '(H+n'" in error.message


def test_lemmas_need_their_format() -> None:
    """Without lemmas on nearly all words, a hyphen belongs to the word."""
    assert "(N mother-in)" in read(HISTORICAL, "psd-lemmas")[0]
    assert "(VBPI syngur-syngja)" in read(LEMMAS, "psd")[0]


def test_comment_blocks_keep_lines_and_columns() -> None:
    text = "/*\n( */  (X a)\n( (IP (A ) ) (ID x,1))\n"
    trees, skipped = read_around(text, "psd")
    assert trees == ["(X a)"]
    assert (skipped[0].line, skipped[0].column) == (3, 10)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "0=the 2=sings 1=cook",
            "not supported: discontinuous (word 2, 'sings', stands at place 1)",
        ),
        ("0=the cook 2=sings", "expected a leaf (tag 1=word), found 'cook'"),
    ],
)
def test_numbered_words_out_of_order(words: str, expected: str) -> None:
    a, b, c = words.split()
    text = f"{NUMBERED}(S (A {a}) (VP (B {b}) (C {c})))\n{NUMBERED}"
    trees, skipped = read_around(text, "discbracket")
    assert trees == [NUMBERED_TREE] * 2
    assert [(error.line, error.message) for error in skipped] == [(2, expected)]


# -- export and TIGER-XML -------------------------------------------------------------------------


def test_functions_of_export() -> None:
    assert read(EXPORT, keep_functions=True) == [EXPORT_FUNCTIONS]


def test_versions_of_export() -> None:
    """Without a header the number of columns tells whether there are lemmas."""
    three = "#BOS 1\nJa\tITJ\t--\t--\t0\n#EOS 1\n"
    four = "#BOS 1\nJa\tja\tITJ\t--\t--\t0\n#EOS 1\n"
    assert read(three) == read(four) == read(three.replace("\t", "   ")) == ["(ITJ Ja)"]


def test_a_discontinuous_tree_is_named_and_skipped() -> None:
    error = error_of(GAP)
    assert (error.file, error.line) == ("<text>", 1)
    assert error.message == "not supported: discontinuous (VP 500 has a gap, 'Brot' to 'gebacken')"
    assert "--skip-bad" in str(error.hint)
    whole = GAP.replace("Brot\tNN\t--\tOA\t500", "Brot\tNN\t--\tOA\t501")
    trees, skipped = read_around(whole + GAP + whole)
    assert trees == ["(S (NN Brot) (VAFIN hat) (PPER sie) (VP (VVPP gebacken)))"] * 2
    assert [error.line for error in skipped] == [9]


def lines_of(*rows: str) -> str:
    return "#BOS 1\n" + "".join(row.replace(" ", "\t") + "\n" for row in rows) + "#EOS 1\n"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (lines_of("a X -- -- 500"), 1, "expected a phrase 500, the parent of 'a'"),
        (lines_of("a X -- -- 500", "#500 S -- -- 501", "#501 S -- -- 500"), 1, "is below itself"),
        (lines_of("a X -- -- 0", "#500 S -- -- 0"), 1, "expected words below phrase 500 (S)"),
        (lines_of(), 1, "expected a sentence with words"),
        (lines_of("a X --"), 2, "expected 5 columns, found 3"),
        (lines_of("a X -- -- here"), 2, "expected the number of a parent, found 'here'"),
        (lines_of("a X -- -- 500", "#500 S -- -- 0", "#500 S -- -- 0"), 4, "one phrase #500"),
        ("#BOS 1\na\tX\t--\t--\t0\n", 1, "the text ended first"),
        ("#BOS 1\n#BOS 2\n", 1, "found #BOS in line 2"),
        ("#FORMAT 3\nstray\n", 2, "expected #BOS to start a sentence, found 'stray'"),
    ],
)
def test_errors_of_export(text: str, line: int, expected: str) -> None:
    error = error_of(text, "export")
    assert error.line == line
    assert expected in error.message
    assert error.hint
    trees, skipped = read_around(text + lines_of("ja X -- -- 0"), "export")
    assert trees == ["(X ja)"]
    assert skipped


def test_functions_of_tiger_xml() -> None:
    assert read(TIGER, keep_functions=True) == [
        "(VROOT (NP (NN-NK Brot) ($, ,) (CARD-NK 10_000)) ($-LRB- -LRB-))"
    ]


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ('word="Brot" ', "", 5, "expected word in <t>, found id, lemma, pos, morph"),
        (' cat="NP"', "", 11, "expected cat in <nt>"),
        ('idref="s1_2"', 'idref="s1_9"', 3, "expected s1_9, to which an edge points"),
        ('idref="s1_2"', 'idref="s1_1"', 13, "expected one parent for s1_1"),
        ('idref="s1_3"', 'idref="s1_4"', 13, "expected one parent for s1_4"),
        ("</terminals>", "</terminal>", 9, "expected XML, found mismatched tag"),
        ("</corpus>", "", 16, "expected XML, found no element found"),
    ],
)
def test_errors_of_tiger_xml(old: str, new: str, line: int, expected: str) -> None:
    error = error_of(TIGER.replace(old, new), "tigerxml")
    assert error.line == line
    assert expected in error.message
    assert error.hint
    _, skipped = read_around(TIGER.replace(old, new), "tigerxml")
    assert str(skipped[0]) == str(error)


def test_sentences_behind_a_bad_one_are_read() -> None:
    sentence = TIGER[TIGER.index("<s ") : TIGER.index("</s>") + 4]
    text = TIGER.replace("</body>", sentence + "</body>").replace('word="Brot" ', "", 1)
    trees, skipped = read_around(text)
    assert trees == [TIGER_TREE]
    assert len(skipped) == 1


def test_xml_without_sentences() -> None:
    assert "expected sentences <s>" in str(error_of("<corpus></corpus>"))


def test_xml_names_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    text = TIGER.replace("UTF-8", "ISO-8859-1").replace("Brot", "Brötchen")
    path.write_bytes(text.encode("latin-1"))
    assert next(read_trees(path)).words()[0] == "Brötchen"


# -- Sinica ---------------------------------------------------------------------------------------


def test_roles_of_sinica() -> None:
    assert read(SINICA, keep_functions=True) == SINICA_ROLES


def test_marks_of_sinica() -> None:
    text = "S(Head:Na:麵)#。(PERIODCATEGORY)」(PARENTHESISCATEGORY)"
    assert read(text) == ["( (S (Na 麵)) (PERIODCATEGORY 。) (PARENTHESISCATEGORY 」))"]
    assert read("S(Head:Na:麵)#") == read("#3:1.[0] S(Head:Na:麵)") == ["(S (Na 麵))"]


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("S(Head:Na:麵", 12, "expected 1 more ')'"),
        ("S(Head:Na:麵|)|x", 13, ""),
        ("%()", 3, "expected a word in %()"),
        ("S(麵|Head:Na:湯)", 3, "expected role:tag:word, found '麵'"),
        ("S(a:b:NP(Head:Na:麵))", 3, "expected a label or role:label before '('"),
        ("no clause", 1, "expected a clause LABEL(...)"),
        (")", 1, ""),
    ],
)
def test_errors_of_sinica(text: str, column: int, expected: str) -> None:
    trees, skipped = read_around(f"{SINICA}{text}\n{SINICA}", "sinica")
    assert trees[:2] == trees[-2:] == SINICA_TREES
    if expected:
        assert [(error.line, error.column) for error in skipped] == [(3, column)]
        assert expected in skipped[0].message
    else:
        assert len(trees) + len(skipped) == 5


# -- what holds no trees --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# text = x\n1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n", "CoNLL-U"),
        ("1-2\tDu\t_\t_\t_\t_\t_\t_\t_\t_\n", "CoNLL-U"),
        ('{"tree": "(S (X a))"}\n', "JSON"),
        ('["a"]', "JSON"),
        ("<TEI><text/></TEI>", "XML, but not TIGER-XML"),
        ("The cook sings .\nAnd eats .\n", "plain sentences"),
        ("The\tDT\tx\n", "a table of words"),
        ("PK\x03\x04\x00\x00", "a binary file"),
    ],
)
def test_other_texts_are_named(text: str, title: str) -> None:
    error = error_of(text)
    assert f"this looks like {title}" in error.message
    assert error.hint
    assert error.line is not None
    trees, skipped = read_around(text)
    assert trees == []
    assert title in skipped[0].message


def test_a_broken_treebank_is_not_called_something_else() -> None:
    assert "looks like" not in str(error_of(f"{PENN}word\n"))
    assert "looks like" not in str(error_of("(S (X a)"))
    assert foreign_kind("") is None
    assert foreign_kind("(S") is None


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["a.mrg", "a.MRG", "a.parse", "a.psd", "a.prd", "a.tree", "a.trees", "a.txt", "a.ptb", "a.tbf"],
)
def test_endings_in_folders(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PENN)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.export").write_text(EXPORT)
    (tmp_path / "c.XML").write_text(TIGER)
    assert len(list(read_trees(tmp_path))) == 3


def test_files_left_out_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text(PENN)
    (tmp_path / "b.doc").write_text("x")
    (tmp_path / "README.txt").write_text("Read me first.")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "other.xml").write_text("<TEI/>")
    (tmp_path / ".hidden").write_text("x")
    left_out: list[str] = []
    assert len(list(read_trees(tmp_path, left_out=left_out))) == 1
    assert sorted(Path(name).name for name in left_out) == [
        "README.txt",
        "b.doc",
        "latin.txt",
        "other.xml",
    ]


@pytest.mark.parametrize(
    ("text", "encoding", "hint"),
    [
        ("(S (X café))", "latin-1", "--encoding latin-1"),
        ("(S (NP (DT the) (JJ small) (NN “café”)))", "windows-1252", "--encoding windows-1252"),
        ("(S (X 麵))", "utf-16", "--encoding utf-16"),
        ("(S (NP (N 麵包師傅)) (VP (V 唱歌跳舞)))", "gb18030", "--encoding gb18030"),
    ],
)
def test_encodings(tmp_path: Path, text: str, encoding: str, hint: str) -> None:
    path = tmp_path / "x.mrg"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(CorpusError, match="not UTF-8 text") as caught:
        list(read_trees(path))
    assert hint in str(caught.value.hint)
    assert [str(tree) for tree in read_trees(path, encoding=encoding)] == [text]


def test_encodings_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.mrg"
    path.write_bytes("(S (X café))".encode())
    with pytest.raises(SapwoodError, match="no encoding is called 'klingon'"):
        list(read_trees(path, encoding="klingon"))
    with pytest.raises(CorpusError, match="not ascii text"):
        list(read_trees(path, encoding="ascii"))
    with pytest.raises(CorpusError, match="not utf-16"):
        list(read_trees(path, encoding="utf-16"))


def test_compressed_and_encoded(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "X.MRG.GZ"
    path.write_bytes(gzip.compress("(S (X café))".encode("latin-1")))
    assert next(read_trees(path, encoding="latin-1")).words() == ["café"]


# -- sizes ----------------------------------------------------------------------------------------

MANY = 20_000
LARGE = {
    "export": lines_of(*["a X -- -- 500"] * MANY, "#500 S -- -- 0"),
    "deep export": lines_of(
        *(f"a X -- -- {500 + n}" for n in range(MANY // 2)),
        *(f"#{500 + n} S -- -- {501 + n if n < MANY // 2 - 1 else 0}" for n in range(MANY // 2)),
    ),
    "sinica": "S(" + "|".join(["Head:Na:x"] * MANY) + ")",
    "deep sinica": "S(a:" * MANY + "N:x" + ")" * MANY,
    "floresta": "(STA+fcl " + "(H+n x) " * MANY + "(,))",
    "deep psd": "( " + "(IP-MAT " * MANY + "(N x)" + ")" * MANY + " (ID x,1))",
    "comments": "# x\n" * MANY + "(X a)",
    "blank lines": "\n" * MANY + "(X a)",
    "no clause": "(" + "a:" * MANY,
    "no sentence": "#BOS 1\n" * MANY,
    "broken xml": "<corpus>" + "<s>" * MANY,
}


@pytest.mark.parametrize("name", LARGE)
def test_size_is_no_limit(name: str) -> None:
    last = name.rpartition(" ")[2]
    format = last if last in FORMATS else None
    start = time.process_time()
    list(read_lines(io.StringIO(LARGE[name]), "x", format, skipped=[]))
    # Linear reading takes well below a second; a quadratic step takes half a minute.
    assert time.process_time() - start < 4


def test_marks_of_sinica_are_looked_for_once() -> None:
    """From every place of a line to its end would take hours for this one."""
    line = "S(Head:VA:x)#" + "9" * 300_000 + "(PERIODCATEGORY"
    assert read(line, "sinica") == ["(S (VA x))"]
    assert read("S(Head:VA:x)#((PARENTHESISCATEGORY)", "sinica") == [
        "( (S (VA x)) (PARENTHESISCATEGORY -LRB-))"
    ]


def test_control_characters_belong_to_their_words() -> None:
    """Python splits text at the separators of teletypes as well; brackets do not."""
    export = "#BOS 1\n\x1c\tXY\t--\t--\t0\na\x1cb\tXY\t--\t--\t0\n#EOS 1\n"
    (text,) = read(export, "export")
    assert Tree.parse(text).words() == ["\x1c", "a\x1cb"]


@pytest.mark.parametrize("encoding", ["base64", "rot13", "undefined"])
def test_encodings_that_are_not_of_text(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "trees.xml"
    path.write_text(TIGER.replace("UTF-8", encoding))
    with pytest.raises(SapwoodError, match=f"no encoding is called '{encoding}'"):
        list(read_trees(path))
    with pytest.raises(SapwoodError, match=f"no encoding is called '{encoding}'"):
        list(read_trees(path, encoding=encoding))
