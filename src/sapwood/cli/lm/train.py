"""`sapwood lm count` and `lm train`: language models from text of any size."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases, warn
from sapwood.cli.inputs import check_files
from sapwood.cli.lm.use import Stream, Texts
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.model_card import with_provenance
from sapwood.core.outputs import hold_output
from sapwood.corpora.files import TEXT_SUFFIXES
from sapwood.execute.engine import Meter
from sapwood.lm.learn import LM_METHODS
from sapwood.report import to_json

if TYPE_CHECKING:
    from sapwood.execute import Engine
    from sapwood.lm.data.ngrams import NgramCounts


SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LEAST_MEMORY = 1 << 24


def parse_size(text: str) -> int:
    """The number of bytes that a text such as 512M stands for.

    Examples
    --------
    >>> parse_size("2G"), parse_size("512MB")
    (2147483648, 536870912)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    size = int(float(found[1]) * SIZE_UNITS[found[2].upper()]) if found else 0
    if size < LEAST_MEMORY:
        msg = (
            f"{text!r} is not a memory size of at least 16M: give a number with M or G, such as 2G"
        )
        raise typer.BadParameter(msg, param_hint="--memory")
    return size


Memory = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        help="Memory for counting, at least 512M; the rest goes to disk. With little memory, "
        "fewer cores are used. Millions of different words take more. Counts do not depend "
        "on it.",
    ),
]


COUNT_EPILOG = """\b
Examples:
  sapwood lm count news.txt.xz -o news.parquet
  sapwood lm count 'part-*.txt' -o all.parquet --order 5 --memory 8G
  duckdb -c "select * from 'news.parquet' order by count desc limit 10"
"""


def count_ngrams(  # noqa: PLR0913 - every option of the command is an argument
    texts: Texts,
    *,
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="COUNTS", help="The file of counts, in Parquet."
    ),
    force: opt.Force = False,
    order: int = typer.Option(3, min=1, max=5, metavar="N", help="Words of an n-gram."),
    stream: Stream = False,
    memory: Memory = "2G",
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Count the n-grams of a text, in bounded memory.

    Partial counts are kept in COUNTS.part while the command runs, and the same command continues
    from them after an interruption. Counts do not depend on the number of jobs and machines or on
    the memory.
    """
    meter, n_bytes = Meter(), parse_size(memory)
    check_files(*texts, out=out, suffixes=TEXT_SUFFIXES, force=force)
    from sapwood.lm.data.counting import CountSettings, count_runs
    from sapwood.lm.data.ngrams import save_counts

    settings = CountSettings(order, stream, n_bytes)
    folder = out.with_name(f"{out.name}.part")
    phases = Phases(2)
    with hold_output(out), opt.open_engine(engine, scheduler, jobs) as where:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            msg = f"cannot make the folder {folder}: {error.strerror}"
            hint = "remove the file of that name, or choose another output"
            raise SapwoodError(msg, hint=hint) from error
        with phases.phase("counting") as notes:
            try:
                runs = count_runs(list(texts), folder, settings, where)
            except CorpusError:  # there is nothing to go on with
                rmtree(folder, ignore_errors=True)
                raise
            notes.append(f"{len(runs.words) - 4:,} words")
        with phases.phase("merging") as notes:
            n_rows = save_counts(runs, out)
            notes.append(f"{n_rows:,} {order}-grams")
        rmtree(folder, ignore_errors=True)
    if as_json:
        report = {"order": order, "ngrams": n_rows, "words": len(runs.words) - 4, "stream": stream}
        print(to_json(report | meter.as_dict(), indent=2))


TRAIN_LM_EPILOG = """\b
Examples:
  sapwood lm train train.txt -o mix.lm --held-out dev.txt
  sapwood lm train news.parquet -o kn.lm --method kn-mod --order 3
  sapwood lm train train.txt -o em.lm --method em --states 256 --held-out dev.txt
"""
LM_OPTIONS = {
    "--order": ("order",), "--states": ("n_states",), "--blocks": ("n_blocks",),
    "--device": ("device",),
}  # fmt: skip


def train_language_model(  # noqa: PLR0913 - every option of the command is an argument
    source: list[str] = typer.Argument(
        ...,
        metavar="COUNTS|TEXT...",
        help="A file that `sapwood lm count` wrote, or text: tokens separated by blanks, one "
        "sentence per line, also compressed; - for stdin.",
    ),
    *,
    out: opt.ModelFile,
    force: opt.Force = False,
    method: str = opt.method_option("mix", LM_METHODS),
    order: int | None = typer.Option(
        None,
        min=1,
        max=5,
        metavar="N",
        help="Words of an n-gram. Only for kn, kn-mod, kn-latent and mix.",
        show_default="3",
    ),
    states: int | None = typer.Option(
        None,
        min=1,
        max=4096,
        metavar="M",
        help="Hidden states. Not for kn and kn-mod.",
        show_default="128, for mix 256",
    ),
    blocks: int | None = typer.Option(
        None,
        min=1,
        max=64,
        metavar="B",
        help="Parts of the states that are learnt apart from different starts, which is more "
        "accurate; 1 is the plain model. Only for em, kn-latent and mix.",
        show_default="one for every 32 states, at most 8",
    ),
    held_out: str | None = typer.Option(
        None,
        metavar="TEXT",
        help="Held-out text that sets the number of EM iterations, the smoothing and the mixture "
        "weights; no part of the training text. Without it, some n-grams of the training "
        "text are held out, which is less accurate.",
    ),
    min_count: int = typer.Option(
        2, min=1, metavar="N", help="Words seen less often become the unknown word."
    ),
    stream: Stream = False,
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of random starts."),
    device: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Where EM runs: cpu, or cuda for a GPU (needs PyTorch). Not for kn and kn-mod.",
        show_default="cpu",
    ),
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Learn a language model and write it to a file."""
    given = {"--order": order, "--states": states, "--blocks": blocks, "--device": device}
    opt.refuse_what_does_not_apply(LM_METHODS, LM_OPTIONS, method, given)
    if device not in {None, "cpu"}:
        from sapwood.lm.learn.device import import_torch

        import_torch(device)  # so that a missing device is an error before anything is counted
    meter = Meter()
    check_files(*source, held_out, out=out, suffixes=TEXT_SUFFIXES, force=force, is_model=True)
    from sapwood.lm.data.counting import read_counts

    phases = Phases(3)
    values = {LM_OPTIONS[name][0]: value for name, value in given.items() if value is not None}
    chosen = LM_METHODS[method]
    n = max(2, order or chosen.usual_value("order") or 2)  # pairs of words at least
    with opt.open_engine(engine, scheduler, jobs) as where:
        with phases.phase("counting") as notes:
            counts = read_counts(source, n, where, is_stream=stream, min_count=min_count)
            held = _held_out(held_out, counts, where) if held_out else None
            notes.append(f"{counts.n_tokens:,} tokens  {len(counts.words) - 4:,} words")
        with phases.phase("training") as notes:
            learner = chosen.train(values | {"seed": seed, "engine": where}, counts, held)
            model = with_provenance(
                learner.model_, texts=source, held_out=held_out, min_count=min_count
            )
            facts = ("order", "states", "iterations")
            notes.extend(f"{name} {model.record[name]}" for name in facts if name in model.record)
        phases.save(model, out, force=force)
    if as_json:
        summary = {
            "method": method, "tokens": counts.n_tokens, "words": len(counts.words) - 4,
            "stream": counts.is_stream, "order": model.order,
            "states": getattr(learner, "n_states", None),
            "iterations": getattr(learner, "iterations_", None), **meter.as_dict(),
        }  # fmt: skip
        print(to_json(summary, indent=2))


def _held_out(name: str, counts: NgramCounts, engine: Engine) -> NgramCounts:
    """Counts of held-out text over the training vocabulary; a warning where it was trained on."""
    from sapwood.lm.data.counting import CountSettings, count_text
    from sapwood.lm.data.ngrams import share_seen

    settings = CountSettings(counts.order, counts.is_stream)
    held = count_text(name, settings, words=counts.words, engine=engine)
    if share_seen(held, counts) == 1.0:
        warn([(
            f"every {counts.order}-gram of {name} was seen in training: it seems to be part of it",
            "hold out text that is not trained on; the smoothing overfits otherwise",
        )])  # fmt: skip
    return held
