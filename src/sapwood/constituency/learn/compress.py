"""Mixes in a few megabytes: networks in 8 bits, and a small grammar with a small lexicon.

Most of the file of a mix contributes little to accuracy. Most numbers of a network are vectors of
affixes and words that were seen once or twice; most numbers of a grammar are for tags that a word
was never seen with. Compression drops both:

- **Networks**: vectors of rare words and forms are dropped, and matrices are stored in 8 bits per
  number.
- **Lexicon**: a word seen less than `least_words` times is replaced by its class of unknown words,
  and the class receives the word's probability. A tag is dropped if its probability is below
  `least_ratio` times that of the word's most probable tag. The most probable word of each tag
  stays. Probabilities are then normalised again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from sapwood.constituency.grammar.compact import rounded_grammar
from sapwood.constituency.grammar.ensemble import Ensemble, Model, shares_chart
from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.grammar.member import Member
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.arrays import BoolArray, FloatArray, IntArray, ranges
from sapwood.core.errors import SapwoodError
from sapwood.corpora.vocabulary import Vocabulary
from sapwood.networks.rounding import drop_rare

if TYPE_CHECKING:
    from sapwood.constituency.grammar.discriminative import SpanNetwork


@dataclass(frozen=True)
class Compression:
    """Thresholds below which words, vectors and tags are dropped from a model.

    Parameters
    ----------
    least_words
        Minimum count of a word; the grammars treat rarer words as unknown.
    least_word_vectors, least_forms
        Minimum count of a word, or of a row of the table of forms, for its vector to be kept.
    least_ratio
        Minimum ratio of a tag's probability to that of the word's most probable tag; tags with a
        lower ratio are dropped.
    """

    least_words: int = 2
    least_word_vectors: int = 2
    least_forms: int = 2
    least_ratio: float = 3e-3


def compress_mix(
    model: Model, sentences: Iterable[Sequence[str]], settings: Compression | None = None
) -> Ensemble:
    """Return a compact copy of a mix, whose model file is smaller.

    Parameters
    ----------
    model
        A mix of networks and grammars. All members must have the same plain grammar, as members
        trained together on one binarisation have.
    sentences
        The training sentences, with words spelled as in the trees.
    """
    settings = settings or Compression()
    mix, texts = model.as_ensemble(), list(sentences)
    first = mix.grammars[0]
    if not all(shares_chart(first, other) for other in mix.grammars):
        raise SapwoodError(
            "the members of the mix have different plain grammars",
            hint="mix members that were trained on the same trees with the same binarisation",
        )
    counts = Counter(word for words in texts for word in words)
    plan = _LexiconPlan.of(first, counts, settings)
    members = tuple(_compress(member, plan, texts, settings) for member in mix.members)
    return replace(mix, members=members, is_compact=True)


def _compress(
    member: Member, plan: _LexiconPlan, texts: Iterable[Sequence[str]], settings: Compression
) -> Member:
    if member.chart_grammar is member:
        return rounded_grammar(plan.apply(member.chart_grammar))
    if member.has_rules:
        raise SapwoodError(
            f"{member.method} cannot be compressed", hint="mix networks and latent grammars only"
        )
    own = cast("SpanNetwork", member)  # the only kind without rules
    network = drop_rare(own.network, texts, settings.least_word_vectors, settings.least_forms)
    grammar = rounded_grammar(plan.apply(own.grammar))
    return replace(own, grammar=grammar, network=network.rounded(bits=8))


class _LexiconPlan(NamedTuple):
    """The words and entries of a lexicon to keep, and where to move the weights of the others.

    Attributes
    ----------
    vocabulary
        The kept words, and all classes.
    rows
        The old rows that are kept.
    target
        For each old entry, the old entry that receives its weight; -1 for none.
    kept
        Whether each old entry is kept.
    """

    vocabulary: Vocabulary
    rows: IntArray
    target: IntArray
    kept: BoolArray

    @classmethod
    def of(
        cls, grammar: LatentGrammar, counts: Counter[str], settings: Compression
    ) -> _LexiconPlan:
        """Make the plan for all grammars with the lexicon and the plain grammar of `grammar`."""
        lexicon = grammar.lexicon
        known, n_words = lexicon.vocabulary, len(lexicon.words)
        stays = np.ones(lexicon.n_rows, bool)
        stays[:n_words] = [counts[word] >= settings.least_words for word in lexicon.words]
        stays[lexicon.entry_row[grammar.likeliest_entries]] = True  # every tag keeps a word
        home = np.arange(lexicon.n_rows)
        dropped = np.flatnonzero(~stays)
        home[dropped] = [known.class_row(known[row], is_first=False) for row in dropped.tolist()]
        row, tag = lexicon.entry_row, lexicon.entry_tag.astype(np.int64)
        target = np.where(stays[row], np.arange(len(row)), lexicon.find_entries(home[row], tag))
        has_home = target >= 0
        weight = _sums(target[has_home], grammar.coarse.lexical[has_home], len(row))
        kept = stays[row] & _is_likely(grammar, weight, settings.least_ratio)
        words = tuple(word for word, stay in zip(lexicon.words, stays, strict=False) if stay)
        vocabulary = Vocabulary(words, known.classes, known.style)
        return cls(vocabulary, np.flatnonzero(stays), np.where(has_home, target, -1), kept)

    def apply(self, grammar: LatentGrammar) -> LatentGrammar:
        """Return the grammar with the reduced lexicon."""
        old, n_states = grammar.lexicon, grammar.n_states
        tag = grammar.n_phrases + old.entry_tag.astype(np.int64)
        sizes = np.diff(old.weight_start)
        moved = np.flatnonzero(self.target >= 0)
        start = old.weight_start[self.target[moved]]
        places = ranges(start, start + sizes[moved])
        first = old.weight_start[moved]
        numbers = old.weights[ranges(first, first + sizes[moved])]
        weights = _sums(places, numbers, len(old.weights))
        kept = np.repeat(self.kept, sizes)
        state = ranges(grammar.state_start[tag], grammar.state_start[tag] + sizes)[kept]
        coarse = _sums(
            self.target[moved], grammar.coarse.lexical[moved], len(self.target)
        )[self.kept]  # fmt: skip
        per_row = np.bincount(old.entry_row[self.kept], minlength=old.n_rows)[self.rows]
        lexicon = Lexicon(
            self.vocabulary,
            np.append(0, np.cumsum(per_row)).astype(np.uint32),
            old.entry_tag[self.kept],
            _normalise(weights[kept], state, int(grammar.state_start[-1])),
            np.append(0, np.cumsum(n_states[tag[self.kept]])),
        )
        coarse = _normalise(coarse, tag[self.kept], grammar.n_symbols)
        return replace(grammar, lexicon=lexicon, coarse=replace(grammar.coarse, lexical=coarse))


def _sums(place: IntArray, numbers: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(place, numbers, size), np.float64)


def _is_likely(grammar: LatentGrammar, weight: FloatArray, least: float) -> BoolArray:
    """Whether each entry has a probable tag for its word, or the most probable word for its tag."""
    lexicon = grammar.lexicon
    tag = lexicon.entry_tag.astype(np.int64)
    joint = weight * prepare(grammar).plain.visits[grammar.n_phrases + tag]
    best, of_tag = np.zeros(lexicon.n_rows), np.zeros(len(grammar.tags))
    np.maximum.at(best, lexicon.entry_row, joint)
    np.maximum.at(of_tag, tag, weight)
    return np.asarray((joint >= least * best[lexicon.entry_row]) | (weight >= of_tag[tag]))


def _normalise(weights: FloatArray, state: IntArray, n_states: int) -> FloatArray:
    """Divide weights by the sum over their state; weights of states whose sum is 0 stay 0."""
    total = _sums(state, weights, n_states)
    return np.asarray(weights / np.where(total > 0, total, 1.0)[state])
