"""The command `sapwood`: puts the commands together; what they do stands in a file for each."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import NoReturn

import typer

from sapwood import __version__
from sapwood.cli import audit, dependency, doctor, hankel, lm, serve, surprisal
from sapwood.cli.console import (
    FAILED,
    INTERRUPTED,
    Boundary,
    abandon_stdout,
    announce_compiling,
    fail,
    handle_interrupts,
    notice,
    set_up_output,
    show_warning,
    was_interrupted,
)
from sapwood.cli.constituency import compare, demo, evaluate, inspect, parse, train, use
from sapwood.cli.corpora import data, treebanks
from sapwood.cli.identify import identify, unmix
from sapwood.cli.lm import embed

EPILOG = """\b
Start here:
  sapwood demo
  sapwood train train.mrg -o model.sapwood --dev dev.mrg
  sapwood parse model.sapwood sentences.txt > trees.mrg

\b
Data goes to stdout, everything else to stderr; - is stdin.
Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

# No Rich here: it takes longer to import than everything else that --help needs.
app = typer.Typer(
    name="sapwood",
    cls=Boundary,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    epilog=EPILOG,
    # help is as wide as the terminal, and not so wide that lines are hard to read
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"sapwood {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    debug: bool = typer.Option(
        False,
        "--debug",
        envvar="SAPWOOD_DEBUG",
        help="Show the whole traceback of an error; for reports of faults, before the command.",
    ),
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Show the version and exit.",
    ),
) -> None:
    """Learn latent-variable grammars from treebanks, and parse with them."""


# name, function, examples, the line that --help shows for it
for _name, _run, _epilog, _summary in (
    ("demo", demo.show_demo, demo.DEMO_EPILOG,
     "Show the whole story on bundled data, under a minute."),
    ("train", train.train_on_trees, train.TRAIN_EPILOG, "Learn a grammar from a treebank."),
    ("parse", parse.parse_sentences, parse.PARSE_EPILOG,
     "Parse sentences: one a line in, one tree a line out."),
    ("evaluate", evaluate.evaluate_predicted, evaluate.EVALUATE_EPILOG,
     "Score predicted trees as EVALB does."),
    ("compare", compare.compare_methods, compare.COMPARE_EPILOG,
     "Set methods and numbers of states side by side."),
    ("score", use.score_file, use.SCORE_EPILOG, "Print log-probabilities of trees or sentences."),
    ("surprisal", surprisal.print_surprisal, surprisal.SURPRISAL_EPILOG,
     "Print how unexpected each word of a text is."),
    ("inspect", inspect.inspect_file, inspect.INSPECT_EPILOG, "Show what is in a model."),
    ("sample", use.draw_trees, use.SAMPLE_EPILOG, "Draw trees from a model."),
    ("audit", audit.audit_files, audit.AUDIT_EPILOG,
     "List annotations of a treebank that are probably wrong."),
    ("stats", treebanks.show_statistics, treebanks.STATS_EPILOG, "Show what is in a treebank."),
    ("split", treebanks.split_treebank, treebanks.SPLIT_EPILOG,
     "Cut a treebank into train, dev and test."),
    ("words", treebanks.write_words, treebanks.WORDS_EPILOG,
     "Write the sentences of a treebank, one a line."),
    ("identify", identify.identify_models, identify.IDENTIFY_EPILOG,
     "Tell whether a model can be learnt at all."),
    ("unmix", unmix.unmix_sentences, unmix.UNMIX_EPILOG,
     "Learn a model with hidden trees from plain sentences."),
    ("embed", embed.embed_words, embed.EMBED_EPILOG, "Learn vectors of words from plain text."),
    ("serve", serve.serve_page, serve.SERVE_EPILOG,
     "Open a page that shows what was learnt, with a JSON API."),
    ("doctor", doctor.show_installation, doctor.DOCTOR_EPILOG,
     "Show versions and folders; compile the kernels."),
):  # fmt: skip
    app.command(_name, epilog=_epilog, short_help=_summary)(_run)
app.add_typer(dependency.app, name="depend", short_help="Dependency parsers: train, parse, score.")
app.add_typer(hankel.app, name="hankel", short_help="Weighted grammars from plain strings.")
app.add_typer(lm.app, name="lm", short_help="Count text, learn language models, use them.")
app.add_typer(data.app, name="data", short_help="List and fetch open treebanks; convert your own.")


def run_command_line() -> NoReturn:
    """Run the command line and exit."""
    try:
        status = _end_of_command()
        notice.finish()
        _leave(INTERRUPTED if status and was_interrupted() else status)
    except KeyboardInterrupt:  # before anybody listened, or while another was being handled
        _leave(INTERRUPTED)


def _end_of_command() -> int:
    """Run the command; the status that it ends with."""
    # Our matrices are many and small, and --jobs has the cores: threads inside each product only
    # wait for each other, up to four times as long as the product takes.
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # read when NumPy is imported, which is later
    warnings.showwarning = show_warning
    # stand-ins for streams that were closed (`>&-`), before another file gets their numbers
    nowhere = Path(os.devnull)
    if sys.stdin is None:
        sys.stdin = nowhere.open()
    if sys.stdout is None:  # to write there must fail, not vanish
        sys.stdout = os.fdopen(os.open(nowhere, os.O_RDONLY), "w")
    if sys.stderr is None:  # print() would write to stdout instead
        sys.stderr = nowhere.open("w")
    handle_interrupts()
    announce_compiling()
    set_up_output()
    try:
        app(prog_name="sapwood")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return 0


def _leave(status: int) -> NoReturn:
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # no more exceptions
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        fail(error)
        status = FAILED
    # A thread that still waits for stdin holds its lock, and an orderly exit would crash on it.
    # After Ctrl-C, Python may end itself by a signal instead of with a status.
    if threading.active_count() > 1 or status == INTERRUPTED:
        os._exit(status)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; Python would end by the signal
    sys.exit(status)
