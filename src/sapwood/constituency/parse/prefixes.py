"""Surprisal of each word by a grammar with hidden states: exact prefix probabilities.

The prefix probability of w1 ... wk is the sum over all sentences that begin with these words, and
the surprisal of word k is log P(w1 ... wk-1) - log P(w1 ... wk). The recursion runs from left to
right (Stolcke 1995); left-recursive chains are summed by one sparse linear system, which is solved
once for each grammar (Jelinek and Lafferty 1991). With hidden states, the index is the pair of
symbol and state.

Notation
--------
    A[k, c]       probability that the prefix up to k was read and c starts there as a right child
                  (or as the root, for k = 0), shape [states of all symbols]
    S[k]          A[k] (I - P_L)^-1: the same for c as any left descendant of such a symbol
    P_L[a, b]     probability that phrase b is the left child of phrase a
    F[k, t]       probability that the prefix up to k was read and tag t comes next
    e(w)          emission probabilities of a word, shape [states of tags]

Then P(w | prefix) = F[k] . e(w). Everything is divided by the prefix probability, so that F[k] and
the probability of the sentence's end sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from sapwood.constituency.grammar.random_trees import state_visits
from sapwood.core.arrays import FloatArray, IntArray, ranges, starts_of
from sapwood.core.errors import SapwoodError, require_memory

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import SuperLU

    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.kernels.prefixes import PairedRules

NO_PREFIXES = "use a model of --method pcfg, em, cluster, pivot or pivot-em, a mix with one of "
NO_PREFIXES += "them, or a language model"


class WordPrediction(NamedTuple):
    """The predictions of a grammar for one word of a sentence, or for its end.

    Probabilities are conditioned on the words before.
    """

    probability: float  # of the word
    # of the derivations that lead to the word, up to its tag: the syntactic part of `probability`
    syntactic: float
    tags: FloatArray  # [n_tags + 1]: distribution of the next tag; the sentence's end last
    words: FloatArray | None  # [n_rows + 1]: distribution over the lexicon and the end, if wanted


class PrefixTables(NamedTuple):
    """A grammar prepared for prefix probabilities; it is not changed afterwards."""

    rules: PairedRules
    left_chains: SuperLU  # factors of I - P_L
    left_tags: csr_array  # [phrases' states, tags' states]: probability of a tag as left child
    emissions: csr_array  # [n_rows, tags' states]: the lexicon
    tag_of_state: IntArray  # [tags' states]: number of each state's tag
    restart: FloatArray  # [states]: distribution of the symbols and states of random trees
    largest: int  # the largest number of states


_kept: WeakKeyDictionary[LatentGrammar, PrefixTables] = WeakKeyDictionary()
_keeping = RLock()


def prefix_tables(grammar: LatentGrammar) -> PrefixTables:
    """The tables of a grammar, made at the first call and kept as long as the grammar.

    Raises
    ------
    SapwoodError
        If the grammar holds weights instead of probabilities.
    """
    if not grammar.can.probabilities:
        raise SapwoodError(
            f"{grammar.method} has no probabilities of prefixes: its weights can be negative",
            hint=NO_PREFIXES,
        )
    with _keeping:
        if grammar not in _kept:
            _kept[grammar] = _make_tables(grammar)
        return _kept[grammar]


def _make_tables(g: LatentGrammar) -> PrefixTables:
    from scipy.sparse import csc_array, csr_array, eye_array
    from scipy.sparse.linalg import splu

    n_states, start = int(g.state_start[-1]), g.state_start
    n_phrase_states = int(start[g.n_phrases])
    left = _left_children(g)
    own = csc_array((n_phrase_states, n_phrase_states)) + left[:, :n_phrase_states]
    try:
        chains = splu(csc_array(eye_array(n_phrase_states) - own)) if n_phrase_states else None
    except RuntimeError as error:
        raise SapwoodError(
            "the grammar has left recursion without an end, so prefixes have no probability",
            hint="the model is damaged or was built by hand: train it again",
        ) from error
    tensors = [g.tensor(r) for r in range(len(g.rules))]
    visits = state_visits(start, g.root, g.rules, tensors)
    lexicon, sizes = g.lexicon, np.diff(start)[g.n_phrases :]
    tag = g.n_phrases + lexicon.entry_tag.astype(np.int64)
    columns = ranges(start[tag], start[tag + 1]) - n_phrase_states
    row_start = lexicon.weight_start[lexicon.row_start.astype(np.int64)]
    emissions = csr_array(
        (lexicon.weights, columns, row_start), shape=(lexicon.n_rows, n_states - n_phrase_states)
    )
    return PrefixTables(
        _paired_rules(g), chains, csr_array(left[:, n_phrase_states:]), emissions,
        np.repeat(np.arange(len(g.tags)), sizes), visits / visits.sum(), int(g.n_states.max()),
    )  # fmt: skip


def _left_children(g: LatentGrammar) -> csr_array:
    """Probability of each left child: [phrases' states, states of all symbols]."""
    from scipy.sparse import coo_array, csr_array

    start, rows, columns, values = g.state_start, [], [], []
    for r, (a, b, _) in enumerate(g.rules.tolist()):
        sums = g.tensor(r).sum(axis=2)
        h, p = np.indices(sums.shape)
        rows.append((h + start[a]).ravel())
        columns.append((p + start[b]).ravel())
        values.append(sums.ravel())
    shape = (int(start[g.n_phrases]), int(start[-1]))
    if not rows:
        return csr_array(shape)
    where = (np.concatenate(rows), np.concatenate(columns))
    return csr_array(coo_array((np.concatenate(values), where), shape=shape))


def _paired_rules(g: LatentGrammar) -> PairedRules:
    from sapwood.constituency.parse.kernels.prefixes import PairedRules

    a, b, c = g.rules.T.astype(np.int64)
    key = b * g.n_symbols + c
    order = np.argsort(key, kind="stable")
    pairs, n_rules = np.unique(key, return_counts=True)
    left, right = pairs // g.n_symbols, pairs % g.n_symbols
    return PairedRules(
        g.n_phrases, g.n_states, g.state_start,
        np.searchsorted(left, np.arange(g.n_symbols + 1)).astype(np.int64), right,
        starts_of(n_rules), a[order], g.tensor_start[:-1][order], g.rule_weights,
        starts_of(g.n_states[left] * g.n_states[right]),
    )  # fmt: skip


def chart_bytes(tables: PrefixTables, n: int) -> int:
    """Bytes that the prefix chart of an n-word sentence takes."""
    rules = tables.rules
    n_phrase_states = int(rules.state_start[rules.n_phrases])
    cells = n * (n + 1) // 2 * (8 * n_phrase_states + rules.n_phrases)
    return int(cells + 8 * n * (rules.block_start[-1] + len(tables.tag_of_state)))


def _require_charts(tables: Sequence[PrefixTables], n: int) -> None:
    """Refuse an n-word sentence whose charts, one of each grammar, do not fit into memory."""
    grammars = f" for {len(tables)} grammars" if len(tables) > 1 else ""
    work = f"the prefix chart of a sentence of {n} words{grammars}"
    needed = sum(chart_bytes(one, n) for one in tables)
    require_memory(needed, work, "cut the sentence, or use a model with fewer states")


def predict_words(
    grammar: LatentGrammar, words: Sequence[str], *, restart: float = 0.0, with_words: bool = False
) -> Iterator[WordPrediction]:
    """The predictions of the grammar before each word of a sentence, and before its end.

    Ends early after a word of probability 0: nothing can be predicted after it.

    Parameters
    ----------
    restart
        Probability, at each word, that the derivation is broken off and that a new fragment begins:
        a symbol and state drawn from those of random trees. It gives words that the grammar cannot
        derive here a small probability. 0 leaves the grammar as it is.
    with_words
        Whether to compute the distribution of the next word too.
    """
    tables, n = prefix_tables(grammar), len(words)
    _require_charts([tables], n)
    reader = _PrefixReader(grammar, tables, n, restart)
    for k, row in enumerate(grammar.lexicon.vocabulary.rows(list(words)).tolist()):
        prediction = reader.predict(row, with_words=with_words)
        yield prediction
        if not prediction.probability > 0.0:
            return
        reader.read(k, row, prediction.probability)
    yield reader.predict(None, with_words=with_words)


class _PrefixReader:
    """The chart of one sentence, filled word by word."""

    def __init__(
        self, grammar: LatentGrammar, tables: PrefixTables, n: int, restart: float
    ) -> None:
        from sapwood.constituency.parse.kernels.prefixes import PrefixChart

        rules = tables.rules
        self.grammar, self.tables, self.restart = grammar, tables, restart
        self.n_phrase_states = int(rules.state_start[rules.n_phrases])
        n_cells, n_tags = n * (n + 1) // 2, len(grammar.tags)
        self.chart = PrefixChart(
            np.zeros((n_cells, self.n_phrase_states)), np.zeros((n_cells, rules.n_phrases), bool),
            np.zeros((n + 1, rules.n_phrases), bool), np.zeros((n, len(tables.tag_of_state))),
            np.zeros((n, n_tags), bool), np.empty((n, int(rules.block_start[-1]))),
        )  # fmt: skip
        self.end = 0.0  # probability that the sentence ends here
        self.fragments: list[tuple[int, FloatArray]] = []  # where trees start, and their roots
        self._start(0, (1.0 - restart) * grammar.root)
        self.fragments[0] = (0, (1.0 - restart) * grammar.root + restart * tables.restart)

    def _start(self, k: int, starts: FloatArray) -> None:
        """Set S, F and H of fencepost k from A[k]."""
        from sapwood.constituency.parse.kernels.prefixes import sum_over_parents

        tables, m = self.tables, self.n_phrase_states
        if self.restart or not k:
            starts = starts + self.restart * tables.restart
            self.fragments.append((k, self.restart * tables.restart))
        self.next_tags = starts[m:].copy()  # F
        if m:
            started = np.maximum(tables.left_chains.solve(starts[:m], trans="T"), 0.0)  # S
            self.next_tags += tables.left_tags.T @ started
            first = tables.rules.state_start[: tables.rules.n_phrases]
            self.chart.is_expected[k] = np.add.reduceat(started, first) > 0.0
            if k < len(self.chart.sums):
                sum_over_parents(tables.rules, started, self.chart.sums[k])

    def predict(self, row: int | None, *, with_words: bool) -> WordPrediction:
        """The prediction for a row of the lexicon, or for the sentence's end."""
        tables, following = self.tables, self.next_tags
        n_tags = len(self.grammar.tags)
        by_tag = np.bincount(tables.tag_of_state, following, n_tags).astype(np.float64)
        words = np.append(tables.emissions @ following, self.end) if with_words else None
        tags = np.append(by_tag, self.end)
        if row is None:
            return WordPrediction(self.end, self.end, tags, words)
        states, emitted = self._emissions(row)
        possible = following[states[emitted > 0.0]].sum()
        return WordPrediction(float(following[states] @ emitted), float(possible), tags, words)

    def _emissions(self, row: int) -> tuple[IntArray, FloatArray]:
        table = self.tables.emissions
        at = slice(table.indptr[row], table.indptr[row + 1])
        return table.indices[at], table.data[at]

    def read(self, k: int, row: int, probability: float) -> None:
        """Continue after word k, counted from 0, whose conditional probability is known."""
        from sapwood.constituency.parse.kernels.prefixes import inside_column, next_starts

        chart, tables = self.chart, self.tables
        states, emitted = self._emissions(row)
        # the derivation continues after the word with probability 1 - restart
        chart.tags[k, states] = emitted * ((1.0 - self.restart) / probability)
        chart.has_tag[k, tables.tag_of_state[states[emitted > 0.0]]] = True
        starts = np.zeros(int(tables.rules.state_start[-1]))
        inside_column(tables.rules, chart, k + 1, tables.largest)
        next_starts(tables.rules, chart, k + 1, starts)
        self.end = float(sum(self._completed(i, k + 1) @ root for i, root in self.fragments))
        self._start(k + 1, starts)

    def _completed(self, i: int, k: int) -> FloatArray:
        """Inside probabilities of the words between i and k: [states of all symbols]."""
        m, whole = self.n_phrase_states, np.zeros(int(self.tables.rules.state_start[-1]))
        if k == i + 1:
            whole[m:] = self.chart.tags[i]
        else:
            whole[:m] = self.chart.phrases[k * (k - 1) // 2 + i]
        return whole


class MixedPrediction(NamedTuple):
    """The prediction of a mix of grammars for one word; see `WordPrediction`."""

    probability: float
    syntactic: float
    tag_entropy: float  # in nats, of the next tag; the sentence's end counts as a tag
    word_entropy: float  # in nats, of the next word or class of unknown words, or the end


def mix_predictions(
    members: Sequence[LatentGrammar],
    weights: FloatArray,
    words: Sequence[str],
    restart: float = 0.0,
) -> Iterator[MixedPrediction]:
    """The predictions of a mix of grammars before each word of a sentence, and before its end.

        P(w | prefix) = sum over members m of  P(m | prefix) P_m(w | prefix)

    P(m | prefix) is proportional to the member's weight times its probability of the prefix. The
    entropy of the next word is NaN where the members have different vocabularies.
    """
    members = [g for g, weight in zip(members, weights, strict=True) if weight > 0.0]
    posterior = weights[weights > 0.0] / weights.sum()  # P(m | prefix)
    _require_charts([prefix_tables(g) for g in members], len(words))
    vocabularies = {g.lexicon.vocabulary for g in members}
    readers = [
        predict_words(g, words, restart=restart, with_words=len(vocabularies) == 1)
        for g in members
    ]  # fmt: skip
    labels = [[tag.chain[-1] for tag in g.tags] for g in members]
    numbers = {label: k for k, label in enumerate(dict.fromkeys(x for xs in labels for x in xs), 1)}
    positions = [np.array([*map(numbers.__getitem__, xs), 0]) for xs in labels]
    for _ in range(len(words) + 1):
        predictions = [next(reader, None) for reader in readers]  # None after a probability of 0
        probability = syntactic = 0.0
        tags, by_word = np.zeros(len(numbers) + 1), np.zeros(1)
        for weight, position, prediction in zip(posterior, positions, predictions, strict=True):
            if prediction is None:
                continue
            probability += weight * prediction.probability
            syntactic += weight * prediction.syntactic
            tags += weight * np.bincount(position, prediction.tags, len(numbers) + 1)
            if prediction.words is not None:
                by_word = by_word + weight * prediction.words
        next_word = _entropy(by_word) if len(vocabularies) == 1 else np.nan
        yield MixedPrediction(probability, syntactic, _entropy(tags), next_word)
        if not probability > 0.0:
            return
        of_members = np.array([0.0 if one is None else one.probability for one in predictions])
        posterior = posterior * of_members / probability


def _entropy(p: FloatArray) -> float:
    positive = p[p > 0.0] / p.sum()
    return max(0.0, float(-(positive * np.log(positive)).sum()))
