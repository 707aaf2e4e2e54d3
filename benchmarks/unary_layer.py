"""Joint unary labels against one layer of unary rules in the chart, measured.

Sapwood makes a unary chain one joint symbol (`S|VP`, `NP|NN`). The alternative measured here keeps
one unary rule per span, X -> Y, where Y is the label of the branching node or the tag and X the
label above it; longer chains make X a joint label. Both grammars come from the *same* binary trees.

Notation
--------
    y      bottom symbol of a span: built by a binary rule, or a tag     bottom[cell, y]
    x      top symbol of a span: what the rule above sees                by_start[i, x, k], ...
    u(x, y)  P(y | x): x -> y, or the identity x = y without a unary rule
    w(y -> b c)  P(b c | y), with b and c top symbols

A grammar of joint labels is the special case in which every u is an identity, so both run through
the one simple chart of this file, and Sapwood's own parser must agree with it on joint labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import machine
import numpy as np
from numba import njit

import sapwood as sw
from sapwood.corpus.transform import Symbol, restore
from sapwood.estimators.lexicon import LexiconSettings, estimate_lexicon
from sapwood.evaluate import bracketing
from sapwood.inference.charts import TAG_SHARE
from sapwood.inference.parser import THRESHOLD
from sapwood.models.lexicon import Lexicon
from sapwood.moments.tree_counts import TreeCounts

Pair = tuple[Symbol, Symbol]
LAST_THRESHOLD = 1e-10  # as in Sapwood's parser, where all tags are tried to find a parse at all


# -- the grammar ----------------------------------------------------------------------------------


class Rules(NamedTuple):
    """What the kernels need; binary rules grouped by their pair of children."""

    n_tops: int
    n_phrases: int  # bottoms below are phrases, the others tags
    n_bottoms: int
    pair_left: np.ndarray  # [n_pairs], top symbols
    pair_right: np.ndarray
    pair_start: np.ndarray  # [n_pairs + 1]
    parent: np.ndarray  # [n_rules], bottom symbols
    weight: np.ndarray
    edge_top: np.ndarray  # [n_edges] of the unary layer, identities included
    edge_bottom: np.ndarray
    edge_weight: np.ndarray


@dataclass(frozen=True, eq=False)
class Grammar:
    """Rules, root distribution, lexicon, and the joint symbol that each unary edge stands for."""

    rules: Rules
    root: np.ndarray  # [n_tops]
    lexicon: Lexicon
    tag_count: np.ndarray  # [n_tags]
    edge_symbol: list[Symbol]
    is_unary: np.ndarray  # [n_edges], False for identities


def keep_joint(symbol: Symbol, vertical: int) -> Pair:
    """One joint symbol for top and bottom: Sapwood's own grammar."""
    return symbol, symbol


def split_unary(symbol: Symbol, vertical: int) -> Pair:
    """The last label of a chain below, the rest above; each with the ancestors it would have."""
    if len(symbol.chain) == 1:
        return symbol, symbol
    inner = symbol.chain[:-1]
    above = (inner[::-1] + symbol.ancestors)[: vertical - 1]
    return Symbol(inner, symbol.ancestors), Symbol(symbol.chain[-1:], above)


class Layers(NamedTuple):
    """Top and bottom number of each joint symbol; bottoms are phrases, then tags."""

    top: np.ndarray
    bottom: np.ndarray
    is_unary: np.ndarray
    n_tops: int
    n_phrases: int
    tags: tuple[Symbol, ...]


def number_layers(inventory: Any, split: Callable[[Symbol, int], Pair]) -> Layers:
    """Split every joint symbol and number what comes out."""
    tops: dict[tuple[bool, Symbol], int] = {}
    phrases: dict[Symbol, int] = {}
    tags: dict[Symbol, int] = {}
    rows = []
    for number, symbol in enumerate(inventory.symbols):
        top, bottom = split(symbol, inventory.transform.vertical)
        is_tag = number >= len(inventory.phrases)
        # a label may name both tags and phrases: a top that is a bare tag is a symbol of its own
        x = tops.setdefault((is_tag and top == bottom, top), len(tops))
        places = tags if is_tag else phrases
        rows.append((x, places.setdefault(bottom, len(places)), is_tag, top != bottom))
    x, y, is_tag, is_unary = np.array(rows).T
    return Layers(x, y + is_tag * len(phrases), is_unary > 0, len(tops), len(phrases), tuple(tags))


def layered_grammar(bank: sw.Treebank, split: Callable[[Symbol, int], Pair]) -> Grammar:
    """Relative frequencies of the two-layer grammar of a treebank."""
    inventory, counts = bank.inventory, TreeCounts.of(bank)
    layers = number_layers(inventory, split)
    n_tags = len(layers.tags)
    n_bottom = np.bincount(layers.bottom, counts.symbols, layers.n_phrases + n_tags)
    n_top = np.bincount(layers.top, counts.symbols, layers.n_tops)
    # a joint symbol is an edge of the unary layer; several never share one
    edges = layers.top, layers.bottom, counts.symbols / n_top[layers.top]
    lexical = _relabelled(
        counts, layers.bottom[len(inventory.phrases) :] - layers.n_phrases, len(inventory.words)
    )
    return Grammar(
        _arranged(layers, inventory.rules, counts.rules, n_bottom, edges),
        np.bincount(layers.top, counts.roots, layers.n_tops) / counts.roots.sum(),
        estimate_lexicon(lexical, replace(inventory, tags=layers.tags), LexiconSettings()),
        n_bottom[layers.n_phrases :],
        list(inventory.symbols),
        layers.is_unary,
    )


def _arranged(
    layers: Layers,
    rules: np.ndarray,
    counts: np.ndarray,
    n_bottom: np.ndarray,
    edges: tuple[np.ndarray, ...],
) -> Rules:
    """Binary rules over the split symbols, equal ones added up, grouped by their children."""
    children = layers.top[rules[:, 1:]].T
    (left, right, y), count = _added(np.stack([*children, layers.bottom[rules[:, 0]]]), counts)
    first = np.flatnonzero(np.diff(left * layers.n_tops + right, prepend=-1))
    top, bottom, weight = edges
    return Rules(
        layers.n_tops, layers.n_phrases, len(n_bottom),
        _unsigned(left[first]), _unsigned(right[first]), _unsigned(np.append(first, len(left))),
        _unsigned(y), count / n_bottom[y], _unsigned(top), _unsigned(bottom), weight,
    )  # fmt: skip


def _added(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct columns of keys, and the sum of the counts of each."""
    distinct, inverse = np.unique(keys, axis=1, return_inverse=True)
    return distinct, np.bincount(inverse.ravel(), counts, distinct.shape[1])


def _relabelled(counts: TreeCounts, tag_of: np.ndarray, n_words: int) -> TreeCounts:
    """Lexical counts with other tag numbers, equal ones added up."""
    tag, rest = np.divmod(counts.lexical, 2 * n_words)
    codes, inverse = np.unique(tag_of[tag] * 2 * n_words + rest, return_inverse=True)
    return replace(
        counts, lexical=codes, lexical_count=np.bincount(inverse, counts.lexical_count, len(codes))
    )


def _unsigned(column: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(column, dtype=np.uint64)


# -- the chart ------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _cell(n, i, j):
    return i * (2 * n - i + 1) // 2 + (j - i - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _factors(scale, i, j, base, factor):
    """factor[k] = exp(scale[i, k] + scale[k, j] - base)."""
    for k in range(i + 1, j):
        factor[k] = np.exp(scale[i, k] + scale[k, j] - base)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def inside(rules, leaf):  # noqa: PLR0912 - the recursion in one place
    """Inside weights of both layers; leaf[i, t] are the tag weights of word i.

    Returns bottom[cell, y], the tops by start and by end (the other fencepost is the fastest
    index), and scale[i, j], the logarithm that both layers of a span are short of.
    """
    n = leaf.shape[0]
    bottom = np.zeros((n * (n + 1) // 2, rules.n_bottoms))
    by_start = np.zeros((n, rules.n_tops, n + 1))
    by_end = np.zeros((n + 1, rules.n_tops, n + 1))
    has_left = np.zeros((n, rules.n_tops), np.bool_)
    has_right = np.zeros((n + 1, rules.n_tops), np.bool_)
    scale = np.full((n + 1, n + 1), -np.inf)
    scaled, factor, top = np.zeros((rules.n_tops, n + 1)), np.zeros(n + 1), np.zeros(rules.n_tops)
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            row = bottom[_cell(n, i, j)]
            base = 0.0
            if width == 1:
                row[rules.n_phrases :] = leaf[i]
            else:
                base = -np.inf
                for k in range(i + 1, j):
                    base = max(base, scale[i, k] + scale[k, j])
                if base == -np.inf:
                    continue
                _factors(scale, i, j, base, factor)
                for x in range(rules.n_tops):
                    if has_right[j, x]:
                        for k in range(i + 1, j):
                            scaled[x, k] = by_end[j, x, k] * factor[k]
                for pair in range(len(rules.pair_left)):
                    b, c = rules.pair_left[pair], rules.pair_right[pair]
                    if not (has_left[i, b] and has_right[j, c]):
                        continue
                    total = 0.0
                    for k in range(i + 1, j):
                        total += by_start[i, b, k] * scaled[c, k]
                    if total != 0.0:
                        for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                            row[rules.parent[r]] += rules.weight[r] * total
            top[:] = 0.0
            for e in range(len(rules.edge_top)):
                top[rules.edge_top[e]] += rules.edge_weight[e] * row[rules.edge_bottom[e]]
            peak = top.max()
            if peak == 0.0:
                continue
            scale[i, j] = base + np.log(peak)
            row /= peak
            for x in range(rules.n_tops):
                if top[x] != 0.0:
                    by_start[i, x, j] = by_end[j, x, i] = top[x] / peak
                    has_left[i, x] = has_right[j, x] = True
    return bottom, by_start, by_end, scale


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def posteriors(rules, root, bottom, by_start, by_end, scale):  # noqa: PLR0912 - likewise
    """Posterior of each edge of the unary layer at each span, shape [n_cells, n_edges]."""
    n = by_start.shape[0]
    out = np.zeros((n * (n + 1) // 2, len(rules.edge_top)))
    total = 0.0
    for x in range(rules.n_tops):
        total += root[x] * by_start[0, x, n]
    from_start, from_end = np.zeros_like(by_start), np.zeros_like(by_end)
    scaled_left, scaled_right = np.zeros((rules.n_tops, n + 1)), np.zeros((rules.n_tops, n + 1))
    factor, down = np.zeros(n + 1), np.zeros(rules.n_bottoms)
    for width in range(n, 0, -1):
        for i in range(n - width + 1):
            j = i + width
            if scale[i, j] == -np.inf:
                continue
            cell = _cell(n, i, j)
            down[:] = 0.0
            for e in range(len(rules.edge_top)):
                x, y = rules.edge_top[e], rules.edge_bottom[e]
                alpha = from_start[i, x, j] + from_end[j, x, i]
                if width == n:
                    alpha = root[x] / total
                down[y] += alpha * rules.edge_weight[e]
                out[cell, e] = alpha * rules.edge_weight[e] * bottom[cell, y]
            if width == 1:
                continue
            _factors(scale, i, j, scale[i, j], factor)
            for x in range(rules.n_tops):
                for k in range(i + 1, j):
                    scaled_left[x, k] = by_start[i, x, k] * factor[k]
                    scaled_right[x, k] = by_end[j, x, k] * factor[k]
            for pair in range(len(rules.pair_left)):
                sent = 0.0
                for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                    sent += rules.weight[r] * down[rules.parent[r]]
                if sent != 0.0:
                    b, c = rules.pair_left[pair], rules.pair_right[pair]
                    for k in range(i + 1, j):
                        from_start[i, b, k] += sent * scaled_right[c, k]
                        from_end[j, c, k] += sent * scaled_left[b, k]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def best(rules, leaf_gain, edge_gain, rule_gain):
    """Derivation of highest total gain: per cell and top its edge, per cell and bottom its rule.

    Returns the gains of the tops of the whole sentence, edge[cell, x], pair[cell, y] and
    split[cell, y]; -1 where nothing was built.
    """
    n, n_cells = leaf_gain.shape[0], edge_gain.shape[0]
    by_start = np.full((n, rules.n_tops, n + 1), -np.inf)
    by_end = np.full((n + 1, rules.n_tops, n + 1), -np.inf)
    has_left = np.zeros((n, rules.n_tops), np.bool_)
    has_right = np.zeros((n + 1, rules.n_tops), np.bool_)
    edge = np.full((n_cells, rules.n_tops), -1, np.int32)
    pair_of = np.full((n_cells, rules.n_bottoms), -1, np.int32)
    split_of = np.full((n_cells, rules.n_bottoms), -1, np.int32)
    row = np.empty(rules.n_bottoms)
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            j = i + width
            cell = _cell(n, i, j)
            row[:] = -np.inf
            if width == 1:
                row[rules.n_phrases :] = leaf_gain[i]
            for pair in range(len(rules.pair_left)):
                b, c = rules.pair_left[pair], rules.pair_right[pair]
                if not (has_left[i, b] and has_right[j, c]):
                    continue
                most, at = -np.inf, -1
                for k in range(i + 1, j):
                    value = by_start[i, b, k] + by_end[j, c, k]
                    if value > most:
                        most, at = value, k
                if at < 0:
                    continue
                for r in range(rules.pair_start[pair], rules.pair_start[pair + 1]):
                    y = rules.parent[r]
                    if most + rule_gain[r] > row[y]:
                        row[y] = most + rule_gain[r]
                        pair_of[cell, y], split_of[cell, y] = pair, at
            for e in range(len(rules.edge_top)):
                x = rules.edge_top[e]
                value = edge_gain[cell, e] + row[rules.edge_bottom[e]]
                if value > by_start[i, x, j]:
                    by_start[i, x, j] = by_end[j, x, i] = value
                    edge[cell, x] = e
                    has_left[i, x] = has_right[j, x] = True
    return by_start[0, :, n].copy(), edge, pair_of, split_of


# -- decoding -------------------------------------------------------------------------------------


def leaf_weights(grammar: Grammar, words: list[str], least_share: float) -> np.ndarray:
    """Weights of the tags of each word, [n, n_tags]; rare tags left out as Sapwood does."""
    lexicon = grammar.lexicon
    out = np.zeros((len(words), grammar.rules.n_bottoms - grammar.rules.n_phrases))
    for i, row in enumerate(lexicon.rows(words).tolist()):
        entries = lexicon.entries(row)
        tag, weight = lexicon.entry_tag[entries], lexicon.weights[entries]
        share = weight * grammar.tag_count[tag]
        kept = share >= least_share * share.max(initial=0.0)
        out[i, tag[kept]] = weight[kept] / weight.max()
    return out


def goodman_gains(grammar: Grammar, posterior: np.ndarray, threshold: float) -> np.ndarray:
    """One joint label per span is scored: the posterior of the edge."""
    return np.where(posterior >= threshold, posterior, -np.inf)


def each_label_gains(grammar: Grammar, posterior: np.ndarray, threshold: float) -> np.ndarray:
    """Each label is scored by itself, so that a unary rule is scored twice, an identity once."""
    rules = grammar.rules
    top, bottom = (np.zeros((len(posterior), n)) for n in (rules.n_tops, rules.n_bottoms))
    for e, (x, y) in enumerate(zip(rules.edge_top, rules.edge_bottom, strict=True)):
        top[:, x] += posterior[:, e]
        bottom[:, y] += posterior[:, e]
    labels = top[:, rules.edge_top] + bottom[:, rules.edge_bottom] * grammar.is_unary
    return np.where(posterior >= threshold, labels, -np.inf)


def parse(grammar: Grammar, words: list[str], decoder: str) -> sw.Tree | None:
    """The tree of a sentence, or None when the grammar has none."""
    if decoder == "viterbi":
        return _viterbi(grammar, leaf_weights(grammar, words, 0.0), words)
    for least_share, threshold in ((TAG_SHARE, THRESHOLD), (0.0, LAST_THRESHOLD)):
        leaf = leaf_weights(grammar, words, least_share)
        chart = inside(grammar.rules, leaf)
        if (grammar.root * chart[1][0, :, len(words)]).sum() > 0.0:
            posterior = posteriors(grammar.rules, grammar.root, *chart)
            gains = each_label_gains if decoder == "each label" else goodman_gains
            leaf_gain = np.where(leaf > 0.0, 0.0, -np.inf)
            rule_gain = np.zeros(len(grammar.rules.weight))
            found = best(grammar.rules, leaf_gain, gains(grammar, posterior, threshold), rule_gain)
            return _restored(grammar, words, _log(grammar.root > 0.0), found)
    return None


def _log(weights: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(weights)


def _viterbi(grammar: Grammar, leaf: np.ndarray, words: list[str]) -> sw.Tree | None:
    rules, n = grammar.rules, len(words)
    edge_gain = np.tile(np.log(rules.edge_weight), (n * (n + 1) // 2, 1))
    found = best(rules, _log(leaf), edge_gain, np.log(rules.weight))
    return _restored(grammar, words, _log(grammar.root), found)


def _restored(
    grammar: Grammar, words: list[str], root_gain: np.ndarray, found: tuple[np.ndarray, ...]
) -> sw.Tree | None:
    """Follow the choices from the best root down, and undo the binarisation."""
    gain, edge, pair_of, split_of = found
    rules, n = grammar.rules, len(words)
    root = int(np.argmax(gain + root_gain))
    if gain[root] + root_gain[root] == -np.inf:
        return None
    drawn: list[tuple[int, int, int, int]] = []  # edge, place of left, of right, start
    waiting = [(0, n, root)]
    for i, j, x in waiting:
        cell = i * (2 * n - i + 1) // 2 + (j - i - 1)
        e = int(edge[cell, x])
        if j - i == 1:
            drawn.append((e, -1, -1, i))
            continue
        y = int(rules.edge_bottom[e])
        k, pair = int(split_of[cell, y]), int(pair_of[cell, y])
        drawn.append((e, len(waiting), len(waiting) + 1, i))
        waiting += [(i, k, int(rules.pair_left[pair])), (k, j, int(rules.pair_right[pair]))]
    last = len(drawn) - 1
    nodes = [
        (e, last - b, last - c, None) if b >= 0 else (e, -1, -1, words[i])
        for e, b, c, i in reversed(drawn)
    ]
    return restore(grammar.edge_symbol, nodes)


# -- the comparison -------------------------------------------------------------------------------


class Run(NamedTuple):
    """One row of the table."""

    trees: list[sw.Tree]
    n_fallbacks: int
    cpu: float


def flat_tree(grammar: Grammar, words: list[str]) -> sw.Tree:
    """What Sapwood's parser falls back to: the likeliest tags under the commonest root."""
    share = leaf_weights(grammar, words, 0.0) * grammar.tag_count
    n_phrases = grammar.rules.n_phrases
    bottoms = grammar.rules.edge_bottom.tolist()
    tag_names = {
        y - n_phrases: symbol.chain[-1]
        for y, symbol in zip(bottoms, grammar.edge_symbol, strict=True)
    }
    tags = [tag_names[int(t)] for t in share.argmax(axis=1)]
    leaves = [sw.Tree(tag, word) for tag, word in zip(tags, words, strict=True)]
    return sw.Tree("TOP", [sw.Tree("S", leaves)] if len(words) > 1 else leaves)


def run_layered(grammar: Grammar, sentences: list[list[str]], decoder: str) -> Run:
    """Parse all sentences with the chart of this file; a flat tree where the grammar has none."""
    parse(grammar, sentences[0][:3], decoder)  # compiled before it is timed
    with machine.Clock() as clock:
        found = [parse(grammar, words, decoder) for words in sentences]
    pairs = zip(found, sentences, strict=True)
    trees = [tree or flat_tree(grammar, words) for tree, words in pairs]
    return Run(trees, sum(tree is None for tree in found), clock.thread)


def run_parser(model: sw.LatentGrammar, sentences: list[list[str]], decoder: str) -> Run:
    """Parse all sentences with Sapwood's own parser, over full charts."""
    parser = sw.Parser(model, decoder=decoder, beam=0.0)
    list(parser.parse_many([sentences[0][:3]]))
    parser.stats.fallbacks = 0
    with machine.Clock() as clock:
        trees = [result.tree for result in parser.parse_many(sentences)]
    return Run(trees, parser.stats.fallbacks, clock.thread)


def unaries_per_sentence(trees: list[sw.Tree]) -> float:
    """Phrases with an only child, a word apart, per tree; `TOP` does not count."""
    n_unaries = sum(
        not node.is_preterminal and len(node.children) == 1 and node.label != "TOP"
        for tree in trees
        for node in tree.nodes()
    )
    return n_unaries / len(trees)


def row(name: str, decoder: str, run: Run, gold: list[sw.Tree], sizes: str) -> tuple[str, ...]:
    """One line of the table."""
    report = bracketing(gold, run.trees)
    total = report.all
    return (
        name, decoder, f"{report.f1:.2f}", f"{report.strict.f1:.2f}", f"{report.recall:.2f}",
        f"{report.precision:.2f}", f"{total.tagging_accuracy:.2f}",
        f"{unaries_per_sentence(run.trees):.2f}", str(run.n_fallbacks), f"{run.cpu:.1f}", sizes,
    )  # fmt: skip


def compare(bank: sw.Treebank, gold: list[sw.Tree], *, is_full: bool) -> list[tuple[str, ...]]:
    """Rows for one way of making the trees binary."""
    sentences = [tree.words() for tree in gold]
    rows = []
    model = sw.PCFG().fit(bank).model_
    sizes = f"{model.n_symbols} / {len(model.rules)} / 0"
    for decoder in ("goodman", "viterbi") if is_full else ("goodman",):
        run = run_parser(model, sentences, decoder)
        rows.append(row("joint labels, Sapwood's parser", decoder, run, gold, sizes))
    variants = [("joint labels, this file's chart", keep_joint, ("goodman",))]
    decoders = ("goodman", "each label", "viterbi") if is_full else ("goodman",)
    variants.append(("one unary layer, this file's chart", split_unary, decoders))
    for name, split, wanted in variants:
        grammar = layered_grammar(bank, split)
        rules = grammar.rules
        n_symbols = rules.n_bottoms
        sizes = f"{n_symbols} / {len(rules.weight)} / {int(grammar.is_unary.sum())}"
        for decoder in wanted:
            run = run_layered(grammar, sentences, decoder)
            rows.append(row(name, decoder, run, gold, sizes))
    return rows


def main() -> None:
    """Print one table for each annotation of the labels."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpus", choices=("ptb", "craft"), default="ptb")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument("--vertical", type=int, nargs="*", default=[1, 2])
    given = options.parse_args()
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    machine.print_facts("Joint unary labels against one unary layer")
    print(
        f"{given.corpus} dev, {len(gold)} sentences, {unaries_per_sentence(gold):.2f} unary", end=""
    )
    print(" rules a sentence in gold. Binarised from the head, h = 1. CPU s: one run.\n")
    header = (
        "grammar", "decoder", "F1", "strict F1", "recall", "precision", "tags", "unaries",
        "no parse", "CPU s", "symbols / binary / unary",
    )  # fmt: skip
    for vertical in given.vertical:
        transform = sw.Transform(vertical=vertical, tag_parents=vertical > 1)
        bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"), transform)
        print(f"v = {vertical}{', parents on tags too' if vertical > 1 else ''}:\n")
        machine.print_table(header, compare(bank, gold, is_full=vertical == 1))
    print(CAVEATS)


CAVEATS = """What is the same: trees, binarisation, counts, classes of unknown words, the pruning of
tags and of labelled spans, and what Goodman decoding maximises (the posterior of one joint label
per span). What differs: joint labels give every chain rules of its own (`S|VP -> VB NP`), and its
own words, shared through the tag; the unary layer gives VP the same rules whatever is above it, and
a parent sees only the top label. Each layer is normalised by itself, so both are proper models.
"each label" scores each label of a unary rule by itself, which inserts too many of them. CPU
seconds compare like with like only between the rows of this file's chart, which is written for
clarity; Sapwood's parser owes its speed to kernels that know that tags cover one word. No beam is
used. Joint labels on this file's chart must repeat the parser's F1: that checks the chart."""


if __name__ == "__main__":
    main()
