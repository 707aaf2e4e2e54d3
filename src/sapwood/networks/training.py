"""Training of networks: what all lessons have in common, batches of like length, Adam.

A batch is always cut into the same shares, whose gradients are summed in order: what is learnt does
not depend on how many threads there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray, ranges, starts_of
from sapwood.corpora.word_properties import hash_of
from sapwood.networks.encoder import (
    Dropout,
    EncoderSizes,
    Encoding,
    encode,
    encode_gradient,
    start_encoder,
)
from sapwood.networks.lstm import Packing, pack
from sapwood.networks.network import N_SPECIAL, Network
from sapwood.networks.network_inputs import (
    UNKNOWN,
    SentenceWords,
    WordPlaces,
    blas_of_one_thread,
    look_up,
)
from sapwood.networks.parameters import Adam, Parameters, Real, clip
from sapwood.progress import counted, step

FAMILIAR = 2  # words seen so often have vectors of their own
MOST_FORM_BITS = 16  # of the number of vectors of forms, of which there are no more than of words
SIDE_LOSS = 0.5  # weight of the losses of tags and relations
SMALL = 0.1  # numbers that vectors start with

SHARES = 2  # of a batch
WORDS_READ = 1_600_000  # in all passes, as far as the next line lets it
FEWEST_PASSES, MOST_PASSES = 8, 30
FEWEST_BATCHES, SMALLEST_BATCH = 100, 50  # of a pass, and words of a batch
SECONDS_A_WORD, SECONDS_A_STEP = 2e-4, 0.01  # on one core: a word read, all weights changed
LONGEST_STEP = 5.0  # length of a gradient beyond which it is scaled down
WARM_UP = 100  # steps in which the rate grows
NOISE = 3.0  # words by which sentences of one batch differ more than they must


@dataclass(frozen=True)
class NetworkPlan:
    """How a network is trained.

    Attributes
    ----------
    passes
        Over the sentences.
    rate
        Of Adam; falls to 0 in a straight line.
    words
        In a batch.
    dropout, word_dropout, unknown
        Shares of numbers, and of vectors of words, that are left out; a word that was seen n times
        is taken for an unknown one with probability unknown / (unknown + n).
    seed
        Of all random numbers.
    """

    passes: int = 8
    rate: float = 0.003
    words: int = 400
    dropout: float = 0.2
    word_dropout: float = 0.1
    unknown: float = 0.5
    seed: int = 0

    @classmethod
    def usual(cls, n_words: int, passes: int | None = None, seed: int = 0) -> NetworkPlan:
        """What suits sentences of so many words in all.

        Examples
        --------
        >>> NetworkPlan.usual(80_000).passes, NetworkPlan.usual(1_000).words
        (20, 50)
        """
        if passes is None:
            passes = min(max(WORDS_READ // max(n_words, 1), FEWEST_PASSES), MOST_PASSES)
        words = min(cls.words, max(n_words // FEWEST_BATCHES, SMALLEST_BATCH))
        return cls(passes, words=words, seed=seed)

    def seconds_a_pass(self, n_words: int, jobs: int) -> float:
        """Roughly, to tell whether there is time."""
        steps = n_words / self.words
        return SECONDS_A_WORD * n_words / min(jobs, SHARES) + SECONDS_A_STEP * steps


class ShareGradient(NamedTuple):
    """What a share of a batch says.

    Attributes
    ----------
    rows
        By table of vectors: numbers of rows, each once, and their gradients.
    """

    loss: float
    weights: Parameters
    rows: dict[str, tuple[IntArray, Real]]


# sentences, longest first; random numbers; words of the whole batch
Task = Callable[[IntArray, np.random.Generator, int], ShareGradient]
# Told how many passes are done, and the log-likelihood during the last one. It may answer how many
# there is time for in all: the rate then falls to 0 by the last of them, and with no more time the
# weights stay as the last pass has left them.
AfterPass = Callable[[int, float], int | None]


def train_network(
    weights: Parameters,
    tables: Mapping[str, Real],
    lengths: npt.NDArray[np.int64],
    task: Task,
    plan: NetworkPlan,
    jobs: int,
    on_pass: AfterPass | None = None,
) -> None:
    """Change weights and tables until they fit."""
    adam, rng = Adam(weights.flat, tables), np.random.default_rng([plan.seed, 4])
    n_batches = sum(1 for _ in _batches(lengths, plan.words, rng))
    passes, done = plan.passes, 0
    with (
        blas_of_one_thread(),
        ThreadPoolExecutor(min(jobs, SHARES)) as pool,
        step("network", total=passes, unit="pass") as advance,
    ):
        while done < passes:
            loss = 0.0
            for batch in counted(_batches(lengths, plan.words, rng), total=n_batches):
                shares = [batch[k::SHARES] for k in range(min(SHARES, len(batch)))]
                n_words = int(lengths[batch].sum())
                rngs = rng.spawn(len(shares))
                found = list(pool.map(task, shares, rngs, [n_words] * len(shares)))
                loss += sum(share.loss for share in found)
                rate = plan.rate * min(1.0, adam.n_steps / WARM_UP + 0.01)
                rate *= 1 - adam.n_steps / (passes * n_batches + 1)
                _step(adam, found, rate, pool.map)
            done += 1
            in_time = on_pass(done, -loss) if on_pass is not None else None
            if in_time is not None:
                passes = max(done, min(plan.passes, in_time))
            advance(done, total=passes)


def _batches(lengths: IntArray, n_words: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Numbers of sentences of like length, longest first, in any order of batches."""
    order = np.argsort(-(lengths + NOISE * rng.random(len(lengths))), kind="stable")
    which = np.cumsum(lengths[order]) // n_words
    cuts = np.flatnonzero(np.diff(which)) + 1
    batches = np.split(order, cuts)
    for place in rng.permutation(len(batches)):
        batch = batches[place]
        yield batch[np.argsort(-lengths[batch], kind="stable")]


def _step(
    adam: Adam, shares: list[ShareGradient], rate: float, each: Callable[..., Iterator[None]]
) -> None:
    gradient = shares[0].weights.flat
    for share in shares[1:]:
        gradient += share.weights.flat
    rows = {name: _sum_rows([share.rows[name] for share in shares]) for name in shares[0].rows}
    clip([gradient, *(found for _, found in rows.values())], LONGEST_STEP)
    adam.step(gradient, rows, max(rate, 0.0), each)


def _sum_rows(parts: list[tuple[IntArray, Real]]) -> tuple[IntArray, Real]:
    """Gradients of rows, those of the same row added."""
    numbers, place = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    total = np.zeros((len(numbers), parts[0][1].shape[1]), parts[0][1].dtype)
    start = 0
    for rows, found in parts:
        total[place[start : start + len(rows)]] += found  # each once in a part
        start += len(rows)
    return numbers, total


class Batch(NamedTuple):
    """Sentences that were read for a lesson, longest first.

    Attributes
    ----------
    rows : [n]
        Their rows, roots included, among those of all sentences of the lesson.
    starts : [n_sentences + 1]
        First row of each in the batch.
    G
        Receives the gradient of the weights.
    word_rows, form_rows
        Rows of the tables of vectors that were looked up.
    """

    rows: IntArray
    starts: IntArray
    packing: Packing
    dropout: Dropout
    encoding: Encoding
    G: Parameters
    word_rows: IntArray
    form_rows: IntArray


class NetworkLesson:
    """Training sentences as arrays, and the weights and vectors that learn from them.

    Parameters
    ----------
    sentences
        Lists of words.
    shapes
        Of all weights.
    start
        Gives them their first values.
    has_end
        Whether sentences are marked at their ends too.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        sizes: EncoderSizes,
        shapes: Mapping[str, tuple[int, ...]],
        start: Callable[[Parameters, np.random.Generator], None],
        plan: NetworkPlan,
        *,
        has_end: bool = False,
    ) -> None:
        self.plan = plan
        seen = Counter(hash_of(word.lower()) for words in sentences for word in words)
        self.familiar = np.array(sorted(w for w, n in seen.items() if n >= FAMILIAR), np.uint32)
        bits = min(MOST_FORM_BITS, max(8, sum(seen.values()).bit_length() - 1))
        places = WordPlaces(self.familiar, bits)
        self.words = SentenceWords.of(places, sentences, has_end=has_end)
        counts = [seen[word] for word in self.familiar.tolist()]
        counts_by_row = np.array([np.inf, np.inf, *counts])
        self.unknown_share = plan.unknown / (plan.unknown + counts_by_row)
        rng = np.random.default_rng([plan.seed, 5])
        self.P = Parameters(shapes)
        start_encoder(self.P, rng)
        start(self.P, rng)
        self.word_vectors = _small((len(self.familiar) + N_SPECIAL, sizes.word), rng)
        self.form_vectors = _small((1 << bits, sizes.form), rng)

    def learn(self, task: Task, jobs: int, on_pass: AfterPass | None = None) -> Network:
        """The network that fits."""
        tables = {"words": self.word_vectors, "forms": self.form_vectors}
        train_network(self.P, tables, np.diff(self.words.starts), task, self.plan, jobs, on_pass)
        seen = np.zeros(len(self.form_vectors), bool)
        seen[self.words.forms[self.words.forms >= 0]] = True
        self.form_vectors[~seen] = 0  # what was never seen says nothing
        return Network(self.familiar, self.word_vectors, self.form_vectors, self.P).rounded()

    def read(self, sentences: IntArray, rng: np.random.Generator) -> Batch:
        """Read some sentences, longest first, with words and numbers left out at random."""
        first, end = self.words.starts[sentences], self.words.starts[sentences + 1]
        rows, packing = ranges(first, end), pack(end - first)
        by_step = np.empty_like(rows)
        by_step[packing.row] = rows
        word = self.words.word[by_step]
        word = np.where(rng.random(len(word)) < self.unknown_share[word], UNKNOWN, word)
        words, word_rows = look_up(self.word_vectors, word[:, None])
        forms, form_rows = look_up(self.form_vectors, self.words.forms[by_step])
        dropout = Dropout(rng, self.plan.dropout, self.plan.word_dropout, packing)
        encoding = encode(self.P, words, forms, packing, dropout)
        return Batch(
            rows, starts_of(end - first), packing, dropout, encoding, self.P.blank(), word_rows,
            form_rows,
        )  # fmt: skip

    def finish(
        self, batch: Batch, loss: float, d_states: Real, right_tags: IntArray, n_words: int
    ) -> ShareGradient:
        """The gradient by everything, given that by the states; the loss of tags is added.

        Parameters
        ----------
        right_tags
            Of the words of the batch, sentence after sentence.
        n_words
            Of the whole batch that this is a share of.
        """
        n_marks = (len(batch.rows) - len(right_tags)) // (len(batch.starts) - 1)
        words = ranges(batch.starts[:-1] + 1, batch.starts[1:] - (n_marks - 1))
        is_word, encoding = batch.packing.row[words], batch.encoding
        tags = encoding.tag_shares[is_word]
        loss -= SIDE_LOSS * log_share(tags, right_tags)
        d_tags = np.zeros_like(encoding.tag_shares)
        d_tags[is_word] = residue(tags, right_tags, SIDE_LOSS / n_words)
        d_words, d_forms = encode_gradient(
            self.P, batch.G, encoding, batch.packing, d_states, d_tags
        )
        rows = {"words": (batch.word_rows, d_words), "forms": (batch.form_rows, d_forms)}
        return ShareGradient(loss, batch.G, rows)


def _small(shape: tuple[int, int], rng: np.random.Generator) -> Real:
    return (SMALL * rng.standard_normal(shape, np.float32)).astype(np.float32)


def log_share(shares: Real, right: IntArray) -> float:
    """Sum of the logarithms of the right shares, one in each row."""
    return float(np.log(np.maximum(shares[np.arange(len(right)), right], 1e-30)).sum())


def residue(shares: Real, right: IntArray, weight: float) -> Real:
    """Gradient of the negative logarithm of the right shares by the scores."""
    shares = shares.copy()
    shares[np.arange(len(right)), right] -= 1
    shares *= weight
    return shares
