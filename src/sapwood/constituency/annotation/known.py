"""The accepted phrase trees of a project: their names, examples of labels, and inconsistencies."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from sapwood.annotation.seen import SeenAnnotations
from sapwood.constituency.annotation.given import UNKNOWN_TAG, TreeLayout
from sapwood.constituency.annotation.guideline import add_tree, label_examples, tree_variations
from sapwood.corpora.tree import Tree

N_WARNINGS = 5  # that are shown of one tree


class KnownTrees:
    """Accepted trees, added and removed one at a time; no other tree is read then.

    Attributes
    ----------
    labels
        How often each label of a phrase was used.
    tags
        How often each tag was used.
    """

    def __init__(self) -> None:
        self.labels: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self._of_word: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._trees: dict[str, Tree] = {}
        self._seen = SeenAnnotations()

    def put(self, sentence_id: str, text: str | None) -> None:
        """Add the tree of a sentence in place of the old one; None for no tree."""
        old = self._trees.pop(sentence_id, None)
        if old is not None:
            self._count(old, -1)
            self._seen.remove(sentence_id)
        if text is not None:
            tree = self._trees[sentence_id] = Tree.parse(text)
            self._count(tree, 1)
            add_tree(self._seen, sentence_id, tree)

    def _count(self, tree: Tree, sign: int) -> None:
        layout = TreeLayout.of(tree)
        for *_, label in layout.phrases():
            self.labels[label] += sign
        for word, tag in zip(layout.words, layout.tags, strict=True):
            self.tags[tag] += sign
            self._of_word[word][tag] += sign
        self.labels, self.tags = +self.labels, +self.tags

    def tags_of(self, word: str) -> Counter[str]:
        """How often a word has each tag."""
        return +self._of_word.get(word, Counter[str]())

    def usual_tag(self, word: str) -> str:
        """The commonest tag of a word; that of unknown words where it has none."""
        found = self.tags_of(word)
        return found.most_common(1)[0][0] if found else UNKNOWN_TAG

    def warnings(self, sentence_id: str, text: str) -> list[dict[str, Any]]:
        """Spans of a tree whose words were annotated otherwise before, for the page."""
        tree = Tree.parse(text)
        words = tree.words()
        return [
            {
                "kind": "inconsistent", "text": one.text(words), "start": one.start,
                "end": one.end,
                "examples": [
                    {
                        "id": place.id, "label": place.annotation, "start": place.start,
                        "end": place.end, "text": " ".join(self._trees[place.id].words()),
                    }
                    for place in one.examples
                ],
            }
            for one in tree_variations(self._seen, tree, sentence_id)[:N_WARNINGS]
        ]  # fmt: skip

    def examples(self, label: str, *, is_tag: bool) -> dict[str, Any]:
        """Places where a label was used: `label`, `n` and `examples`."""
        return label_examples(dict(self._trees), label, is_tag=is_tag)
