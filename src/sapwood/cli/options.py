"""Arguments and options that several commands share, and the methods and engines they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sapwood.cli.console import echo
from sapwood.core.errors import count
from sapwood.core.learner import Method, Parameter
from sapwood.core.progress import note, step

if TYPE_CHECKING:
    from sapwood.execute import Engine


# Written out, because the table itself takes longer to import than --help may take.
FORMAT_NAMES = (
    "penn", "joined", "psd", "psd-lemmas", "cess", "floresta", "sinica", "export", "tigerxml",
    "discbracket",
)  # fmt: skip
FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
FIGURE_NAMES = ", ".join(FIGURE_SUFFIXES)


def check_format(name: str | None) -> str | None:
    """The name of a format, or None; a usage error when there is none of that name."""
    if name is not None and name not in FORMAT_NAMES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(FORMAT_NAMES)}")
    return name


# name, function, examples, and the line that --help shows for it
Command = tuple[str, Callable[..., None], str, str]


def add_commands(app: typer.Typer, *commands: Command) -> None:
    """Add commands to a group, in the order of its help."""
    for name, run, epilog, summary in commands:
        app.command(name, epilog=epilog, short_help=summary)(run)


def command_group(words: str, *commands: Command) -> typer.Typer:
    """A group of commands, such as `sapwood lm`; the words are its help."""
    app = typer.Typer(help=words, no_args_is_help=True, rich_markup_mode=None)
    add_commands(app, *commands)
    return app


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A file written by `sapwood train`, or a model that comes with Sapwood: `english`, or "
        "`bundled` for a small hand-written grammar (`sapwood models` lists them).",
    ),
]
Treebanks = Annotated[
    list[str],
    typer.Argument(
        metavar="TREEBANK",
        help="Trees in Penn brackets or another --format: files (also .gz, .xz, .bz2), quoted "
        "globs, folders, or - for stdin.",
    ),
]

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        callback=check_format,
        metavar="NAME",
        help=f"Notation of the trees: {', '.join(FORMAT_NAMES)}. Rarely needed: the notation is "
        "recognised from the beginning of each file.",
        show_default="recognised",
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Encoding of the files, such as latin-1 or gb18030. Not needed for XML that names it.",
    ),
]
KeepFunctions = Annotated[
    bool,
    typer.Option(
        "--keep-functions",
        help="Keep function tags: NP-SBJ stays apart from NP. Not for small treebanks, which then "
        "have too few trees for each label.",
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Skip and count trees that cannot be read, instead of stopping at the first. Look at "
        "one of them first.",
    ),
]

ArcFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES",
        help="CoNLL-U: files (also .gz, .xz, .bz2), quoted globs, folders, or - for stdin.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="OUT",
        help="Write here instead of to stdout (-); the file appears when it is complete.",
        show_default="stdout",
    ),
]
ArcEncoding = Annotated[
    str, typer.Option(metavar="NAME", help="Encoding of the files, such as latin-1.")
]
SkipBadArcs = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Skip and count sentences that cannot be read, instead of stopping at the first. "
        "Look at one of them first.",
    ),
]

Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="FILE is ordinary text: find its sentences, and tokenise them like the model's "
        "treebank. Not for tokenised text.",
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Like --raw, but tokenise with your own Python function, which maps a sentence to a "
        "list of words; MODULE may be in the current folder. The function is executed: use "
        "only code that you trust.",
    ),
]
Splitter = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="With --raw: find sentences with your own Python function, which maps a paragraph to "
        "a list of sentences. The function is executed, like that of --tokenizer.",
    ),
]
OnePerLine = Annotated[
    bool,
    typer.Option(
        "--one-per-line",
        help="With --raw: each line is one sentence, and empty lines stay empty. Not for "
        "paragraphs.",
    ),
]
Tokens = Annotated[
    Literal["penn", "ud"] | None,
    typer.Option(
        help="With --raw: tokenise like Penn treebanks (-LRB-, ``) or like Universal Dependencies "
        "(brackets and quotes unchanged, words split at hyphens). Rarely needed: the model "
        "file records the convention of its treebank.",
        show_default="as recorded in the model file",
    ),
]

ModelFile = Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="The model file.")]
Json = Annotated[bool, typer.Option("--json", help="Write the report as JSON, for programs.")]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=0,
        metavar="N",
        help="Threads, or processes to start (see --engine); 0 means all cores. Results do not "
        "depend on it.",
    ),
]
GIVEN_OPTIONS = {name: ("encoder",) for name in ("--encoder", "--vectors", "--include-encoder")}
TrainingEncoder = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        metavar="FOLDER",
        help="A pretrained encoder from the Hugging Face hub (config.json, tokenizer.json, "
        "model.safetensors): the networks read its word vectors beside their own. Not for a "
        "language that it was not trained on.",
    ),
]
VectorsFile = Annotated[
    Path | None,
    typer.Option(
        "--vectors",
        metavar="FILE",
        help="Static word vectors in place of an encoder: text of word2vec, fastText or GloVe, or "
        "safetensors. An encoder is more accurate, where there is one.",
    ),
]
IncludeEncoder = Annotated[
    Literal["8", "16"] | None,
    typer.Option(
        help="Store the encoder, or the word vectors, in the model file, with 8 or 16 bits a "
        "weight, so that parsing needs no other file. Not where the licence of the encoder "
        "forbids redistribution.",
        show_default="the model file only names the encoder",
    ),
]
ParsingEncoder = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        metavar="FOLDER",
        help="Folder of the encoder, or file of the word vectors, that the model was trained "
        "with. Not for a model that contains them.",
        show_default="SAPWOOD_ENCODER, else the place at training time",
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Seed of the random numbers."),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a file that Sapwood did not write; look at it first.",
    ),
]
Member = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="K",
        help="Show member K of an ensemble, counted from 1. Only for ensembles.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=f"Also draw a figure ({FIGURE_NAMES}). Not without Matplotlib: pip install "
        "matplotlib.",
    ),
]


EngineOption = Annotated[
    Literal["threads", "dask"] | None,
    typer.Option(
        help="Where the work runs: threads of this process, or Dask processes, on this machine or "
        "on the cluster of --scheduler (pip install distributed). Results do not depend on "
        "it. Not dask for one machine: threads share their memory.",
        show_default="threads, or dask with --scheduler",
    ),
]
StreamEngineOption = Annotated[
    Literal["processes", "threads", "dask"] | None,
    typer.Option(
        help="Where the work runs: forks of this process, which share its memory; its threads, "
        "which are slower for short sentences; or Dask processes, on this machine or on the "
        "cluster of --scheduler (pip install distributed). Results do not depend on it.",
        show_default="processes, or dask with --scheduler; threads on systems other than Linux",
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the Dask cluster with the scheduler at this address, such as "
        "tcp://10.0.0.1:8786. The workers need the same version of Sapwood.",
    ),
]
OnDiskOption = Annotated[
    Path | None,
    typer.Option(
        "--on-disk",
        metavar="FOLDER",
        help="Keep the trees, and data derived from them, in files in this folder while training: "
        "for treebanks larger than memory. The model is the same. Dask workers must reach "
        "the folder. Not for best and crf, which hold charts of all sentences.",
    ),
]


TIME_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float | None:
    """The seconds of a budget such as `90s`, `5m` or `1.5h`; None for `none`.

    Examples
    --------
    >>> parse_duration("90s"), parse_duration("5m"), parse_duration("none")
    (90.0, 300.0, None)
    """
    if text == "none":
        return None
    number, unit = (text[:-1], text[-1:]) if text[-1:] in TIME_UNITS else (text, "s")
    try:
        seconds = float(number) * TIME_UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < inf:
        msg = f"{text!r} is not a duration: give a number with s, m or h, such as 90s, or none"
        raise typer.BadParameter(msg, param_hint="--budget")
    return seconds


@contextmanager
def open_engine(
    name: str | None, scheduler: str | None, jobs: int, spill: Path | None = None
) -> Iterator[Engine]:
    """The engine that `--engine`, `--scheduler` and `--jobs` name; closed at the end.

    Intermediate results are kept in the folder `spill`, if given. Finished shards are events of
    progress. At the end, the traffic of a cluster is written on stderr.
    """
    if name in ("threads", "processes") and scheduler:
        raise typer.BadParameter("a scheduler is for --engine dask", param_hint="--scheduler")
    from sapwood.execute import Cluster, Processes, Threads

    if name == "dask" or scheduler:
        with step("starting workers" if scheduler is None else f"connecting to {scheduler}"):
            engine: Engine = Cluster(scheduler, jobs, spill=spill)
    else:
        engine = (Processes if name == "processes" else Threads)(jobs, spill=spill)
    with closing(engine):
        engine.report = partial(note, unit="shard")
        yield engine
        if isinstance(engine, Cluster):
            sent = engine.traffic
            parts = {
                "placed": sent.placed, "sent to all": sent.common,
                "sent one by one": sent.streamed, "returned": sent.returned,
            }  # fmt: skip
            megabytes = (f"{what} {n / 1e6:,.1f} MB" for what, n in parts.items() if n)
            echo("  ".join([f"    dask: {count(engine.jobs, 'thread')}", *megabytes]))


@contextmanager
def open_folder(parent: Path | None) -> Iterator[Path | None]:
    """A working folder inside another, removed at the end; None where none is requested."""
    if parent is None:
        yield None
        return
    from sapwood.core.outputs import working_folder

    folder = working_folder(parent, "sapwood-")
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


# option: the parameters that it sets; others are the same for all methods
TREE_OPTIONS = {
    "--states": ("n_states",), "--budget": ("budget",), "--iterations": ("iterations", "passes"),
    "--patience": ("patience",), "--checkpoint": ("checkpoint",), **GIVEN_OPTIONS,
}  # fmt: skip


def known_method(name: str, methods: Mapping[str, Method], option: str | None = None) -> str:
    """The name of a method; a usage error that lists the methods where it is none of them."""
    if name not in methods:
        msg = f"{name!r} is not one of the methods: {', '.join(methods)}"
        raise typer.BadParameter(msg, param_hint=option)
    return name


def describe_methods(methods: Mapping[str, Method]) -> str:
    """The methods with what they do, for help texts."""
    return "; ".join(f"{name} ({method.summary})" for name, method in methods.items())


def method_option(default: str, methods: Mapping[str, Method]) -> Any:
    """The option `--method`, whose help says what each method does; `known_method` checks it."""
    return typer.Option(default, "--method", metavar="METHOD", help=f"{describe_methods(methods)}.")


def parameter_option(default: object, declared: Parameter, more: str = "", **how: Any) -> Any:
    """An option for a declared parameter, with its range and help, and `more` words of help."""
    domain = declared.domain
    text = f"{declared.words} {more}".strip()
    return typer.Option(default, min=domain.least, max=domain.most, help=text, **how)


def refuse_what_does_not_apply(
    methods: Mapping[str, Method],
    options: Mapping[str, tuple[str, ...]],
    method: str,
    given: Mapping[str, Any],
) -> None:
    """Refuse unknown methods, options that do not apply to the method, and values out of range.

    Parameters
    ----------
    options
        The parameters that each option sets, where a method has them.
    given
        Values of options; None for those that were left out.
    """
    known_method(method, methods, "--method")
    for name in [name for name, value in given.items() if value is not None]:
        domains = methods[method].domains(options[name])
        if not domains:
            users = [x for x in methods if methods[x].domains(options[name])]
            msg = f"it does not apply to --method {method}; it applies to {', '.join(users)}"
            raise typer.BadParameter(msg, param_hint=name)
        for domain in domains:
            if isinstance(given[name], int) and given[name] not in domain:
                msg = f"it must be {domain.words.removeprefix('None or ')} for --method {method}"
                raise typer.BadParameter(msg, param_hint=name)
