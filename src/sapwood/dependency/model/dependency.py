"""`DependencyModel`: latent dependency trees over tags, words or both; `HiddenMarkovModel`, chains.

Notation (DEP, equation 2)
--------------------------
    p(x, h) = pi[h_root]  *  prod over arcs of  T_d[h_child, h_head]  *  prod over words of  O[x, h]

The tree is given, not generated: this is the probability of its observed symbols. A chain is the
tree in which every word is the only child of the word before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import (
    ModelFormatError,
    SapwoodError,
    as_count,
    as_items,
    as_sentence,
    count,
    describe,
)
from sapwood.core.model_files import FileContents, SavedModel, read_flag, read_names
from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary, read_style
from sapwood.dependency.data.bank import EMPTY, ArcBank, ArcBankLike, as_arc_bank
from sapwood.dependency.model.latent import LatentArcs, SeenTrees

TAG_COLUMNS = ("upos", "xpos")
MAX_CHILDREN = 9  # larger numbers of children on one side count as this one
MIN_WEIGHT = 1e-300  # in place of a weight of 0 where a logarithm must be finite


@dataclass(frozen=True)
class Seen:
    """The observed symbols of a word: its tag, the word itself, or both, as numbers.

    Attributes
    ----------
    tags
        Names of tags; none where only words are seen. The last one, `<unk>`, replaces all tags that
        are not in the training trees.
    vocabulary
        Words and classes of unknown ones; None where only tags are seen. Tags come first.
    column
        Column of the tags: `upos` or `xpos`.
    valence
        Whether the numbers of a word's children, on the left and on the right, are seen too, in
        two more columns: weights then depend on the shape of the tree, and not only on its words.

    Examples
    --------
    >>> Seen(("NOUN", "VERB"), None).column_start.tolist()
    [0, 2]
    """

    tags: tuple[str, ...]
    vocabulary: Vocabulary | None
    column: str = "upos"
    valence: bool = False

    @property
    def kind(self) -> str:
        """`tags`, `words` or `both`."""
        return "tags" if self.vocabulary is None else "both" if self.tags else "words"

    @property
    def column_start(self) -> IntArray:
        """Where the symbols of each column start, and the end."""
        sizes = [len(self.tags), 0 if self.vocabulary is None else len(self.vocabulary)]
        sizes += [MAX_CHILDREN + 1] * (2 * self.valence)
        return starts_of([size for size in sizes if size])

    @property
    def valence_rows(self) -> tuple[slice, slice] | None:
        """Rows of symbols that count left and right children; None without valence."""
        if not self.valence:
            return None
        left, right, end = self.column_start[-3:].tolist()
        return slice(left, right), slice(right, end)

    @property
    def n_symbols(self) -> int:
        """Number of symbols of all columns."""
        return int(self.column_start[-1])

    def symbol(self, number: int) -> str:
        """The name of a symbol."""
        n, known = len(self.tags), self._known
        if number >= n + len(known):
            side, n_children = divmod(number - n - len(known), MAX_CHILDREN + 1)
            return f"<{n_children} {('left', 'right')[side]}>"
        return self.tags[number] if number < n else known[number - n]

    @cached_property
    def _known(self) -> Vocabulary:
        return self.vocabulary or Vocabulary((), (), "generic")

    def of(self, bank: ArcBank) -> SeenTrees:
        """The symbols that the words of a bank show.

        Raises
        ------
        SapwoodError
            When a word has an unknown tag and the model no symbol for such tags: models that were
            learnt by Sapwood before it had one.
        """
        columns = []
        if self.tags:
            columns.append(self._tag_rows(bank))
        if self.vocabulary is not None:
            columns.append(len(self.tags) + self._word_rows(bank))
        if self.valence_rows is not None:
            counts = count_children(bank.offsets, bank.head)
            columns += [np.where(n < 0, -1, rows.start + np.minimum(n, MAX_CHILDREN))
                        for n, rows in zip(counts, self.valence_rows, strict=True)]  # fmt: skip
        return SeenTrees(bank.offsets, bank.head, np.stack(columns, axis=1).astype(np.int32))

    def with_unknown_tag(self) -> Seen:
        """The same with a symbol for all unknown tags at the end."""
        return replace(self, tags=(*self.tags, UNKNOWN)) if self.tags else self

    def count_unknown_tags(self, bank: ArcBank) -> int:
        """Number of words of a bank whose tag the model does not know."""
        return int((~self._is_known(bank)[getattr(bank, self.column)]).sum()) if self.tags else 0

    def _is_known(self, bank: ArcBank) -> npt.NDArray[np.bool_]:
        names = getattr(bank, f"{self.column}_names")
        return np.array([name in self.tags and name != UNKNOWN for name in names], bool)

    def _tag_rows(self, bank: ArcBank) -> IntArray:
        names, tags = getattr(bank, f"{self.column}_names"), getattr(bank, self.column)
        number = {tag: place for place, tag in enumerate(self.tags)}
        if UNKNOWN not in number:
            unknown = tags[~self._is_known(bank)[tags]]
            if len(unknown):
                msg = f"the model has never seen the tag {names[unknown[0]]!r} ({self.column}), "
                msg += "and has no probability of unknown tags"
                raise SapwoodError(msg, hint="train it again with this version, or leave that out")
        rows = np.array([number.get(name, len(self.tags) - 1) for name in names], np.int64)
        return np.asarray(rows[tags])

    def _word_rows(self, bank: ArcBank) -> IntArray:
        # each word is looked up once for the start of a sentence and once for the rest
        pairs, place = np.unique(word_positions(bank), return_inverse=True)
        rows = [self._known.row(bank.words[pair // 2], is_first=bool(pair % 2))
                for pair in pairs.tolist()]  # fmt: skip
        return np.array(rows, np.int64)[place]

    def to_header(self) -> dict[str, Any]:
        """The names of symbols, as a file has them."""
        known = self.vocabulary
        words = None if known is None else [list(known.words), list(known.classes), known.style]
        header = {"tags": list(self.tags), "column": self.column, "vocabulary": words}
        return header | ({"valence": True} if self.valence else {})

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Seen:
        """The names of symbols of a file."""
        if header["column"] not in TAG_COLUMNS:
            found, expected = describe(header["column"]), " or ".join(TAG_COLUMNS)
            raise ModelFormatError(f"tags are in the column {found}, expected {expected}")
        known = header["vocabulary"]
        if known is not None:
            if not isinstance(known, list) or len(known) != 3:
                msg = f"the vocabulary is {describe(known)}, expected words, classes and a style"
                raise ModelFormatError(msg)
            words, classes = (read_names(part, "words") for part in known[:2])
            known = Vocabulary(words, classes, read_style(known[2]))
        valence = read_flag(header.get("valence", False), "valence")
        seen = cls(read_names(header["tags"], "tags"), known, header["column"], valence)
        if not seen.tags and known is None:
            raise ModelFormatError("neither tags nor words are seen")
        return seen


@dataclass(frozen=True, eq=False, repr=False)
class _LatentModel:
    """Base of both kinds of models: tables, names of symbols, and a training record."""

    seen: Seen
    arcs: LatentArcs
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mine, other = self.seen.column_start, self.arcs.column_start
        if not np.array_equal(mine, other):
            msg = f"symbols are named for columns {mine.tolist()}, but tables have {other.tolist()}"
            raise ModelFormatError(msg)

    def __repr__(self) -> str:
        form = "probabilities" if self.is_probabilistic else "spectral weights"
        sizes = f"{count(self.arcs.n_states, 'state')}, {count(len(self.arcs.symbols), 'symbol')}"
        return f"<{type(self).__name__} of {self.seen.kind}: {sizes}; {form}>"

    @property
    def is_probabilistic(self) -> bool:
        """Whether weights are probabilities; a spectral model's may be negative."""
        return self.arcs.is_probabilistic

    def to_file(self) -> FileContents:
        """The tables, and the names of symbols."""
        return FileContents(
            self.arcs.arrays(), {"seen": self.seen.to_header(), "record": self.record}
        )

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        arcs = LatentArcs.from_arrays(contents.arrays)
        header = contents.header
        if arcs.n_sides != cls._N_SIDES:
            raise ModelFormatError(f"{arcs.n_sides} tables of steps, expected {cls._N_SIDES}")
        return cls(Seen.from_header(header["seen"]), arcs, header.get("record", {}))

    _N_SIDES = 2


class DependencyModel(_LatentModel, SavedModel):
    """Latent dependency trees: a hidden state for each word, steps to the left and to the right.

    Models by EM have probabilities of states; spectral models are known in another basis only, and
    `is_probabilistic` is False. The weights of a spectral model are no probabilities: with enough
    data they are close to them, and some may be negative.

    Attributes
    ----------
    seen
        The observed symbol of a word: its tag, its form or both.
    arcs
        The tables.
    record
        How it was trained.

    Examples
    --------
    >>> from sapwood.dependency.data.bank import Arcs
    >>> tables = LatentArcs(
    ...     np.array([0.2, 0.8]), np.array([[[0.9, 0.5], [0.1, 0.5]]] * 2),
    ...     np.array([[1.0, 0.3], [0.0, 0.7]]), np.array([0, 2]))
    >>> model = DependencyModel(Seen(("NOUN", "VERB"), None), tables)
    >>> tree = Arcs(["dogs", "bark"], [2, 0], upos=["NOUN", "VERB"])
    >>> round(float(np.exp(model.log_probs([tree])[0])), 4)  # .8 .7 (.5 1 + .5 .3)
    0.364
    """

    def log_probs(self, trees: ArcBankLike) -> FloatArray:
        """Log-probability of the symbols of each tree given its arcs, shape [n_trees].

        For a spectral model, whose weights are no probabilities, the log of the absolute weight;
        `signed_log_probs` also gives the sign.

        Parameters
        ----------
        trees
            A bank, sentences, or the path of a file.
        """
        return self.signed_log_probs(trees)[0]

    def signed_log_probs(self, trees: ArcBankLike) -> tuple[FloatArray, FloatArray]:
        """As `log_probs`, with the signs of the weights: 1, -1, or 0 for a log of -inf."""
        bank = as_arc_bank(trees)
        if bank.n_tokens and bank.head.min() < 0:
            msg = "sentences without heads have no probability under this model"
            raise SapwoodError(msg, hint="parse them first: sapwood depend parse")
        return self.arcs.signed_log_weights(self.seen.of(bank))

    def features(self, trees: ArcBankLike) -> FloatArray:
        """Features for a reranker: log-weight, log-weight per word, whether the weight is positive.

        Returns
        -------
        array of [n_trees, 3]
            Always finite.
        """
        bank = as_arc_bank(trees)
        logs, signs = self.signed_log_probs(bank)
        logs = np.maximum(logs, np.log(MIN_WEIGHT))
        return np.stack([logs, logs / np.diff(bank.offsets), (signs > 0).astype(float)], axis=1)

    def sample(self, trees: ArcBankLike, *, seed: int | np.random.Generator = 0) -> ArcBank:
        """Draw tags and words for the arcs of given trees; columns that are not seen become `_`."""
        bank = as_arc_bank(trees)
        nothing = np.zeros(bank.n_tokens, np.int32)
        shapes = SeenTrees(bank.offsets, bank.head, nothing[:, None])
        drawn = self.arcs.sample(shapes, np.random.default_rng(seed)).seen
        columns: dict[str, Any] = dict.fromkeys(("word", "upos", "xpos"), nothing)
        names: dict[str, Any] = dict.fromkeys(("words", "upos_names", "xpos_names"), (EMPTY,))
        if self.seen.tags:
            columns[self.seen.column] = drawn[:, 0]
            names[f"{self.seen.column}_names"] = self.seen.tags
        if self.seen.vocabulary is not None:
            known = self.seen.vocabulary
            columns["word"] = drawn[:, int(bool(self.seen.tags))] - len(self.seen.tags)
            names["words"] = known.words + known.classes
        return ArcBank(
            **names, **columns, relations=bank.relations, offsets=bank.offsets, head=bank.head,
            relation=bank.relation,
        )  # fmt: skip


class HiddenMarkovModel(_LatentModel, SavedModel):
    """A hidden Markov model of words: the chain among latent trees; spectral or with states.

    Attributes
    ----------
    seen
        The words that it knows.
    arcs
        The tables; their only step goes to the next word.
    record
        How it was trained.

    Examples
    --------
    >>> tables = LatentArcs(
    ...     np.array([1.0, 0.0]), np.array([[[0.0, 1.0], [1.0, 0.0]]]), np.eye(2), np.array([0, 2]))
    >>> model = HiddenMarkovModel(Seen((), Vocabulary(("a",), ("<unk>",), "generic")), tables)
    >>> np.exp(model.log_probs([["a", "b", "a"], ["a", "a"]])).tolist()
    [1.0, 0.0]
    """

    _N_SIDES = 1

    def log_probs(self, sentences: Iterable[Sequence[str]]) -> FloatArray:
        """Log-probability of the words of each sentence given their number, shape [n]."""
        return self.signed_log_probs(sentences)[0]

    def signed_log_probs(self, sentences: Iterable[Sequence[str]]) -> tuple[FloatArray, FloatArray]:
        """As `log_probs`, with the signs of the weights: -1 happens with spectral models only."""
        return self.arcs.signed_log_weights(chains(self.rows(sentences)))

    def rows(self, sentences: Iterable[Sequence[str]]) -> list[IntArray]:
        """The symbols of each sentence."""
        given = as_items(sentences, "sentences, lists of words")
        return [self.seen._known.rows(as_sentence(words)) for words in given]

    def sample(
        self, lengths: Iterable[int], *, seed: int | np.random.Generator = 0
    ) -> list[list[str]]:
        """Draw a sentence of each of the given lengths."""
        sizes = [as_count(length, "a length") for length in lengths]
        drawn = self.arcs.sample(
            chains([np.zeros(size, np.int64) for size in sizes]), np.random.default_rng(seed)
        )
        words = [self.seen.symbol(x) for x in drawn.seen[:, 0].tolist()]
        starts = drawn.offsets.tolist()
        return [words[a:b] for a, b in pairwise(starts)]


def word_positions(bank: ArcBank) -> IntArray:
    """Twice the vocabulary row of each word of a bank, plus 1 at the start of a sentence."""
    is_first = np.zeros(bank.n_tokens, np.int64)
    is_first[bank.offsets[:-1]] = 1
    return 2 * bank.word.astype(np.int64) + is_first


def count_children(offsets: IntArray, head: Any) -> tuple[IntArray, IntArray]:
    """Number of children of each word, on its left and on its right; -1 in unparsed sentences.

    Examples
    --------
    >>> [n.tolist() for n in count_children(np.array([0, 3, 4]), np.array([2, 0, 2, -1]))]
    [[0, 1, 0, -1], [0, 1, 0, -1]]
    """
    first = np.repeat(offsets[:-1], np.diff(offsets))
    child = np.flatnonzero(head > 0)
    up = (first + head - 1)[child]
    sides = (up[child < up], up[child > up])
    left, right = (np.where(head < 0, -1, np.bincount(x, minlength=len(head))) for x in sides)
    return left, right


def chains(rows: Sequence[IntArray]) -> SeenTrees:
    """Sentences as trees in which the head of every word is the word before it."""
    offsets = starts_of([len(row) for row in rows])
    head = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    symbols = np.concatenate([np.empty(0, np.int64), *rows])
    return SeenTrees(offsets, head.astype(np.int32), symbols[:, None].astype(np.int32))
