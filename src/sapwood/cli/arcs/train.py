"""`sapwood depend train`: dependency trees in, a model file out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.arcs.reading import ArcReading, Encoding, Files, SkipBad
from sapwood.cli.console import Phases, echo, wipe
from sapwood.cli.engines import EngineOption, SchedulerOption, open_engine
from sapwood.cli.inputs import as_kind, claim_stdin, input_files, load_any
from sapwood.cli.methods import describe_methods, known_method_of, refuse_what_does_not_apply
from sapwood.cli.tables import fact_lines
from sapwood.cli.trees.train import check_time, seconds_of
from sapwood.errors import count
from sapwood.estimators.arcs.methods import ARC_METHODS as METHODS
from sapwood.outputs import check_output
from sapwood.report import to_json
from sapwood.report.training import Meter, sign

if TYPE_CHECKING:
    from sapwood.corpus.arcs.bank import ArcBank
    from sapwood.execute import Engine
    from sapwood.models.arcs.arc_model import ArcModel
    from sapwood.models.arcs.reranker import ArcRerankModel
    from sapwood.models.eigenwords import Eigenwords

OPTIONS = {
    "--budget": ("budget",), "--passes": ("passes",), "--states": ("n_states",),
    "--seen": ("seen",),
}  # fmt: skip
BUDGET = "20m"
EPILOG = """\b
Examples:
  sapwood depend train train.conllu -o parser.sapwood --dev dev.conllu
  sapwood depend train train.conllu -o parser.sapwood --method second
  sapwood depend train 'ud/*-train.conllu' -o parser.sapwood --budget 5m
  sapwood depend train train.conllu -o parser.sapwood --embed words.sapwood
"""


def train(  # noqa: PLR0913 - every option of the command is an argument
    files: Files,
    *,
    out: Path = typer.Option(..., "--out", "-o", metavar="MODEL", help="The model file."),
    force: opt.Force = False,
    method: str = typer.Option(
        "best",
        "--method",
        callback=known_method_of(METHODS),
        metavar="METHOD",
        help=f"{describe_methods(METHODS)}.",
    ),
    budget: str | None = typer.Option(
        None,
        callback=check_time,
        metavar="TIME",
        help="How long best may take in all, as 90s, 5m, 1h, or none. Where it is too short, the "
        "network makes fewer passes or is left out: ten thousand sentences want 10m of two cores.",
        show_default=BUDGET,
    ),
    passes: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="Over the sentences. More than 8 gain nothing.",
        show_default="the method's own",
    ),
    states: int | None = typer.Option(
        None,
        min=1,
        max=256,
        metavar="K",
        help="Hidden states of a word. Only for latent and rerank.",
        show_default="16, or 8 for rerank",
    ),
    seen: Literal["tags", "words", "both"] | None = typer.Option(
        None,
        help="What hidden states show of a word. Only for latent.",
        show_default="tags",
    ),
    embed: str | None = typer.Option(
        None,
        metavar="U",
        help="Vectors of words, as `sapwood embed` writes them: words that stand in the same "
        "places share features. Not for vectors of the treebank's own text alone, which gain "
        "nothing.",
    ),
    dev: str | None = typer.Option(
        None,
        metavar="FILE",
        help="Parse these sentences with the new model and print its scores. Not for sentences "
        "that are also in the training data.",
    ),
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    seed: int = typer.Option(0, min=0, metavar="N", help="Of the order of sentences."),
    jobs: opt.Jobs = 0,
    engine: EngineOption = None,
    scheduler: SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Learn a dependency parser, with its tagger, and write it to a model file.

    Only forms, tags, heads and relations are read. Trees that are not projective are lifted: the
    parser gives projective trees. Tags that it learns from are those that a tagger gives to
    sentences it has not seen.
    """
    chosen = METHODS[method]
    given = {"--budget": budget, "--passes": passes, "--states": states, "--seen": seen}
    refuse_what_does_not_apply(METHODS, OPTIONS, method, given)
    sources = [*files, *([dev] if dev else [])]
    claim_stdin(*sources)
    check_output(
        out, inputs=input_files(*sources, *([embed] if embed else [])), force=force, is_model=True
    )
    meter = Meter()
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    phases = Phases(4 if dev else 3)
    values: dict[str, Any] = {"seed": seed, "on_pass": _pass_line()}
    values |= {
        OPTIONS[name][0]: value
        for name, value in given.items()
        if value is not None and name != "--budget"
    }
    if embed is not None:
        values["embeddings"] = _load_eigenwords(embed)
    with open_engine(engine, scheduler, jobs) as where:
        with phases.phase("reading") as notes:
            gold = reading.arcs([dev]) if dev else None  # first: a mistake shows before long work
            bank = reading.arcs(files)
            notes += [count(len(bank), "sentence"), count(bank.n_tokens, "word")]
        reading.tell()
        values |= {"engine": where, "spent": meter.seconds, "budget": seconds_of(budget or BUDGET)}
        with phases.phase("training") as notes:
            learner = chosen.make(**chosen.pick(values)).fit(bank)
            notes += [method, count(_parser_in(learner.model_).n_members, "member")]
        steps = (f"{name} {seconds:.1f} s" for name, seconds in learner.info_.seconds.items())
        echo("    " + "  ".join(steps))
        model = sign(learner.model_, treebanks=files, seed=seed)
        with phases.phase("writing") as notes:
            model.save(out, force=force)
            notes.append(str(out))
        report = meter.as_dict() | _report(learner, bank, method, seed)
        if gold is not None:
            with phases.phase("parsing dev") as notes:
                report["dev"] = _scores(model, gold, where)
                notes.append(count(len(gold), "sentence"))
    if as_json:
        print(to_json(report, indent=2))
    elif "dev" in report:
        print("\n".join(_dev_text(report["dev"])))


def _load_eigenwords(name: str) -> Eigenwords:
    from sapwood.models.eigenwords import Eigenwords

    hint = "`sapwood embed TEXT -o U` makes such a file"
    model: Eigenwords = as_kind(load_any(name), Eigenwords, name, "vectors of words", hint, "arcs")
    return model


def _report(learner: Any, bank: ArcBank, method: str, seed: int) -> dict[str, Any]:
    model = _parser_in(learner.model_)
    return {
        "method": method,
        "members": model.n_members,
        "iterations": int(model.record.get("iterations", 0)),
        "sentences": len(bank),
        "tokens": bank.n_tokens,
        "tags": len(model.tags),
        "relations": len(model.relations),
        "seed": seed,
        "phases": dict(learner.info_.seconds),
    }


def _parser_in(model: ArcModel | ArcRerankModel) -> Any:
    """The parser that a model is, or that it ranks the trees of."""
    return getattr(model, "parser", model)


def _scores(model: Any, gold: ArcBank, engine: Engine) -> dict[str, Any]:
    """Scores of the parses of gold sentences, and the speed."""
    from sapwood.corpus.arcs.bank import ArcBank
    from sapwood.evaluate.attachment import attachment
    from sapwood.inference.arcs.reranking import arc_parser

    parser, meter = arc_parser(model), Meter()
    words = (gold.sentence(k) for k in range(len(gold)))
    found = ArcBank.of(parse.arcs for parse in parser.parse_many(words, jobs=engine))
    took = meter.as_dict()
    cpu = took["cpu_seconds"]
    return dict(attachment(gold, found).as_dict()) | {
        "seconds": took["seconds"],
        "cpu_seconds": cpu,
        "sentences_per_cpu_second": round(len(gold) / cpu, 1) if cpu else None,
    }


def _dev_text(dev: dict[str, Any]) -> Iterator[str]:
    """Scores on dev sentences, one a line."""
    names = {"UAS": "uas", "LAS": "las", "Complete trees": "complete", "Universal tags": "upos"}
    rows = {title: f"{dev[name]:.2f}" for title, name in names.items()}
    rows |= {"Sentences": f"{dev['sentences']:,}"}
    rows |= {"Sentences/CPU s": f"{dev['sentences_per_cpu_second'] or 0:,}"}
    return fact_lines({title: f"{value:>9}" for title, value in rows.items()}, 18)


def _pass_line() -> Callable[[str, int, float], None]:
    """A function that shows how far training is, on a terminal."""
    started, is_shown = perf_counter(), sys.stderr.isatty()

    def show(what: str, done: int, log_likelihood: float) -> None:
        if is_shown:
            wipe()
            text = f"{what}  pass {done}  log-likelihood {log_likelihood:,.0f}  "
            text += f"{perf_counter() - started:.0f} s"
            print(text, end="", file=sys.stderr, flush=True)

    return show
