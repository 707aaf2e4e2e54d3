"""Language models at scale: counting text of any size, and what learning from its pairs takes.

Text is drawn from a latent bigram model with 64 states and the word frequencies of Zipf's law, 20
words a line. For each size: `sapwood lm count` of trigrams and of pairs, in processes of their own
(tokens a CPU second, peak memory), `lmplz` of KenLM beside it where one is given, then one EM
iteration with 256 states, and the pivot estimate, over the pairs. The last table says what all of
it takes at 1.3 billion tokens, the size of the PIVOT paper. `--whole 1300` does it instead: the
text, a file of counts of pairs, and models of it, each by a command; `--device cuda` on a GPU.

Everything is kept in the folder of `--scratch` until `--clean`, and what is there is not done
again: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from shutil import rmtree
from typing import Any

import machine  # first: it pins BLAS to one thread
import numpy as np
from latent_bigrams_gpu import LINE, text_model
from numba import njit
from scipy import sparse

from sapwood.execute import Threads
from sapwood.lm.data.ngrams import load_counts
from sapwood.lm.learn.bigram_em import (
    BigramEM,
    EngineEStep,
    cut_pairs,
    follow_counts,
    random_states,
    word_distribution,
)
from sapwood.lm.learn.pivot import PIVOT_COUNT, PIVOT_RIDGE, PIVOT_SHARE, PivotBigram, pivot_states

CHUNK = 2_000_000  # tokens that are drawn at a time
PAPER = 1300  # millions of tokens
EM_STEPS, CONVEX_STEPS = 32, 50  # the paper's iterations of EM; ours of convex EM


# -- drawing --------------------------------------------------------------------------------------


def alias_tables(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row of probabilities: a share to keep a place, and where to go else."""
    keep, other = np.empty(p.shape, np.float32), np.empty(p.shape, np.uint16)
    for k, row in enumerate(p):
        scaled = row * len(row)
        small, large = list(np.flatnonzero(scaled < 1)), list(np.flatnonzero(scaled >= 1))
        keep[k], other[k] = 1.0, 0
        while small and large:
            a, b = small.pop(), large[-1]
            keep[k, a], other[k, a] = scaled[a], b
            scaled[b] -= 1 - scaled[a]
            if scaled[b] < 1:
                small.append(large.pop())
    return keep, other


@njit
def write_words(states, words, names, starts, n, rng, out):
    """Text drawn from a latent bigram model, into bytes; how many bytes there are."""
    state_keep, state_other = states
    word_keep, word_other = words
    n_words, n_states = state_keep.shape
    at = 0
    x = 0
    for i in range(n):
        if i % LINE == 0:
            x = 0
        h = int(rng.random() * n_states)
        if rng.random() > state_keep[x, h]:
            h = int(state_other[x, h])
        x = int(rng.random() * n_words)
        if rng.random() > word_keep[h, x]:
            x = int(word_other[h, x])
        for k in range(starts[x], starts[x + 1]):
            out[at] = names[k]
            at += 1
        out[at] = 10 if i % LINE == LINE - 1 else 32
        at += 1
    return at


def draw_text(path: Path, n: int, seed: int = 0) -> None:
    """A file of n tokens."""
    rng = np.random.default_rng(seed)
    r, s = text_model()
    tables = alias_tables(r), alias_tables(s)
    words = [f"w{i}".encode() for i in range(len(r))]
    names = np.frombuffer(b"".join(words), np.uint8)
    starts = np.concatenate([[0], np.cumsum([len(word) for word in words])])
    out = np.empty(CHUNK * 8, np.uint8)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        for start in range(0, n, CHUNK):
            size = write_words(*tables, names, starts, min(CHUNK, n - start), rng, out)
            file.write(out[:size].tobytes())
    part.rename(path)


# -- measuring ------------------------------------------------------------------------------------


# A process begins with the peak of the one that starts it: this one, small as it is, comes between.
LAUNCHER = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps({"wall": time.perf_counter() - start, "cpu": used.ru_utime + used.ru_stime,
                  "peak": used.ru_maxrss * 1024 / 1e6}))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(*command: object, stdin: Path | None = None) -> dict[str, float]:
    """Wall and CPU seconds, and peak memory in MB, of a process."""
    with Path(stdin or os.devnull).open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-S", "-c", LAUNCHER, *map(str, command)], stdin=source,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def count(text: Path, out: Path, order: int, memory: str) -> dict[str, float]:
    """`sapwood lm count`, and the size of its file."""
    from pyarrow.parquet import read_metadata

    out.unlink(missing_ok=True)
    found = run(sys.executable, "-m", "sapwood", "lm", "count", text, "-o", out, "--order", order,
                "--memory", memory)  # fmt: skip
    return found | {"mb": out.stat().st_size / 1e6, "rows": read_metadata(out).num_rows}


def estimate(text: Path, lmplz: str, memory: str, scratch: Path) -> dict[str, float]:
    """`lmplz` with as much memory: it also computes the model, and writes it."""
    return run(lmplz, "-o", 3, "-S", memory, "-T", scratch / "lmplz", "--discount_fallback",
               stdin=text)  # fmt: skip


def load_pairs(path: Path) -> sparse.csr_array:
    """What follows what, from a file of pairs."""
    counts = load_counts(path)
    return follow_counts(counts.rows, counts.counts, len(counts.words))


def learn(pairs: Path, m: int) -> dict[str, float]:
    """CPU seconds of reading a file of pairs, and of an EM iteration over them."""
    with machine.Clock() as loading:
        c = load_pairs(pairs)
    u = word_distribution(c)
    start = random_states(u, m, np.random.default_rng(0))
    source = EngineEStep(Threads(1), cut_pairs(c))
    source.expect(start)  # compiled, and its pages touched
    with machine.Clock() as iteration:
        BigramEM(1, 1.0, u).run(source, start)
    return {"pairs": c.nnz, "loading": loading.cpu, "iteration": iteration.cpu}


def learn_pivots(pairs: Path, m: int) -> dict[str, float]:
    """CPU seconds of the pivot estimate over a file of pairs."""
    c = load_pairs(pairs)
    trusted = PivotBigram.parameters()["min_count"].default
    least = max(PIVOT_COUNT, PIVOT_SHARE * c.sum() / m)
    with machine.Clock() as pivot:
        pivot_states(c, m, least=least, ridge=PIVOT_RIDGE, trusted=trusted)
    return {"pairs": c.nnz, "pivot": pivot.cpu}


def measure(size: int, options: argparse.Namespace, done: dict[str, Any]) -> None:
    """All steps of a size that are not done yet."""
    scratch = Path(options.scratch)
    text, pairs = scratch / f"{size}.txt", scratch / f"{size}-2.parquet"
    trigrams = scratch / f"{size}-3.parquet"
    steps = {
        "count": lambda: count(text, trigrams, 3, options.memory),
        "pairs": lambda: count(text, pairs, 2, options.memory),
        "learn": lambda: learn(pairs, options.states),
    }
    if size <= options.pivot_most:
        steps["pivot"] = lambda: learn_pivots(pairs, options.states)
    if options.lmplz and size <= options.lmplz_most:
        steps["lmplz"] = lambda: estimate(text, options.lmplz, options.memory, scratch)
    for name, step in steps.items():
        if f"{size} {name}" in done:
            continue
        if not text.exists():
            draw_text(text, size * 1_000_000)
        done[f"{size} {name}"] = step()
        (scratch / "done.json").write_text(json.dumps(done))
        print(size, name, done[f"{size} {name}"], file=sys.stderr, flush=True)
        trigrams.unlink(missing_ok=True)


def show(options: argparse.Namespace, done: dict[str, Any]) -> None:
    """The tables."""
    rows = []
    for size in options.millions:
        for name, title in (
            ("count", "trigrams"),
            ("pairs", "pairs"),
            ("lmplz", "lmplz, trigrams"),
        ):
            if found := done.get(f"{size} {name}"):
                rows.append([f"{size} M", title, f"{found['wall']:.0f}", f"{found['cpu']:.0f}",
                             f"{size / found['cpu']:.2f}", f"{found['peak']:.0f}",
                             f"{found['mb']:.0f}" if "mb" in found else ""])  # fmt: skip
    print(f"Counting with {options.memory} of memory", end="\n\n")
    header = ["tokens", "what", "wall s", "CPU s", "M tokens / CPU s", "peak MB", "file MB"]
    machine.print_table(header, rows)
    rows = []
    for size in options.millions:
        if f"{size} learn" not in done:
            continue
        found = done[f"{size} learn"]
        gb = 3 * 4 * options.states * found["pairs"] / 1e9  # three rows of numbers a pair
        rows.append([f"{size} M", f"{found['pairs'] / 1e6:.1f}", f"{found['loading']:.0f}",
                     f"{found['iteration']:.1f}", f"{gb / found['iteration']:.1f}",
                     f"{done[f'{size} pivot']['pivot']:.0f}" if f"{size} pivot" in done else ""
                     ])  # fmt: skip
    print(f"\nLearning with {options.states} states, CPU seconds of one thread", end="\n\n")
    machine.print_table(
        ["tokens", "M pairs", "reading", "an iteration", "GB/s of rows", "pivot estimate"], rows
    )
    extrapolate(options, done)


def extrapolate(options: argparse.Namespace, done: dict[str, Any]) -> None:
    """What 1.3 billion tokens take: pairs by the power law of the two largest sizes."""
    known = [found for name, found in done.items() if name.endswith(" pivot")]
    if len(known) < 2:
        return
    *_, small, large = sorted(options.millions)
    a, b = done[f"{small} pairs"], done[f"{large} pairs"]
    power = np.log(b["rows"] / a["rows"]) / np.log(large / small)
    pairs = b["rows"] * (PAPER / large) ** power
    counting = b["cpu"] * PAPER / large
    most = max((x for name, x in done.items() if name.endswith(" learn")), key=lambda x: x["pairs"])
    loading, iteration = (most[key] * pairs / most["pairs"] for key in ("loading", "iteration"))
    # the pivot estimate takes time for pairs, and for words, which are as many at every size
    slope, words = np.polyfit([x["pairs"] for x in known], [x["pivot"] for x in known], 1)
    pivot = slope * pairs + words
    with_em = loading + EM_STEPS * iteration
    with_convex = loading + pivot + CONVEX_STEPS * iteration
    rows = [
        [name, _hours(counting), _hours(learning), _hours(counting + learning), paper]
        for name, learning, paper in (
            (f"EM, {EM_STEPS} iterations", with_em, "12 h 57"),
            ("pivot", with_convex, "1 h 50"),
        )
    ]
    print(
        f"\nAt {PAPER} M tokens, {pairs / 1e6:.0f} M pairs (their number grows with the power "
        f"{power:.2f} of the text's), {options.states} states, by CPU time of one thread:",
        end="\n\n",
    )
    machine.print_table(["method", "counting", "learning", "both", "the paper"], rows)


def _hours(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d}"


WHOLE = {
    "em": ("--method", "em", "--blocks", 1),  # as in the paper
    "pivot": ("--method", "pivot"),
}


def whole(options: argparse.Namespace) -> None:
    """From text to models, each step a command."""
    scratch, n_files = Path(options.scratch), os.cpu_count() or 1
    texts = [scratch / f"whole-{options.whole}" / f"{k:03d}.txt" for k in range(n_files)]
    missing = [(text, k) for k, text in enumerate(texts) if not text.exists()]
    texts[0].parent.mkdir(exist_ok=True)
    with machine.Clock() as clock, ProcessPoolExecutor() as pool:
        size = options.whole * 1_000_000 // n_files
        drawn = [pool.submit(draw_text, text, size, k) for text, k in missing]
        for each in drawn:
            each.result()
    print(f"drawn in {clock.wall:.0f} s", file=sys.stderr, flush=True)
    counts, rows = scratch / f"whole-{options.whole}.parquet", []

    def do(name: str, *command: object) -> None:
        found = run(sys.executable, "-m", "sapwood", "lm", *command)
        rows.append([name, *(f"{found[key]:.0f}" for key in ("wall", "cpu", "peak"))])
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)

    if not counts.exists():
        do("counting pairs", "count", *texts, "-o", counts, "--order", 2, "--memory", "8G")
    for name in options.methods:
        out = scratch / f"whole-{options.whole}-{name}.lm"
        do(f"{name}, {options.states} states", "train", counts, "-o", out, "--force", *WHOLE[name],
           "--states", options.states, "--device", options.device)  # fmt: skip
    print(f"{options.whole} M tokens, from text to a model's file, on {options.device}", end="\n\n")
    machine.print_table(["command", "wall s", "CPU s", "peak MB"], rows)


def main() -> None:
    """Do what is not done yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--states", type=int, default=256)
    parser.add_argument("--scratch", default="build/language-scale", help="up to 20 GB at 400 M")
    parser.add_argument("--lmplz", help="the program, which is not part of PyPI's kenlm")
    parser.add_argument("--lmplz-most", type=int, default=40, help="millions it is tried on")
    parser.add_argument("--pivot-most", type=int, default=40, help="likewise, by pivots")
    parser.add_argument("--whole", type=int, help="millions of tokens, as whole commands instead")
    parser.add_argument("--methods", nargs="+", choices=WHOLE, default=list(WHOLE))
    parser.add_argument("--device", default="cpu", help="for --whole")
    parser.add_argument("--show", action="store_true", help="only the tables of what is done")
    parser.add_argument("--clean", action="store_true", help="remove the folder in the end")
    options = parser.parse_args()
    scratch = Path(options.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    note = scratch / "done.json"
    done = json.loads(note.read_text()) if note.exists() else {}
    machine.print_facts("language models at scale", threads=os.cpu_count() or 1)
    if options.whole:
        whole(options)
    else:
        for size in () if options.show else options.millions:
            measure(size, options, done)
        show(options, done)
    if options.clean:
        rmtree(scratch)


if __name__ == "__main__":
    main()
