"""What audits read: treebanks with places, finished folds, and decisions with their parts."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.fuzz import seeds

import sapwood as sw
from sapwood.auditing.decisions import FORMAT, apply_decisions, read_decisions
from sapwood.auditing.folds import FinishedFolds
from sapwood.constituency.audit.corrections import BracketCorrector
from sapwood.constituency.audit.located import annotation_of
from sapwood.constituency.audit.parts import edits_between
from sapwood.corpora.tree import Tree, clean
from sapwood.dependency.audit.corrections import ArcCorrector
from sapwood.dependency.audit.located import Annotation, read_located
from sapwood.dependency.audit.posteriors import Judgement, pack_judgements, unpack_judgements

PLACE = "@"  # stands for the audited file
ARCS = str(sw.Arcs(["we", "see", "dogs", "now"], [2, 0, 2, 3], ["obj", "root", "obj", "amod"]))
NEW_ARCS = str(sw.Arcs(["we", "see", "dogs", "now"], [2, 0, 2, 2], ["nsubj", "root", "obj", "x"]))
CONLLU = f"# text = we see dogs now\n{ARCS}\n\n"
ANNOTATED = "(TOP (S (NP (PRP we)) (VP (VBP see) (NP (NP (NNS dogs)) (ADVP (RB now))))))"
SUGGESTED = "(TOP (S (NP (PRP we)) (VP (VB see) (NP (NNS dogs)) (ADVP (RB now)))))"
BRACKETS = "( (S (NP-SBJ (PRP we))\n     (VP (VBP see) (NP (NP (NNS dogs)) (ADVP (RB now))))) )\n"


def _decisions(text: str, line: int, old: str, new: str, parts: list[dict[str, Any]]) -> str:
    made = ("accept", "reject", "accept")
    one = {
        "id": "f", "file": PLACE, "line": line, "tree": 1, "decision": "accept",
        "annotated_tree": old, "suggested_tree": new,
        "parts": [part | {"decision": way} for part, way in zip(parts, made, strict=False)],
    }  # fmt: skip
    files = {PLACE: sha256(text.encode()).hexdigest()}
    return json.dumps({"sapwood": FORMAT, "files": files, "decisions": [one]})


def _arc_parts() -> list[dict[str, Any]]:
    relation = {"words": [1], "heads": [2], "relations": ["nsubj"], "tag": None}
    head = {"words": [4], "heads": [2], "relations": ["x"], "tag": None}
    tag = {"words": [3], "heads": [], "relations": [], "tag": "NOUN"}
    return [
        {"kind": kind, "edit": edit}
        for kind, edit in (("relation", relation), ("head", head), ("tag", tag))
    ]


def _bracket_parts() -> list[dict[str, Any]]:
    trees = [clean(Tree.parse(text)) for text in (ANNOTATED, SUGGESTED)]
    edits = edits_between(*(annotation_of(tree) for tree in trees if tree is not None))
    return [{"kind": edit.kind, "edit": edit.as_dict()} for edit in edits]


ARC_DECISIONS = _decisions(CONLLU, 2, ARCS, NEW_ARCS, _arc_parts())
TREE_DECISIONS = _decisions(BRACKETS, 1, ANNOTATED, SUGGESTED, _bracket_parts())


def read_places(data: bytes, folder: Path) -> None:
    """Sentences of CoNLL-U with their lines, strictly or not: they are what `read_arcs` reads."""
    path = folder / "input.conllu"
    path.write_bytes(data)
    found = read_located(path, skip_bad=len(data) % 2 == 1)
    arcs = sw.read_arcs(path, skipped=[] if len(data) % 2 else None)
    assert [one.words for one in found.sentences] == [one.words for one in arcs]


def apply_to(text: str, data: bytes, folder: Path) -> None:
    """Decisions on a file: what is written differs from it in accepted trees alone."""
    file, decisions = folder / "audited", folder / "decisions.json"
    file.write_text(text, encoding="utf-8")
    decisions.write_bytes(data.replace(f'"{PLACE}"'.encode(), json.dumps(str(file)).encode()))
    correct = ArcCorrector() if text is CONLLU else BracketCorrector()
    out = folder / "corrected"
    out.unlink(missing_ok=True)
    try:
        done = apply_decisions(*read_decisions(decisions), correct, out=out)
    finally:
        assert file.read_text(encoding="utf-8") == text
    if done and text is CONLLU:
        made = read_located(out).sentences
        assert [one.words for one in made] == [("we", "see", "dogs", "now")]
    elif done:
        (tree,) = sw.read_trees(out)
        assert tree.words() == ["we", "see", "dogs", "now"]


@cache
def fold() -> bytes:
    """The judgement of one sentence, as a finished fold keeps it."""
    best = Annotation(("PRON", "VERB"), (2, 0), ("nsubj", "root"))
    row = ({"nsubj": 0.5, "obj": 0.25}, {"root": 1.0})
    heads = ({2: 0.75, 0: 0.25}, {0: 1.0})
    tags = ({"PRON": 1.0}, {"VERB": 0.5, "NOUN": 0.5})
    return pack_judgements([Judgement(heads, row, tags, best, (2, 0), row)])


def read_fold(data: bytes, folder: Path) -> None:
    """A finished fold: whole, or refused."""
    (folder / "fold-1.npz").write_bytes(data)
    found = FinishedFolds(folder, {}).load(0, unpack_judgements)
    assert found is not None
    assert len(found[0].heads) == len(found[0].best.heads)


PLACES = (seeds.CONLLU, seeds.ARCS, CONLLU)
