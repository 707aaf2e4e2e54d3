"""The full chart of the plain grammar: speed by sentence length, work done, distance to limits.

The work is counted by replaying the loops of `sapwood.kernels.coarse` over finished charts:

    rule visits      a rule weight is read and used: `t t`, `t a`, `a t` rules once per span and tag,
                     `a a` rules once per span and pair of children that has weight
    dot products     pairs of phrases (b, c) whose splits are summed, once per span
    multiply-adds    splits in those sums: one each inside, two each outside
    rules x splits   what visiting every `a a` rule at every split would have been
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

import machine
import numpy as np
from numba import njit

import sapwood as sw
from sapwood.inference.charts import TAG_SHARE
from sapwood.inference.parser import THRESHOLD
from sapwood.models.score import coarse_inside, coarse_outside, tag_weights

PHASES = ("tag lookup", "inside", "outside", "forest")
BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, 10_000))
# places in the array of counts
TT, TA_AT, DOTS, ADDS, AA, SPLIT_RULES, N_COUNTS = range(7)
# Floating-point operations of one visit, read off the kernels; scaling and storing rows left out.
INSIDE_FLOPS = {TT: 2, TA_AT: 3, ADDS: 2, AA: 2}
OUTSIDE_FLOPS = {TT: 2, TA_AT: 5, ADDS: 2, AA: 2}
# Bytes that one visit loads and stores: rule numbers and weight, one or more chart values.
INSIDE_BYTES = {TT: 28, TA_AT: 40, ADDS: 16, AA: 28}
OUTSIDE_BYTES = {TT: 20, TA_AT: 48, ADDS: 24, AA: 20}


# -- counting the work ----------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _cell(n, i, j):
    return i * (2 * n - i + 1) // 2 + (j - i - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _count_tags(rules, tags, i, j, counts):
    """Rules with a tag on either side that the span [i, j) visits."""
    if j - i == 2:
        for x in range(tags.start[i], tags.start[i + 1]):
            for y in range(tags.start[j - 1], tags.start[j]):
                pair = np.int64(rules.tt_pair[tags.tag[x], tags.tag[y]])
                if pair > 0:
                    counts[TT] += rules.tt_start[pair] - rules.tt_start[pair - 1]
        return
    for x in range(tags.start[i], tags.start[i + 1]):
        t = np.int64(tags.tag[x])
        counts[TA_AT] += rules.ta_start[t + 1] - rules.ta_start[t]
    for x in range(tags.start[j - 1], tags.start[j]):
        t = np.int64(tags.tag[x])
        counts[TA_AT] += rules.at_start[t + 1] - rules.at_start[t]


@njit(cache=True, nogil=True, error_model="numpy")
def _has_common_split(runs, others, low, high):
    for k in range(low, high + 1):
        if runs[k] != 0.0 and others[k] != 0.0:
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def count_inside(rules, tags, chart):
    """Work of `coarse.inside`: its loops again, with the runs as they were at each span."""
    n = chart.n
    counts = np.zeros(N_COUNTS, np.int64)
    n_left, n_right = len(rules.left_of), len(rules.right_of)
    right_first = np.full((n + 1, n_right), n + 1)
    right_last = np.full((n + 1, n_right), -1)
    for i in range(n - 2, -1, -1):
        left_first, left_last = np.full(n_left, n + 1), np.full(n_left, -1)
        for j in range(i + 2, n + 1):
            is_open = False
            for k in range(i + 1, j):
                is_open |= min(chart.scale_from[i, k], chart.scale_to[j, k]) > -(2**29)
            if not is_open:
                continue
            _count_tags(rules, tags, i, j, counts)
            for left in range(n_left if j - i >= 4 else 0):
                for pair in range(rules.aa_first[left], rules.aa_first[left + 1]):
                    right = rules.aa_right[pair]
                    low = max(left_first[left], right_first[j, right])
                    high = min(left_last[left], j - 2, right_last[j, right])
                    if low > high:
                        continue
                    n_rules = rules.aa_start[pair + 1] - rules.aa_start[pair]
                    counts[DOTS] += 1
                    counts[ADDS] += high - low + 1
                    counts[SPLIT_RULES] += (high - low + 1) * n_rules
                    if _has_common_split(chart.left[i, left], chart.right[j, right], low, high):
                        counts[AA] += n_rules
            beta = chart.beta[_cell(n, i, j)]
            for left in range(n_left):
                if beta[rules.left_of[left]] != 0.0:
                    left_first[left] = min(left_first[left], j)
                    left_last[left] = j
            for right in range(n_right):
                if beta[rules.right_of[right]] != 0.0:
                    right_last[j, right] = max(right_last[j, right], i)
                    right_first[j, right] = i
    return counts


@njit(cache=True, nogil=True, error_model="numpy")
def count_outside(rules, tags, chart, alpha):
    """Work of `coarse.outside`; spans that nothing reaches are skipped there too."""
    n = chart.n
    counts = np.zeros(N_COUNTS, np.int64)
    for i in range(n - 1):
        for j in range(n, i + 1, -1):
            row = alpha[_cell(n, i, j)]
            if not np.any(row != 0.0):
                continue
            _count_tags(rules, tags, i, j, counts)
            for left in range(len(rules.left_of) if j - i >= 4 else 0):
                first, last = chart.left_first[i, left], min(chart.left_last[i, left], j - 2)
                for pair in range(rules.aa_first[left], rules.aa_first[left + 1]):
                    right = rules.aa_right[pair]
                    low = max(first, chart.right_first[j, right])
                    high = min(last, chart.right_last[j, right])
                    if low > high:
                        continue
                    n_rules = rules.aa_start[pair + 1] - rules.aa_start[pair]
                    counts[AA] += n_rules
                    sent = 0.0
                    for r in range(rules.aa_start[pair], rules.aa_start[pair + 1]):
                        sent += rules.aa_weight[r] * row[rules.aa_parent[r]]
                    if sent != 0.0:
                        counts[DOTS] += 1
                        counts[ADDS] += 2 * (high - low + 1)
                        counts[SPLIT_RULES] += 2 * (high - low + 1) * n_rules
    return counts


# -- measuring ------------------------------------------------------------------------------------


@dataclass
class Sentence:
    """What was measured on one sentence."""

    n: int
    seconds: dict[str, list[float]] = field(default_factory=lambda: {p: [] for p in PHASES})
    inside: np.ndarray = field(default_factory=lambda: np.zeros(N_COUNTS, np.int64))
    outside: np.ndarray = field(default_factory=lambda: np.zeros(N_COUNTS, np.int64))
    chart_bytes: int = 0


def chart_once(grammar: sw.LatentGrammar, words: list[str], out: Sentence) -> tuple[Any, ...]:
    """Chart a sentence as `parse_forest` does, with the thread's CPU seconds of each phase."""
    from sapwood.kernels import forest

    times = [thread_time()]
    tags = tag_weights(grammar, words, TAG_SHARE)
    times.append(thread_time())
    chart = coarse_inside(grammar, tags)
    times.append(thread_time())
    alpha, tag_alpha = coarse_outside(grammar, tags, chart)
    times.append(thread_time())
    forest.build(
        grammar.pair_table, grammar.n_symbols, len(words), chart.beta * alpha,
        tags.start, tags.tag, tags.weight * tag_alpha, THRESHOLD,
    )  # fmt: skip
    times.append(thread_time())
    for phase, taken in zip(PHASES, np.diff(times), strict=True):
        out.seconds[phase].append(float(taken))
    return tags, chart, alpha


def measure(grammar: sw.LatentGrammar, sentences: list[list[str]], repeats: int) -> list[Sentence]:
    """Time all sentences several times, and count their work once."""
    from sapwood.kernels.coarse import chart_room

    rules = grammar.coarse_rules
    chart_once(grammar, sentences[0], Sentence(0))  # compiled before it is timed
    measured = [Sentence(len(words)) for words in sentences]
    for turn in range(repeats):
        for words, out in zip(sentences, measured, strict=True):
            tags, chart, alpha = chart_once(grammar, words, out)
            if turn == 0:
                out.inside = count_inside(rules, tags, chart)
                out.outside = count_outside(rules, tags, chart, alpha)
                out.chart_bytes = 8 * chart_room(rules, out.n)
    return measured


# -- reporting ------------------------------------------------------------------------------------


def seconds(measured: list[Sentence], phase: str, pick: Any = min) -> float:
    """Sum over sentences of the least (or median) seconds of a phase."""
    return float(sum(pick(sentence.seconds[phase]) for sentence in measured))


def print_speed(measured: list[Sentence]) -> None:
    """Print sentences per second and milliseconds per phase, by length."""
    rows = []
    for low, high in (*BUCKETS, (1, 10_000)):
        group = [s for s in measured if low <= s.n <= high]
        if not group:
            continue
        least = [seconds(group, phase) for phase in PHASES]
        median = sum(seconds(group, phase, np.median) for phase in PHASES)
        name = (
            "all"
            if (low, high) == (1, 10_000)
            else f"{low}-{high}"
            if high < 1e4
            else f"> {low - 1}"
        )
        rows.append(
            (name, len(group), f"{len(group) / sum(least):,.0f} / {len(group) / median:,.0f}")
            + tuple(f"{1e3 * taken / len(group):.2f}" for taken in least)
        )
    header = ("words", "sentences", "sentences/s (best / median)", *(f"{p}, ms" for p in PHASES))
    machine.print_table(header, rows)


def print_work(measured: list[Sentence]) -> None:
    """Print the counted work of both passes, and how fast it went."""
    rows = []
    for phase in ("inside", "outside"):
        counts = sum(getattr(s, phase) for s in measured)
        taken = seconds(measured, phase)
        visits = counts[TT] + counts[TA_AT] + counts[AA]
        per = counts[ADDS] / max(1, counts[DOTS]) / (1 if phase == "inside" else 2)
        rows.append(
            (
                phase, f"{taken:.2f}", *(f"{counts[c] / 1e6:,.1f}" for c in (TT, TA_AT, AA, DOTS)),
                f"{counts[ADDS] / 1e6:,.1f}", f"{per:.1f}", f"{visits / taken / 1e9:.2f}",
                f"{counts[ADDS] / taken / 1e9:.2f}",
                f"{(counts[SPLIT_RULES] + counts[TT] + counts[TA_AT]) / taken / 1e9:.2f}",
            )
        )  # fmt: skip
    header = (
        "pass", "CPU s", "`t t` M visits", "`t a`, `a t` M visits", "`a a` M visits",
        "M dot products", "M multiply-adds", "splits a product", "G rule visits/s",
        "G multiply-adds/s", "G rules x splits/s",
    )  # fmt: skip
    machine.print_table(header, rows)


def print_limits(measured: list[Sentence]) -> None:
    """Print how far the two passes are from what the machine could do at best."""
    gflops, memory, cache = machine.gemm_gflops(), machine.copy_gbs(), machine.cached_copy_gbs()
    print(
        f"limits of one thread, measured: GEMM {gflops:.1f} GFlop/s, copy {memory:.1f} GB/s in",
        end="",
    )
    print(f" memory and {cache:.1f} GB/s in the second-level cache\n")
    rows = []
    for phase, flops, loads, passes in (
        ("inside", INSIDE_FLOPS, INSIDE_BYTES, 1), ("outside", OUTSIDE_FLOPS, OUTSIDE_BYTES, 3),
    ):  # fmt: skip
        counts = sum(getattr(s, phase) for s in measured)
        taken = seconds(measured, phase)
        n_flops = sum(counts[c] * each for c, each in flops.items())
        n_touched = sum(counts[c] * each for c, each in loads.items())
        n_chart = passes * sum(s.chart_bytes for s in measured)
        bounds = n_flops / gflops / 1e9, n_chart / memory / 1e9, n_touched / cache / 1e9
        rows.append((phase, f"{taken:.2f}", *(f"{b:.3f} (x {taken / b:.1f})" for b in bounds)))
    header = (
        "pass", "CPU s", "operations at GEMM speed", "chart once through memory",
        "all loads and stores at cache speed",
    )  # fmt: skip
    machine.print_table(header, rows)
    print(LIMITS)


LIMITS = """The bound that matters is the last one. Few operations are done for each number loaded
(a rule visit reads two indices, a weight and one or two chart values for two to five operations),
so GEMM speed, which reuses each number hundreds of times, is out of reach for this work; and the
chart of a usual sentence fits the second-level cache, so memory is no limit either. What is left
between the last bound and the measured time is scattered access (parents and children of rules
come in no order), short dot products, and spans that are scaled, stored and collected. Loads and
stores are counted as if every one went to the second-level cache; many hit the first."""


def main() -> None:
    """Print three tables for each corpus."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpus", choices=("ptb", "craft", "both"), default="both")
    options.add_argument("--limit", type=int, default=300, help="first sentences of dev")
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    wanted = ("ptb", "craft") if given.corpus == "both" else (given.corpus,)
    files = {corpus: machine.corpus_file(corpus, "train") for corpus in wanted}
    machine.print_facts("Full chart of the plain grammar")
    for corpus, file in files.items():
        grammar = sw.PCFG().fit(sw.read_treebank(file)).model_
        trees = machine.gold_trees(corpus, "dev", given.limit)
        sentences = [words for tree in trees if len(words := tree.words()) > 1]
        print(f"{corpus}: {len(grammar.phrases)} phrases, {len(grammar.tags)} tags, ", end="")
        print(f"{len(grammar.rules):,} rules; {len(sentences)} dev sentences of two or more words,")
        print(f"per sentence the least of {given.repeats} runs\n")
        measured = measure(grammar, sentences, given.repeats)
        print_speed(measured)
        print_work(measured)
        print_limits(measured)


if __name__ == "__main__":
    main()
