"""The full chart of the plain grammar: speed by sentence length, work done, distance to limits.

The work is counted by replaying the loops of `sapwood.constituency.parse.kernels.coarse` over
finished charts:

    rule visits      a rule weight is read and used, once per span, for each pair of children that
                     has weight
    dot products     pairs of phrases (b, c) whose splits are summed, once per span
    multiply-adds    splits in those sums: one each inside, two each outside
    row steps        numbers zeroed, scanned, scaled or filed, and pairs of tag and phrase looked up
    rules x splits   what visiting every `a a` rule at every split would have been
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

import numpy as np
from benchmarks import machine
from numba import njit

import sapwood as sw
from sapwood.constituency.parse.charts import (
    TAG_SHARE,
    _scratch,
    chart_room,
    plain_inside,
    tag_weights,
)
from sapwood.constituency.parse.parser import BEAM, THRESHOLD
from sapwood.constituency.parse.prepared import PreparedGrammar, prepare

PHASES = ("tag lookup", "inside", "outside", "forest")
LONGEST = 10_000
BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, LONGEST))
# places in the array of counts
TT, TA_AT, DOTS, ADDS, AA, ROWS, SPLIT_RULES, N_COUNTS = range(8)
# Floating-point operations of one visit, read off the kernels.
INSIDE_FLOPS = {TT: 2, TA_AT: 3, ADDS: 2, AA: 2}
OUTSIDE_FLOPS = {TT: 2, TA_AT: 5, ADDS: 2, AA: 2}
# Bytes that one visit loads and stores: rule numbers and weight, and one or more chart values.
INSIDE_BYTES = {TT: 28, TA_AT: 40, ADDS: 16, AA: 28, ROWS: 12}
OUTSIDE_BYTES = {TT: 20, TA_AT: 48, ADDS: 24, AA: 20, ROWS: 12}


# -- counting the work ----------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _cell(n, i, j):
    return i * (2 * n - i + 1) // 2 + (j - i - 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _count_tags(rules, tags, chart, i, j, counts):
    """Rules with a tag on either side that the span [i, j) visits."""
    if j - i == 2:
        for x in range(tags.start[i], tags.start[i + 1]):
            for y in range(tags.start[j - 1], tags.start[j]):
                pair = np.int64(rules.tt_pair[tags.tag[x], tags.tag[y]])
                if pair > 0:
                    counts[TT] += rules.tt_start[pair] - rules.tt_start[pair - 1]
        return
    _count_with_word(
        rules.ta_pair, rules.ta_start, tags, i, chart, _cell(chart.n, i + 1, j), counts
    )
    _count_with_word(
        rules.at_pair, rules.at_start, tags, j - 1, chart, _cell(chart.n, i, j - 1), counts
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _count_with_word(pairs, start, tags, position, chart, cell, counts):
    for x in range(tags.start[position], tags.start[position + 1]):
        counts[ROWS] += chart.n_active[cell]
        for place in range(chart.n_active[cell]):
            pair = np.int64(pairs[tags.tag[x], chart.active[cell, place]])
            if pair > 0:
                counts[TA_AT] += start[pair] - start[pair - 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _has_common_split(runs, others, low, high):
    for k in range(low, high + 1):  # noqa: SIM110 - Numba knows no generators
        if runs[k] != 0.0 and others[k] != 0.0:
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def _run_steps(first, last, low, high):
    """Numbers that `_scale_runs` writes."""
    steps = 0
    for slot in range(len(first)):
        steps += max(0, min(last[slot], high) - max(first[slot], low) + 1)
    return steps


@njit(cache=True, nogil=True, error_model="numpy")
def count_inside(rules, tags, chart):  # noqa: PLR0912 - the kernel's loops in one place
    """Work of `coarse.fill`: its loops again, with the runs as they were at each span."""
    n = chart.n
    counts = np.zeros(N_COUNTS, np.int64)
    n_left, n_right = len(rules.left_of), len(rules.right_of)
    right_first = np.full((n + 1, n_right), n + 1)
    right_last = np.full((n + 1, n_right), -1)
    for i in range(n - 2, -1, -1):
        left_first, left_last = np.full(n_left, n + 1), np.full(n_left, -1)
        for j in range(i + 2, n + 1):
            # one row zeroed and one scanned; then only the phrases with weight
            counts[ROWS] += 2 * rules.n_phrases + 4 * chart.n_active[_cell(n, i, j)]
            is_open = False
            for k in range(i + 1, j):
                is_open |= min(chart.scale_from[i, k], chart.scale_to[j, k]) > -(2**29)
            if not is_open:
                continue
            _count_tags(rules, tags, chart, i, j, counts)
            if j - i >= 4:
                counts[ROWS] += _run_steps(right_first[j], right_last[j], i + 2, j - 2)
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
                    if _has_common_split(
                        chart.left.weight[i, left], chart.right.weight[j, right], low, high
                    ):
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
    n_left = len(rules.left_of)
    for i in range(n - 1):
        for j in range(n, i + 1, -1):
            row = alpha[_cell(n, i, j)]
            counts[ROWS] += rules.n_phrases + 2 * chart.n_active[_cell(n, i, j)]
            if not np.any(row != 0.0):
                continue
            _count_tags(rules, tags, chart, i, j, counts)
            if j - i >= 4:
                counts[ROWS] += _run_steps(chart.left.first[i], chart.left.last[i], i + 2, j - 2)
                counts[ROWS] += _run_steps(chart.right.first[j], chart.right.last[j], i + 2, j - 2)
            for left in range(n_left if j - i >= 4 else 0):
                first, last = chart.left.first[i, left], min(chart.left.last[i, left], j - 2)
                for pair in range(rules.aa_first[left], rules.aa_first[left + 1]):
                    right = rules.aa_right[pair]
                    low = max(first, chart.right.first[j, right])
                    high = min(last, chart.right.last[j, right])
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


def chart_once(
    prepared: PreparedGrammar, words: list[str], beam: float, out: Sentence
) -> tuple[Any, ...]:
    """Chart a sentence as `plain_forest` does, with the thread's CPU seconds of each phase."""
    from sapwood.constituency.parse.kernels.coarse import outside
    from sapwood.constituency.parse.kernels.forest import prune

    times = [thread_time()]
    tags = tag_weights(prepared, words, TAG_SHARE)
    times.append(thread_time())
    chart = plain_inside(prepared.plain, tags, beam)
    times.append(thread_time())
    plain = prepared.plain
    room = _scratch.get("outside", chart_room(plain, len(words)))
    alpha, tag_alpha = outside(plain.rules, tags, chart, plain.root, room)
    times.append(thread_time())
    prune(prepared.plain.pairs, tags, chart.beta * alpha, tags.weight * tag_alpha, THRESHOLD)
    times.append(thread_time())
    for phase, taken in zip(PHASES, np.diff(times), strict=True):
        out.seconds[phase].append(float(taken))
    return tags, chart, alpha


def measure(
    grammar: sw.LatentGrammar, sentences: list[list[str]], beam: float, repeats: int
) -> list[Sentence]:
    """Time all sentences several times, and count their work once."""
    prepared = prepare(grammar)
    rules = prepared.plain.rules
    chart_once(prepared, sentences[0], beam, Sentence(0))  # compiled before it is timed
    measured = [Sentence(len(words)) for words in sentences]
    for turn in range(repeats):
        for words, out in zip(sentences, measured, strict=True):
            tags, chart, alpha = chart_once(prepared, words, beam, out)
            if turn == 0:
                out.inside = count_inside(rules, tags, chart)
                out.outside = count_outside(rules, tags, chart, alpha)
                out.chart_bytes = filled_bytes(chart)
    return measured


def filled_bytes(chart: Any) -> int:
    """Bytes of an inside chart that are used: all cells, and the runs that `a a` rules read."""
    runs = sum(
        int(np.maximum(0, last - first + 1).sum())
        for first, last in (
            (chart.left.first, chart.left.last),
            (chart.right.first, chart.right.last),
        )
    )
    return 8 * (chart.beta.size + runs)


# -- reporting ------------------------------------------------------------------------------------


def seconds(measured: list[Sentence], phase: str, pick: Any = min) -> float:
    """Sum over sentences of the least (or median) seconds of a phase."""
    return float(sum(pick(sentence.seconds[phase]) for sentence in measured))


def print_speed(measured: list[Sentence]) -> None:
    """Print sentences per second and milliseconds per phase, by length."""
    names = [f"{low}-{high}" if high < LONGEST else f"> {low - 1}" for low, high in BUCKETS]
    rows = []
    for name, (low, high) in zip((*names, "all"), (*BUCKETS, (1, LONGEST)), strict=True):
        group = [s for s in measured if low <= s.n <= high]
        if not group:
            continue
        n, least = len(group), [seconds(group, phase) for phase in PHASES]
        median = sum(seconds(group, phase, np.median) for phase in PHASES)
        speed = f"{n / sum(least):,.0f} / {n / median:,.0f}"
        rows.append((name, n, speed, *(f"{1e3 * taken / n:.2f}" for taken in least)))
    header = ("words", "sentences", "sentences/s (best / median)", *(f"{p}, ms" for p in PHASES))
    machine.print_table(header, rows)


def print_work(measured: list[Sentence]) -> None:
    """Print the counted work of both passes, and how fast it went."""
    rows = []
    for phase in ("inside", "outside"):
        counts = sum(getattr(s, phase) for s in measured)
        taken = seconds(measured, phase)
        visits = counts[TT] + counts[TA_AT] + counts[AA]
        splits = counts[ADDS] / max(1, counts[DOTS]) / (1 if phase == "inside" else 2)
        millions = [f"{counts[c] / 1e6:,.1f}" for c in (TT, TA_AT, AA, DOTS, ADDS, ROWS)]
        one_by_one = counts[SPLIT_RULES] + counts[TT] + counts[TA_AT]
        rates = [f"{c / taken / 1e9:.2f}" for c in (visits, counts[ADDS], one_by_one)]
        rows.append((phase, f"{taken:.2f}", *millions, f"{splits:.1f}", *rates))
    header = (
        "pass", "CPU s", "M `t t` visits", "M `t a`, `a t` visits", "M `a a` visits",
        "M dot products", "M multiply-adds", "M row steps", "splits a product",
        "G rule visits/s", "G multiply-adds/s", "G rules x splits/s",
    )  # fmt: skip
    machine.print_table(header, rows)


def print_limits(measured: list[Sentence]) -> None:
    """Print how far the two passes are from what the machine could do at best."""
    gflops, memory, cache = machine.gemm_gflops(), machine.copy_gbs(), machine.cached_copy_gbs()
    mean = sum(s.chart_bytes for s in measured) / len(measured) / 1e6
    print(f"Limits of one thread, measured: GEMM {gflops:.1f} GFlop/s; copy {memory:.1f} GB/s in")
    print(f"memory, {cache:.1f} GB/s in 512 KB. Inside chart of a mean sentence: {mean:.1f} MB.\n")
    rows, nearest = [], []
    # inside writes its chart once; outside reads it and writes one of the same size
    for phase, flops, loads, times in (
        ("inside", INSIDE_FLOPS, INSIDE_BYTES, 1),
        ("outside", OUTSIDE_FLOPS, OUTSIDE_BYTES, 2),
    ):
        counts = sum(getattr(s, phase) for s in measured)
        taken = seconds(measured, phase)
        n_flops = sum(counts[c] * each for c, each in flops.items())
        n_touched = sum(counts[c] * each for c, each in loads.items())
        n_chart = times * sum(s.chart_bytes for s in measured)
        bounds = n_flops / gflops / 1e9, n_chart / memory / 1e9, n_touched / cache / 1e9
        rows.append((phase, f"{taken:.2f}", *(f"{b:.3f} (x {taken / b:.1f})" for b in bounds)))
        nearest.append(f"{phase} x {taken / max(bounds):.0f} ({BOUNDS[int(np.argmax(bounds))]})")
    machine.print_table(("pass", "CPU s", *BOUNDS), rows)
    print(f"Nearest bound: {'; '.join(nearest)}.")
    print(LIMITS)


BOUNDS = (
    "operations at GEMM speed",
    "chart once through memory",
    "loads and stores at 512 KB speed",
)
LIMITS = """No bound is near, so neither arithmetic nor bandwidth is what limits these passes. A
rule visit reads two numbers, a weight and one or two chart values for two to five operations,
and uses each once: GEMM speed, which reuses every number many times, is not on offer. Of the others
the byte bounds are the ones that count. What stands between them and the measured time was not
measured apart; the counts point to scattered access (the children and parents of the rules come in
no order) and to dot products of few splits.
"""


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
        print(f"per sentence the least of {given.repeats} runs. Full chart:\n")
        measured = measure(grammar, sentences, 0.0, given.repeats)
        print_speed(measured)
        print_work(measured)
        print_limits(measured)
        print(f"The same with the parser's beam of {BEAM:g}:\n")
        measured = measure(grammar, sentences, BEAM, given.repeats)
        print_speed(measured)
        print_work(measured)


if __name__ == "__main__":
    main()
