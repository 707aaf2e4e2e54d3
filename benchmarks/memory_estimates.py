"""Memory that learners say they need, against the peak that is measured while they learn.

    SAPWOOD_DATA=/path/to/data python benchmarks/memory_estimates.py
    python benchmarks/memory_estimates.py --only trees --seconds 60

Each learner runs in a process of its own, with one iteration where it iterates: more take no more
memory. Measured is what the process grows by from the beginning of `fit` to its peak; the data are
in memory before that, except for `embed`, which reads them itself, and for the rows `read`, which
only read a file. A ratio of 1 is a perfect estimate; refusing too late (below 0.8) and too early
(above 3) are faults.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORPORA = {
    "trees": ("ptb_nltk_sample/train.mrg.xz", "\n", ".mrg"),
    "arcs": ("ud_english_ewt/train.conllu.xz", "\n\n", ".conllu"),
    "lm": ("wikinews_en/train.txt.xz", "\n", ".txt"),
    "embed": ("wikinews_en/train.txt.xz", "\n", ".txt"),
    "read trees": ("craft/train.mrg.xz", "\n", ".mrg"),
    "read arcs": ("ud_english_ewt/train.conllu.xz", "\n\n", ".conllu"),
    "read text": ("wikinews_en/train.txt.xz", "\n", ".txt"),
    "unmix": ("wikinews_en/train.txt.xz", "\n", ".txt"),
}
ONE = {"iterations": 1}
# kind, method, parameters, shares of the corpus
RUNS: list[tuple[str, str, dict[str, Any], tuple[float, ...]]] = [
    ("read trees", "packed", {}, (1 / 3, 1)),
    ("read trees", "objects", {}, (1 / 3, 1)),
    ("read arcs", "packed", {}, (1 / 3, 1)),
    ("read text", "strings", {}, (1 / 3, 1)),
    ("trees", "pcfg", {}, (1 / 3, 1)),
    ("trees", "em", {"n_states": 4, **ONE}, (1 / 3,)),
    ("trees", "em", {"n_states": 16, **ONE}, (1 / 3, 1)),
    ("trees", "spectral", {"n_states": 8}, (1 / 3, 1)),
    ("trees", "spectral", {"n_states": 16}, (1 / 3,)),
    ("trees", "cluster", {"n_states": 16}, (1 / 3, 1)),
    ("trees", "pivot", {"n_states": 4}, (1 / 3,)),
    ("trees", "crf", {"passes": 1}, (1 / 3, 1)),
    ("trees", "encoder", {"passes": 1}, (1 / 3,)),
    ("arcs", "spectral", {"n_states": 8}, (1 / 3, 1)),
    ("arcs", "spectral", {"n_states": 32, "seen": "words"}, (1 / 3, 1)),
    ("arcs", "em", {"n_states": 8, **ONE}, (1 / 3,)),
    ("arcs", "em", {"n_states": 32, "seen": "words", **ONE}, (1 / 3, 1)),
    ("arcs", "first", {"passes": 1}, (1 / 20, 1 / 10)),
    ("arcs", "second", {"passes": 1}, (1 / 20,)),
    ("arcs", "latent", {"passes": 1, **ONE}, (1 / 20,)),
    ("arcs", "rerank", {"passes": 1, "list_passes": 1}, (1 / 20,)),
    ("arcs", "best", {"passes": 1, "encoder_passes": 1}, (1 / 20,)),
    ("lm", "kn", {"order": 3}, (1 / 8, 1 / 2)),
    ("lm", "kn-mod", {"order": 5}, (1 / 8, 1 / 2)),
    ("lm", "kn-latent", {"n_states": 64, **ONE}, (1 / 8, 1 / 2)),
    ("lm", "em", {"n_states": 64, **ONE}, (1 / 8, 1 / 2)),
    ("lm", "em", {"n_states": 256, **ONE}, (1 / 8, 1 / 2)),
    ("lm", "pivot", {"n_states": 32}, (1 / 8,)),
    ("lm", "mix", {"n_states": 16, **ONE}, (1 / 8, 1 / 2)),
    ("embed", "cca", {}, (1 / 16, 1 / 8)),
    ("embed", "two-step", {}, (1 / 16,)),
    ("embed", "bigram", {"dimension": 200}, (1 / 16,)),
    ("embed", "lr-mvl", ONE, (1 / 16,)),
    ("unmix", "pcfg-ie", {"n_words": 1000}, (1 / 16,)),
    ("unmix", "pcfg-ie", {"n_words": 300, "refine": "em", **ONE}, (1 / 16,)),
    ("unmix", "dep-ies", {"n_words": 150}, (1 / 16,)),
    ("unmix", "dep-ies", {"n_words": 300}, (1 / 16,)),
]


def main() -> None:
    """Print a row for each learner and size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help="learners that start so, as 'lm' or 'lm kn'")
    parser.add_argument("--seconds", type=float, default=300.0, help="for one learner")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        kind, method, values, path = options.one
        print(json.dumps(measure(kind, method, json.loads(values), path)))
        return
    print("| learner | corpus | estimated MB | measured MB | ratio |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        for kind, method, values, shares in RUNS:
            if not f"{kind} {method}".startswith(options.only):
                continue
            shown = " ".join([kind, method, *(f"{k}={v}" for k, v in values.items())])
            for share in shares:
                path = cut_corpus(kind, share, Path(folder))
                one = ["--one", kind, method, json.dumps(values), str(path)]
                row = f"| {shown} | {share:.2f} | {run(one, options.seconds)} |"
                print(row, flush=True)


def run(arguments: list[str], seconds: float) -> str:
    """Estimate, peak and ratio of one learner in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "- | - | no time"
    if done.returncode:
        return f"- | - | {done.stderr.strip().splitlines()[-1]}"
    estimate, peak = json.loads(done.stdout.splitlines()[-1])
    return f"{estimate:,.0f} | {peak:,.0f} | {estimate / peak:.2f}"


def cut_corpus(kind: str, share: float, folder: Path) -> Path:
    """A file with the first part of a corpus."""
    name, separator, ending = CORPORA[kind]
    path = folder / f"{kind}-{share:.3f}{ending}"
    if not path.exists():
        with lzma.open(Path(os.environ["SAPWOOD_DATA"]) / name, "rt", encoding="utf-8") as file:
            parts = file.read().split(separator)
        path.write_text(separator.join(parts[: int(share * len(parts))]) + separator)
    return path


def measure(kind: str, method: str, values: dict[str, Any], path: str) -> tuple[float, float]:
    """The largest estimate that a learner makes while it fits, and how far memory grows, in MB."""
    import warnings

    from machine import ROOT  # pins BLAS to one thread  # noqa: F401

    import sapwood.core.errors

    warnings.simplefilter("ignore")
    learner, data = prepare(kind, method, values, path)
    needs = []
    asked = sapwood.core.errors.require_memory

    def note(needed: float, work: str, hint: str) -> None:
        needs.append(needed)

    for module in list(sys.modules.values()):
        if getattr(module, "require_memory", None) is asked:
            module.require_memory = note  # type: ignore[attr-defined]
    ctypes.CDLL(None).malloc_trim(0)  # or learning would reuse what reading has freed
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    before = memory("VmRSS")
    learner.fit(data)
    return max(needs) / 1e6, memory("VmHWM") - before


def prepare(kind: str, method: str, values: dict[str, Any], path: str) -> tuple[Any, Any]:
    """A learner, and what it fits."""
    import sapwood as sw
    from sapwood.constituency.learn.registry import METHODS
    from sapwood.dependency.data.bank import as_arc_bank
    from sapwood.dependency.learn import ARC_METHODS
    from sapwood.execute import Threads
    from sapwood.identify.learn import unmix
    from sapwood.lm.data.counting import as_counts
    from sapwood.lm.learn import LM_METHODS
    from sapwood.lm.learn.eigenwords import WordEmbedding

    engine = Threads(2)
    if kind.startswith("read"):
        return Reader(f"{kind} {method}"), path
    if kind == "trees":
        return METHODS[method].make(**values, engine=engine), sw.read_treebank(path)
    if kind == "arcs":
        return ARC_METHODS[method].make(**values, engine=engine), as_arc_bank(path)
    if kind == "lm":
        counts = as_counts(path, values.get("order", 3), engine).cut_words(2)
        return LM_METHODS[method].make(**values, engine=engine), counts
    if kind == "embed":
        return WordEmbedding(method=method, engine=engine, **values), path
    n_words = values.pop("n_words")
    family = {"pcfg-ie": unmix.UnmixPCFGIE, "dep-ies": unmix.UnmixDEPIES}[method]
    return family(**values), list(short_sentences(Path(path), n_words))


class Reader:
    """Reads a file into memory where a learner would learn."""

    def __init__(self, kind: str) -> None:
        from sapwood.cli.hankel import _read_strings
        from sapwood.cli.inputs import TreeReading
        from sapwood.constituency.data.treebank import read_treebank
        from sapwood.dependency.data.reader import read_arcs

        readers: dict[str, Any] = {
            "read trees packed": read_treebank,
            "read trees objects": TreeReading().trees,
            "read arcs packed": read_arcs,
            "read text strings": _read_strings,
        }
        self.read = readers[kind]

    def fit(self, path: str) -> None:
        """Read a file, and keep what it holds."""
        self.data_ = self.read(path)


def short_sentences(path: Path, n_words: int) -> Iterator[list[str]]:
    """Two and three words at a time, the rarest as one word."""
    from collections import Counter

    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    common = Counter(word for line in lines for word in line).most_common(n_words - 1)
    known = {word for word, _ in common}
    for line in lines:
        words = [word if word in known else "<unk>" for word in line]
        yield from (words[k : k + 3] for k in range(0, len(words) - 2, 3))
        yield words[:2]


def memory(name: str) -> float:
    """A number of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024 / 1e6


if __name__ == "__main__":
    main()
