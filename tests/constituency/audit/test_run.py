"""What an audit says of treebanks that cannot show much, and the parts of its findings."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

import sapwood as sw
from sapwood.auditing.findings import Audit
from sapwood.core.errors import CorpusError

SMALL: dict[str, Any] = {
    "fast": True, "folds": 2, "plan": (sw.Candidate("spectral", 2),), "planted_least": 100,
    "most_copies": 3,
}  # fmt: skip


def trees(n: int) -> list[sw.Tree]:
    """Some bundled trees."""
    bank = sw.bundled_treebank("dev")
    return [bank[k] for k in range(n)]


def notes_of(audit: Audit) -> str:
    """All notes of an audit."""
    return "\n".join(audit.trust.notes)


def test_two_files_are_too_few_documents_and_few_trees_cannot_be_trusted(tmp_path: Path) -> None:
    paths = []
    for name, some in (("a", trees(30)[:14]), ("b", trees(30)[14:])):
        paths.append(tmp_path / f"{name}.mrg")
        paths[-1].write_text("\n".join(map(str, some)) + "\n")
    found = sw.audit([str(path) for path in paths], **SMALL)
    assert "2 files are too few for 2 folds of whole documents" in notes_of(found)
    assert "30 trees are too few for a list that can be trusted" in notes_of(found)
    assert found.trust.precision_at_100 is None
    assert {one.file for one in found.findings} <= set(map(str, paths))


def test_trees_whose_words_never_repeat_are_not_compared_with_each_other() -> None:
    words = (f"w{k}" for k in count())
    unique = [sw.Tree.parse(str(tree)) for tree in trees(20)]
    renamed = [_renamed(tree, words) for tree in unique]
    found = sw.audit(renamed, **SMALL)
    assert "No words are repeated in the same context" in notes_of(found)
    assert not any(one.elsewhere for one in found.findings)
    assert not any(part.kind == "variation" for one in found.findings for part in one.parts)


def _renamed(tree: sw.Tree, words: Any) -> sw.Tree:
    if tree.is_preterminal:
        return sw.Tree(tree.label, [next(words)])
    return sw.Tree(tree.label, [_renamed(kid, words) for kid in tree])


@pytest.mark.parametrize("n", [1, 9])
def test_too_few_trees_are_refused_with_the_number_that_is_needed(n: int) -> None:
    with pytest.raises(CorpusError, match=f"at least 10 trees, but there are {n}"):
        sw.audit(trees(n), **SMALL)


def test_a_given_error_rate_is_taken_and_parts_are_from_the_best_down() -> None:
    found = sw.audit(trees(25), error_rate=0.03, **SMALL)
    assert found.trust.error_rate == 0.03
    assert found.trust.repeated is None
    for one in found.findings:
        assert [p.score for p in one.parts] == sorted((p.score for p in one.parts), reverse=True)
        assert sw.Tree.parse(one.suggested_tree).words() == list(one.words)
