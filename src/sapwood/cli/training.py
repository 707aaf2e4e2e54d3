"""One run of `sapwood train`: what is read, trained, told on the way, written and scored."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sapwood.cli.console import Meter, Phases, count, echo, wipe
from sapwood.cli.methods import METHODS, Learner, Settings

if TYPE_CHECKING:
    from sapwood.corpus.transform import Transform
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank
    from sapwood.errors import CorpusError
    from sapwood.estimators.ensemble import Trial
    from sapwood.models.ensemble import Model


def iteration_line() -> Callable[[int, int, float], None]:
    """A function that shows how far EM is, on a terminal."""
    started, is_shown = perf_counter(), sys.stderr.isatty()

    def show(iteration: int, states: int, log_likelihood: float) -> None:
        if is_shown:
            wipe()
            text = f"EM iteration {iteration}  {count(states, 'state')}  "
            text += f"log-likelihood {log_likelihood:,.0f}  {perf_counter() - started:.0f} s"
            print(text, end="", file=sys.stderr, flush=True)

    return show


@dataclass(frozen=True)
class Run:
    """One training run: read, train, write, and score where there are dev trees."""

    treebanks: list[str]
    out: Path
    dev: str | None
    method: str
    transform: Transform
    settings: Settings
    skip_bad: bool

    def report(self) -> dict[str, Any]:
        """Do it all; what `--json` prints."""
        meter = Meter()
        phases = Phases(4 if self.dev else 3)
        bank, gold = self._read(phases)
        with phases.phase("training") as notes:
            method = METHODS[self.method]
            dev = gold if self.settings.patience or method.has_candidates else None
            learner = method.fit(self.settings, bank, dev)
            model = self._signed(learner.model_)
            notes += [self.method, *_size_notes(model)]
        chosen = members_text(learner)
        if chosen:
            echo(f"    {chosen}")
        steps = step_seconds(learner)
        if steps:
            echo("    " + "  ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items()))
        with phases.phase("writing") as notes:
            model.save(self.out)
            notes.append(str(self.out))
        report = meter.as_dict() | self._sizes(bank, model) | {"phases": steps}
        if gold:
            with phases.phase("parsing dev") as notes:
                report["dev"] = score_on(model, gold, self.settings.jobs)
                notes.append(count(len(gold), "sentence"))
        return report

    def _read(self, phases: Phases) -> tuple[Treebank, list[Tree]]:
        skipped: list[CorpusError] | None = [] if self.skip_bad else None
        with phases.phase("reading") as notes:
            # Dev first: a mistake in its name should show before the long part.
            gold = read_clean(self.dev, skipped) if self.dev else []
            bank = read_bank(self.treebanks, self.transform, skipped)
            notes += [count(bank.n_trees, "tree"), count(bank.n_tokens, "word")]
        if skipped:
            echo(f"skipped {count(len(skipped), 'broken tree')}; the first: {skipped[0]}")
        return bank, gold

    def _signed(self, model: Model) -> Model:
        """The model with a record of where it comes from."""
        from sapwood import __version__

        origin = {
            "treebanks": self.treebanks,
            "seed": self.settings.seed,
            "rare_count": self.settings.rare_count,
            "sapwood": __version__,
        }
        return replace(model, record=dict(model.record) | origin)

    def _sizes(self, bank: Treebank, model: Model) -> dict[str, Any]:
        from sapwood.models.ensemble import members_of

        members = members_of(model)
        first = members[0]
        return {
            "method": self.method,
            "states": self.settings.states if METHODS[self.method].has_states else 1,
            "most_states": max(int(member.n_states.max()) for member in members),
            "members": len(members),
            "iterations": sum(int(member.record.get("iterations", 0)) for member in members),
            "trees": bank.n_trees,
            "tokens": bank.n_tokens,
            "symbols": first.n_symbols,
            "rules": len(first.rules),
            "words": len(first.lexicon.words),
            "seed": self.settings.seed,
        } | ({"trials": model.record["trials"]} if "trials" in model.record else {})


def _size_notes(model: Model) -> list[str]:
    from sapwood.models.ensemble import members_of

    members = members_of(model)
    if len(members) > 1:
        return [count(len(members), "member")]
    return [count(members[0].n_symbols, "symbol"), count(len(members[0].rules), "rule")]


def show_trial(trial: Trial) -> None:
    """Tell what became of a candidate of `best`."""
    figures = [f"{trial.seconds:.1f} s"] if trial.seconds else []
    figures += [f"F1 {trial.f1:.2f}"] if trial.f1 is not None else []
    figures += [f"mix {trial.mix_f1:.2f}"] if trial.mix_f1 is not None else []
    if sys.stderr.isatty():
        wipe()
    figures += [trial.verdict] if trial.verdict != "trained" else []
    echo("    " + "  ".join([f"{trial.name:<20}", *figures]))


def members_text(learner: Learner) -> str | None:
    """The members that `best` has chosen, in words; None for other methods."""
    trials = getattr(getattr(learner, "info_", None), "trials", None)
    if trials is None:
        return None
    names = [trial.name for trial in trials if trial.verdict == "member"]
    return f"{count(len(names), 'member')}: {', '.join(names)}"


def step_seconds(learner: Learner) -> dict[str, float]:
    """Wall-clock seconds of the steps of a learner that times them; empty for others."""
    info = getattr(learner, "info_", None)
    return dict(getattr(info, "seconds", {}))


def read_bank(
    sources: list[str],
    transform: Transform | None = None,
    skipped: list[CorpusError] | None = None,
) -> Treebank:
    """A treebank; when no tree is found, the error says in which files, and why if all were bad."""
    from sapwood.corpus.treebank import read_treebank
    from sapwood.errors import CorpusError

    try:
        return read_treebank(sources, transform, skipped=skipped)
    except CorpusError as error:
        if error.file is None:
            error.file = ", ".join(sources)
            if skipped:
                error.hint = f"{count(len(skipped), 'tree')} skipped; the first: {skipped[0]}"
        raise


def read_clean(source: str, skipped: list[CorpusError] | None = None) -> list[Tree]:
    """The cleaned trees of a file; an error when there is none."""
    from sapwood.corpus.clean import clean_all
    from sapwood.corpus.penn import read_trees
    from sapwood.errors import CorpusError

    trees = list(clean_all(read_trees(source, skipped=skipped)))
    if not trees:
        msg = "no tree found"
        raise CorpusError(msg, file=source, hint="is the file empty?")
    return trees


def score_on(model: Model, gold: list[Tree], jobs: int) -> dict[str, Any]:
    """Parse the sentences of gold trees and compare.

    Returns
    -------
    dict
        EVALB's figures in percent, the strict F1 that drops no sentence, and the speed.
    """
    from sapwood.evaluate.bracketing import bracketing
    from sapwood.inference.parser import Parser

    parser = Parser(model)
    meter = Meter()
    predicted = [p.tree for p in parser.parse_many((tree.words() for tree in gold), jobs=jobs)]
    times = meter.as_dict()
    seconds = meter.seconds
    report = bracketing(gold, predicted)
    names = ("f1", "recall", "precision", "complete_match", "tagging_accuracy")
    return {name: getattr(report.all, name) for name in names} | {
        "strict_f1": report.strict.f1,
        "sentences": len(gold),
        "errors": report.all.errors,
        "fallbacks": parser.stats.fallbacks,
        "seconds": times["seconds"],
        "cpu_seconds": times["cpu_seconds"],
        "sentences_per_second": round(len(gold) / seconds, 1) if seconds else None,
    }


def dev_text(dev: dict[str, Any]) -> str:
    """Scores on dev trees, one a line."""
    rows = [
        ("F1 (EVALB)", f"{dev['f1']:.2f}"),
        ("F1 (strict)", f"{dev['strict_f1']:.2f}"),
        ("Tagging accuracy", f"{dev['tagging_accuracy']:.2f}"),
        ("Sentences", f"{dev['sentences']:,}"),
        ("Without a parse", f"{dev['fallbacks']:,}"),
        ("Sentences/s", f"{dev['sentences_per_second']:,}"),
    ]
    return "\n".join(f"{title:<18}{value:>9}" for title, value in rows)
