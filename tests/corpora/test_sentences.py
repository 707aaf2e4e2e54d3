"""Sentences of treebanks: brackets and CoNLL-U."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.corpora.sentences import read_sentences

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
    assert list(read_sentences(io.StringIO(CONLLU))) == [["à", "le", "lit"], ["New_York"]]


def test_a_broken_line_is_named() -> None:
    with pytest.raises(
        sw.CorpusError, match="<text>:8: expected a line of CoNLL-U, found 'no tabs'"
    ):
        list(read_sentences(io.StringIO(CONLLU.replace("\n\n", "\nno tabs\n"))))


def test_trees_keep_their_number() -> None:
    text = "# a comment\n(S (NN a)\n (NN b))\n(X (-NONE- *))\n(S (NN c))"
    assert list(read_sentences(io.StringIO(text))) == [["a", "b"], [], ["c"]]


def test_files_of_both_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.mrg").write_text("(S (NN a) (NN b))\n")
    (tmp_path / "b.conllu").write_text(CONLLU)
    assert [words[0] for words in read_sentences(tmp_path)] == ["a", "à", "New_York"]


def test_nothing(tmp_path: Path) -> None:
    assert list(read_sentences(io.StringIO(""))) == []
    assert list(read_sentences(io.StringIO("\n# x\n"))) == []
