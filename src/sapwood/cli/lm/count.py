"""`sapwood lm count`: n-grams of text of any size."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import Phases
from sapwood.cli.engines import EngineOption, SchedulerOption, open_engine
from sapwood.cli.inputs import claim_stdin
from sapwood.cli.lm import options as lm_opt
from sapwood.constituency.report.training import Meter
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import check_output, hold_output
from sapwood.report import to_json

EPILOG = """\b
Examples:
  sapwood lm count news.txt.xz -o news.parquet
  sapwood lm count 'part-*.txt' -o all.parquet --order 5 --memory 8G
  duckdb -c "select * from 'news.parquet' order by count desc limit 10"
"""


def count(  # noqa: PLR0913 - every option of the command is an argument
    texts: lm_opt.Texts,
    *,
    out: Path = typer.Option(
        ..., "--out", "-o", metavar="COUNTS", help="The file of counts, in Parquet."
    ),
    force: opt.Force = False,
    order: int = typer.Option(3, min=1, max=5, metavar="N", help="Words of an n-gram."),
    stream: lm_opt.Stream = False,
    memory: lm_opt.Memory = "2G",
    jobs: opt.Jobs = 0,
    engine: EngineOption = None,
    scheduler: SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Count the n-grams of a text, in bounded memory.

    What is counted so far is kept in COUNTS.part while the command runs. If it is stopped, the same
    command goes on from there. Counts are the same for any number of jobs, machines and any memory.
    """
    meter = Meter()
    claim_stdin(*texts)
    check_output(out, inputs=lm_opt.text_files(*texts), force=force)
    from sapwood.lm.data.ngram_files import save_counts
    from sapwood.lm.data.ngrams import CountSettings, count_runs

    settings = CountSettings(order, stream, lm_opt.bytes_of(memory))
    folder = out.with_name(f"{out.name}.part")
    phases = Phases(2)
    with hold_output(out), open_engine(engine, scheduler, jobs) as where:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            msg = f"cannot make the folder {folder}: {error.strerror}"
            hint = "remove what is there, or choose another output"
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
