"""`NgramModel`: a probability for each n-gram seen, and back-off weights for the others.

Notation
--------
    g          an n-gram of order k has a number g in 0 .. n_k - 1; of order 1, that of its word
    suffix     its last k - 1 words: an n-gram of order k - 1
    keys[k]    suffix(g) * V + first word of g, sorted: where g itself is found       [n_k]
    p[k]       natural logarithm of p(last word | the others)                         [n_k]
    b[k]       natural logarithm of the weight of g as a context                      [n_k]

    p(w | c) = p[c w] where c w was seen, else b[c] p(w | c without its first word)

N-grams are found from their last word backwards, one binary search for each order.

Models from files must sum to 1. With c' for the context c without its first word, and seen(c) for
the words w whose n-gram c w is in the model,

    sum over w of p(w | c)  =  sum over seen(c) of p[c w]
                               + exp(b[c]) (1 - sum over seen(c) of p(w | c'))

The suffix of c w is c' w, which is in the model too, so that every sum needs its n-grams alone. In
large models, only contexts that start with some of the words are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import CorpusError, ModelFormatError, describe
from sapwood.core.model_files import FileContents, read_flag, read_record, require_type
from sapwood.lm.data.ngrams import END, NOTHING, SPECIAL, START, Rows
from sapwood.lm.model.language_model import (
    SINGLE_TOLERANCE,
    LanguageModel,
    require_finite,
    require_words,
)

Keys = npt.NDArray[np.uint64]
LOG_10 = float(np.log(10.0))
ARPA_METHOD = "arpa"  # of models that another tool may have made
NEVER = -99.0  # what ARPA files have for the start of a sentence, which is never predicted
FOREIGN_EXCESS = 0.05  # by which sums of models of other tools, which prune, may pass 1
MOST_NGRAMS = 5_000  # whose contexts are all summed
LARGEST_LOG = 1e-4  # natural logarithm of a probability, as rounded
Lower = Callable[[IntArray, IntArray], FloatArray]  # p of last words given the words before them


@dataclass(frozen=True, eq=False, repr=False)
class NgramModel(LanguageModel):
    """A back-off model of any order.

    Attributes
    ----------
    keys
        For orders from 2; see the notation of this module.
    p, b
        For all orders; the highest has no back-off weights.
    """

    words: tuple[str, ...]
    keys: tuple[Keys, ...]
    p: tuple[FloatArray, ...]
    b: tuple[FloatArray, ...]
    is_stream: bool = False
    record: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = " + ".join(f"{len(p):,}" for p in self.p)
        return f"<NgramModel: order {self.order}, {sizes} n-grams>"

    @property
    def order(self) -> int:
        """The order of the longest n-grams."""
        return len(self.p)

    def log_probs(self, rows: Rows) -> FloatArray:
        """Log-probability of the first word of each row; see `LanguageModel.log_probs`."""
        return self.log_probs_above(rows, self.p[0][rows[:, 0]].astype(float))

    def log_probs_above(self, rows: Rows, result: FloatArray) -> FloatArray:
        """Log-probabilities where pairs back off to `result`, [n], instead of single words."""
        rows = rows[:, : self.order]
        places = find_ngrams(self.keys, len(self.words), rows)
        contexts = find_ngrams(self.keys, len(self.words), rows[:, 1:])
        for k in range(1, len(places)):
            # text may have no n-grams of an order at all, so that only what is found is looked up
            known, seen = contexts[k - 1] >= 0, places[k] >= 0
            backoff = np.zeros(len(rows))
            backoff[known] = self.b[k - 1][contexts[k - 1][known]]
            result = result + backoff
            result[seen] = self.p[k][places[k][seen]]
        return result

    def rows(self, k: int) -> Rows:
        """The n-grams of an order, the last word of each first."""
        n_words = np.uint64(len(self.words))
        columns = []
        place: IntArray | None = None
        for j in range(k - 1, 0, -1):
            keys = self.keys[j - 1] if place is None else self.keys[j - 1][place]
            columns.append((keys % n_words).astype(np.uint32))
            place = (keys // n_words).astype(np.int64)
        last = np.arange(len(self.words)) if place is None else place
        columns.append(last.astype(np.uint32))
        return np.stack(columns[::-1], axis=1)

    def to_file(self) -> FileContents:
        """The keys, probabilities and weights of each order, and the words."""
        arrays = {f"keys_{k}": keys for k, keys in enumerate(self.keys, 2)}
        arrays |= {f"p_{k}": p.astype(np.float32) for k, p in enumerate(self.p, 1)}
        arrays |= {f"b_{k}": b.astype(np.float32) for k, b in enumerate(self.b, 1)}
        header = {
            "words": list(self.words), "order": self.order, "is_stream": self.is_stream,
            "record": dict(self.record),
        }  # fmt: skip
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file; arrays that could lead a search astray are refused."""
        arrays, header = contents
        words, order = require_words(header["words"]), header["order"]
        if not isinstance(order, int) or not 1 <= order <= len(arrays):
            msg = f"its order is {describe(order)}, expected a whole number from 1 up"
            raise ModelFormatError(msg)
        keys = tuple(arrays[f"keys_{k}"] for k in range(2, order + 1))
        p = tuple(arrays[f"p_{k}"] for k in range(1, order + 1))
        b = tuple(arrays[f"b_{k}"] for k in range(1, order))
        require_finite(arrays)
        sizes = [len(words), *(len(k) for k in keys)]
        for k, array in enumerate(keys):
            require_type(array, f"keys_{k + 2}", np.uint64, 1)
            rises = (array[1:] > array[:-1]).all()
            if not rises or (len(array) and int(array[-1]) // len(words) >= sizes[k]):
                raise ModelFormatError(f"keys_{k + 2} are not those of n-grams")
        for name, found, expected in (("p", p, sizes), ("b", b, sizes[:-1])):
            for k, array in enumerate(found):
                require_type(array, f"{name}_{k + 1}", np.float32, 1)
                if len(array) != expected[k]:
                    raise ModelFormatError(f"{name}_{k + 1} has {len(array)} entries")
        record = read_record(header.get("record", {}))
        model = cls(words, keys, p, b, read_flag(header["is_stream"], "is_stream"), record)
        if not header.get(
            "has_states"
        ):  # models with states check the sums together with the states
            # Models converted from ARPA files by early versions have no record.
            is_foreign = not record or record.get("method") == ARPA_METHOD
            require_sums(keys, p, b, model.can_follow, is_foreign=is_foreign)
        return model


def find_ngrams(keys: Iterable[Keys], n_words: int, rows: Rows) -> list[IntArray]:
    """Index of the n-gram of each order that ends a row; -1 where the model does not have it.

    Parameters
    ----------
    rows : [n, k]
        The last word first.

    Returns
    -------
    list
        k arrays of [n], for orders 1 to k.
    """
    if not rows.shape[1]:
        return []
    place = np.where(rows[:, 0] == NOTHING, -1, rows[:, 0].astype(np.int64))
    found = [place]
    for k, table in zip(range(1, rows.shape[1]), keys, strict=False):
        is_there = (place >= 0) & (rows[:, k] != NOTHING)
        wanted = np.where(is_there, place, 0).astype(np.uint64) * np.uint64(n_words) + rows[:, k]
        at = np.searchsorted(table, wanted)
        hit = is_there & (at < len(table))
        hit[hit] = table[at[hit]] == wanted[hit]
        place = np.where(hit, at, -1)
        found.append(place)
    return found


# -- ARPA -----------------------------------------------------------------------------------------


def arpa_lines(model: NgramModel) -> Iterator[str]:
    """The lines of an ARPA file, which most tools for language models read."""
    yield "\\data\\"
    skip = [NOTHING, END] if model.is_stream else [NOTHING]
    shown = [_shown(model, k, skip) for k in range(1, model.order + 1)]
    for k, which in enumerate(shown, 1):
        yield f"ngram {k}={len(which)}"
    for k, which in enumerate(shown, 1):
        yield ""
        yield f"\\{k}-grams:"
        texts = [" ".join(model.words[x] for x in row) for row in model.rows(k)[which, ::-1]]
        p = model.p[k - 1][which] / LOG_10
        if k == 1:
            p[which == START] = NEVER
        if k == model.order:
            yield from (f"{x:.7f}\t{text}" for x, text in zip(p, texts, strict=True))
        else:
            b = model.b[k - 1][which] / LOG_10
            yield from (f"{x:.7f}\t{text}\t{y:.7f}" for x, text, y in zip(p, texts, b, strict=True))
    yield ""
    yield "\\end\\"


def _shown(model: NgramModel, k: int, skip: list[int]) -> IntArray:
    """N-grams of an order that files have: all without the special words to skip."""
    return np.flatnonzero(~np.isin(model.rows(k), skip).any(axis=1))


def read_arpa(file: IO[str], name: str) -> NgramModel:
    """A model from an ARPA file.

    Files of tools that prune lack the suffixes of some n-grams: these are added, with the
    probability that backing off gives.

    Raises
    ------
    CorpusError
        With the line that cannot be read.
    """
    tables: list[dict[tuple[str, ...], tuple[float, float]]] = []
    announced: list[int] = []
    order = 0
    line, number = "", 0
    for number, text in enumerate(file, 1):
        line = text.strip()
        if line == "\\end\\":
            break
        if not line or line == "\\data\\":
            continue
        if line.startswith("ngram ") and not order:
            announced.append(_whole(line.partition("=")[2], name, number))
        elif line.startswith("\\") and line.endswith("-grams:"):
            order = _whole(line[1 : -len("-grams:")], name, number)
            if order != len(tables) + 1:
                msg = f"found {line}, expected \\{len(tables) + 1}-grams:"
                raise CorpusError(msg, file=name, line=number)
            tables.append({})
        elif order:
            words, values = _entry(line, order, name, number)
            tables[-1][words] = values
        elif number > 1 or line:
            msg = f"expected \\data\\, found {line[:40]!r}"
            raise CorpusError(msg, file=name, line=number, hint="is it an ARPA file?")
    if line != "\\end\\" or not tables:
        msg = "ends before \\end\\" if tables else "no n-grams in it"
        hint = "is it an ARPA file, and complete?"
        raise CorpusError(msg, file=name, line=number or None, hint=hint)
    for k, (table, n) in enumerate(zip(tables, announced, strict=False), 1):
        if len(table) != n:
            msg = f"{n} n-grams of order {k} announced, {len(table)} found"
            raise CorpusError(msg, file=name, hint="is the file complete?")
    return _from_tables(tables)


def _whole(text: str, name: str, number: int) -> int:
    if not text.strip().isdigit():
        raise CorpusError(f"expected a number, found {text.strip()[:40]!r}", file=name, line=number)
    return int(text)


def _entry(
    line: str, order: int, name: str, number: int
) -> tuple[tuple[str, ...], tuple[float, float]]:
    parts = line.split()
    try:
        p = float(parts[0])
        b = float(parts[order + 1]) if len(parts) == order + 2 else 0.0
        if len(parts) not in {order + 1, order + 2} or not np.isfinite([p, b]).all() or p > 1e-5:
            raise ValueError
    except (ValueError, IndexError):
        msg = f"expected a log-probability, {order} words and perhaps a weight, found {line[:40]!r}"
        raise CorpusError(msg, file=name, line=number) from None
    return tuple(parts[1 : order + 1]), (p * LOG_10, b * LOG_10)


def _from_tables(tables: list[dict[tuple[str, ...], tuple[float, float]]]) -> NgramModel:
    special = set(SPECIAL)
    words = (*SPECIAL, *(w for (w,) in tables[0] if w not in special))
    number = {word: i for i, word in enumerate(words)}
    _add_suffixes(tables)
    keys: list[Keys] = []
    p = [np.full(len(words), NEVER * LOG_10)]
    b = [np.zeros(len(words))]
    for (word,), (log_p, weight) in tables[0].items():
        p[0][number[word]], b[0][number[word]] = log_p, weight
    for k, table in enumerate(tables[1:], 2):
        rows = np.array([[number[w] for w in gram[::-1]] for gram in table], np.uint32)
        rows = rows.reshape(-1, k)
        suffix = find_ngrams(keys, len(words), rows[:, :-1])[-1].astype(np.uint64)
        key = suffix * np.uint64(len(words)) + rows[:, -1]
        at = np.argsort(key)
        values = np.array(list(table.values())).reshape(-1, 2)[at]
        keys.append(key[at])
        p.append(values[:, 0])
        b.append(values[:, 1])
    has_ends, record = ("</s>",) in tables[0], {"method": ARPA_METHOD}
    return NgramModel(words, tuple(keys), tuple(p), tuple(b[:-1]), not has_ends, record)


def _add_suffixes(tables: list[dict[tuple[str, ...], tuple[float, float]]]) -> None:
    """Add the missing suffixes of n-grams, with the probability that backing off gives."""
    known = {word for (word,) in tables[0]}
    for k in range(len(tables) - 1, 0, -1):
        for gram in list(tables[k]):
            if not known.issuperset(gram):
                missing = next(w for w in gram if w not in known)
                raise CorpusError(f"{missing!r} is in n-grams of order {k + 1}, not of order 1")
            if gram[1:] not in tables[k - 1]:
                tables[k - 1][gram[1:]] = (_back_off(tables, gram[1:]), 0.0)


def _back_off(
    tables: list[dict[tuple[str, ...], tuple[float, float]]], gram: tuple[str, ...]
) -> float:
    found = tables[len(gram) - 1].get(gram)
    if found is not None:
        return found[0]
    context = tables[len(gram) - 2].get(gram[:-1], (0.0, 0.0))
    return context[1] + _back_off(tables, gram[1:])


def require_sums(
    keys: Sequence[npt.NDArray[np.uint64]],
    p: Sequence[npt.NDArray[np.floating]],
    b: Sequence[npt.NDArray[np.floating]],
    can_follow: npt.NDArray[np.bool_],
    *,
    lowest: Lower | None = None,
    tolerance: float = SINGLE_TOLERANCE,
    is_foreign: bool = False,
) -> None:
    """Refuse back-off n-grams whose next-word probabilities do not sum to 1.

    Parameters
    ----------
    keys, p, b
        See `NgramModel`.
    can_follow : [V]
        Which words are predicted.
    lowest
        What pairs of words back off to; None for single words.
    is_foreign
        Whether the model is of another tool: sums may then be below 1.
    """
    for k, array in enumerate(p, 1):
        if array.size and not array.max() <= LARGEST_LOG:
            raise ModelFormatError(f"p_{k} has a probability above 1, or that is not a number")
    of_words = float(np.exp(p[0].astype(float))[can_follow].sum())
    _require(np.array([of_words]), 1, tolerance, is_foreign)
    n_words, step = len(can_follow), -(-sum(map(len, keys)) // MOST_NGRAMS)
    for k, table in enumerate(keys, 2):
        first = (table % np.uint64(n_words)).astype(np.int64)
        at = np.flatnonzero(first % step == 0) if step > 1 else np.arange(len(table))
        suffix = (table[at] // np.uint64(n_words)).astype(np.int64)
        if k == 2 and lowest is not None:
            low = lowest(suffix, first[at])
        else:
            low = np.exp(p[k - 2][suffix].astype(float))
        contexts, place = np.unique(_context_keys(keys, k, at, n_words), return_inverse=True)
        seen = np.bincount(place, np.exp(p[k - 1][at].astype(float)), len(contexts))
        below_seen = np.bincount(place, low, len(contexts)).astype(float)
        index = contexts.astype(np.int64) if k == 2 else _find(keys[k - 3], contexts)
        with np.errstate(over="ignore"):
            weight = np.where(index >= 0, np.exp(b[k - 2][index].astype(float)), 1.0)
            below = of_words if is_foreign else 1.0
            _require(seen + weight * (below - below_seen), k, tolerance, is_foreign)
        if step == 1:  # else contexts were left out, and nothing is known of the others
            _require_rest(b[k - 2], index, keys, k, n_words, 0.0 if is_foreign else -tolerance)


def _require_rest(
    b: npt.NDArray[np.floating],
    seen: IntArray,
    keys: Sequence[npt.NDArray[np.uint64]],
    k: int,
    n_words: int,
    lowest: float,
) -> None:
    """Refuse back-off weights other than 1 for contexts that nothing was seen behind.

    Models of other tools may have weights below 1 there: their `lowest` logarithm is 0.
    """
    wrong = np.flatnonzero((b > LARGEST_LOG) | (b < lowest) if lowest else b > LARGEST_LOG)
    last = wrong = wrong[~np.isin(wrong, seen)]
    for j in range(k - 2, 0, -1):  # the last word of a context is at the end of its suffixes
        last = (keys[j - 1][last] // np.uint64(n_words)).astype(np.int64)
    if (last != END).any():  # nothing follows an end
        msg = f"b_{k - 1} has weights that are not 1, of contexts that nothing was seen behind"
        raise ModelFormatError(msg)


def _context_keys(
    keys: Sequence[npt.NDArray[np.uint64]], k: int, at: IntArray, n_words: int
) -> npt.NDArray[np.uint64]:
    """The keys of the contexts of some n-grams: all their words but the last."""
    table = keys[k - 2][at]
    first = table % np.uint64(n_words)
    if k == 2:
        return first
    suffix = (table // np.uint64(n_words)).astype(np.int64)
    shorter = _context_keys(keys, k - 1, suffix, n_words)
    index = shorter if k == 3 else _find(keys[k - 4], shorter).astype(np.uint64)
    return np.asarray(index * np.uint64(n_words) + first)


def _find(table: npt.NDArray[np.uint64], wanted: npt.NDArray[np.uint64]) -> IntArray:
    """Indices of keys in a sorted table; -1 for missing keys."""
    if not len(table):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return np.where(table[at] == wanted, at, -1)


def _require(sums: FloatArray, order: int, tolerance: float, is_foreign: bool) -> None:
    above = FOREIGN_EXCESS if is_foreign else tolerance
    right = (sums <= 1 + above) & (sums >= (0 if is_foreign else 1 - tolerance))
    if not right.all():
        what = f"probabilities of the next word sum to {float(sums[~right][0]):.4g}, expected 1"
        raise ModelFormatError(f"{what} (n-grams of order {order})")
