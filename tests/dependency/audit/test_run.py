"""The audit of dependency trees as a whole, on a small language of our own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.dependency.audit.located import read_located
from sapwood.dependency.audit.run import ArcAuditSettings, audit_sentences
from sapwood.dependency.data.bank import Arcs
from sapwood.execute import Threads
from sapwood.execute.processes import Processes

SETTINGS = ArcAuditSettings(folds=2, fast=True, planted_least=150, most_copies=3)
WRONG = 17  # the sentence with an error, from 0 on


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A treebank in which one sentence has a wrong head and another a wrong tag."""
    sentences = list(bank(90, seed=3))
    one = sentences[WRONG]
    first = one.relations.index("det")
    heads = list(one.heads)
    heads[first] = one.heads.index(0) + 1
    sentences[WRONG] = replace(one, heads=tuple(heads), rows=())
    other = sentences[40]
    sentences[40] = replace(other, upos=("VERB", *other.upos[1:]), rows=())
    path = tmp_path_factory.mktemp("audit") / "toy.conllu"
    sw.write_arcs(sentences, path)
    return path


def test_planted_errors_are_found(file: Path) -> None:
    found = audit_sentences(read_located(str(file)), SETTINGS, Threads(1))
    best = {one.tree: one for one in found.findings[:4]}
    first, second = best[WRONG + 1], best[41]
    assert first.kind == "head"
    assert (second.kind, second.start, second.annotated, second.suggested) == (
        "tag", 0, "VERB", "DET"
    )  # fmt: skip
    old, new = Arcs.parse(first.annotated_tree), Arcs.parse(first.suggested_tree)
    assert [k for k in range(len(old)) if old.heads[k] != new.heads[k]] == [first.start]
    assert found.trust.trees == 90
    assert found.trust.recall["all"] > 0.6
    assert list(found.files) == [str(file)]
    lines = file.read_text().split("\n")
    assert lines[first.line - 1].split("\t")[1] == first.words[0]
    again = audit_sentences(read_located(str(file)), SETTINGS, Processes(2))
    assert again == found


def test_few_sentences_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "few.conllu"
    sw.write_arcs(list(bank(3, seed=1)), path)
    with pytest.raises(CorpusError, match="at least 10 sentences, but there are 3"):
        audit_sentences(read_located(str(path)), SETTINGS)


def test_documents_and_broken_sentences(tmp_path: Path) -> None:
    arcs = str(Arcs(["a", "b"], [2, 0]))
    text = f"{arcs}\n\n# newdoc\n{arcs}\n\n1\tx\n\n#newdoc id = 3\n{arcs}\n\n# newdocx\n{arcs}\n\n"
    path = tmp_path / "a.conllu"
    path.write_text(text)
    with pytest.raises(CorpusError, match="10 columns"):
        read_located(str(path))
    found = read_located(str(path), skip_bad=True)
    assert found.document_starts == [0, 1, 2]
    assert [one.number for one in found.sentences] == [1, 2, 3, 4]
    assert [one.line for one in found.sentences] == [1, 5, 11, 15]
    assert [error.line for error in found.skipped] == [8]
