"""`Tree`: the immutable, labelled tree that people see; and the cleaning recipe.

Everything between the reader and the kernels works on packed arrays
(`sapwood.constituency.data.treebank`);
trees exist at the border. `clean` makes of a tree as published the one that is learnt and scored,
in this order:

1. **Empty leaves go.** A leaf is empty when its tag is `-NONE-`; when its word is a trace
   (`*T*-1`, `*pro*`, `*-2`, `*ICH*`); or, as Penn-historical treebanks write it, when it is a bare
   `0` or `*` under a phrase label or under `C`, `P`, `TO`, `DO` (`(WNP-1 0)`, `(C 0)`), but not
   under a number or symbol tag (`(CD 0)`, `(SYM *)`).
2. **Emptied nodes go**, and so on upwards.
3. **Function tags and coindexation are cut** from phrase labels: `NP-SBJ-1` and `NP=2` become
   `NP`. Tags lose coindexation (`CONJ-1`) and the function tags of the Penn and TIGER treebanks
   (`NNP-SBJ`, `ART-NK`); any other dash on a tag is morphology (`N-D`). Labels that start with a
   dash (`-LRB-`) are left alone. With `keep_functions` only coindexation goes.
4. **`X -> X` collapses**: a node with an only child of its own label is replaced by that child.
5. **The root is `TOP`.** `ROOT`, `TOP`, `S1`, `VROOT` and empty labels at the top become one `TOP`;
   a tree without such a root gets one.

The recipe is idempotent: `clean(clean(t)) == clean(t)`.

The head child of a phrase follows the table for Penn English of Collins (1999, appendix A); label
sets without a table follow a rule that reads labels alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from sapwood.core.errors import SapwoodTypeError, SapwoodValueError, check_word, describe

if TYPE_CHECKING:
    import nltk

_UNWRITABLE_LABEL = re.compile(r"[ \t\r\n\f\v()]")
ROOT = "TOP"
ROOT_LABELS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})
# Penn's and Penn-historical's trace names; *emphasis* in web text is a word.
_TRACE = re.compile(r"\*([A-Z?0-9]{1,3}|pro|con|exp|arb)\*(-.*)?|\*-\d+")
_HISTORICAL_EMPTY = re.compile(
    r"(C|P|TO|DO|W?(NP|PP|CP|IP|ADVP|ADJP|QP|NUMP|CONJP)|W[A-Z]+P)([-=].*)?"
)
_COINDEX = re.compile(r"([-=]\d+)+$")
# Function tags that some treebanks also put on parts of speech: those of the English and Chinese
# Penn treebanks, then the edge labels of NEGRA and TIGER. Any other dash on a tag is morphology.
_TAG_FUNCTIONS = (
    "ADV|APP|BNF|CLF|CLR|CND|DIR|DTV|EXT|FOC|HLN|IJ|IMP|IO|LGS|LOC|MNR|NOM|OBJ|PN|PRD|PRP|PUT|SBJ"
    "|SHORT|TMP|TPC|TTL|VOC|WH"
    "|AC|ADC|AG|AMS|AVC|CC|CD|CJ|CM|CP|CVC|DA|DH|DM|EP|HD|JU|MO|NG|NK|NMC|OA|OA2|OC|OG|OP|PAR|PD"
    "|PG|PH|PM|PNC|RC|RE|RS|SB|SBP|SVP|UC|VO"
)
_TAG_SUFFIX = re.compile(rf"([-=](\d+|{_TAG_FUNCTIONS}))+$")


class Tree:
    """A labelled node over either one word or one or more trees.

    Parameters
    ----------
    label
        The label as written in the treebank; the outermost label may be empty.
    children
        Either a single word (a `str`) or one or more `Tree` objects.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")
    >>> tree.words()
    ['dogs', 'bark']
    >>> print(tree[1])
    (VP (VBP bark))
    """

    __slots__ = ("_hash", "children", "label")

    label: str
    children: tuple[Tree, ...] | tuple[str]
    _hash: int

    def __init__(self, label: str, children: Iterable[Tree] | Iterable[str] | str) -> None:
        if not isinstance(label, str):
            raise SapwoodTypeError(f"the label of a tree is a string, not {describe(label)}")
        if (wrong := _UNWRITABLE_LABEL.search(label)) is not None:
            msg = f"the label {label!r} holds {wrong.group()!r}, which brackets cannot say"
            raise SapwoodValueError(msg)
        if isinstance(children, str) or not isinstance(children, Iterable):
            children = (children,)
        kids = tuple(children)
        if not kids:
            raise SapwoodValueError(f"a node needs a word or children, but {label!r} has none")
        for kid in kids:
            if not isinstance(kid, (str, Tree)):
                msg = f"below {label!r}: expected a word or trees, found {describe(kid)}"
                raise SapwoodTypeError(msg)
        if len(kids) > 1 and any(isinstance(kid, str) for kid in kids):
            msg = f"{label!r} has a word beside other children: {kids!r}; give the word its own tag"
            raise SapwoodValueError(msg)
        if isinstance(kids[0], str):
            check_word(kids[0], f"below {label!r}")
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "children", kids)

    @classmethod
    def _trusted(cls, label: str, children: tuple[Any, ...]) -> Tree:
        """Build a node whose children the caller has already checked (the reader's fast path)."""
        node = cls.__new__(cls)
        _set(node, "label", label)
        _set(node, "children", children)
        return node

    @classmethod
    def parse(cls, text: str) -> Tree:
        """Read exactly one tree from Penn brackets.

        Raises
        ------
        CorpusError
            When the text holds no tree, more than one, or a broken one.
        """
        from sapwood.corpora.formats.brackets import parse_brackets

        return parse_brackets(text)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Tree is immutable: cannot set {name!r}; build a new Tree instead")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Tree is immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _build, (list(self._events()), Tree._trusted)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or list(self._events()) == list(other._events())

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            _set(self, "_hash", hash(tuple(self._events())))
            return self._hash

    def _events(self) -> Iterator[tuple[str, int | str]]:
        """Labels with their number of children, or their word, in pre-order: a flat identity."""
        for node in self.nodes():
            kids = node.children
            yield (node.label, kids[0] if node.is_preterminal else len(kids))  # type: ignore[misc]

    @property
    def is_preterminal(self) -> bool:
        """Whether this node is a tag over its word."""
        return isinstance(self.children[0], str)

    @property
    def word(self) -> str:
        """The word below a pre-terminal."""
        child = self.children[0]
        if not isinstance(child, str):
            raise TypeError(f"{self.label!r} is a phrase, not a pre-terminal: it has no word")
        return child

    def __getitem__(self, index: int) -> Tree:
        child = self.children[index]
        if isinstance(child, str):
            raise TypeError(f"{self.label!r} is a pre-terminal: it has a word, not subtrees")
        return child

    def __len__(self) -> int:
        return 0 if self.is_preterminal else len(self.children)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Tree]:
        return iter(()) if self.is_preterminal else iter(self.children)  # type: ignore[arg-type]

    def nodes(self) -> Iterator[Tree]:
        """All nodes in pre-order, without recursion, so that depth is no limit."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if not node.is_preterminal:
                stack.extend(reversed(node.children))  # type: ignore[arg-type]

    def preterminals(self) -> Iterator[Tree]:
        """The tags over their words, from left to right."""
        return (node for node in self.nodes() if node.is_preterminal)

    def words(self) -> list[str]:
        """The words of the sentence, from left to right."""
        return [node.word for node in self.preterminals()]

    def tags(self) -> list[str]:
        """The labels directly above the words."""
        return [node.label for node in self.preterminals()]

    def spans(self) -> list[tuple[str, int, int]]:
        """Every node as `(label, start, end)`, half-open, in pre-order, tags included."""
        out: list[tuple[str, int, int]] = []
        opened: list[tuple[int, int]] = []  # (place in out, children still to come)
        position = 0
        for node in self.nodes():
            out.append((node.label, position, position + 1))
            if node.is_preterminal:
                position += 1
                remaining = 0
            else:
                remaining = len(node.children)
            place = len(out) - 1
            while remaining == 0:  # a finished node finishes its parent when it is the last child
                label, start, _ = out[place]
                out[place] = (label, start, position)
                if not opened:
                    return out
                place, left = opened.pop()
                remaining = left - 1
            opened.append((place, remaining))
        return out

    def __str__(self) -> str:
        """Penn brackets on one line."""
        parts: list[str] = []
        stack: list[Tree | str] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                parts.append(item)
            elif item.is_preterminal:
                parts.append(f" ({item.label} {escape(item.word)})")
            else:
                parts.append(f" ({item.label}")
                stack.append(")")
                stack.extend(reversed(item.children))
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"Tree.parse({str(self)!r})"

    def draw(self, *, colour: bool = False, width: int | None = 100) -> str:
        """Draw the tree as lines of text, words at the bottom.

        Parameters
        ----------
        colour
            Whether to mark labels with ANSI colours.
        width
            Columns after which a long sentence goes on in a new row; None never ends one.
        """
        from sapwood.corpora.draw import tree_text

        return tree_text(self, colour=colour, width=width)

    def svg(self, *, width: int | None = 1200) -> str:
        """Draw the tree as a self-contained SVG document.

        Parameters
        ----------
        width
            Pixels after which a long sentence goes on in a new row; None never ends one.
        """
        from sapwood.corpora.draw import tree_svg

        return tree_svg(self, width=width)

    def _repr_svg_(self) -> str:
        """The drawing that a notebook shows."""
        return self.svg()

    def to_latex(self) -> str:
        r"""The tree as an environment of the LaTeX package forest.

        Examples
        --------
        >>> print(Tree.parse("(NP (DT a) (NN dog))").to_latex())
        \begin{forest}
        where n children=0{tier=word}{}
        [{NP} [{DT} [{a}]] [{NN} [{dog}]]]
        \end{forest}
        """
        from sapwood.corpora.draw import tree_latex

        return tree_latex(self)

    def to_nltk(self) -> nltk.Tree:
        """Convert to `nltk.Tree` (needs NLTK)."""
        import nltk

        return _build(list(self._events()), nltk.Tree)

    @classmethod
    def from_nltk(cls, tree: nltk.Tree) -> Tree:
        """Convert an `nltk.Tree` to a tree of ours."""
        kids = [child if isinstance(child, str) else cls.from_nltk(child) for child in tree]
        return cls(tree.label(), kids)  # type: ignore[arg-type]


_set = object.__setattr__


def is_tree(item: object) -> bool:
    """Whether an object is a tree of Sapwood or of NLTK; NLTK need not be installed."""
    return isinstance(item, Tree) or (
        callable(getattr(item, "label", None)) and hasattr(item, "leaves")
    )


def as_tree(item: object) -> Tree:
    """Convert a tree that may be NLTK's to ours."""
    if isinstance(item, Tree):
        return item
    if is_tree(item):
        return Tree.from_nltk(item)
    msg = f"expected a tree, not {describe(item)}"
    hint = "read brackets with Tree.parse(text) or sapwood.read_trees(path)"
    raise SapwoodTypeError(msg, hint=hint)


def escape(word: str) -> str:
    """Write brackets inside a word as Penn treebanks do, so that the tree can be read again."""
    if "(" in word or ")" in word:
        return word.replace("(", "-LRB-").replace(")", "-RRB-")
    return word


def rebuild(
    tree: Tree,
    leaf: Callable[[Tree], Tree | None],
    phrase: Callable[[str, tuple[Tree, ...]], Tree | None],
) -> Tree | None:
    """Rebuild a tree from its leaves upwards, without recursion, so that depth is no limit.

    `leaf` maps a tag with its word, `phrase` a label with its new children; None leaves a node out.
    A phrase without children left is dropped.

    Examples
    --------
    >>> tree = Tree.parse("(S (CODE x) (NP (N dog)) (VP (V barks)))")
    >>> print(rebuild(tree, lambda node: None if node.label == "CODE" else node, Tree))
    (S (NP (N dog)) (VP (V barks)))
    """
    done: list[Tree | None] = []
    for node in reversed(list(tree.nodes())):
        if node.is_preterminal:
            done.append(leaf(node))
            continue
        n_kids = len(node.children)
        kept = tuple([kid for kid in reversed(done[-n_kids:]) if kid is not None])
        del done[-n_kids:]
        done.append(phrase(node.label, kept) if kept else None)
    return done[0]


def _build(events: list[tuple[str, int | str]], make: Callable[[str, Any], Any]) -> Any:
    """Build a tree from its pre-order events, without recursion."""
    done: list[Any] = []
    for label, content in reversed(events):
        if isinstance(content, str):
            done.append(make(label, (content,)))
        else:
            done[-content:] = [make(label, tuple(done[: -content - 1 : -1]))]
    return done[0]


def clean(tree: Tree, *, keep_functions: bool = False) -> Tree | None:
    """Apply the recipe of this module; None when the tree has nothing but empty elements.

    With `keep_functions`, step 3 cuts coindexation alone: `NP-SBJ-1` becomes `NP-SBJ`.

    Examples
    --------
    >>> tree = Tree.parse("( (S (NP-SBJ-1 (DT a) (NN cat)) (VP (VBD sat) (NP (-NONE- *)))))")
    >>> print(clean(tree))
    (TOP (S (NP (DT a) (NN cat)) (VP (VBD sat))))
    >>> print(clean(tree, keep_functions=True))
    (TOP (S (NP-SBJ (DT a) (NN cat)) (VP (VBD sat))))
    """
    of_tag, of_phrase = (cut_index, cut_index) if keep_functions else (clean_tag, clean_label)

    def leaf(node: Tree) -> Tree | None:
        if is_empty(node.label, node.word):
            return None
        label = of_tag(node.label)
        return node if label == node.label else Tree._trusted(label, node.children)

    def phrase(label: str, kids: tuple[Tree, ...]) -> Tree:
        label = of_phrase(label)
        return kids[0] if len(kids) == 1 and kids[0].label == label else Tree._trusted(label, kids)

    kept = rebuild(as_tree(tree), leaf, phrase)
    if kept is None:
        return None
    while kept.label in ROOT_LABELS and not kept.is_preterminal and len(kept.children) == 1:
        kept = kept[0]
    if kept.label in ROOT_LABELS:
        return Tree._trusted(ROOT, kept.children)
    return Tree._trusted(ROOT, (kept,))


def clean_all(trees: Iterable[Tree], *, keep_functions: bool = False) -> Iterator[Tree]:
    """Clean a stream of trees; trees of nothing but empty elements are left out."""
    for tree in trees:
        kept = clean(tree, keep_functions=keep_functions)
        if kept is not None:
            yield kept


@lru_cache(maxsize=4096)
def clean_label(label: str) -> str:
    """Cut function tags and coindexation from a phrase label.

    Examples
    --------
    >>> clean_label("NP-SBJ-1"), clean_label("S=2"), clean_label("-LRB-")
    ('NP', 'S', '-LRB-')
    """
    if label.startswith(("-", "=")):
        return label
    return re.split("[-=]", label, maxsplit=1)[0]


@lru_cache(maxsize=4096)
def clean_tag(label: str) -> str:
    """Cut coindexation and known function tags; `N-D` keeps its case, `-LRB-` its dashes.

    Examples
    --------
    >>> clean_tag("CONJ-1"), clean_tag("NNP-SBJ"), clean_tag("ART-NK"), clean_tag("N-D")
    ('CONJ', 'NNP', 'ART', 'N-D')
    """
    if label.startswith("-"):
        return label
    # A phrase label right above a word stays apart from that phrase: (NP-SBJ I) is no (NP I).
    cut = _COINDEX if _HISTORICAL_EMPTY.fullmatch(label) else _TAG_SUFFIX
    return cut.sub("", label) or label


@lru_cache(maxsize=4096)
def cut_index(label: str) -> str:
    """Cut coindexation from a label, but no function tags.

    Examples
    --------
    >>> cut_index("NP-SBJ-1"), cut_index("S=2"), cut_index("-LRB-")
    ('NP-SBJ', 'S', '-LRB-')
    """
    return label if label.startswith(("-", "=")) else _COINDEX.sub("", label) or label


def is_empty(label: str, word: str) -> bool:
    """Whether a leaf is an empty element, such as a trace, and no word of the sentence."""
    if label == "-NONE-":
        return True
    if word in {"0", "*"}:
        return _HISTORICAL_EMPTY.fullmatch(label) is not None
    return word.startswith("*") and _TRACE.fullmatch(word) is not None


HeadRule = Callable[[str, Sequence[str]], int]
# label: direction of the search among the children, then head labels, best first
_PENN: dict[str, tuple[str, str]] = {
    "ADJP": ("left", "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
    "ADVP": ("right", "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": ("right", "CC RB IN"),
    "FRAG": ("right", ""),
    "INTJ": ("left", ""),
    "LST": ("right", "LS :"),
    "NAC": ("left", "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "PP": ("right", "IN TO VBG VBN RP FW"),
    "PRN": ("left", ""),
    "PRT": ("right", "RP"),
    "QP": ("left", "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
    "RRC": ("right", "VP NP ADVP ADJP PP"),
    "S": ("left", "TO IN VP S SBAR ADJP UCP NP"),
    "SBAR": ("left", "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": ("left", "SQ S SINV SBARQ FRAG"),
    "SINV": ("left", "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": ("left", "VBZ VBD VBP VB MD VP SQ"),
    "UCP": ("right", ""),
    "VP": ("left", "TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP"),
    "WHADJP": ("left", "CC WRB JJ ADJP"),
    "WHADVP": ("right", "CC WRB"),
    "WHNP": ("left", "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": ("right", "IN TO FW"),
    "TOP": ("left", "S SINV SQ SBARQ NP FRAG"),
}
_PENN_TABLE = {label: (side, tuple(wanted.split())) for label, (side, wanted) in _PENN.items()}
_NOMINAL = frozenset({"NP", "NX", "NML", "WHNP"})
_NOUN_TAGS = frozenset({"NN", "NNP", "NNPS", "NNS", "NX", "POS", "JJR"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''", "-LRB-", "-RRB-", "HYPH"})
_PENN_MARKS = frozenset({"NN", "NNP", "NNS", "IN", "DT", "VBD", "VBZ", "VB", "JJ", "CC"})


def uses_penn_tags(labels: Iterable[str]) -> bool:
    """Whether a label set looks like Penn English (at least half of its commonest tags)."""
    return 2 * len(_PENN_MARKS.intersection(labels)) >= len(_PENN_MARKS)


def choose_head_rule(trees: Iterable[Tree]) -> str:
    """The name of the rule in `HEAD_RULES` for the labels of some trees."""
    return "penn" if uses_penn_tags({tag for tree in trees for tag in tree.tags()}) else "generic"


def penn_head(label: str, children: Sequence[str]) -> int:
    """Index of the head child by Collins's table, with his rules for NP and for coordination.

    Examples
    --------
    >>> penn_head("NP", ["DT", "JJ", "NN"]), penn_head("VP", ["MD", "VP"])
    (2, 0)
    >>> penn_head("NP-SBJ", ["DT", "NN"]), penn_head("S", ["NP-SBJ", "VP"])
    (1, 1)
    """
    label, children = clean_label(label), [clean_label(child) for child in children]
    if label in _NOMINAL and label != "WHNP":
        head = _nominal_head(children)
    else:
        side, wanted = _PENN_TABLE.get(label, ("left", ()))
        order = range(len(children))[:: 1 if side == "left" else -1]
        found = (index for each in wanted for index in order if children[index] == each)
        others = (index for index in order if children[index] not in PUNCTUATION)
        head = next(found, next(others, order[0]))
    if head >= 2 and children[head - 1] in {"CC", "CONJP"}:  # in X CC X, the first conjunct
        head -= 2
        while head > 0 and children[head] in PUNCTUATION:
            head -= 1
    return head


def _nominal_head(children: Sequence[str]) -> int:
    last = len(children) - 1
    if children[last] == "POS":
        return last
    backwards, forwards = range(last, -1, -1), range(last + 1)
    for order, wanted in (
        (backwards, _NOUN_TAGS),
        (forwards, {"NP", "NML"}),
        (backwards, {"$", "ADJP", "PRN"}),
        (backwards, {"CD"}),
        (backwards, {"JJ", "JJS", "RB", "QP"}),
    ):
        for index in order:
            if children[index] in wanted:
                return index
    return next((i for i in backwards if children[i] not in PUNCTUATION), last)


def generic_head(label: str, children: Sequence[str]) -> int:
    """Index of the head child for treebanks without a table of head rules.

    The child with the longest common prefix with its parent's label wins (`NP` over `N-D`,
    `VP` over `VB`, `PP` over `P`); a phrase of the very same label comes second to a word-like
    child; the first of equals wins. Without a common prefix the first child is the head.

    Examples
    --------
    >>> generic_head("NP", ["D-A", "N-A", "CP"]), generic_head("IP", ["NP", "VBPI"])
    (1, 0)
    """
    label = clean_label(label)
    stem = label[:-1] if label.endswith("P") and len(label) > 1 else label

    def affinity(child: str) -> int:
        shared = 0
        for ours, theirs in zip(stem, child, strict=False):
            if ours != theirs:
                break
            shared += 1
        return 2 * shared - (child == label)

    return max(range(len(children)), key=lambda index: (affinity(children[index]), -index))


HEAD_RULES: dict[str, HeadRule] = {"penn": penn_head, "generic": generic_head}
