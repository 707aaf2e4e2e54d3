"""Ways to spoil an input: bytes, texts, JSON values, arrays. Each draws from the one generator."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

LABELS = (
    "S", "NP", "VP", "NN", "DT", "NP-SBJ-1", "NP=2", "@X", "@VP:>PP", "A|B", "X^Y", "TOP", "ROOT",
    "S1", "-LRB-", "-NONE-", "=X", "CONJ-1", "C", "WNP-1", "é", "#", "0", "", "<unk>", "CODE", "ID",
)  # fmt: skip
WORDS = (
    "the", "dog", "sleeps", ".", "0", "*", "*T*-1", "*pro*", "-LRB-", "#", "%", "*x*", "a\u00a0b",
    "日本", "\u2028", "\x85", "e\u0301", "A|B", "'", '"', "\\", "<unk>", "\x00", "W" * 300,
    "1990-91", "\u0130", "\ufeff", "a-b-a-b", "x/y",
)  # fmt: skip
BLANKS = (" ", " ", " ", "\n", "\t", "\r\n", "\n\n", "\f", "  ", "\n# ", "\n*x*", "\r")
# what readers might treat in a way of their own
PIECES = (
    b"(", b")", b"((", b"))", b"()", b"( )", b"(X", b"(X x)", b"\n", b"\r", b"\r\n", b"\t", b" ",
    b"#", b"%", b";", b"*x*", b"/*", b"*/", b"/~*", b"*~/", b"\xef\xbb\xbf", b"\xff\xfe",
    b"\xfe\xff", b"\x00", b"\x1a", b"\x7f", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80", b"\xff", b"\xe2\x80\xa8", b"\xc2\x85", b"{", b"}", b"[", b"]", b'"', b"\\",
    b"null", b"NaN", b"1e999", b"-1", b"0", b"->", b":", b"$", b"~", b"=", b"*", b"/", b"|", b"^",
    b"@", b"root", b"let", b"choice", b"99999999999999999999", b"1e-320", b"_", b"1\t", b"1-2\t",
    b"1.1\t",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 3, 7, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63,
    -(2**63), 10**30, 0.0, -0.0, 0.5, 1.0, -1.5, 1e-320, 1e300, 1e308, float("inf"), float("-inf"),
    float("nan"),
)  # fmt: skip
DEEP = "<deep>"  # stands for a value nested too deeply for any recursion
VALUES = (
    None, DEEP, True, False, "", "x", "head", "right", "generic", "english", "<unk>", "TOP",
    "\ud800", "\x00", [], {}, [[]], [None], ["x"], [["x"], [], None], [["x"], ["y"], ["z"]],
    {"x": 1}, {"method": 3},
)  # fmt: skip
DTYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")


def spoil_bytes(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """One change of a run of bytes, perhaps with a run of another input."""
    at = rng.randrange(len(data) + 1)
    size = rng.choice((1, 1, 2, 4, 8, 16, 64, 1024))
    before, run, after = data[:at], data[at : at + size], data[at + size :]
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: before,
        lambda: run + after,
        lambda: before + after,
        lambda: before + run * rng.choice((2, 2, 3, 50)) + after,
        lambda: before + rng.choice(PIECES) * rng.choice((1, 1, 1, 2, 2000)) + run + after,
        lambda: before + rng.choice(PIECES) + after,
        lambda: before + bytes(byte ^ 1 << rng.randrange(8) for byte in run[:1]) + data[at + 1 :],
        lambda: before + rng.randbytes(len(run)) + after,
        lambda: before + _end_of(rng, rng.choice(others) if others else data),
        lambda: _inserted(rng, before + after, run),
    )
    return rng.choice(changes)()


def _end_of(rng: random.Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _inserted(rng: random.Random, data: bytes, run: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + run + data[at:]


def bracket_text(rng: random.Random) -> bytes:
    """A few trees with awkward labels, words and blanks; some are not quite trees."""
    trees = [_tree(rng, rng.randrange(6)) for _ in range(rng.randrange(1, 4))]
    text = "".join(tree + rng.choice(("\n", "\n", " ", "", "\r\n")) for tree in trees)
    return text.encode("utf-8", "surrogatepass")


def _tree(rng: random.Random, depth: int) -> str:
    label, blank = rng.choice(LABELS), rng.choice(BLANKS)
    if depth == 0 or rng.random() < 0.2:
        return f"({label}{blank}{rng.choice(WORDS)})"
    n_kids = rng.choice((1, 1, 2, 2, 3, 5))
    kids = "".join(blank + _tree(rng, depth - 1) for _ in range(n_kids))
    end = ")" if rng.random() < 0.97 else rng.choice(("", "))", " x)", ") x"))
    return f"({label}{kids}{end}"


def sentences(rng: random.Random) -> bytes:
    """A few lines of known and awkward words."""
    known = ("the", "dog", "sleeps", ".", "a", "cat", "sees", "in", "garden")
    lines = (
        rng.choice((" ", " ", "\t", "\u00a0")).join(
            rng.choice(known if rng.random() < 0.7 else WORDS) for _ in range(rng.randrange(8))
        )
        for _ in range(rng.randrange(1, 6))
    )
    return rng.choice(("\n", "\r\n", "\n\n")).join(lines).encode()


def spoil_json(rng: random.Random, value: Any) -> Any:
    """A copy of a JSON value with one place changed."""
    value = copy.deepcopy(value)
    holder, key = _random_place(rng, value)
    if holder is None:
        return awkward_value(rng)
    kind = rng.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(rng.choice(holder)))
    elif kind == 2:
        holder[key] = copy.deepcopy(rng.choice(list(_items(holder))))
    elif kind == 3 and isinstance(holder[key], list):
        rng.shuffle(holder[key])
    elif kind == 4 and isinstance(holder, dict):
        holder[rng.choice(("x", "", "like", "record"))] = holder.pop(key)
    else:
        holder[key] = awkward_value(rng)
    return value


def dump_json(value: Any) -> str:
    """JSON text, with what stands for too deep a value written out."""
    return json.dumps(value, ensure_ascii=False).replace(f'"{DEEP}"', "[" * 9999 + "]" * 9999)


def awkward_value(rng: random.Random) -> Any:
    """A value that no reader should take for granted."""
    return copy.deepcopy(rng.choice(NUMBERS if rng.random() < 0.5 else VALUES))


def _random_place(rng: random.Random, value: Any) -> tuple[Any, Any]:
    """Some list or object within a value, and a place in it; None when there is nothing in it."""
    holder, key = None, None
    while isinstance(value, (list, dict)) and value:
        if holder is not None and rng.random() < 0.4:
            break
        holder = value
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        value = holder[key]
    return holder, key


def _items(holder: Any) -> Any:
    return holder.values() if isinstance(holder, dict) else holder


def spoil_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """A copy of an array with other values, another type or another shape."""
    flat = np.atleast_1d(array)
    changes: tuple[Callable[[], np.ndarray], ...] = (
        lambda: _cast(array, rng.choice(DTYPES)),
        lambda: _first(flat, rng.randrange(len(flat) + 1)),
        lambda: np.concatenate([flat, flat]),
        lambda: _reshape(array, rng.choice(((), (1, -1), (-1, 1), (-1,), (0,)))),
        lambda: np.concatenate([flat[::-1], flat[:0]]),
        lambda: np.zeros_like(array),
    )
    return rng.choice(changes)() if rng.random() < 0.4 else _other_numbers(rng, array)


def _first(array: np.ndarray, size: int) -> np.ndarray:
    return array[:size].copy()


def _cast(array: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(dtype)


def _reshape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    n_wanted = 0 if shape == (0,) else 1 if shape == () else array.size
    flat = array.ravel()[:n_wanted]
    return flat.reshape(shape).copy() if flat.size == n_wanted and n_wanted else flat[:0].copy()


def _other_numbers(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """Some numbers replaced: by awkward ones, by neighbours, or slightly changed."""
    array = array.copy()
    flat = array.reshape(-1)
    for _ in range(rng.choice((1, 1, 2, 10)) if flat.size else 0):
        place = rng.randrange(flat.size)
        number = rng.choice(NUMBERS)
        if rng.random() < 0.5:
            number = flat[rng.randrange(flat.size)].item()
        with np.errstate(all="ignore"):
            flat[place] = _fitting(number, array.dtype)
    return array


def _fitting(number: float, dtype: np.dtype) -> Any:
    if dtype.kind in "fb":
        return np.asarray(float(number)).astype(dtype)
    if number != number or abs(number) == float("inf"):  # noqa: PLR0124 - not a number
        number = 0
    info = np.iinfo(dtype)
    return min(max(int(number), int(info.min)), int(info.max))
