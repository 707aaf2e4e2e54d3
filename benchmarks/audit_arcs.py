"""Errors planted in dependency treebanks, and how many of them an audit finds, with baselines.

For each corpus, rate and seed, some documents of the train part get planted errors, and the whole
audit runs on them: its models, too, are learnt from trees with errors. Relations and tags are
confused as by an audit of the clean trees. Rows:

audit       parts by their score
variation   words that most others with the same words annotate otherwise, alone
trees       whole trees, the least probable by word first, by the posteriors of other documents; the
            precision is that of trees with some error
parser      disagreement with one parser (first order) alone, by the odds of its suggestion

`first 100` is the fraction of planted errors among the first 100 parts (or trees); real errors
count as wrong. `recall` is the fraction of all planted errors among twice as many parts (or in
trees that together hold so many arcs and tags). `expected` is the precision that the audit itself
expects of its first 100, `eps` its estimate of the error rate, `cpu` its seconds.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import machine  # first: it pins BLAS to one thread
import numpy as np
from audit import interval, measure

from sapwood.auditing.findings import N_FIRST
from sapwood.auditing.scoring import Scored
from sapwood.dependency.audit.edits import Edit, edits_between
from sapwood.dependency.audit.located import LocatedSentences, read_located
from sapwood.dependency.audit.planting import Planted, plant
from sapwood.dependency.audit.run import (
    ArcAuditSettings,
    ArcEvidence,
    judge_all,
    rank_findings,
    score_arc_edits,
)
from sapwood.dependency.audit.signals import posteriors_of, span_elsewhere, variation_edits
from sapwood.execute import Processes

KINDS = ("tag", "head", "relation")
LEAST = 1e-3  # posterior of what models exclude


def some_documents(corpus: str, n: int) -> LocatedSentences:
    """About n sentences of the train part: every so-many-th document, so that all genres occur."""
    located = read_located(machine.corpus_file(corpus, "train", "conllu"))
    every, starts = located.sentences, located.document_starts
    if len(starts) < 2 or len(every) <= n:  # no documents are marked: the first sentences
        return replace(located, sentences=every[:n])
    ends = [*starts[1:], len(every)]
    step = max(1, len(every) // n)
    sentences, kept = [], []
    for start, end in list(zip(starts, ends, strict=True))[::step]:
        kept.append(len(sentences))
        sentences += every[start:end]
    return replace(located, sentences=sentences, document_starts=kept)


def planted_sentences(
    located: LocatedSentences, clean: ArcEvidence, rate: float, seed: int
) -> tuple[LocatedSentences, list[list[Planted]]]:
    """Sentences with planted errors, and the errors of each."""
    sentences, errors = [], []
    for k, one in enumerate(located.sentences):
        rng = np.random.default_rng([7919, seed, k])
        judgement = clean.judgements[k]
        annotation, planted = plant(one.annotation, judgement, clean.confusions, rate, rng)
        sentences.append(replace(one, annotation=annotation))
        errors.append(planted)
    return replace(located, sentences=sentences), errors


def _recall(found: Counter[str], total: Counter[str]) -> dict[str, float]:
    each = {f"recall {kind}": found[kind] / max(1, total[kind]) for kind in KINDS}
    return {"recall": sum(found.values()) / sum(total.values()), **each}


def by_score(scored: Scored) -> list[tuple[int, Edit]]:
    """Edits by the score of the audit."""
    order = np.argsort(-scored.scores, kind="stable").tolist()
    return [(int(scored.clean.sentence[r]), scored.clean.edits[r]) for r in order]


def by_variation(evidence: ArcEvidence) -> list[tuple[int, Edit]]:
    """Words annotated otherwise than most others with the same words, the clearest first."""
    found = []
    for k, one in enumerate(evidence.sentences):
        for edit in variation_edits(k, one.annotation, [], evidence.nuclei):
            span = span_elsewhere(one.annotation, edit)
            others = evidence.nuclei.counts(k, *span) if span else Counter()
            most = max(others.values(), default=0)
            found.append((-most / (others.total() + 1), -others.total(), k, edit))
    return [(k, edit) for _, _, k, edit in sorted(found, key=lambda row: row[:3])]


def by_parser(evidence: ArcEvidence) -> list[tuple[int, Edit]]:
    """Differences from the best tree of one parser, the largest odds first."""
    found = []
    for k, one in enumerate(evidence.sentences):
        for edit in edits_between(one.words, one.annotation, evidence.judgements[k]):
            old, new = posteriors_of(evidence.scene(k), edit)
            found.append((-(new + LEAST) / (old + LEAST), k, edit))
    return [(k, edit) for _, k, edit in sorted(found, key=lambda row: row[:2])]


def by_tree(evidence: ArcEvidence, errors: list[list[Planted]]) -> dict[str, float]:
    """The numbers of `measure` for whole trees, the least probable first."""
    value = []
    for one, judgement in zip(evidence.sentences, evidence.judgements, strict=True):
        rows = [
            *zip(judgement.heads, one.annotation.heads, strict=True),
            *zip(judgement.tags, one.annotation.upos, strict=True),
        ]
        value.append(sum(log(max(row.get(name, 0.0), LEAST)) for row, name in rows) / len(rows))
    total = Counter(error.kind for some in errors for error in some)
    left, found = 2 * sum(total.values()), Counter[str]()
    order = np.argsort(value, kind="stable").tolist()
    for k in order:
        left -= 2 * len(evidence.sentences[k].words)
        if left < 0:
            break
        found.update(error.kind for error in errors[k])
    first = float(np.mean([bool(errors[k]) for k in order[:N_FIRST]]))
    return {"first 100": first, **_recall(found, total)}


def one_run(
    located: LocatedSentences, clean: ArcEvidence, rate: float, seed: int, options: Any
) -> dict[str, dict[str, float]]:
    """Numbers of all rows for one corpus, rate and seed."""
    bad, errors = planted_sentences(located, clean, rate, seed)
    settings = ArcAuditSettings(folds=options.folds, fast=not options.full, seed=seed)
    before = sum(machine.cpu_of_all())
    evidence, documents = judge_all(bad, settings, Processes(options.jobs))
    scored = score_arc_edits(evidence, settings)
    found = {"audit": measure(by_score(scored), errors, KINDS)}
    audit = rank_findings(evidence, bad, settings, documents, scored)
    found["audit"] |= {
        "expected": audit.findings[:N_FIRST][-1].expected_precision,
        "eps": audit.trust.error_rate,
        "cpu": sum(machine.cpu_of_all()) - before,
        "own first 100": audit.trust.precision_at_100 or 0.0,
        "own recall": audit.trust.recall["all"],
    }
    found["variation"] = measure(by_variation(evidence), errors, KINDS)
    found["trees"] = by_tree(evidence, errors)
    alone = evidence
    if options.full:
        one = replace(settings, fast=True)
        alone, _ = judge_all(bad, one, Processes(options.jobs))
    found["parser"] = measure(by_parser(alone), errors, KINDS)
    return found


def known_runs(file: Path | None) -> dict[tuple[str, float, int], dict[str, dict[str, float]]]:
    """Runs that a file keeps, by corpus, rate and seed."""
    if file is None or not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {(row["corpus"], row["rate"], row["seed"]): row["rows"] for row in rows}


def print_runs(corpus: str, rate: float, runs: list[dict[str, dict[str, float]]]) -> None:
    """Print the means of some runs, with intervals."""
    print(f"\n{corpus}, {rate:.0%} planted, seeds: {len(runs)}")
    names = list(runs[0]["audit"])
    cells = [
        (row, *(interval([run[row][n] for run in runs]) if n in runs[0][row] else ""
                for n in names))
        for row in runs[0]
    ]  # fmt: skip
    machine.print_table(["", *names], cells)


def main() -> None:
    """Print a table for each corpus and rate; each run is kept as soon as it ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--corpora", default="ud_english_ewt")
    parser.add_argument("--rates", default="0.02,0.01,0.05")
    parser.add_argument("--sentences", type=int, default=2000, help="of each corpus, about")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="networks too")
    parser.add_argument("--json", type=Path, help="keep runs there, and make only those missing")
    parser.add_argument("--table", action="store_true", help="print what --json keeps, run nothing")
    options = parser.parse_args()
    known = known_runs(options.json)
    if options.table:
        for corpus, rate in sorted({key[:2] for key in known}):
            print_runs(
                corpus, rate, [run for key, run in known.items() if key[:2] == (corpus, rate)]
            )
        return
    machine.print_facts("audit of errors planted in dependency trees", options.jobs)
    for corpus in options.corpora.split(","):
        located = some_documents(corpus, options.sentences)
        settings = ArcAuditSettings(folds=2, fast=True)
        clean, _ = judge_all(located, settings, Processes(options.jobs))
        print(f"{corpus}: {len(located.sentences):,} sentences")
        for rate in map(float, options.rates.split(",")):
            for seed in range(options.seeds):
                if (corpus, rate, seed) not in known:
                    rows = one_run(located, clean, rate, seed, options)
                    known[corpus, rate, seed] = rows
                    row = {"corpus": corpus, "rate": rate, "seed": seed, "rows": rows}
                    if options.json:
                        with options.json.open("a") as file:
                            file.write(json.dumps(row) + "\n")
            runs = [known[corpus, rate, seed] for seed in range(options.seeds)]
            print_runs(corpus, rate, runs)


if __name__ == "__main__":
    main()
