"""The best tree of all over the words, which no chart has pruned: where a network is heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sapwood.constituency.parse.brackets import split_codes
from sapwood.constituency.parse.decoders import BRACKET_COST, TAG_GAIN, Decoded
from sapwood.core.arrays import FloatArray, IntArray, cell
from sapwood.corpora.tree import ROOT, Tree

if TYPE_CHECKING:
    from sapwood.constituency.parse.brackets import BracketPosteriors


def free_tree(
    brackets: BracketPosteriors,
    words: Sequence[str],
    names: Sequence[str],
    chains: Mapping[frozenset[str], tuple[str, ...]],
) -> tuple[Tree, Decoded]:
    """The tree of highest expected F1 among all trees over the words; there always is one.

    Parameters
    ----------
    names
        Of labels, by their numbers in brackets.
    chains
        Labels that were seen over the same words, outermost first; others by their posteriors.
    """
    from sapwood.constituency.parse.kernels.span_trees import best_spans

    n = len(words)
    label, start, end, is_tag = split_codes(brackets.code, n)
    tags, score = _likeliest_tags(brackets.p, label, start, is_tag, n)
    is_used = ~is_tag & (brackets.p > BRACKET_COST)
    whole = np.flatnonzero(~is_tag & (end - start == n))
    if n > 1 and len(whole) and not is_used[whole].any():
        is_used[whole[brackets.p[whole].argmax()]] = True  # a sentence has a label
    used = np.flatnonzero(is_used)
    used = used[np.argsort(-brackets.p[used], kind="stable")]
    where = cell(start[used], end[used], n)
    gain = np.bincount(where, brackets.p[used] - BRACKET_COST, n * (n + 1) // 2)
    over: dict[int, list[str]] = {}
    for place, name in zip(where.tolist(), label[used].tolist(), strict=True):
        over.setdefault(place, []).append(names[name])
    done: dict[tuple[int, int], tuple[Tree, ...]] = {}
    for i, j, k in best_spans(gain, n)[::-1].tolist():  # children before parents
        if k:
            kids = done.pop((i, k)) + done.pop((k, j))
        else:
            kids = (Tree._trusted(names[tags[i]], (words[i],)),)
        place = cell(i, j, n)
        found = over.get(place, [])
        score += gain[place]
        for name in reversed(chains.get(frozenset(found), tuple(found))):
            kids = (Tree._trusted(name, kids),)
        done[i, j] = kids
    kids = done[0, n]
    tree = kids[0] if kids[0].label == ROOT else Tree._trusted(ROOT, kids)
    return tree, Decoded(float(score), [])


def _likeliest_tags(
    p: FloatArray, label: IntArray, start: IntArray, is_tag: npt.NDArray[np.bool_], n: int
) -> tuple[list[int], float]:
    """Of each word, and what they add to the score; the first label for a word without any."""
    order = np.flatnonzero(is_tag)
    order = order[np.argsort(p[order], kind="stable")]
    tags, best = np.zeros(n, np.int64), np.zeros(n)
    tags[start[order]], best[start[order]] = label[order], p[order]  # of several the last counts
    return tags.tolist(), TAG_GAIN * float(best.sum())
