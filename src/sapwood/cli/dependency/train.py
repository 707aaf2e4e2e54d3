"""`sapwood depend train`: learns a model from dependency trees and writes its file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, echo_encoder_trial, echo_seconds
from sapwood.cli.inputs import ArcReading, check_files, load_kind, open_given
from sapwood.cli.reports import fact_lines, show
from sapwood.core.errors import count
from sapwood.core.model_card import with_provenance
from sapwood.corpora.conventions import recognise_convention
from sapwood.dependency.learn import ARC_METHODS as METHODS
from sapwood.dependency.learn import train_arc_method
from sapwood.execute.engine import Meter

if TYPE_CHECKING:
    from sapwood.core.progress import Event
    from sapwood.corpora.eigenwords import Eigenwords


ARC_OPTIONS = {
    "--budget": ("budget",), "--passes": ("passes",), "--states": ("n_states",),
    "--seen": ("seen",), "--tags": ("tag_column",), "--children": ("valence",),
    "--iterations": ("iterations",), "--embed": ("embeddings",), **opt.GIVEN_OPTIONS,
}  # fmt: skip
TRAIN_ARCS_EPILOG = """\b
Examples:
  sapwood depend train train.conllu -o parser.sapwood --dev dev.conllu
  sapwood depend train train.conllu -o parser.sapwood --method second
  sapwood depend train 'ud/*-train.conllu' -o parser.sapwood --budget 5m
  sapwood depend train train.conllu -o parser.sapwood --embed words.sapwood
  sapwood depend train train.conllu -o parser.sapwood --encoder all-MiniLM-L6-v2
  sapwood depend train train.conllu -o states.sapwood --method spectral --seen words
"""


def train_on_arcs(  # noqa: PLR0913 - every option of the command is an argument
    files: opt.ArcFiles,
    *,
    out: opt.ModelFile,
    force: opt.Force = False,
    method: str = opt.method_option("best", METHODS),
    budget: str | None = typer.Option(
        None,
        metavar="TIME",
        help="CPU time that best may take in all, all threads together, as 90s, 5m, 1h, or none. "
        "With too little time, there is one network instead of two, with fewer passes, or none.",
        show_default="grows with the treebank: ten thousand sentences take about half an hour",
    ),
    passes: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="Passes over the sentences. More than 8 gain nothing.",
        show_default="the method's own",
    ),
    states: int | None = typer.Option(
        None,
        min=1,
        max=256,
        metavar="K",
        help="Hidden states of a word. Only for latent, rerank, spectral and em.",
        show_default="16 for latent, else 8",
    ),
    seen: Literal["tags", "words", "both"] | None = typer.Option(
        None,
        help="What a hidden state generates of a word. Only for latent, spectral and em.",
        show_default="tags",
    ),
    tags: Literal["upos", "xpos"] | None = typer.Option(
        None,
        help="The tags that hidden states generate: universal ones, or those of the language. Only "
        "for latent, spectral and em.",
        show_default="upos; for latent xpos where there are any",
    ),
    children: bool | None = typer.Option(
        None,
        "--children",
        help="Hidden states also generate the numbers of a word's left and right children, so that "
        "trees are scored by their shapes. Only for latent, spectral and em.",
    ),
    iterations: int | None = typer.Option(
        None,
        min=1,
        metavar="N",
        help="The most iterations of EM. Only for latent and em.",
        show_default="60 for latent, 100 for em",
    ),
    embed: str | None = typer.Option(
        None,
        metavar="U",
        help="Word vectors of `sapwood embed`: words with similar vectors share features. Not for "
        "em; vectors of the treebank's own text gain nothing.",
    ),
    dev: str | None = typer.Option(
        None,
        metavar="FILE",
        help="Parse these sentences with the new model and print its scores; for spectral and em, "
        "which parse nothing, the log-probability of their trees. Not for sentences that are also "
        "in the training data.",
    ),
    encoder: opt.TrainingEncoder = None,
    vectors: opt.VectorsFile = None,
    include_encoder: opt.IncludeEncoder = None,
    encoding: opt.ArcEncoding = "utf-8",
    skip_bad: opt.SkipBadArcs = False,
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the order of sentences."),
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Learn a dependency parser, with its tagger, and write it to a model file.

    Only forms, tags, heads and relations are read. Trees that are not projective are lifted,
    because the parser gives projective trees. The parser learns from predicted tags, of taggers
    that have not seen the sentence.

    The methods spectral and em learn a model of trees with hidden states instead of a parser:
    `sapwood depend score` prints its log-probabilities, and `sapwood inspect` shows its states.
    """
    from sapwood.dependency.data.reader import CONLLU_SUFFIXES
    from sapwood.dependency.report import score_on_arcs

    given = {
        "--budget": budget, "--passes": passes, "--states": states, "--seen": seen,
        "--tags": tags, "--children": children or None, "--iterations": iterations,
        "--embed": embed, "--encoder": encoder, "--vectors": vectors,
        "--include-encoder": include_encoder,
    }  # fmt: skip
    seconds = None if budget is None else opt.parse_duration(budget)
    opt.refuse_what_does_not_apply(METHODS, ARC_OPTIONS, method, given)
    check_files(*files, dev, embed, out=out, suffixes=CONLLU_SUFFIXES, force=force, is_model=True)
    meter = Meter()
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    phases = Phases(4 if dev else 3)
    values: dict[str, Any] = {"seed": seed}
    values |= {
        ARC_OPTIONS[name][0]: value
        for name, value in given.items()
        if value is not None and name not in {"--budget", "--embed"}
    }
    if embed is not None:
        values["embeddings"] = _load_eigenwords(embed)
    if encoder or vectors or include_encoder:
        values["encoder"] = open_given(encoder, vectors, include_encoder)
        values["listen"] = _show_encoder_trial
    with opt.open_engine(engine, scheduler, jobs) as where:
        with phases.phase("reading") as notes:
            gold = reading.arcs([dev]) if dev else None  # first, so that mistakes show early
            bank = reading.arcs(files)
            notes += [count(bank.n_sentences, "sentence"), count(bank.n_tokens, "word")]
        reading.echo_skipped()
        values |= {"engine": where, "spent": meter.cpu_seconds, "budget": seconds}
        with phases.phase("training") as notes:
            learner, facts = train_arc_method(method, values, bank)
            what = "member" if "members" in facts else "state"
            notes += [method, count(facts[f"{what}s"], what)]
        echo_seconds(facts["phases"])
        model = with_provenance(
            learner.model_, (bank.n_sentences, "sentence"), treebanks=files, seed=seed,
            tokenisation=recognise_convention([bank.words]),
        )  # fmt: skip
        phases.save(model, out, force=force)
        if gold is None and not as_json:
            return
        report: dict[str, Any] = meter.as_dict() | facts
        if gold is not None:
            with phases.phase(f"{'parsing' if what == 'member' else 'scoring'} dev") as notes:
                report["dev"] = score_on_arcs(model, gold, where)
                notes.append(count(len(gold), "sentence"))
    show(report, _dev_lines, as_json=as_json)


def _load_eigenwords(name: str) -> Eigenwords:
    from sapwood.corpora.eigenwords import Eigenwords

    found = load_kind(
        name, Eigenwords, "vectors of words", room="dependency", writer="`sapwood embed`",
        hint="`sapwood embed TEXT -o U` makes such a file",
    )  # fmt: skip
    return cast("Eigenwords", found)


def _show_encoder_trial(event: Event) -> None:
    """Write whether a pretrained encoder helps, when that is known."""
    if (found := event.facts.get("encoder_trial")) is not None:
        echo_encoder_trial(found, "UAS", "uas")


def _dev_lines(report: dict[str, Any]) -> Iterator[str]:
    """Scores on dev sentences, one per line."""
    dev = report["dev"]
    if "log_prob_per_word" in dev:
        rows = {"Log-probability a word": f"{dev['log_prob_per_word']:.4f}"}
        rows |= {
            "Trees": f"{dev['trees']:,}",
            "Weight not positive": f"{dev['negative'] + dev['impossible']:,}",
        }
        return fact_lines({title: f"{value:>9}" for title, value in rows.items()}, 23)
    names = {"UAS": "uas", "LAS": "las", "Complete trees": "complete", "Universal tags": "upos"}
    rows = {title: f"{dev[name]:.2f}" for title, name in names.items()}
    rows |= {"Sentences": f"{dev['sentences']:,}"}
    rows |= {"Sentences/CPU s": f"{dev['sentences_per_cpu_second'] or 0:,}"}
    return fact_lines({title: f"{value:>9}" for title, value in rows.items()}, 18)
