"""The command `sapwood`: the table of commands, and their streams, errors and Ctrl-C.

Data goes to stdout, everything else to stderr. Each command has a file of its own.
"""

from __future__ import annotations

import _thread
import errno
import io
import os
import re
import select
import signal
import sys
import threading
import warnings
from math import inf
from pathlib import Path
from time import perf_counter, sleep
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from sapwood import __version__
from sapwood.cli import (
    audit,
    corpora,
    dependency,
    doctor,
    hankel,
    identify,
    lm,
    models,
    serve,
    surprisal,
)
from sapwood.cli import options as opt
from sapwood.cli.console import (
    FAILED,
    abandon,
    announce_compiling,
    clean_controls,
    display,
    echo,
    notice,
)
from sapwood.cli.constituency import compare, demo, evaluate, inspect, parse, phrases, train, use
from sapwood.cli.lm import embed
from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import remove_unfinished

EPILOG = """\b
Start here:
  sapwood demo
  echo 'Type a sentence of your own here.' | sapwood parse english --raw
  sapwood train train.mrg -o model.sapwood --dev dev.mrg
  sapwood parse model.sapwood sentences.txt > trees.mrg

\b
Data goes to stdout, everything else to stderr; - is stdin.
Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

MISUSED, INTERRUPTED = 2, 130
MEMORY_HINT = "give less data, fewer --states or fewer --jobs; for parse, a lower --memory-limit"


class Boundary(TyperGroup):
    """The group of all commands: turns errors into one line and an exit status."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments; `--help` and `--version` print here, perhaps into a broken pipe."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            abandon_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            fail(error)
            raise typer.Exit(FAILED) from None
        except Exception as error:
            refuse_usage(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error becomes one line, a hint and an exit status."""
        note_options(self)
        try:
            with display.listening():
                result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a failure can still be handled
        except BrokenPipeError:
            abandon_stdout()
            raise typer.Exit(0) from None  # the reader of stdout has closed it, which is no failure
        except KeyboardInterrupt:
            echo("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if was_interrupted():  # libraries turn the interrupt into errors of their own
                echo("interrupted")
                raise typer.Exit(INTERRUPTED) from None
            refuse_usage(error)
            is_end = isinstance(error, (typer.Exit, typer.Abort)) or hasattr(error, "exit_code")
            if ctx.params.get("debug") or is_end:
                raise
            fail(error)
            raise typer.Exit(FAILED) from None
        return result


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


opt.add_commands(
    app,
    ("demo", demo.show_demo, demo.DEMO_EPILOG,
     "Parse English, then learn a grammar, under a minute."),
    ("models", models.show_models, models.MODELS_EPILOG,
     "List the models that come with Sapwood, and their cards."),
    ("train", train.train_on_trees, train.TRAIN_EPILOG, "Learn a grammar from a treebank."),
    ("parse", parse.parse_sentences, parse.PARSE_EPILOG,
     "Parse sentences: one per line in, one tree per line out."),
    ("phrases", phrases.print_phrases, phrases.PHRASES_EPILOG,
     "Print the phrases of a text with probability and place."),
    ("evaluate", evaluate.evaluate_predicted, evaluate.EVALUATE_EPILOG,
     "Score predicted trees as EVALB does."),
    ("compare", compare.compare_methods, compare.COMPARE_EPILOG,
     "Compare methods and numbers of states."),
    ("score", use.score_file, use.SCORE_EPILOG, "Print log-probabilities of trees or sentences."),
    ("surprisal", surprisal.print_surprisal, surprisal.SURPRISAL_EPILOG,
     "Print how unexpected each word of a text is."),
    ("inspect", inspect.inspect_file, inspect.INSPECT_EPILOG, "Show what is in a model."),
    ("sample", use.draw_trees, use.SAMPLE_EPILOG, "Draw trees from a model."),
    ("audit", audit.audit_files, audit.AUDIT_EPILOG,
     "List annotations of a treebank that are probably wrong."),
    ("stats", corpora.show_statistics, corpora.STATS_EPILOG, "Show what is in a treebank."),
    ("split", corpora.split_treebank, corpora.SPLIT_EPILOG,
     "Cut a treebank into train, dev and test."),
    ("words", corpora.write_words, corpora.WORDS_EPILOG,
     "Write the sentences of a treebank, one per line."),
    ("identify", identify.identify_models, identify.IDENTIFY_EPILOG,
     "Compute whether a model can be learnt at all."),
    ("unmix", identify.unmix_sentences, identify.UNMIX_EPILOG,
     "Learn a model with hidden trees from plain sentences."),
    ("embed", embed.embed_words, embed.EMBED_EPILOG, "Learn word vectors from plain text."),
    ("serve", serve.serve_page, serve.SERVE_EPILOG,
     "Open a web page that shows what models have learnt, with a JSON API."),
    ("doctor", doctor.show_installation, doctor.DOCTOR_EPILOG,
     "Show versions and folders; compile the kernels."),
)  # fmt: skip
app.add_typer(dependency.app, name="depend", short_help="Dependency parsers: train, parse, score.")
app.add_typer(hankel.app, name="hankel", short_help="Weighted grammars from plain strings.")
app.add_typer(lm.app, name="lm", short_help="Count text, learn language models, use them.")
app.add_typer(
    corpora.app, name="data", short_help="List and fetch open treebanks; convert your own."
)


def run_command_line() -> NoReturn:
    """Run the command line and exit."""
    try:
        status = _end_of_command()
        notice.finish()
        _leave(INTERRUPTED if status and was_interrupted() else status)
    except KeyboardInterrupt:  # before the handler was set, or during another interrupt
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


class TerminalText(io.TextIOWrapper):
    """Standard output of a terminal, without control characters that come from files."""

    plain: io.TextIOWrapper  # the stream before, which closes the buffer of both if it is freed

    def write(self, text: str) -> int:
        """Write text without the control characters that a terminal would obey."""
        display.end_loading()
        return super().write(clean_controls(text, colours=True))


def set_up_output() -> None:
    """Make stdout and stderr UTF-8, whatever the locale; names that are not UTF-8 are escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        terminal = TerminalText(
            sys.stdout.buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        terminal.plain = sys.stdout
        sys.stdout = terminal


def fail(error: Exception) -> None:
    """Write an error and its hint on stderr."""
    for line in error_lines(error):
        echo(line)
    # Failures of all other files have a name by the time they get here.
    if isinstance(error, OSError) and error.filename is None and error.strerror is not None:
        abandon_stdout()


def error_lines(error: Exception) -> list[str]:
    """The message and the hint of an error, one line each."""
    hint: str | None
    if isinstance(error, SapwoodError):
        message, hint = str(error), error.hint
    elif isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        message, hint = "out of memory", MEMORY_HINT
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'cannot write to stdout'}: {error.strerror}"
        hint = "check the path, the permissions and the room on the disk"
    else:
        message = f"unexpected {type(error).__name__}: {error}"
        hint = "this is a fault of Sapwood; `sapwood --debug COMMAND ...` shows where it happened"
    lines = [f"error: {message}", f"hint: {hint}"] if hint else [f"error: {message}"]
    return [name_options(" ".join(line.split())) for line in lines]


def refuse_usage(error: Any) -> None:
    """Write a usage error as all others are written, and exit; nothing for other errors.

    Usage errors have no base class that every supported version of Typer exports. Without any
    arguments, some commands print their help as an "error", which stays as it is.
    """
    is_usage = getattr(error, "exit_code", None) == MISUSED and hasattr(error, "format_message")
    if not is_usage or type(error).__name__ == "NoArgsIsHelpError":
        return
    message = _range_message(error) or error.format_message().replace("Value error, ", "")
    message = message.removeprefix("Invalid value for ").removeprefix("Invalid value: ")
    message = re.sub(r"'(--?[\w-]+)'", r"\1", message).rstrip(".")
    command = "sapwood" if error.ctx is None else error.ctx.command_path
    hint = f"`{command} --help` says what its options take"
    if message[1:2].islower():  # a sentence of Typer's, and not the name of an argument
        message = message[0].lower() + message[1:]
    for line in (f"error: {message}", f"hint: {hint}"):
        echo(" ".join(line.split()))
    raise typer.Exit(MISUSED) from None


def _range_message(error: Any) -> str | None:
    """The number found and the range expected, for a number out of its range; else None."""
    param: Any = getattr(error, "param", None)
    cause: Any = getattr(error, "__cause__", None)
    bounds = getattr(param, "min", None), getattr(param, "max", None)
    if not hasattr(cause, "errors") or bounds == (None, None):
        return None
    least, most = bounds
    expected = "a whole number" if all(isinstance(x, int | None) for x in bounds) else "a number"
    if least is None:
        expected += f" of at most {most:g}"
    else:
        expected += f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"
    return (
        f"{error.param.get_error_hint()}: found {cause.errors()[0]['input']}, expected {expected}"
    )


# Parameters whose names would not be understood on the command line, as options; those of all
# commands are added when one is run.
_OPTIONS = {"n_states": "--states", "n_blocks": "--blocks", "n_jobs": "--jobs"}


def name_options(text: str) -> str:
    """A message of the library in which parameters have the names of options: `--min-count`."""
    pattern = "|".join(rf"(?<![\w'./-]){re.escape(name)}(?![\w'=/(-]|\.\w)" for name in _OPTIONS)
    return re.sub(pattern, lambda found: _OPTIONS[found[0]], text)


def note_options(command: Any) -> None:
    """Remember the options of a command, or of all commands of a group."""
    for one in command.params:
        if "_" in one.name and (long := [name for name in one.opts if name.startswith("--")]):
            _OPTIONS[one.name] = long[0]
    for part in getattr(command, "commands", {}).values():
        note_options(part)


def abandon_stdout() -> None:
    """Point stdout to nowhere, so that flushing it at exit cannot fail again."""
    abandon(sys.stdout)


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """One line instead of Python's two with a line of source, and a line for the hint, if any."""
    text, hint = getattr(message, "message", str(message)), getattr(message, "hint", None)
    echo(f"warning: {name_options(' '.join(text.split()))}")
    if hint:
        echo(f"hint: {hint}")


_interrupted = threading.Event()
_DROPPED = b"\0"  # no signal has this number
GRACE = 3.0  # seconds that an interrupted command has to end by itself


def handle_interrupts() -> None:
    """Make sure that Ctrl-C ends the program within seconds, whatever it is doing.

    Python raises `KeyboardInterrupt` between two byte codes, of which a kernel that runs for long
    has none; and call-backs, such as those of garbage collection, drop exceptions. So a thread of
    its own receives the signal at once. It raises exceptions that were dropped again, and ends the
    process if it is still there after a while.
    """
    reading, writing = os.pipe()

    def hear_of_dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            os.write(writing, _DROPPED)
        else:
            sys.__unraisablehook__(unraisable)

    def interrupt(number: int, frame: FrameType | None) -> None:
        _interrupted.set()
        raise KeyboardInterrupt

    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.unraisablehook = hear_of_dropped
    _thread.start_new_thread(_await_interrupt, (reading,))  # not counted among our threads
    signal.signal(signal.SIGINT, interrupt)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed; errors after that are consequences of the interrupt."""
    return _interrupted.is_set()


def _await_interrupt(reading: int) -> None:
    end = inf
    while True:
        wait = max(0.0, end - perf_counter()) if end < inf else None
        if not select.select([reading], [], [], wait)[0]:
            remove_unfinished()
            os._exit(INTERRUPTED)
        found = os.read(reading, 1)
        if found == _DROPPED:
            sleep(0.05)  # until the call-back is over
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        elif found == bytes([signal.SIGINT]):
            end = min(end, perf_counter() + GRACE)
