"""Start models: a model of other trees whose labels are mapped to those of the project.

A map gives new names for labels: `{"NP": "GN", "PRT": None}` calls a noun phrase `GN` and removes
brackets called `PRT`. Labels that it does not mention stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sapwood.constituency.annotation.grammar import AnnotationGrammar
from sapwood.constituency.parse.parser import Parser
from sapwood.core.errors import SapwoodValueError, join_words
from sapwood.core.model_files import FileContents, read_model
from sapwood.corpora.tree import ROOT, Tree

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model

LabelMap = Mapping[str, str | None]
_SYMBOLS = ("phrases", "tags")  # entries of a model's header with symbols
_LABELS = ("span_labels", "span_tags")  # entries with labels alone


def map_tree(tree: Tree, label_map: LabelMap) -> Tree:
    """A tree with other labels; phrases whose label is mapped to None vanish, their children stay.

    Tags are mapped like phrases, but never removed.

    Examples
    --------
    >>> tree = Tree.parse("(TOP (S (NP (NN dogs)) (VP (VB bark))))")
    >>> print(map_tree(tree, {"NP": "GN", "NN": "N", "VP": None}))
    (TOP (S (GN (N dogs)) (VB bark)))
    """
    done: list[list[Tree]] = []  # of each node: itself, or the children of one that vanishes
    for node in reversed(list(tree.nodes())):  # no recursion: depth is no limit
        new = label_map.get(node.label, node.label)
        if node.is_preterminal:
            done.append([Tree(new or node.label, node.word)])
            continue
        n_kids = len(node.children)
        kids = [kid for part in reversed(done[-n_kids:]) for kid in part]
        del done[-n_kids:]
        vanishes = new is None and node is not tree
        done.append(kids if vanishes else [Tree(new or node.label, kids)])
    return done[0][0]


def map_trees(trees: Iterable[Tree], label_map: LabelMap) -> Iterator[Tree]:
    """Trees with other labels, see `map_tree`."""
    return (map_tree(tree, label_map) for tree in trees)


def map_model(model: Model, label_map: LabelMap) -> Model:
    """A model with other labels, where no two labels become one and none is removed.

    Weights stay as they are.

    Raises
    ------
    SapwoodValueError
        Where two labels of the model would become one, or one would be removed: parse sentences
        and map the trees instead, as `start_model` does.
    """
    used = {name: new for name, new in label_map.items() if name in labels_of(model)}
    if all(name == new for name, new in used.items()):
        return model
    problem = _why_not(labels_of(model), label_map)
    if problem is not None:
        raise SapwoodValueError(
            f"the labels of the model cannot be mapped: {problem}",
            hint="give sentences, whose trees are mapped and learnt from; or a treebank",
        )
    whole: Any = model
    if model.is_ensemble:
        members = tuple(_renamed(member, label_map) for member in model.members)
        whole = replace(whole, members=members)
        return whole  # type: ignore[no-any-return]
    return _renamed(model, label_map)  # type: ignore[no-any-return]


def labels_of(model: Model) -> set[str]:
    """The labels of phrases and words that a model knows.

    Examples
    --------
    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> {"NP", "NN"} <= labels_of(bundled_grammar())
    True
    """
    found = set()
    for member in model.as_ensemble().members:
        chart = member.chart_grammar
        found |= {label for symbol in chart.phrases + chart.tags for label in symbol.chain}
        header = member.to_file().header
        for rows in (header.get(name, ()) for name in _LABELS):
            found |= {label for row in rows for label in ([row] if isinstance(row, str) else row)}
    return found - {ROOT}


def _why_not(labels: set[str], label_map: LabelMap) -> str | None:
    """Why the labels of a model cannot be renamed; None where they can."""
    removed = sorted(label for label in labels if label_map.get(label, label) is None)
    if removed:
        return f"{join_words(removed)} would be removed"
    merged = Counter(label_map.get(label, label) for label in labels)
    for new, n in merged.items():
        if n > 1:
            old = sorted(label for label in labels if label_map.get(label, label) == new)
            return f"{join_words(old)} would all be {new}"
    return None


def _renamed(member: Any, label_map: LabelMap) -> Any:
    """A member whose header has other labels."""
    arrays, header = member.to_file()

    def name(label: str) -> str:
        return label_map.get(label) or label

    def symbol(row: Sequence[Any]) -> list[Any]:
        chain, ancestors, context = row
        above = [name(label) for label in ancestors]
        # what an intermediate symbol produces next has its side before the label
        kept = None if context is None else [text[0] + name(text[1:]) for text in context]
        return [[name(label) for label in chain], above, kept]

    header = dict(header)
    for entry in _SYMBOLS:
        header[entry] = [symbol(row) for row in header[entry]]
    for entry in _LABELS:
        if entry in header:
            header[entry] = [
                name(row) if isinstance(row, str) else [name(label) for label in row]
                for row in header[entry]
            ]
    return read_model(type(member).__name__, FileContents(arrays, header))


def start_model(
    source: Model | Iterable[Tree],
    label_map: LabelMap | None = None,
    sentences: Iterable[Sequence[str]] = (),
) -> Model:
    """The model that a project starts from, with the labels of the project.

    Parameters
    ----------
    source
        A model, or trees of another treebank.
    label_map
        New names of labels; None removes phrases, and two labels may become one.
    sentences
        Sentences of the project. Where the labels of a model cannot simply be renamed, the model
        parses them, and a grammar is learnt from the mapped trees.

    Examples
    --------
    >>> import sapwood as sw
    >>> model = start_model(sw.bundled_treebank("dev")[:40], {"NP": "GN"})
    >>> "GN" in labels_of(model), "NP" in labels_of(model)
    (True, False)
    """
    names = label_map or {}
    if not hasattr(source, "as_ensemble"):
        return _learnt_from(map_trees(source, names))
    model: Any = source
    words = list(sentences)
    if not words or _why_not(labels_of(model), names) is None:
        return map_model(model, names)
    parses = Parser(model).parse_many(words)
    return _learnt_from(map_trees((parse.tree for parse in parses), names))


def _learnt_from(trees: Iterable[Tree]) -> Model:
    grammar = AnnotationGrammar()
    for number, tree in enumerate(trees):
        grammar.add(number, tree)
    return grammar.learn().model
