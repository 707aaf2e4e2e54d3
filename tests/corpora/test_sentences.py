"""Sentences of treebanks, and what a text holds: sentences are never taken for something else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.corpora.sentences import find_untokenised, kind_of, read_tree_words
from sapwood.corpora.tokenize import PennTokenizer

CONLLU = """\
# newdoc
# text = au lit
1-2\tau\t_\t_\t_\t_\t_\t_\t_\t_
1\tà\tà\tADP\t_\t_\t3\tcase\t_\t_
2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_
3\tlit\tlit\tNOUN\t_\t_\t0\troot\t_\t_
3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_

# text = New York
1\tNew York\t_\tPROPN\t_\t_\t0\troot\t_\t_
"""


def test_conllu_words() -> None:
    assert list(read_tree_words(io.StringIO(CONLLU))) == [["à", "le", "lit"], ["New_York"]]


def test_a_broken_line_is_named() -> None:
    with pytest.raises(
        sw.CorpusError, match="<text>:8: expected a line of CoNLL-U, found 'no tabs'"
    ):
        list(read_tree_words(io.StringIO(CONLLU.replace("\n\n", "\nno tabs\n"))))


def test_trees_keep_their_number() -> None:
    text = "# a comment\n(S (NN a)\n (NN b))\n(X (-NONE- *))\n(S (NN c))"
    assert list(read_tree_words(io.StringIO(text))) == [["a", "b"], [], ["c"]]


def test_files_of_both_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("(S (NN a) (NN b))\n")
    (tmp_path / "b.conllu").write_text(CONLLU)
    assert [words[0] for words in read_tree_words(tmp_path)] == ["a", "à", "New_York"]


def test_nothing(tmp_path: Path) -> None:
    assert list(read_tree_words(io.StringIO(""))) == []
    assert list(read_tree_words(io.StringIO("\n# x\n"))) == []


ROW = "1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_"


@pytest.mark.parametrize(
    "line",
    [
        "the dog sleeps .", "( Applause . )", "( ( He left ) )", "(He left.)", "(I (the man) left)",
        "(He left.) (She stayed.)", "-LRB- x -RRB-", "# 1 song of the year", "1 dog", "1\tdog",
        "{ x }", '{"', "()", ")", "( )", "(a b", "# text", ") (",
    ],
)  # fmt: skip
def test_sentences(line: str) -> None:
    assert kind_of([line]) == "sentences" or line.startswith("# text")


@pytest.mark.parametrize(
    "lines",
    [
        ["(TOP (S (NP (DT the) (NN dog)) (. .)))"],
        ["( (S (NP-SBJ (DT The) (NN dog))"],
        ["( (S "],
        ["(S (NP (DT the"],
        ["(TOP", "  (S", "    (NP (NN x"],
        ["(", "(S (NN a))"],
        ["(sn.e-SUJ (espec.fs (da0fs0 La))"],
        ["((S (NN a)))"],
    ],
)
def test_trees(lines: list[str]) -> None:
    kinds = [kind_of(lines[:n]) for n in range(1, len(lines) + 1)]
    assert kinds[-1] == "trees"
    assert not {"sentences", "conllu"} & set(kinds)


def test_conllu_and_json() -> None:
    assert kind_of(["# sent_id = 1\n", "# text = Dogs\n", ROW]) == "conllu"
    assert kind_of([ROW.replace("1", "1-2", 1)]) == "conllu"
    assert kind_of(['{"tree": "(TOP (NN dog))"}']) == "json"


def test_nothing_yet() -> None:
    assert [kind_of(lines) for lines in ([], ["\n"], ["# newdoc id = x"], ["(TOP"], ["("])] == [
        None
    ] * 5


@given(st.from_type(sw.Tree))
def test_written_trees_are_trees(tree: sw.Tree) -> None:
    if all(node.label for node in tree.nodes()):
        assert kind_of([f"{sw.Tree('TOP', [tree])}"]) == "trees"


@given(st.lists(st.sampled_from(["the", "dog", "(", ")", "#", "1", "{", "-LRB-", "."])))
def test_tokenised_sentences_are_never_something_else(words: list[str]) -> None:
    assert kind_of([" ".join(words)]) in {None, "sentences"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("I don't .", [("don't", "n't")]),
        ('" Yes', []),
        ('"Yes .', [('"Yes', "``")]),
        ("dogs' .", [("dogs'", "'")]),
        ("well-known .", []),
        ("Mr. Lee .", []),
        ("the X. Y .", []),
        ("the dog; no", []),  # the vocabulary has no semicolon
        ("(so", [("(so", "-LRB-")]),
    ],
)
def test_untokenised(line: str, expected: list[tuple[str, str]]) -> None:
    words = ["the", "of", "n't", ".", "``", "''", "'", "-LRB-"]
    assert find_untokenised(line.split(), PennTokenizer(words)) == expected


def test_no_sentence_of_the_bundled_treebank_is_called_untokenised() -> None:
    tokenizer = PennTokenizer(sw.bundled_grammar().lexicon.words)
    for tree in sw.bundled_treebank("dev").trees():
        assert not find_untokenised(tree.words(), tokenizer)


@pytest.mark.corpora
@pytest.mark.parametrize(
    "name",
    ["ptb_nltk_sample", *(pytest.param(x, marks=pytest.mark.slow) for x in ("craft", "icepahc"))],
)
def test_hardly_a_sentence_of_real_treebanks_is_called_untokenised(
    corpora: Path, name: str
) -> None:
    bank = sw.read_treebank(corpora / name / "train.mrg.xz")
    tokenizer = PennTokenizer(bank.inventory.words)
    dev = [tree.words() for tree in sw.read_treebank(corpora / name / "dev.mrg.xz").trees()]
    assert sum(bool(find_untokenised(words, tokenizer)) for words in dev) <= 0.01 * len(dev)
    assert {kind_of([" ".join(words)]) for words in dev} == {"sentences"}


def test_braces_nested_without_end_are_a_sentence() -> None:
    assert kind_of(['{"x": ' + "[" * 100_000]) == "sentences"


def test_empty_brackets_without_end_are_told_at_once() -> None:
    """There are 2^2000 ways to read the blanks of this one; a wrong end asks for all of them."""
    assert kind_of(["(S (X x) " + "( )" * 2000 + "B"]) == "sentences"
    assert kind_of(["(S (X x) " + "( )" * 2000]) == "trees"
