"""Speed, start and memory of a pretrained encoder on one thread, in NumPy and in ONNX Runtime.

    python benchmarks/pretrained_encoder.py all-MiniLM-L6-v2 TREES.mrg [--onnx model.onnx]

Prints words a CPU second over the first sentences of a treebank, the CPU seconds until the first
sentence can be read, the memory that this takes, and the size of the encoder in a model file. With
`--onnx`, also those of the same Transformer in ONNX Runtime (inputs `input_ids`, `attention_mask`;
needs `onnxruntime`), which reads one sentence at a time too. Each row has a process of its own.

    python benchmarks/pretrained_encoder.py all-MiniLM-L6-v2 TREES.mrg --trial --limit 6000

prints what the trial that `sapwood train --encoder` begins with finds on the first trees instead:
F1 on held-out trees of the treebank with the encoder and without it, and whether it is taken.

    python benchmarks/pretrained_encoder.py all-MiniLM-L6-v2 TREEBANK --memory

prints how much memory the encoder and the vectors of all sentences take while a pass reads them,
beside the estimate of `memory_needed` and the size of the vectors on disk. TREEBANK has phrases or,
as .conllu, dependencies.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

N_WARM = 20  # sentences that are read before the clock starts


def measure_numpy(folder: str, sentences: list[list[str]]) -> dict[str, float]:
    """Figures of Sapwood's own forward pass."""
    before = memory()
    began = process_time()
    from sapwood.networks.network import one_blas_thread
    from sapwood.networks.pretrained.source import PretrainedEncoder

    encoder = PretrainedEncoder.of_folder(folder)
    started = process_time() - began
    with one_blas_thread():
        rate = words_a_second(encoder.read, sentences)
    sizes = {
        f"MB in a file, {bits} bits": sum(
            array.nbytes
            for array in PretrainedEncoder.of_folder(folder, bits=bits).to_arrays().values()
        )
        / 1e6
        for bits in (8, 16)
    }
    return {"words a CPU s": rate, "start, CPU s": started, "MB": memory() - before} | sizes


def measure_onnx(folder: str, model: str, sentences: list[list[str]]) -> dict[str, float]:
    """Figures of ONNX Runtime, with the same pieces."""
    before = memory()
    began = process_time()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    from sapwood.networks.pretrained.pieces import PieceReader

    text = Path(folder, "tokenizer.json").read_text(encoding="utf-8")
    pieces = PieceReader(text, 1 << 30)
    started = process_time() - began

    def read(words: list[str]) -> Any:
        ids, _ = pieces.read(words)
        row = np.array([[*pieces.before, *ids, *pieces.behind]], np.int64)
        return session.run(None, {"input_ids": row, "attention_mask": np.ones_like(row)})

    rate = words_a_second(read, sentences)
    return {"words a CPU s": rate, "start, CPU s": started, "MB": memory() - before}


def show_trial(folder: str, trees: str, limit: int) -> None:
    """Print the scores of the trial of an encoder on the first trees of a treebank."""
    import sapwood as sw
    from sapwood.core.learner import Info
    from sapwood.networks.pretrained.source import open_source
    from sapwood.networks.pretrained.trial import TrialSplit

    bank = sw.read_treebank(trees)[:limit]
    split = TrialSplit.of([len(bank.words(k)) for k in range(bank.n_trees)])
    if split is None:
        sys.exit(f"{trees}: too few trees for a trial")
    learner, began = sw.EnsembleLPCFG(n_jobs=1), process_time()
    learner.info_ = Info(extra={})
    learner._is_helpful(bank, open_source(folder), split)
    found = learner.info_.extra["encoder"]
    print(
        f"{trees}: {len(split.train)} trees to learn from, {len(split.held)} held out; "
        f"F1 {found['f1_with']:.2f} with {found['name']}, {found['f1_without']:.2f} without; "
        f"{'taken' if found['is_taken'] else 'left out'}; {process_time() - began:.0f} CPU s"
    )


def show_memory(folder: str, treebank: str) -> None:
    """Print the memory of an encoder and of the vectors of a treebank, read once."""
    import machine

    import sapwood as sw
    from sapwood.networks.pretrained.given import TrainingVectors, given_bytes
    from sapwood.networks.pretrained.source import open_source

    if ".conllu" in treebank:
        sentences = sw.read_arcs(treebank).sentences()
    else:
        bank = sw.read_treebank(treebank)
        sentences = [bank.words(k) for k in range(bank.n_trees)]
    before, began = machine.peak_mb(), process_time()
    source = open_source(folder)
    vectors = TrainingVectors.of(source, sentences)
    made, began = process_time() - began, process_time()
    for first in range(0, len(sentences), 20):
        vectors.of_sentences(np.arange(first, min(first + 20, len(sentences))))
    on_disk = 2 * source.width * sum(map(len, sentences)) / 1e6
    print(
        f"{treebank}: {on_disk:,.0f} MB of vectors on disk; "
        f"{machine.peak_mb() - before:,.0f} MB of memory, {given_bytes(source) / 1e6:,.0f} "
        f"estimated; {made:.1f} CPU s to make or find them, {process_time() - began:.1f} to read"
    )


def words_a_second(read: Any, sentences: list[list[str]]) -> float:
    """Words that a function reads in a second of processor time, after some for warming up."""
    for words in sentences[:N_WARM]:
        read(words)
    began = process_time()
    for words in sentences[N_WARM:]:
        read(words)
    return sum(map(len, sentences[N_WARM:])) / (process_time() - began)


def memory() -> float:
    """Peak memory of this process, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Print a table, of which every row comes from a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("trees")
    parser.add_argument("--onnx", nargs="*", default=[])
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--trial", action="store_true", help="of the encoder on the trees")
    parser.add_argument("--limit", type=int, default=10_000, help="trees of the trial")
    parser.add_argument("--memory", action="store_true", help="of the vectors of the treebank")
    options = parser.parse_args()
    if options.memory:
        show_memory(options.folder, options.trees)
        return
    if options.trial:
        show_trial(options.folder, options.trees, options.limit)
        return
    if options.only is not None:
        import sapwood as sw

        bank = sw.read_treebank(options.trees)
        sentences = [bank.words(k) for k in range(min(options.sentences, bank.n_trees))]
        if options.only == "NumPy":
            found = measure_numpy(options.folder, sentences)
        else:
            found = measure_onnx(options.folder, options.only, sentences)
        print(json.dumps(found))
        return
    for name in ["NumPy", *options.onnx]:
        command = [sys.executable, *sys.argv, "--only", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(done.stdout)
        print(f"{name}: " + "  ".join(f"{key} {value:,.1f}" for key, value in row.items()))


if __name__ == "__main__":
    main()
