"""`sapwood train`: a treebank in, a model file out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import Meter, Phases, check_output, count, echo, print_json, wipe
from sapwood.cli.inputs import JobsOption, JsonOption, claim_stdin
from sapwood.cli.methods import (
    MAX_STATES,
    METHODS,
    Learner,
    Settings,
    describe_methods,
    known_method,
)

if TYPE_CHECKING:
    from sapwood.corpus.transform import Transform
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank
    from sapwood.errors import CorpusError
    from sapwood.estimators.ensemble import Trial
    from sapwood.models.ensemble import Model

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
EPILOG = """\b
Examples:
  sapwood train train.mrg -o model.sapwood --dev dev.mrg
  sapwood train train.mrg -o model.sapwood --method spectral --states 16
  sapwood train 'wsj/**/*.mrg' -o model.sapwood --dev dev.mrg.gz --budget 10m
  zcat trees.gz | sapwood train - -o model.sapwood --json > report.json
"""


class Binarise(StrEnum):
    """Values of `--binarise`."""

    head = "head"
    right = "right"
    left = "left"


class Heads(StrEnum):
    """Values of `--heads`."""

    auto = "auto"
    penn = "penn"
    generic = "generic"


class Signatures(StrEnum):
    """Values of `--signatures`."""

    auto = "auto"
    english = "english"
    generic = "generic"


def seconds_text(text: str | None) -> str | None:
    """A time as it was given; a usage error when it is none."""
    if text is not None:
        seconds_of(text)
    return text


def seconds_of(text: str) -> float | None:
    """Seconds of a time such as `90s`, `5m` or `1.5h`; None for `none`.

    Examples
    --------
    >>> seconds_of("90s"), seconds_of("5m"), seconds_of("none")
    (90.0, 300.0, None)
    """
    if text == "none":
        return None
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < inf:
        msg = f"{text!r} is no time: give a number with s, m or h, such as 90s, or none"
        raise typer.BadParameter(msg)
    return seconds


def train(  # noqa: PLR0913 - every option of the command is an argument
    treebanks: Annotated[
        list[str],
        typer.Argument(
            metavar="TREEBANK",
            help="Trees in Penn brackets: files (also .gz, .xz, .bz2), quoted globs, folders, or - "
            "for stdin.",
            show_default=False,
        ),
    ],
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="MODEL", help="The model file.", show_default=False),
    ],
    method: Annotated[
        str,
        typer.Option(callback=known_method, metavar="METHOD", help=f"{describe_methods()}."),
    ] = "best",
    budget: Annotated[
        str | None,
        typer.Option(
            callback=seconds_text,
            metavar="TIME",
            help="How long best may train, as 90s, 5m, 1h, or none. Not below 30s for more than a "
            "few thousand trees: little more than one grammar is trained then.",
            show_default=f"{Settings.budget:g}s",
        ),
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_STATES,
            metavar="M",
            help="Hidden states of a label with enough data; rare labels get fewer. For best, the "
            "most of any member. More than 32 only for tens of thousands of trees. Without effect "
            "on pcfg and crf.",
            show_default=f"{Settings.states}, or for best {Settings.most_states}",
        ),
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Parse these trees' sentences with the new model and print its scores. For best, "
            "these trees also choose members and weights, so that the scores flatter a little. Not "
            "for trees that are also in the training data.",
        ),
    ] = None,
    binarise: Annotated[
        Binarise,
        typer.Option(
            help="Grow phrases outward from their head child, or branch one way. Leave it at head "
            "unless the label set has no useful heads."
        ),
    ] = Binarise.head,
    horizontal: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="H",
            help="Sisters that a half-built phrase remembers. More than 2 makes rules sparse.",
        ),
    ] = 1,
    vertical: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="V",
            help="1 keeps plain labels, 2 adds the parent's label, 3 the grandparent's too. Not "
            "above 1 with hidden states, which learn the same and more.",
        ),
    ] = 1,
    tag_parents: Annotated[
        bool,
        typer.Option(
            "--tag-parents/--no-tag-parents",
            help="Let tags carry their ancestors too; without effect at --vertical 1. Not for "
            "treebanks below some ten thousand trees.",
        ),
    ] = False,
    heads: Annotated[
        Heads,
        typer.Option(
            help="Head table: Penn English, a rule for any labels, or decided by the tags."
        ),
    ] = Heads.auto,
    rare_count: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Words seen at most N times teach what unknown words look like. Not above 10 on "
            "small treebanks.",
        ),
    ] = 5,
    signatures: Annotated[
        Signatures,
        typer.Option(
            help="Classes of unknown words: English suffixes, last letters of any alphabet, or "
            "decided by the tags. Not english for another language."
        ),
    ] = Signatures.auto,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Count and skip trees that cannot be read, instead of stopping at the first. Not "
            "before you have looked at one.",
        ),
    ] = False,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="EM iterations; for em, at each level. Not below 10 there: levels need time.",
            show_default="the method's own",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Keep the EM iteration that parses the --dev trees best, and stop when none was "
            "better for N iterations. The dev scores then flatter: report others.",
            show_default="off",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write EM's state here after every iteration, and go on from it when it is there. "
            "Delete it to start again.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="For methods that draw random numbers.")
    ] = 0,
    jobs: JobsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a grammar from a treebank and write it to a model file.

    Traces, function tags and coindexation are cut from the trees first. The report has the figures
    of reading, training and writing; parsing the --dev trees is timed apart.
    """
    sources = [*treebanks, *([dev] if dev else [])]
    claim_stdin(*sources)
    check_output(out, sources)
    given = {"--iterations": iterations, "--patience": patience, "--checkpoint": checkpoint}
    _note_what_is_without_effect(method, states, budget, given)
    if patience and not dev:
        msg = "it needs trees to grade on"
        raise typer.BadParameter(msg + ": add --dev FILE", param_hint="--patience")
    if checkpoint is not None:
        check_output(checkpoint, sources)
    from sapwood.corpus.transform import Transform

    run = _Run(
        treebanks=treebanks,
        out=out,
        dev=dev,
        method=method,
        transform=Transform(binarise.value, horizontal, vertical, tag_parents, heads.value),
        settings=Settings(
            rare_count=rare_count,
            signatures=signatures.value,
            seed=seed,
            jobs=jobs,
            states=states or Settings.states,
            most_states=states or Settings.most_states,
            iterations=iterations,
            patience=patience,
            checkpoint=checkpoint,
            on_iteration=iteration_line(),
            budget=Settings.budget if budget is None else seconds_of(budget),
            on_trial=show_trial,
        ),
        skip_bad=skip_bad,
    )
    report = run.report()
    if as_json:
        print_json(report)
    elif "dev" in report:
        print(_dev_text(report["dev"]))


def _note_what_is_without_effect(
    method: str, states: int | None, budget: str | None, of_em: dict[str, Any]
) -> None:
    kind = METHODS[method]
    if states and not kind.has_states:
        echo(f"note: {method} has no hidden states; --states {states} is without effect")
    if budget and not kind.has_candidates:
        echo(f"note: {method} is one grammar; --budget {budget} is without effect")
    for option, value in of_em.items():
        has_effect = kind.has_iterations or (kind.has_passes and option == "--iterations")
        if value is not None and not has_effect:
            echo(f"note: {method} has no EM iterations; {option} {value} is without effect")


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
class _Run:
    """One training run: read, train, write, and score where there are dev trees."""

    treebanks: list[str]
    out: Path
    dev: str | None
    method: str
    transform: Transform
    settings: Settings
    skip_bad: bool

    def report(self) -> dict[str, Any]:
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


def _dev_text(dev: dict[str, Any]) -> str:
    rows = [
        ("F1 (EVALB)", f"{dev['f1']:.2f}"),
        ("F1 (strict)", f"{dev['strict_f1']:.2f}"),
        ("Tagging accuracy", f"{dev['tagging_accuracy']:.2f}"),
        ("Sentences", f"{dev['sentences']:,}"),
        ("Without a parse", f"{dev['fallbacks']:,}"),
        ("Sentences/s", f"{dev['sentences_per_second']:,}"),
    ]
    return "\n".join(f"{title:<18}{value:>9}" for title, value in rows)
