"""One run of `sapwood train`: what is read, trained, told on the way, written and scored."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from sapwood.cli.console import Phases, echo, warn, wipe
from sapwood.cli.methods import METHODS, Settings
from sapwood.cli.reading import Reading
from sapwood.errors import count
from sapwood.report import budget_report, score_on, training_report
from sapwood.report.meter import Meter

if TYPE_CHECKING:
    from sapwood.corpus.transform import Transform
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import StoredTreebank, Treebank
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


def show_trial(trial: Trial) -> None:
    """Tell what became of a candidate of `best`."""
    figures = [f"{trial.seconds:.1f} s"] if trial.seconds else []
    # not called F1: the one F1 of a mix is that of its parser, at the end
    figures += [f"alone {trial.f1:.2f}"] if trial.f1 is not None else []
    figures += [f"equal mix {trial.mix_f1:.2f}"] if trial.mix_f1 is not None else []
    figures += [trial.verdict] if trial.verdict != "trained" else []
    if sys.stderr.isatty():
        wipe()
    echo("    " + "  ".join([f"{trial.name:<20}", *figures]))


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
    folder: Path | None = None  # for trees that are not kept in memory

    def report(self) -> dict[str, Any]:
        """Do it all; what `--json` prints."""
        meter = Meter()
        method, settings = METHODS[self.method], self.settings
        # what has a budget grades itself within it
        phases = Phases(4 if self.dev and not method.has_candidates else 3)
        bank, gold = self._read(phases)
        with phases.phase("training") as notes:
            dev = gold if settings.patience or method.has_candidates else None
            learner = method.fit(replace(settings, spent=meter.seconds), bank, dev)
            model = self._sign(learner.model_)
            states = settings.states if method.has_states else 1
            found = training_report(
                learner, bank, method=self.method, states=states, seed=settings.seed
            )
            sizes = ("member",) if found["members"] > 1 else ("symbol", "rule")
            notes += [self.method, *(count(found[f"{size}s"], size) for size in sizes)]
        if method.has_candidates:
            trials = cast("EnsembleLPCFG", learner).info_.trials
            names = [trial.name for trial in trials if trial.verdict == "member"]
            echo(f"    {count(len(names), 'member')}: {', '.join(names)}")
        if found["phases"]:
            steps = (f"{name} {seconds:.1f} s" for name, seconds in found["phases"].items())
            echo("    " + "  ".join(steps))
        with phases.phase("writing") as notes:
            model.save(self.out, force=self.force)
            notes.append(str(self.out))
        report = meter.as_dict() | found
        if method.has_candidates:
            report |= budget_report(cast("EnsembleLPCFG", learner), settings.budget, meter.seconds)
            _tell_budget(report, len(gold))
        elif gold:
            with phases.phase("parsing dev") as notes:
                report["dev"] = score_on(model, gold, settings.engine or settings.jobs)
                notes.append(count(len(gold), "sentence"))
        return report

    def _read(self, phases: Phases) -> tuple[Treebank | StoredTreebank, list[Tree]]:
        from sapwood.corpus.overlap import doubt_dev_trees, doubt_training_trees

        with phases.phase("reading") as notes:
            # Dev first: a mistake in its name should show before the long part.
            gold = self.reading.clean_trees(self.dev) if self.dev else []
            bank = (
                self.reading.bank(self.treebanks, self.transform)
                if self.folder is None
                else self.reading.stored_bank(self.treebanks, self.folder, self.transform)
            )
            notes += [count(bank.n_trees, "tree"), count(bank.n_tokens, "word")]
        self.reading.tell()
        warn(doubt_training_trees(bank, self.treebanks))
        if self.dev:
            warn(doubt_dev_trees(bank, self.treebanks, gold, self.dev))
        return bank, gold

    def _sign(self, model: Model) -> Model:
        """Add a record of where the model comes from."""
        from sapwood import __version__

        origin = {
            "treebanks": self.treebanks,
            "seed": self.settings.seed,
            "rare_count": self.settings.rare_count,
            "keep_functions": self.reading.keep_functions,
            "sapwood": __version__,
        }
        return replace(model, record=dict(model.record) | origin)


def _tell_budget(report: dict[str, Any], n_dev: int) -> None:
    """Say how the budget was kept, and how many dev trees it left time for."""
    if report["budget"] is not None:
        loading = report["phases"].get("warming up", 0.0)
        echo(
            f"    {report['budget_seconds']:.1f} s of a budget of {report['budget']:g} s, and "
            f"{loading:.1f} s for loading kernels"
        )
    n_scored = report["dev"]["sentences"] if "dev" in report else n_dev
    if n_scored < n_dev:
        echo(
            f"note: the budget left time to score {n_scored:,} of {n_dev:,} dev "
            "trees; sapwood parse and sapwood evaluate score all of them"
        )
