"""A tree for a sentence that the grammar has no parse for: its best pieces, side by side.

The plain grammar behind a model fills the chart with the likeliest derivation of every labelled
span. A sentence is then cut into pieces, neighbouring labelled spans, so that

    sum over pieces of  log delta[i, j, a] + log P(a) - PRICE

is largest. P(a) is how common the symbol is, so that a piece is weighed as if drawn by itself, and
the price keeps pieces few. Without it, frequent tags win over the phrases that they are in; were
few pieces all that counts, odd phrases would win over common ones. Intermediate symbols are no
pieces.

Cost: that of the Viterbi chart, and O(n^2) more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray
from sapwood.corpus.clean import ROOT
from sapwood.corpus.transform import restore
from sapwood.corpus.tree import Tree
from sapwood.inference.charts import SMALLEST, tag_weights
from sapwood.inference.decoders import trace

if TYPE_CHECKING:
    from sapwood.inference.prepared import PreparedGrammar
    from sapwood.kernels.coarse import Tags
    from sapwood.models.latent_grammar import LatentGrammar

# Chosen on trees of train parts that grammars of a hundred to a thousand trees have no parse for.
PRICE = 4.0
NO_TAG = -1e6  # log-weight of a word that no tag has: it is a piece of its own


class _Spans(NamedTuple):
    """The best symbol of every span and its log-weight, shape [n, n + 1]; -inf for none."""

    weight: FloatArray
    symbol: npt.NDArray[np.int64]


def join_pieces(prepared: PreparedGrammar, words: list[str]) -> Tree:
    """The best pieces of a sentence under one root: `(TOP (S piece piece))`, or `(TOP piece)`."""
    pieces = [piece for tree in _pieces(prepared, words) for piece in tree.children]
    if len(pieces) == 1:
        return Tree._trusted(ROOT, tuple(pieces))
    return Tree._trusted(ROOT, (Tree._trusted(root_label(prepared.grammar), tuple(pieces)),))


def root_label(grammar: LatentGrammar) -> str:
    """The commonest label of a sentence of two or more words."""
    roots = grammar.coarse.root[: grammar.n_phrases]
    return grammar.phrases[int(roots.argmax())].chain[-1] if len(roots) else "X"


def _pieces(prepared: PreparedGrammar, words: list[str]) -> list[Tree]:
    from sapwood.kernels.viterbi import best_weights

    tags = tag_weights(prepared, words)
    delta, scale = best_weights(prepared.plain.rules, tags)
    spans = _best_spans(prepared, tags, delta, scale)
    out = []
    for i, j in _best_cut(spans.weight):
        rows = trace(prepared, tags, delta, scale, int(spans.symbol[i, j]), i, j)
        nodes = [(a, b, c, words[place] if b < 0 else None) for a, b, c, place in rows]
        out.append(restore(prepared.grammar.symbols, nodes))
    return out


def _best_spans(
    prepared: PreparedGrammar, tags: Tags, delta: FloatArray, scale: npt.NDArray[np.int64]
) -> _Spans:
    grammar, visits = prepared.grammar, prepared.plain.visits
    n, n_phrases = len(tags.scale), grammar.n_phrases
    spans = _Spans(np.full((n, n + 1), -np.inf), np.full((n, n + 1), n_phrases))
    with np.errstate(divide="ignore"):  # weight 0 is log-weight -inf
        visits = np.maximum(visits, SMALLEST)  # what no tree has is still better than none
        log_prior = np.log(visits / visits.sum())
        log_tag = np.log(tags.weight) + log_prior[n_phrases + tags.tag.astype(np.int64)]
        log_delta = np.log(delta) + log_prior[:n_phrases]
    if n_phrases:
        log_delta[:, [symbol.is_intermediate for symbol in grammar.phrases]] = -np.inf
        start, last = np.triu_indices(n)  # in the order of the cells
        best = log_delta.argmax(axis=1)
        spans.symbol[start, last + 1] = best
        weight = log_delta[np.arange(len(best)), best] + scale * np.log(2.0)
        spans.weight[start, last + 1] = weight
    for i in range(n):  # no phrase covers a single word
        place = _best_tag(grammar, tags, log_tag, i)
        spans.weight[i, i + 1], spans.symbol[i, i + 1] = NO_TAG, n_phrases
        if place is not None:
            spans.weight[i, i + 1] = log_tag[place] + tags.scale[i] * np.log(2.0)
            spans.symbol[i, i + 1] = n_phrases + int(tags.tag[place])
    return spans


def _best_tag(grammar: LatentGrammar, tags: Tags, log_tag: FloatArray, i: int) -> int | None:
    """The place of a word's best tag; a word that is the whole sentence is rather a phrase.

    A phrase over the tag that the word would have alone: no word changes its tag to become one.
    """
    places = np.arange(int(tags.start[i]), int(tags.start[i + 1]))
    places = places[log_tag[places] > -np.inf]
    if not len(places):
        return None
    best = int(places[log_tag[places].argmax()])
    if len(tags.scale) > 1:
        return best
    chains = {place: grammar.tags[int(tags.tag[place])].chain for place in places.tolist()}
    phrases = [
        place for place, chain in chains.items() if len(chain) > 1 and chain[-1] == chains[best][-1]
    ]
    return max(phrases, key=lambda place: float(log_tag[place]), default=best)


def _best_cut(weight: FloatArray) -> list[tuple[int, int]]:
    """Neighbouring spans over the whole sentence, of the largest total less the price of each.

    total[j] = max over i < j of  total[i] + weight[i, j] - PRICE
    """
    n = len(weight)
    total, back = np.zeros(n + 1), np.zeros(n + 1, np.int64)
    for j in range(1, n + 1):
        values = total[:j] + weight[:j, j] - PRICE
        back[j] = int(values.argmax())
        total[j] = values[back[j]]
    spans, j = [], n
    while j > 0:
        spans.append((int(back[j]), j))
        j = int(back[j])
    return spans[::-1]
