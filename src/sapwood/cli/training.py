"""One run of `sapwood train`: what is read, trained, told on the way, written and scored."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from sapwood.cli.console import Meter, Phases, count, echo, wipe
from sapwood.cli.methods import METHODS, Learner, Settings
from sapwood.cli.overlap import warn_of_dev_in_training, warn_of_training_trees_twice
from sapwood.cli.reading import Reading

if TYPE_CHECKING:
    from sapwood.corpus.transform import Transform
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank
    from sapwood.estimators.dev_set import Grades
    from sapwood.estimators.ensemble import EnsembleLPCFG, Trial
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
    reading: Reading
    force: bool = False

    def report(self) -> dict[str, Any]:
        """Do it all; what `--json` prints."""
        meter = Meter()
        method = METHODS[self.method]
        # what has a budget grades itself within it
        phases = Phases(4 if self.dev and not method.has_candidates else 3)
        bank, gold = self._read(phases)
        with phases.phase("training") as notes:
            dev = gold if self.settings.patience or method.has_candidates else None
            settings = replace(self.settings, spent=meter.seconds)
            learner = method.fit(settings, bank, dev)
            model = self._signed(learner.model_)
            notes += [self.method, *_size_notes(model)]
        chosen = members_text(learner)
        if chosen:
            echo(f"    {chosen}")
        steps = step_seconds(learner)
        if steps:
            echo("    " + "  ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items()))
        with phases.phase("writing") as notes:
            model.save(self.out, force=self.force)
            notes.append(str(self.out))
        report = meter.as_dict() | self._sizes(bank, model) | {"phases": steps}
        if method.has_candidates:
            report |= self._kept(cast("EnsembleLPCFG", learner), meter.seconds, len(gold))
        elif gold:
            with phases.phase("parsing dev") as notes:
                report["dev"] = score_on(model, gold, self.settings.jobs)
                notes.append(count(len(gold), "sentence"))
        return report

    def _kept(self, learner: EnsembleLPCFG, seconds: float, n_dev: int) -> dict[str, Any]:
        """Tell how the budget was kept; candidates, budget and scores for the report."""
        info, budget = learner.info_, self.settings.budget
        loading = info.seconds.get("warming up", 0.0)
        if budget is not None:
            text = f"    {seconds - loading:.1f} s of a budget of {budget:g} s"
            echo(f"{text}, and {loading:.1f} s for loading kernels")
        report: dict[str, Any] = {
            "budget": budget,
            "budget_seconds": round(seconds - loading, 3),
            "trials": [asdict(trial) for trial in info.trials],
        }
        if info.grades is None:
            return report
        if info.grades.n_trees < n_dev:
            echo(
                f"note: the budget left time to score {info.grades.n_trees:,} of {n_dev:,} dev "
                "trees; sapwood parse and sapwood evaluate score all of them"
            )
        return report | {"dev": scores_of(info.grades)}

    def _read(self, phases: Phases) -> tuple[Treebank, list[Tree]]:
        with phases.phase("reading") as notes:
            # Dev first: a mistake in its name should show before the long part.
            gold = self.reading.clean_trees(self.dev) if self.dev else []
            bank = self.reading.bank(self.treebanks, self.transform)
            notes += [count(bank.n_trees, "tree"), count(bank.n_tokens, "word")]
        self.reading.tell()
        warn_of_training_trees_twice(bank, self.treebanks)
        if self.dev:
            warn_of_dev_in_training(bank, self.treebanks, gold, self.dev)
        return bank, gold

    def _signed(self, model: Model) -> Model:
        """The model with a record of where it comes from."""
        from sapwood import __version__

        origin = {
            "treebanks": self.treebanks,
            "seed": self.settings.seed,
            "rare_count": self.settings.rare_count,
            "keep_functions": self.reading.keep_functions,
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
        }


def _size_notes(model: Model) -> list[str]:
    from sapwood.models.ensemble import members_of

    members = members_of(model)
    if len(members) > 1:
        return [count(len(members), "member")]
    return [count(members[0].n_symbols, "symbol"), count(len(members[0].rules), "rule")]


def show_trial(trial: Trial) -> None:
    """Tell what became of a candidate of `best`."""
    figures = [f"{trial.seconds:.1f} s"] if trial.seconds else []
    # not called F1: the one F1 of a mix is that of its parser, at the end
    figures += [f"alone {trial.f1:.2f}"] if trial.f1 is not None else []
    figures += [f"equal mix {trial.mix_f1:.2f}"] if trial.mix_f1 is not None else []
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


def score_on(model: Model, gold: list[Tree], jobs: int) -> dict[str, Any]:
    """Parse the sentences of gold trees and compare.

    Returns
    -------
    dict
        EVALB's figures in percent, the strict F1 that drops no sentence, and the speed.
    """
    from sapwood.estimators.dev_set import grade

    return scores_of(grade(model, gold, jobs))


def scores_of(grades: Grades) -> dict[str, Any]:
    """Grades for a report."""
    names = ("f1", "recall", "precision", "complete_match", "tagging_accuracy")
    speed = round(grades.n_trees / grades.seconds, 1) if grades.seconds else None
    return {name: getattr(grades.report.all, name) for name in names} | {
        "strict_f1": grades.report.strict.f1,
        "sentences": grades.n_trees,
        "errors": grades.report.all.errors,
        "fallbacks": grades.fallbacks,
        "seconds": round(grades.seconds, 3),
        "cpu_seconds": round(grades.cpu_seconds, 3),
        "sentences_per_second": speed,
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
