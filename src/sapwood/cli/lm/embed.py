"""`sapwood embed`: vectors of words from plain text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import check_files
from sapwood.cli.reports import show
from sapwood.core.errors import count
from sapwood.core.model_card import PURPOSES, with_provenance
from sapwood.core.progress import step
from sapwood.corpora.files import TEXT_SUFFIXES
from sapwood.execute.engine import Meter
from sapwood.lm.learn import EMBEDDING_METHODS

EMBED_EPILOG = """\b
Examples:
  sapwood embed news.txt.xz -o words.sapwood
  sapwood embed 'text/*.txt' -o words.sapwood --dimension 100 --method two-step
  sapwood inspect words.sapwood --word Monday --word dog
"""


def embed_words(  # noqa: PLR0913 - every option of the command is an argument
    texts: list[str] = typer.Argument(
        ...,
        metavar="TEXT",
        help="One tokenised sentence a line: files (also .gz, .xz, .bz2, .zst), quoted globs, "
        "folders of text, or - for stdin.",
    ),
    *,
    out: Path = typer.Option(..., "--out", "-o", metavar="U", help="The file of vectors."),
    force: opt.Force = False,
    dimension: int = typer.Option(
        50, min=1, max=2000, metavar="K", help="Numbers in a vector. Not above 50 for little text."
    ),
    method: str = opt.method_option("cca", EMBEDDING_METHODS),
    window: int = typer.Option(
        2,
        min=1,
        max=10,
        metavar="N",
        help="Neighbours on each side. Not for bigram, which has 1, and lr-mvl, which has all.",
    ),
    iterations: int | None = typer.Option(
        None,
        min=1,
        max=100,
        metavar="N",
        help="Passes of lr-mvl over the text.",
        show_default="5",
    ),
    min_count: int = typer.Option(
        5,
        min=1,
        metavar="N",
        help="Words seen less often share the vectors of words of their shape, like unknown words.",
    ),
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of random projections."),
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Learn word vectors from plain text: words in similar contexts get similar vectors.

    Counts of neighbours are decomposed in closed form. The text is read twice; only lr-mvl
    iterates. Unseen words get the vector of their shape: capitals, digits, endings.
    """
    opt.refuse_what_does_not_apply(
        EMBEDDING_METHODS, {"--iterations": ("iterations",)}, method, {"--iterations": iterations}
    )
    check_files(*texts, out=out, suffixes=TEXT_SUFFIXES, force=force, is_model=True)
    meter = Meter()
    with opt.open_engine(engine, scheduler, jobs) as where, step("learning vectors"):
        values: dict[str, Any] = {
            "dimension": dimension, "window": window, "min_count": min_count, "seed": seed,
            "engine": where,
        }  # fmt: skip
        if iterations is not None:
            values["iterations"] = iterations
        learner = EMBEDDING_METHODS[method].train(values, texts)
    with step(f"writing {out}"):
        model = with_provenance(learner.model_, texts=texts)
        model.save(out, force=force)
    report: dict[str, Any] = {
        "model": str(out), "method": method, "dimension": model.dimension,
        "words": len(model.vocabulary.words), "classes": len(model.vocabulary.classes),
        "sentences": model.record["sentences"], "tokens": model.record["words"],
    }  # fmt: skip
    report |= meter.as_dict()
    if as_json:
        show(report, list, as_json=True)
    else:
        for line in _embed_lines(report):
            echo(line)


def _embed_lines(report: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{count(report['words'], 'word')}, {report['classes']:,} classes of others, "
        f"dimension {report['dimension']}, from {count(report['tokens'], 'token')}"
    )
    yield f"{report['model']}  {report['seconds']:.1f} s"


def show_model(model: Any, name: str, words: list[str], top: int, *, as_json: bool) -> None:
    """Print what `sapwood inspect` shows of word vectors, latent trees and latent chains."""
    from sapwood.corpora.eigenwords import Eigenwords
    from sapwood.dependency.report import inspect_latent
    from sapwood.lm.report import inspect_words

    if isinstance(model, Eigenwords):
        show(inspect_words(model, name, words, top=top), _words_text, as_json=as_json)
    else:
        report = inspect_latent(model, name, top=top)
        show(report, partial(_latent_text, top=top), as_json=as_json)


def _words_text(report: dict[str, Any]) -> Iterator[str]:
    yield f"{report['model']}  {count(report['words'], 'word')}, dimension {report['dimension']}"
    yield f"record  {', '.join(f'{key} {value}' for key, value in report['record'].items())}"
    strengths = "  ".join(f"{value:.3f}" for value in report["strengths"][:8])
    yield f"strengths  {strengths}"
    for row in report["neighbours"]:
        yield ""
        yield row["word"] + ("" if row["known"] else "  (not known: as words of its shape)")
        for near in row["nearest"]:
            yield f"  {near['cosine']:.3f}  {near['word']}"


def _latent_text(report: dict[str, Any], top: int) -> Iterator[str]:
    form = "probabilities" if report["probabilistic"] else "not probabilities (spectral)"
    what, states = PURPOSES[report["kind"]].what, count(report["states"], "state")
    yield f"{report['model']}  {what}, learnt from {report['seen']}, {states}"
    yield f"weights  {form}"
    facts = (f"{key} {value}" for key, value in report["record"].items() if key != "correlations")
    yield f"record  {', '.join(facts)}"
    for row in report["symbols_by_state"]:
        shown = "  ".join(f"{x['symbol']} {x['probability']:.3f}" for x in row["symbols"][:top])
        yield f"state {row['state']:>3}  root {row['root']:.3f}  {shown}"
