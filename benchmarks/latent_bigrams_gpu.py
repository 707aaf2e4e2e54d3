"""EM of latent bigram models on a GPU: seconds and bytes an iteration, and what the GPU can move.

Needs PyTorch and nothing else of Sapwood's dependencies but NumPy. The pairs of words are those of
text that is drawn on the GPU from the model of `language_scale.py`, 400 million tokens and, as in
the PIVOT paper, 1.3 billion. EM and convex EM, with the states of contexts fixed, are both timed.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sapwood.lm.learn.bigram_em import maximise_states
from sapwood.lm.learn.device import DevicePairs

LINE, DRAWN = 20, 100_000_000  # words of a line, and those that are drawn at a time
ROWS_MOVED = 4  # rows of m numbers that an E-step reads for each pair of words
N_TIMED = 5


def text_model(n_words: int = 60_000, n_states: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """A latent bigram model with the word frequencies of Zipf's law: r [V, m], s [m, V]."""
    rng = np.random.default_rng(0)
    s = rng.gamma(0.2, size=(n_states, n_words)) / np.arange(3, n_words + 3)
    return rng.dirichlet(np.full(n_states, 0.1), n_words), s / s.sum(axis=1, keepdims=True)


def draw_pairs(n_tokens: int, device: str) -> tuple[np.ndarray, ...]:
    """Counts of the pairs of a text, lines of 20 words, by first word: starts, seconds, counts."""
    import torch

    r, s = text_model()
    n_words, n_states = r.shape
    states = torch.as_tensor(np.cumsum(r, axis=1), dtype=torch.float32, device=device)
    below = np.arange(n_states)[:, None] + np.minimum(np.cumsum(s, axis=1), 1.0)
    words = torch.as_tensor(below.ravel(), dtype=torch.float64, device=device)
    draw = torch.Generator(device=device).manual_seed(0)
    keys, counts = [], []
    for start in range(0, n_tokens, DRAWN):
        x = torch.zeros(min(DRAWN, n_tokens - start) // LINE, dtype=torch.int64, device=device)
        found = []
        for _ in range(LINE):
            u = torch.rand(len(x), generator=draw, device=device)
            h = (states[x] < u[:, None]).sum(1).clamp(max=n_states - 1)
            v = torch.rand(len(x), generator=draw, device=device, dtype=torch.float64)
            y = torch.searchsorted(words, h + v).clamp(max=len(words) - 1) % n_words
            found.append(x * n_words + y)
            x = y
        each, times = torch.unique(torch.cat(found), return_counts=True)
        keys.append(each)
        counts.append(times)
    every, place = torch.unique(torch.cat(keys), return_inverse=True)
    total = torch.zeros(len(every), dtype=torch.int64, device=device)
    total.scatter_add_(0, place, torch.cat(counts))
    firsts = (every // n_words).cpu().numpy()
    starts = np.searchsorted(firsts, np.arange(n_words + 1))
    return starts, (every % n_words).cpu().numpy(), total.cpu().numpy().astype(np.float32)


def slow_expect(
    starts: np.ndarray, seconds: np.ndarray, counts: np.ndarray, r: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """The formulas, in double precision."""
    firsts = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    p = (r[firsts] * s[seconds]).sum(axis=1)
    after, before = np.zeros_like(r), np.zeros_like(s)
    np.add.at(after, firsts, (counts / p)[:, None] * s[seconds])
    np.add.at(before, seconds, (counts / p)[:, None] * r[firsts])
    return r * after, before, float(counts @ np.log(p))


def check(device: str) -> float:
    """The largest relative error against the formulas, on a small table."""
    rng = np.random.default_rng(1)
    c = rng.poisson(0.1, (200, 200)).astype(np.float32)
    firsts, seconds = np.nonzero(c)
    starts, counts = np.searchsorted(firsts, np.arange(201)), c[firsts, seconds]
    r, s = rng.dirichlet(np.ones(8), 200), rng.dirichlet(np.ones(200), 8).T
    expected = slow_expect(starts, seconds, counts.astype(float), r, s)
    pairs = DevicePairs(starts, seconds, counts, len(starts) - 1, device)
    found = pairs.expect(pairs.put(r), pairs.put(np.ascontiguousarray(s)))
    errors = [
        np.abs(one.cpu().numpy() - other).max() / np.abs(other).max()
        for one, other in zip(found[:2], expected[:2], strict=True)
    ]
    return float(max(*errors, abs(found[2] / expected[2] - 1)))


def bandwidth(device: str) -> float:
    """GB a second of copying a gigabyte within the device, bytes read and written."""
    import torch

    source = torch.ones(1 << 28, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    torch.cuda.synchronize()
    start = perf_counter()
    for _ in range(10):
        target.copy_(source)
    torch.cuda.synchronize()
    return 10 * 2 * source.numel() * 4 / (perf_counter() - start) / 1e9


def climb(pairs: DevicePairs, u: np.ndarray, m: int, *, is_r_free: bool) -> float:
    """Seconds of an iteration, of which the likelihood must not fall."""
    import torch

    rng = np.random.default_rng(0)
    r = pairs.put(rng.dirichlet(np.ones(m), len(u)).astype(np.float32))
    s = pairs.put(u[:, None] * rng.uniform(0.5, 1.5, (len(u), m)))
    s = s / s.sum(0)
    prior, values = pairs.put(u), []
    for turn in range(3 + N_TIMED):
        if turn == 3:
            torch.cuda.synchronize()
            start = perf_counter()
        after, before, value = pairs.expect(r, s)
        r, s = maximise_states(after, before * s, prior, 0.0, r=None if is_r_free else r)
        values.append(value)
    torch.cuda.synchronize()
    taken = (perf_counter() - start) / N_TIMED
    if any(later < earlier - 1e-6 * abs(earlier) for earlier, later in pairwise(values)):
        sys.exit(f"the likelihood fell: {values}")
    return taken


def main() -> None:
    """Print a table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--millions", type=int, nargs="+", default=[40, 400, 1300])
    parser.add_argument("--states", type=int, nargs="+", default=[64, 256])
    options = parser.parse_args()
    print(
        f"{torch.cuda.get_device_name()}; copying: {(most := bandwidth(options.device)):,.0f} GB/s"
    )
    print(f"largest error against the formulas: {check(options.device):.1e}\n")
    print("| tokens | M pairs | states | EM | s an iteration | GB of rows read | GB/s | share |")
    print("|---|---:|---:|---|---:|---:|---:|---:|")
    for size in options.millions:
        starts, seconds, counts = draw_pairs(size * 1_000_000, options.device)
        u = np.bincount(seconds, counts, len(starts) - 1) + 0.5
        pairs = DevicePairs(starts, seconds, counts, len(u), options.device)
        for m in options.states:
            for title, is_r_free in (("all", True), ("convex", False)):
                each = climb(pairs, u / u.sum(), m, is_r_free=is_r_free)
                gb = ROWS_MOVED * 4 * m * len(pairs.counts) / 1e9
                print(
                    f"| {size} M | {len(seconds) / 1e6:.1f} | {m} | {title} | {each:.4f} "
                    f"| {gb:.0f} | {gb / each:,.0f} | {gb / each / most:.0%} |", flush=True,
                )  # fmt: skip
        del pairs


if __name__ == "__main__":
    main()
