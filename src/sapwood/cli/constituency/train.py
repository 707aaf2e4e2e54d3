"""`sapwood train`: a treebank in, a model file out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, echo, echo_encoder_trial, echo_seconds, warn
from sapwood.cli.inputs import TreeReading, check_files, open_given
from sapwood.cli.reports import fact_lines, show
from sapwood.constituency.learn.registry import METHODS, EMParameters, Settings
from sapwood.constituency.report.training import train_method
from sapwood.core.errors import count
from sapwood.core.learner import BudgetParameters, StateParameters
from sapwood.core.model_card import warn_few, with_provenance
from sapwood.core.outputs import hold_output
from sapwood.corpora.conventions import PENN
from sapwood.execute.engine import Meter
from sapwood.report import budget_report, score_on

if TYPE_CHECKING:
    from sapwood.constituency.data.transform import Transform
    from sapwood.constituency.data.treebank import StoredTreebank, Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.learn.ensemble import EnsembleLPCFG, Trial
    from sapwood.constituency.learn.settings_search import ChosenSettings
    from sapwood.core.progress import Event
    from sapwood.corpora.tree import Tree


_OF_STATES, _OF_EM = StateParameters.parameters(), EMParameters.parameters()
_USUAL, _MOST = (x["n_states"].default for x in (_OF_STATES, BudgetParameters.parameters()))
Binarise = Literal["head", "right", "left"]
Heads = Literal["auto", "penn", "generic"]
Signatures = Literal["auto", "english", "generic"]

TRAIN_EPILOG = """\b
Examples:
  sapwood train train.mrg -o model.sapwood --dev dev.mrg
  sapwood train train.mrg -o model.sapwood --method spectral --states 16
  sapwood train 'wsj/**/*.mrg' -o model.sapwood --dev dev.mrg.gz --budget 10m
  sapwood train train.mrg -o model.sapwood --dev dev.mrg --encoder all-MiniLM-L6-v2
  zcat trees.gz | sapwood train - -o model.sapwood --json > report.json
"""


def train_on_trees(  # noqa: PLR0913 - every option of the command is an argument
    treebanks: opt.Treebanks,
    *,
    out: opt.ModelFile,
    force: opt.Force = False,
    method: str = opt.method_option("best", METHODS),
    budget: str | None = typer.Option(
        None,
        metavar="TIME",
        help="CPU time that best may take in all, as 90s, 5m, 1h, or none. Not below 30s for more "
        "than a few thousand trees: little more than one grammar is trained then.",
        show_default="grows with the treebank: 6m for 3,400 trees, 1h at most",
    ),
    states: int | None = opt.parameter_option(
        None,
        _OF_STATES["n_states"],
        "For best, the most of any member. More than 32 only for tens of thousands of trees. "
        "Not for pcfg, crf and encoder.",
        metavar="M",
        show_default=f"{_USUAL}, or for best {_MOST}",
    ),
    dev: str | None = typer.Option(
        None,
        metavar="FILE",
        help="Parse these trees' sentences with the new model and print its scores. For best, "
        "these trees also choose members and weights, so that the scores are slightly too "
        "high. Not for trees that are also in the training data.",
    ),
    binarise: Binarise | None = typer.Option(
        None,
        help="Binarise phrases outward from the head child, or right- or left-branching. Not for "
        "crf and encoder, which hardly depend on it.",
        show_default="chosen on held-out trees, else head",
    ),
    horizontal: int | None = typer.Option(
        None,
        min=0,
        metavar="H",
        help="Horizontal Markov order: the number of sisters that an intermediate symbol records. "
        "More than 2 makes rules sparse.",
        show_default="chosen on held-out trees, else 1",
    ),
    vertical: int | None = typer.Option(
        None,
        min=1,
        metavar="V",
        help="1 keeps plain labels, 2 adds the parent's label, 3 the grandparent's too. Not "
        "above 1 with hidden states, which learn the same and more.",
        show_default="1; for pcfg, chosen on held-out trees",
    ),
    tag_parents: bool = typer.Option(
        False,
        "--tag-parents/--no-tag-parents",
        help="Let tags carry their ancestors too; without effect at --vertical 1. Not for "
        "treebanks below some ten thousand trees.",
    ),
    heads: Heads = typer.Option(
        "auto", help="Head table: Penn English, a rule for any labels, or decided by the tags."
    ),
    rare_count: int = typer.Option(
        5,
        min=1,
        metavar="N",
        help="Words seen at most N times are used to estimate unknown words. Not above 10 on "
        "small treebanks.",
    ),
    signatures: Signatures = typer.Option(
        "auto",
        help="Classes of unknown words: English suffixes, last letters of any alphabet, or "
        "decided by the tags. Not english for another language.",
    ),
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    iterations: int | None = opt.parameter_option(
        None,
        _OF_EM["iterations"],
        "For em, the iterations at each level; not below 10. For crf and encoder, passes over the "
        "training data.",
        metavar="N",
        show_default="the method's own",
    ),
    patience: int | None = opt.parameter_option(
        None,
        _OF_EM["patience"],
        "The dev scores are then too high: report test scores.",
        metavar="N",
        show_default="off",
    ),
    checkpoint: Path | None = opt.parameter_option(
        None, _OF_EM["checkpoint"], "Delete it to start again.", metavar="FILE"
    ),
    encoder: opt.TrainingEncoder = None,
    vectors: opt.VectorsFile = None,
    include_encoder: opt.IncludeEncoder = None,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    on_disk: opt.OnDiskOption = None,
    as_json: opt.Json = False,
) -> None:
    """Learn a grammar from a treebank and write it to a model file.

    Traces, function tags and coindexation are removed first. --keep-functions keeps NP-SBJ, but
    scores always ignore functions. The report has the times of reading, training and writing; the
    time of parsing the --dev trees is reported separately, except for best, whose budget includes
    it.
    """
    given = {
        "--states": states, "--budget": budget, "--iterations": iterations,
        "--patience": patience, "--checkpoint": checkpoint, "--encoder": encoder,
        "--vectors": vectors, "--include-encoder": include_encoder,
    }  # fmt: skip
    seconds = None if budget is None else opt.parse_duration(budget)
    opt.refuse_what_does_not_apply(METHODS, opt.TREE_OPTIONS, method, given)
    if on_disk is not None and not METHODS[method].is_additive:
        users = ", ".join(name for name, known in METHODS.items() if known.is_additive)
        msg = f"it does not apply to --method {method}; it applies to {users}"
        raise typer.BadParameter(msg, param_hint="--on-disk")
    others = [checkpoint] if checkpoint else []
    for file, rest in ((out, others), *((other, [out]) for other in others)):
        check_files(*treebanks, dev, out=file, others=rest, force=force, is_model=True)
    if patience and not dev:
        msg = "it needs dev trees to score on"
        raise typer.BadParameter(msg + ": add --dev FILE", param_hint="--patience")
    from sapwood.constituency.data.transform import Transform
    from sapwood.constituency.learn.training_data import LexiconSettings

    asked = {"binarise": binarise, "horizontal": horizontal, "vertical": vertical}
    fixed: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    values: dict[str, Any] = {
        parameter: value for option, value in given.items() if value is not None
        for parameter in opt.TREE_OPTIONS[option]
    }  # fmt: skip
    if budget is not None:
        values["budget"] = seconds
    if (source := open_given(encoder, vectors, include_encoder)) is not None:
        values["encoder"] = source
    with (
        hold_output(checkpoint) if checkpoint else nullcontext(),
        opt.open_folder(on_disk) as folder,
        opt.open_engine(engine, scheduler, jobs, spill=folder) as where,
    ):
        report = TreebankTraining(
            treebanks=treebanks,
            out=out,
            force=force,
            folder=folder,
            dev=dev,
            method=method,
            transform=replace(Transform(tag_parents=tag_parents, heads=heads), **fixed),
            settings=Settings(
                values | {"seed": seed, "engine": where, "listen": show_trial},
                LexiconSettings(rare_count=rare_count, style=signatures),
                [name for name in Settings.open if name not in fixed],
            ),
            reading=TreeReading(format, encoding, keep_functions, skip_bad),
            rare_count=rare_count,
        ).report()
    if as_json or "dev" in report:
        show(report, _dev_lines, as_json=as_json)


def _dev_lines(report: dict[str, Any]) -> Iterator[str]:
    """Scores on dev trees, one per line."""
    dev = report["dev"]
    rows = {
        "F1 (EVALB)": f"{dev['f1']:.2f}",
        "F1 (strict)": f"{dev['strict_f1']:.2f}",
        "Tagging accuracy": f"{dev['tagging_accuracy']:.2f}",
        "Sentences": f"{dev['sentences']:,}",
        "Without a parse": f"{dev['fallbacks']:,}",
        "Sentences/s": f"{dev['sentences_per_second']:,}",
    }
    return fact_lines({title: f"{value:>9}" for title, value in rows.items()}, 18)


def show_trial(event: Event) -> None:
    """Write the time, the scores and the verdict of a candidate of `best`, when they are known."""
    if (found := event.facts.get("encoder_trial")) is not None:
        echo_encoder_trial(found, "F1", "f1")
    trial: Trial | None = event.facts.get("trial")
    if trial is None:
        return
    figures = [f"{trial.seconds:.1f} s"] if trial.seconds else []
    # not called F1: the one F1 of a mix is that of its parser, at the end
    figures += [f"alone {trial.f1:.2f}"] if trial.f1 is not None else []
    figures += [f"equal mix {trial.mix_f1:.2f}"] if trial.mix_f1 is not None else []
    figures += [trial.verdict] if trial.verdict != "trained" else []
    figures += [trial.note] if trial.note else []
    echo("    " + "  ".join([f"{trial.name:<20}", *figures]))


@dataclass(frozen=True)
class TreebankTraining:
    """One training run: read, train, write, and score where there are dev trees."""

    treebanks: list[str]
    out: Path
    dev: str | None
    method: str
    transform: Transform
    settings: Settings
    reading: TreeReading
    rare_count: int
    force: bool = False
    folder: Path | None = None  # for trees that are not kept in memory

    def report(self) -> dict[str, Any]:
        """Run all phases, and return the report that `--json` prints."""
        meter = Meter()
        method, settings = METHODS[self.method], self.settings
        # what has a budget grades itself within it
        phases = Phases(4 if self.dev and not method.has_candidates else 3)
        bank, gold = self._read(phases)
        with phases.phase("training") as notes:
            dev = gold if settings["patience"] or method.has_candidates else None
            settings = settings.replace_parameters(spent=meter.cpu_seconds)
            learner, found = train_method(self.method, settings, bank, dev, _show_choice)
            model: Model = with_provenance(
                learner.model_, treebanks=self.treebanks, seed=settings["seed"],
                rare_count=self.rare_count, keep_functions=self.reading.keep_functions,
                tokenisation=PENN,
            )  # fmt: skip
            sizes = ("member",) if found["members"] > 1 else ("symbol", "rule")
            notes += [self.method, *(count(found[f"{size}s"], size) for size in sizes)]
        if method.has_candidates:
            trials = cast("EnsembleLPCFG", learner).info_.extra["trials"]
            names = [trial.name for trial in trials if trial.verdict == "member"]
            echo(f"    {count(len(names), 'member')}: {', '.join(names)}")
        echo_seconds(found["phases"])
        phases.save(model, self.out, force=self.force)
        warn_few(model, bank.n_trees, "tree")
        report = meter.as_dict() | found
        if method.has_candidates:
            report |= budget_report(cast("EnsembleLPCFG", learner), meter.cpu_seconds)
            _echo_budget(report, len(gold))
        elif gold:
            with phases.phase("parsing dev") as notes:
                report["dev"] = score_on(model, gold, settings["engine"])
                notes.append(count(len(gold), "sentence"))
        return report

    def _read(self, phases: Phases) -> tuple[Treebank | StoredTreebank, list[Tree]]:
        from sapwood.constituency.data.statistics import doubt_dev_trees, doubt_training_trees

        with phases.phase("reading") as notes:
            # Dev first: a mistake in its name should show before the long part.
            gold = self.reading.clean_trees(self.dev) if self.dev else []
            bank = (
                self.reading.bank(self.treebanks, self.transform)
                if self.folder is None
                else self.reading.stored_bank(self.treebanks, self.folder, self.transform)
            )
            notes += [count(bank.n_trees, "tree"), count(bank.n_tokens, "word")]
        self.reading.echo_skipped()
        warn(doubt_training_trees(bank, self.treebanks))
        if self.dev:
            warn(doubt_dev_trees(bank, self.treebanks, gold, self.dev))
        return bank, gold


def _show_choice(choice: ChosenSettings) -> None:
    """Write the binarisation that was chosen on held-out trees, if any was."""
    if choice.grades:
        echo(f"    {choice}  {choice.seconds:.1f} s")


def _echo_budget(report: dict[str, Any], n_dev: int) -> None:
    """Write how much of the budget was used, and the candidates and dev trees left out."""
    if report["budget"] is not None:
        loading = report["phases"].get("warming up", 0.0)
        kernels = f", and {loading:.1f} s for loading kernels" if loading else ""
        echo(
            f"    {report['budget_seconds']:.1f} CPU s of a budget of {report['budget']:g} s"
            f"{kernels}"
        )
    left_out = [one["name"] for one in report["trials"] if one["verdict"] in {"skipped", "stopped"}]
    if left_out:
        minutes = max(1, round(report["seconds_for_all"] / 60))
        echo(
            f"    without {', '.join(left_out)}; with all, and all passes of the network, it "
            f"would take about {minutes} CPU minutes (--budget {minutes}m)"
        )
    n_scored = report["dev"]["sentences"] if "dev" in report else n_dev
    if n_scored < n_dev:
        echo(
            f"note: the budget left time to score {n_scored:,} of {n_dev:,} dev "
            "trees; sapwood parse and sapwood evaluate score all of them"
        )
