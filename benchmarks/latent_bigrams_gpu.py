"""EM of latent bigram models on a GPU: seconds and bytes an iteration, and what the GPU can move.

Needs PyTorch and nothing else of Sapwood's dependencies but NumPy. The pairs of words are drawn, as
many as a text of some hundred million tokens has, with the marginal distributions of real words.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from sapwood.decompose.latent_bigrams import DevicePairs, maximise_states


def draw_pairs(n_words: int, n_pairs: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Different pairs of words, by Zipf's law, as a sparse table of counts by first word."""
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(3, n_words + 3)
    p /= p.sum()
    keys = np.unique(
        rng.choice(n_words, 2 * n_pairs, p=p) * n_words + rng.choice(n_words, 2 * n_pairs, p=p)
    )
    keys = np.sort(rng.permutation(keys)[:n_pairs])
    firsts, seconds = keys // n_words, keys % n_words
    starts = np.searchsorted(firsts, np.arange(n_words + 1))
    return starts, seconds, rng.integers(1, 50, len(keys)).astype(np.float32), p


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
    starts, seconds, counts, _ = draw_pairs(200, 3000)
    rng = np.random.default_rng(1)
    r, s = rng.dirichlet(np.ones(8), 200), rng.dirichlet(np.ones(200), 8).T
    expected = slow_expect(starts, seconds, counts.astype(float), r, s)
    pairs = DevicePairs(starts, seconds, counts, device)
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


def main() -> None:
    """Print a table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--words", type=int, default=300_000)
    parser.add_argument("--pairs", type=int, default=30_000_000)
    parser.add_argument("--states", type=int, nargs="+", default=[64, 256])
    options = parser.parse_args()
    print(f"largest error against the formulas: {check(options.device):.1e}")
    print(f"copying: {(most := bandwidth(options.device)):,.0f} GB/s")
    starts, seconds, counts, p = draw_pairs(options.words, options.pairs)
    pairs = DevicePairs(starts, seconds, counts, options.device)
    u = pairs.put(p)
    rng = np.random.default_rng(0)
    print(f"{len(seconds):,} pairs of {options.words:,} words on {torch.cuda.get_device_name()}")
    print("| states | s an iteration | GB of rows read | GB/s | share of copying |")
    print("|---|---:|---:|---:|---:|")
    for m in options.states:
        r = pairs.put(rng.dirichlet(np.ones(m), options.words).astype(np.float32))
        s = pairs.put(rng.dirichlet(np.full(options.words, 5.0), m).T.astype(np.float32))
        values = []
        for turn in range(8):
            if turn == 3:
                torch.cuda.synchronize()
                start = perf_counter()
            after, before, value = pairs.expect(r, s)
            r, s = maximise_states(after, before * s, u, 1.0)
            values.append(value)
        torch.cuda.synchronize()
        seconds_each = (perf_counter() - start) / 5
        moved = pairs.bytes_moved(m) / 1e9
        speed = moved / seconds_each
        print(f"| {m} | {seconds_each:.4f} | {moved:.1f} | {speed:,.0f} | {speed / most:.0%} |")
        if any(later < earlier for earlier, later in pairwise(values)):
            sys.exit(f"the likelihood fell: {values}")


if __name__ == "__main__":
    main()
