"""The training loop of all networks: batches of sentences of similar length, gradients, Adam.

A batch is always cut into the same parts, whose gradients are summed in order: the learnt weights
do not depend on the number of threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.core.progress import counted, step
from sapwood.corpora.vocabulary import hash_of
from sapwood.networks.network import (
    N_SPECIAL,
    UNKNOWN_ROW,
    Dropout,
    EncoderSizes,
    Encoding,
    Network,
    Packing,
    Parameters,
    Real,
    SentenceRows,
    VectorRows,
    encode,
    encode_backward,
    has_hangul,
    init_encoder,
    look_up,
    one_blas_thread,
    pack_sentences,
)
from sapwood.networks.pretrained.given import TrainingVectors

FAMILIAR_COUNT = 2  # words seen at least so often have vectors of their own
HANGUL_SHARE = 0.1  # of words: a text with more is read by letters of Hangul too
MOST_FORM_BITS = 16  # at most 2^16 form vectors, and at most as many as words
VECTOR_SCALE = 0.1  # standard deviation of initial vectors

BATCH_PARTS = 2  # parts of a batch, one thread each
WORDS_READ = 1_600_000  # in all passes together, within the next two bounds
FEWEST_PASSES, MOST_PASSES = 8, 30
FEWEST_BATCHES, SMALLEST_BATCH = 100, 50  # batches of a pass, and words of a batch
MAX_GRADIENT_NORM = 5.0
WARM_UP = 100  # steps over which the learning rate grows
BETA_1, BETA_2, ADAM_EPSILON = 0.9, 0.99, 1e-8  # of Adam
ADAM_PIECE = 1 << 19  # weights that one task of an Adam step updates
_VECTOR, _FIRST_ROW = "", np.zeros(1, np.int64)  # the vector is updated as tables of one row
LENGTH_NOISE = 3.0  # added to lengths, in words, so that batches differ from pass to pass


@dataclass(frozen=True)
class NetworkPlan:
    """Hyperparameters of the training of a network.

    A word that was seen n times is read as unknown with probability unknown / (unknown + n).
    """

    passes: int = 8  # over the sentences
    rate: float = 0.003  # learning rate of Adam; after the warm-up it falls linearly to 0
    words: int = 400  # in a batch
    dropout: float = 0.2  # of units
    word_dropout: float = 0.1  # of the vectors of words and forms
    unknown: float = 0.5
    seed: int = 0
    side_loss: float = 0.5  # weight of the losses of tags and relations

    @classmethod
    def usual(cls, n_words: int, passes: int | None = None, seed: int = 0) -> NetworkPlan:
        """The default plan for a training set of n words.

        Examples
        --------
        >>> NetworkPlan.usual(80_000).passes, NetworkPlan.usual(1_000).words
        (20, 50)
        """
        if passes is None:
            passes = min(max(WORDS_READ // max(n_words, 1), FEWEST_PASSES), MOST_PASSES)
        words = min(cls.words, max(n_words // FEWEST_BATCHES, SMALLEST_BATCH))
        return cls(passes, words=words, seed=seed)


class PartGradient(NamedTuple):
    """Loss and gradient of a part of a batch."""

    loss: float
    weights: Parameters
    rows: dict[str, tuple[IntArray, Real]]  # by table: rows, each once, and gradients


# arguments: sentences, longest first; random numbers; number of words of the whole batch
Gradient = Callable[[IntArray, np.random.Generator, int], PartGradient]
# Called as on_pass(iteration=, log_likelihood=) with the number of passes done and the
# log-likelihood during the last one. It may return how many passes there is time for in all: the
# learning rate then falls to 0 by the last of them; with no time for another, training ends.
AfterPass = Callable[..., int | None]


class Adam:
    """Adam (Kingma and Ba 2015) for a vector and for tables of which a step touches few rows.

    Weights and tables are changed in place. The moments of a row are updated only in the steps that
    touch it.
    """

    def __init__(self, weights: Real, tables: Mapping[str, Real]) -> None:
        self.weights, self.tables = weights, dict(tables)
        arrays = {_VECTOR: weights, **tables}
        self._moments = {name: (np.zeros_like(a), np.zeros_like(a)) for name, a in arrays.items()}
        self.n_steps = 0

    def step(
        self,
        gradient: Real,
        rows: Mapping[str, tuple[npt.NDArray[Any], Real]],
        rate: float,
        each: Callable[..., Iterable[None]] = map,
    ) -> None:
        """Take one step down the gradient, at a learning rate.

        `rows` has, by table, indices of rows, each once, and their gradients. `each` is like `map`,
        and may call the function in several threads.
        """
        from sapwood.networks.kernels.adam import adam_rows

        self.n_steps += 1
        rate *= (1 - BETA_2**self.n_steps) ** 0.5 / (1 - BETA_1**self.n_steps)
        arrays = self.weights, *self._moments[_VECTOR]
        pieces = [slice(start, start + ADAM_PIECE) for start in range(0, len(gradient), ADAM_PIECE)]
        tasks = [
            (*(array[None, piece] for array in arrays), _FIRST_ROW, gradient[None, piece])
            for piece in pieces
        ]
        tasks += [(self.tables[name], *self._moments[name], *rows[name]) for name in rows]

        def update(task: tuple[Real, ...]) -> None:
            adam_rows(*task, rate, BETA_1, BETA_2, ADAM_EPSILON)

        list(each(update, tasks))


def clip_gradients(gradients: list[Real], max_norm: float) -> float:
    """Clip gradients to a maximum global norm, in place. Returns the norm before clipping."""
    norm = float(np.sqrt(sum(float(np.vdot(g, g)) for g in gradients)))
    if norm > max_norm:
        for gradient in gradients:
            np.multiply(gradient, max_norm / norm, out=gradient)
    return norm


def train_network(
    weights: Parameters,
    tables: Mapping[str, Real],
    lengths: IntArray,
    gradient: Gradient,
    plan: NetworkPlan,
    jobs: int,
    on_pass: AfterPass | None = None,
) -> None:
    """Train weights and tables of vectors in place."""
    adam, rng = Adam(weights.flat, tables), np.random.default_rng([plan.seed, 4])
    n_batches = sum(1 for _ in _batches(lengths, plan.words, rng))
    passes, done = plan.passes, 0
    with (
        one_blas_thread(),
        ThreadPoolExecutor(min(jobs, BATCH_PARTS)) as pool,
        step("network", total=passes, unit="pass") as advance,
    ):
        while done < passes:
            loss = 0.0
            for batch in counted(list(_batches(lengths, plan.words, rng))):
                parts = [batch[k::BATCH_PARTS] for k in range(min(BATCH_PARTS, len(batch)))]
                n_words = int(lengths[batch].sum())
                rngs = rng.spawn(len(parts))
                gradients = list(pool.map(gradient, parts, rngs, [n_words] * len(parts)))
                loss += sum(part.loss for part in gradients)
                rate = plan.rate * min(1.0, adam.n_steps / WARM_UP + 0.01)
                rate *= 1 - adam.n_steps / (passes * n_batches + 1)
                _adam_step(adam, gradients, rate, pool.map)
            done += 1
            in_time = None
            if on_pass is not None:
                in_time = on_pass(iteration=done, log_likelihood=-loss)
            if in_time is not None:
                passes = max(done, min(plan.passes, in_time))
            advance(done, total=passes)


def _batches(lengths: IntArray, n_words: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Batches of sentences of similar length, longest first, in random order."""
    order = np.argsort(-(lengths + LENGTH_NOISE * rng.random(len(lengths))), kind="stable")
    cuts = np.flatnonzero(np.diff(np.cumsum(lengths[order]) // n_words)) + 1
    batches = np.split(order, cuts)
    for k in rng.permutation(len(batches)):
        yield batches[k][np.argsort(-lengths[batches[k]], kind="stable")]


def _adam_step(
    adam: Adam, parts: list[PartGradient], rate: float, each: Callable[..., Iterator[None]]
) -> None:
    """Sum the gradients of the parts of a batch, clip the sum and take a step."""
    gradient = parts[0].weights.flat
    for part in parts[1:]:
        gradient += part.weights.flat
    rows = {name: _sum_rows([part.rows[name] for part in parts]) for name in parts[0].rows}
    clip_gradients([gradient, *(found for _, found in rows.values())], MAX_GRADIENT_NORM)
    adam.step(gradient, rows, max(rate, 0.0), each)


def _sum_rows(parts: list[tuple[IntArray, Real]]) -> tuple[IntArray, Real]:
    """Rows and gradients of several parts, with the gradients of equal rows added."""
    distinct, index = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    total = np.zeros((len(distinct), parts[0][1].shape[1]), parts[0][1].dtype)
    start = 0
    for rows, gradient in parts:
        total[index[start : start + len(rows)]] += gradient  # each row once in a part
        start += len(rows)
    return distinct, total


def cross_entropy(p: Real, gold: IntArray, weight: float) -> tuple[float, Real]:
    """Negative log-likelihood of gold classes, and its gradient with respect to the softmax scores.

    The gradient is multiplied by a weight.
    """
    row = np.arange(len(gold))
    loss, d_scores = -float(np.log(np.maximum(p[row, gold], 1e-30)).sum()), p.copy()
    d_scores[row, gold] -= 1
    d_scores *= weight
    return loss, d_scores


class Batch(NamedTuple):
    """Encoded training sentences, longest first."""

    rows: IntArray  # their words, roots included, among all training sentences' words, [n]
    starts: IntArray  # first word of each in the batch, [n_sentences + 1]
    packing: Packing
    dropout: Dropout
    encoding: Encoding
    G: Parameters  # receives the gradient of the weights
    word_rows: IntArray  # rows of the tables of vectors that were looked up
    form_rows: IntArray


class NetworkTrainer:
    """Training sentences as arrays, and the weights and vectors that learn from them.

    `init` gives the weights above the encoder their initial values; with `has_end`, sentences are
    marked at their ends too; `given` are vectors of their words from elsewhere.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        sizes: EncoderSizes,
        shapes: Mapping[str, tuple[int, ...]],
        init: Callable[[Parameters, np.random.Generator], None],
        plan: NetworkPlan,
        *,
        has_end: bool = False,
        given: TrainingVectors | None = None,
    ) -> None:
        self.plan, self.given = plan, given
        seen = Counter(hash_of(word.lower()) for words in sentences for word in words)
        familiar = sorted(word for word, n in seen.items() if n >= FAMILIAR_COUNT)
        self.familiar = np.array(familiar, np.uint32)
        bits = min(MOST_FORM_BITS, max(8, sum(seen.values()).bit_length() - 1))
        n_hangul = sum(has_hangul(word) for words in sentences for word in words)
        self.splits_hangul = n_hangul > HANGUL_SHARE * sum(seen.values())
        rows = VectorRows(self.familiar, 1 << bits, splits_hangul=self.splits_hangul)
        self.words = SentenceRows.of(rows, sentences, has_end=has_end)
        self.is_word = np.ones(len(self.words.word), bool)  # no mark of a start or an end
        self.is_word[self.words.starts[:-1]] = False
        if has_end:
            self.is_word[self.words.starts[1:] - 1] = False
        # the root and the unknown word are never read as unknown
        counts = np.array([np.inf, np.inf, *(seen[word] for word in familiar)])
        self.unknown_probability = plan.unknown / (plan.unknown + counts)
        rng = np.random.default_rng([plan.seed, 5])
        self.P = init_encoder(shapes, rng)
        init(self.P, rng)
        self.word_vectors = _random_vectors((len(familiar) + N_SPECIAL, sizes.word), rng)
        self.form_vectors = _random_vectors((1 << bits, sizes.form), rng)

    def train(self, gradient: Gradient, jobs: int, on_pass: AfterPass | None = None) -> Network:
        """Train the network and return it."""
        tables = {"words": self.word_vectors, "forms": self.form_vectors}
        lengths = np.diff(self.words.starts)
        train_network(self.P, tables, lengths, gradient, self.plan, jobs, on_pass)
        seen = np.zeros(len(self.form_vectors), bool)
        seen[self.words.forms[self.words.forms >= 0]] = True
        self.form_vectors[~seen] = 0  # forms that were never seen add nothing
        given = None if self.given is None else self.given.learnt
        return Network(
            self.familiar, self.word_vectors, self.form_vectors, self.P, given=given,
            splits_hangul=self.splits_hangul,
        ).rounded()  # fmt: skip

    def encode(self, sentences: IntArray, rng: np.random.Generator) -> Batch:
        """Encode some sentences, longest first, with dropout and some words read as unknown."""
        first, end = self.words.starts[sentences], self.words.starts[sentences + 1]
        rows = np.concatenate([np.arange(*run) for run in zip(first, end, strict=True)])
        packing = pack_sentences(end - first)
        by_step = np.empty_like(rows)
        by_step[packing.row] = rows
        word = self.words.word[by_step]
        word = np.where(rng.random(len(word)) < self.unknown_probability[word], UNKNOWN_ROW, word)
        words, word_rows = look_up(self.word_vectors, word[:, None])
        forms, form_rows = look_up(self.form_vectors, self.words.forms[by_step])
        dropout = Dropout(rng, self.plan.dropout, self.plan.word_dropout, packing)
        given = None
        if self.given is not None:
            given = np.zeros((len(rows), self.given.width), np.float32)
            place = packing.row[self.is_word[rows]]
            given[place] = self.given.of_sentences(sentences)
        encoding = encode(self.P, words, forms, packing, dropout, given=given)
        starts, G = np.append(0, np.cumsum(end - first)), self.P.empty_like()
        return Batch(rows, starts, packing, dropout, encoding, G, word_rows, form_rows)

    def encode_backward(
        self, batch: Batch, loss: float, d_states: Real, gold_tags: IntArray, n_words: int
    ) -> PartGradient:
        """All gradients, given that of the states; the loss of the tags is added.

        `gold_tags` are those of the words, sentence after sentence; `n_words` counts the whole
        batch.
        """
        words, encoding = batch.packing.row[self.is_word[batch.rows]], batch.encoding
        tags = encoding.tags[words]
        side_loss = self.plan.side_loss
        loss_of_tags, d_scores = cross_entropy(tags, gold_tags, side_loss / n_words)
        loss += side_loss * loss_of_tags
        d_tags = np.zeros_like(encoding.tags)
        d_tags[words] = d_scores
        d_words, d_forms = encode_backward(
            self.P, batch.G, encoding, batch.packing, d_states, d_tags
        )
        rows = {"words": (batch.word_rows, d_words), "forms": (batch.form_rows, d_forms)}
        return PartGradient(loss, batch.G, rows)


def _random_vectors(shape: tuple[int, int], rng: np.random.Generator) -> Real:
    return (VECTOR_SCALE * rng.standard_normal(shape, np.float32)).astype(np.float32)
