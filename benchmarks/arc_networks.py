"""Networks of heads by their settings: learnt from a part of train, judged on held-out blocks.

python benchmarks/arc_networks.py --layers 2 3 --passes 8 --words 60000
python benchmarks/arc_networks.py --corpus ud_korean_gsd --letters no yes
python benchmarks/arc_networks.py --encoder all-MiniLM-L6-v2 --dropout 0.2 0.33

Each fifth block of 25 sentences is held out. Every combination of the settings is a row: UAS, LAS
and tags of the network alone, each word by itself, without a tree; CPU seconds of a pass over
100,000 words; and billions of floating-point operations a second in the matrix products of
training, if it did nothing else. The last line prints those of one large product.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import machine
import numpy as np

import sapwood as sw
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.learn.network_plan import plan_networks
from sapwood.dependency.learn.trainer import FOLD_BLOCK, train_arc_network
from sapwood.networks import training
from sapwood.networks.network import EncoderSizes, Network, one_blas_thread
from sapwood.networks.pretrained.given import TrainingVectors
from sapwood.networks.pretrained.source import as_source
from sapwood.networks.scores import ArcEncoder, ArcSizes

SETTINGS = ("layers", "relation", "passes", "dropout", "seed", "letters")
HEADER = (*SETTINGS, "words", "UAS", "LAS", "tags", "CPU s a pass of 100,000 words", "GFlop/s")
PARTS = 5  # one of so many blocks is held out


def split(bank: ArcBank, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Sentences to learn from, so many words of them, and sentences that judge."""
    sentence = np.arange(bank.n_sentences)
    is_held = sentence // FOLD_BLOCK % PARTS == 0
    words = np.cumsum(np.where(is_held, 0, np.diff(bank.offsets)))
    n = int(np.searchsorted(words, n_words)) + 1
    return sentence[~is_held & (sentence < n)], sentence[is_held & (sentence < max(n, 500))]


def gold_of(bank: ArcBank) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the tags and relations of all words."""
    _, tag = np.unique(np.stack([bank.upos, bank.xpos]), axis=1, return_inverse=True)
    return tag.ravel().astype(np.int64), bank.relation.astype(np.int64)


def judged(network: Network, bank: ArcBank, held: np.ndarray) -> list[str]:
    """UAS, LAS and tags in percent."""
    tag, relation = gold_of(bank)
    reader, right, n = ArcEncoder(network), np.zeros(3), 0
    for s in held.tolist():
        words = slice(int(bank.offsets[s]), int(bank.offsets[s + 1]))
        with one_blas_thread():
            read = reader.read(bank.sentence(s))
            heads = read.heads.argmax(axis=1)
            relations = read.relations(heads).argmax(axis=1)
        is_right = heads == bank.head[words]
        is_labelled = is_right & (relations == relation[words])
        right += is_right.sum(), is_labelled.sum(), (read.tags.argmax(axis=1) == tag[words]).sum()
        n += len(heads)
    return [f"{figure:.2f}" for figure in 100 * right / n]


def operations(network: Network) -> int:
    """Floating-point operations of a word in training: three products with every matrix."""
    return 6 * sum(table.size for table in network.weights.values() if table.ndim == 2)


def limit() -> float:
    """Billions of operations a second of a large product in single precision, on one thread."""
    a, b = np.random.default_rng(0).random((2, 1000, 1000), np.float32)
    with one_blas_thread():
        seconds = machine.seconds_of(lambda: a @ b, 7).least
    return 2e9 / seconds / 1e9


def rows(bank: ArcBank, given: Any, options: argparse.Namespace) -> Iterator[tuple[Any, ...]]:
    """Train and judge one network for every combination of settings."""
    chosen, held = split(bank, options.words)
    is_in = np.zeros(bank.n_sentences, bool)
    is_in[chosen] = True
    part, of_word = bank.select(is_in), np.repeat(is_in, np.diff(bank.offsets))
    tag, relation = gold_of(bank)
    gold = (int(tag.max()) + 1, tag[of_word]), (len(bank.relations), relation[of_word])
    vectors = None if given is None else TrainingVectors.of(given, part.sentences())
    for values in product(*(getattr(options, name) for name in SETTINGS)):
        layers, size, passes, dropout, seed, letters = values
        training.HANGUL_SHARE = 0.1 if letters == "yes" else 2.0
        planned = plan_networks(part.n_tokens, most=1, passes=passes, seed=seed)
        assert planned is not None  # as there is no budget
        plan = replace(planned.plans[0], dropout=dropout)
        sizes = EncoderSizes(layers=layers), ArcSizes(relation=size)
        with machine.Clock() as clock:
            network = train_arc_network(part, *gold, plan, 1, sizes=sizes, given=vectors)
        read = passes * part.n_tokens
        speed = operations(network) * read / clock.cpu / 1e9
        pace = f"{1e5 * clock.cpu / read:.1f}"
        yield *values, part.n_tokens, *judged(network, bank, held), pace, f"{speed:.0f}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--corpus", default="ud_english_ewt")
    parser.add_argument("--words", type=int, default=20_000, help="of the sentences learnt from")
    parser.add_argument("--layers", type=int, nargs="+", default=[3])
    parser.add_argument("--relation", type=int, nargs="+", default=[ArcSizes().relation])
    parser.add_argument("--passes", type=int, nargs="+", default=[8])
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.2])
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--letters", nargs="+", default=["yes"], help="of Hangul: yes, no")
    parser.add_argument("--encoder", default=None, help="the folder of a pretrained encoder")
    options = parser.parse_args()
    bank = sw.read_arcs(machine.corpus_file(options.corpus, "train", "conllu"))
    machine.print_table(HEADER, rows(bank, as_source(options.encoder), options))
    print(f"\nA product of large matrices: {limit():.0f} GFlop/s")


if __name__ == "__main__":
    main()
