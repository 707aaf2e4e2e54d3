"""The plain PCFG under several ways of making trees binary: accuracy, time and size together.

Every row is measured in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine

SETTINGS: list[dict[str, Any]] = [
    {"binarise": "right", "horizontal": 0, "vertical": 1, "tag_parents": False},
    *(
        {"binarise": "head", "horizontal": h, "vertical": v, "tag_parents": v > 1}
        for v in (1, 2)
        for h in (0, 1, 2)
    ),
]


def measure(corpus: str, settings: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """Train and parse with one setting; all seconds are CPU seconds of one thread."""
    import sapwood as sw
    from sapwood.evaluate import bracketing

    gold = machine.gold_trees(corpus, "dev", given.limit)
    sentences = [tree.words() for tree in gold]
    with machine.Clock() as reading:
        bank = sw.read_treebank(machine.corpus_file(corpus, "train"), sw.Transform(**settings))
    with machine.Clock() as fitting:
        model = sw.PCFG().fit(bank).model_
    del bank
    train_peak = machine.peak_mb()
    times = []
    warm = sw.Parser(model, decoder=given.decoder)
    list(warm.parse_many([sentences[0][:4]]))  # kernels loaded before they are timed
    for _ in range(given.repeats):
        parser = sw.Parser(model, decoder=given.decoder)
        with machine.Clock() as clock:
            trees = [parse.tree for parse in parser.parse_many(sentences)]
        times.append(clock.cpu)
    report = bracketing(gold, trees)
    taken = machine.summary(times)
    return {
        "corpus": corpus,
        **settings,
        "decoder": given.decoder,
        "sentences": len(sentences),
        "f1": report.f1,
        "strict_f1": report.strict.f1,
        "tagging_accuracy": report.strict.tagging_accuracy,
        "fallbacks": parser.stats.fallbacks,
        "parse_seconds": taken.least,
        "parse_seconds_median": taken.median,
        "read_seconds": reading.cpu,
        "fit_seconds": fitting.cpu,
        "symbols": model.n_symbols,
        "phrases": model.n_phrases,
        "rules": len(model.rules),
        "train_peak_mb": train_peak,
        "peak_mb": machine.peak_mb(),
    }


def measured(corpus: str, place: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run `measure` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.settled.pcfg_table", "--one", corpus, str(place)]
    command += ["--decoder", given.decoder, "--repeats", str(given.repeats)]
    command += ["--limit", str(given.limit)] if given.limit else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def line(result: dict[str, Any]) -> tuple[str, ...]:
    """One row of the table."""
    name = f"{result['binarise']} h{result['horizontal']} v{result['vertical']}"
    per_second = result["sentences"] / result["parse_seconds"]
    return (
        result["corpus"], name + (" + tags" if result["tag_parents"] else ""),
        f"{result['f1']:.2f}", f"{result['strict_f1']:.2f}", f"{result['tagging_accuracy']:.2f}",
        str(result["fallbacks"]), f"{per_second:.1f}",
        f"{result['read_seconds']:.1f} + {result['fit_seconds']:.1f}",
        f"{result['symbols']:,}", f"{result['rules']:,}",
        f"{result['train_peak_mb']:.0f} / {result['peak_mb']:.0f}",
    )  # fmt: skip


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpus", choices=("ptb", "craft", "icepahc", "both"), default="both")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument("--decoder", default="goodman")
    options.add_argument("--repeats", type=int, default=1, help="parses of dev; the least counts")
    options.add_argument("--json", type=Path, metavar="FILE", help="write all figures here too")
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], SETTINGS[int(given.one[1])], given)))
        return
    corpora = ("ptb", "craft") if given.corpus == "both" else (given.corpus,)
    for corpus in corpora:
        machine.corpus_file(corpus, "train")
    machine.print_facts(f"Plain PCFG, {given.decoder} decoding")
    header = (
        "corpus", "binarised", "F1 (EVALB)", "F1 (strict)", "tags", "no parse", "sentences/s",
        "read + fit, s", "symbols", "rules", "peak MB (train / all)",
    )  # fmt: skip
    for corpus in corpora:
        results = [measured(corpus, place, given) for place in range(len(SETTINGS))]
        print(f"{corpus} dev, {results[0]['sentences']:,} sentences; CPU seconds, one thread:\n")
        machine.print_table(header, [line(result) for result in results])
        if given.json:
            append_json(given.json, results)


def append_json(path: Path, results: list[dict[str, Any]]) -> None:
    """Write results as JSON, replacing those of the same corpus and decoder."""
    kept = json.loads(path.read_text()) if path.exists() else []
    new = {(r["corpus"], r["decoder"]) for r in results}
    kept = [r for r in kept if (r["corpus"], r["decoder"]) not in new]
    path.write_text(json.dumps(kept + results, indent=1) + "\n")


if __name__ == "__main__":
    main()
