"""`sapwood serve`: the web page and its JSON API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sapwood.cli.console import echo, warn
from sapwood.cli.inputs import TreeReading, load_any
from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree


EXAMPLE_TREES = 5000  # that examples are looked for in

SERVE_EPILOG = """\b
Examples:
  sapwood serve --open
  sapwood serve model.sapwood other.sapwood --trees train.mrg --port 8000
  sapwood serve --project my-treebank --open
  curl -H 'Content-Type: application/json' -d '{"sentence": "The dog sleeps."}' \\
       http://127.0.0.1:8000/api/parse
"""


def serve_page(  # noqa: PLR0913 - every option of the command is an argument
    models: list[str] = typer.Argument(
        None,
        metavar="[MODEL...]",
        help="Models of trees, dependencies or text; without any, those that come with Sapwood.",
    ),
    *,
    port: int = typer.Option(
        0, min=0, max=65535, metavar="N", help="Port to listen on.", show_default="a free one"
    ),
    host: str | None = typer.Option(
        None,
        metavar="ADDRESS",
        help="Address to listen on for other machines, such as 0.0.0.0. Whoever has the address "
        "with its token can use the server. Not needed for a browser on this machine.",
        show_default="this machine only",
    ),
    open_browser: bool = typer.Option(False, "--open", help="Open the page in a browser."),
    trees: list[str] = typer.Option(
        None,
        "--trees",
        metavar="TREEBANK",
        help="Training trees of the models, from which the view States takes examples; may be "
        "repeated.",
    ),
    project: Path = typer.Option(
        None,
        "--project",
        metavar="FOLDER",
        help="Annotate trees in this folder; the page makes the project where there is none yet.",
    ),
    max_body: float = typer.Option(
        8.0, min=0.01, metavar="MB", help="Largest size of a request or upload."
    ),
    max_words: int = typer.Option(150, min=1, metavar="N", help="Words of a sentence."),
    max_sentences: int = typer.Option(500, min=1, metavar="N", help="Sentences of a request."),
    max_k: int = typer.Option(50, min=1, metavar="K", help="Trees of a k-best list."),
    max_seconds: float = typer.Option(
        20.0, min=0.1, metavar="S", help="Seconds that a request may take, waiting included."
    ),
    max_training: float = typer.Option(
        3600.0, min=1.0, metavar="S", help="Seconds that a training may take."
    ),
    max_memory: float = typer.Option(
        1024.0,
        min=256.0,
        metavar="MB",
        help="Memory of the process that answers a heavy request, such as Identify or an upload; "
        "a training may use four times as much.",
    ),
    workers: int = typer.Option(2, min=1, metavar="N", help="Requests worked on at once."),
    queue: int = typer.Option(
        32, min=0, metavar="N", help="Requests that may wait; further ones get status 503."
    ),
) -> None:
    """Open a web page that shows what models have learnt, and answer requests in JSON.

    The address is printed on stdout. Views: parse, look into states, compare, train, identify,
    language models; each has an address that can be shared. Programs use /api/..., which /docs
    describes. Nothing is loaded from the network. Ctrl-C stops the server and everything it
    started.
    """
    try:
        from sapwood.web.guard import MEGABYTE, Limits
        from sapwood.web.server import ListenAddress, run_server
    except ImportError as error:  # pragma: no cover - the extra is installed where tests run
        raise _missing(error) from error
    limits = Limits(
        body=int(max_body * MEGABYTE), words=max_words, sentences=max_sentences, k=max_k,
        seconds=max_seconds, workers=workers, queue=queue, training=max_training,
        memory=int(max_memory * MEGABYTE),
    )  # fmt: skip
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise _missing(package)
    address = ListenAddress(host, port)
    shown = partial(_tell, is_open=address.is_open, open_browser=open_browser)
    sources = partial(_read_trees, list(trees)) if trees else None
    if trees and not models:
        msg = "it goes with a MODEL that was learnt from them"
        raise typer.BadParameter(msg, param_hint="--trees")
    run_server(models or [], load_any, sources, address, limits, shown, project)


def _missing(what: object) -> SapwoodError:
    msg = f"the page needs packages that are not installed ({what})"
    return SapwoodError(msg, hint="pip install 'sapwood[web]'")


def _tell(address: str, *, is_open: bool, open_browser: bool) -> None:
    if is_open:
        message = "other machines can reach this server, without encryption"
        hint = "anyone with the address can use it; leave --host out for this machine alone"
        warn([(message, hint)])
    print(address, flush=True)
    echo("Ctrl-C stops the server")
    if open_browser:
        import webbrowser

        webbrowser.open(address)


def _read_trees(sources: list[str]) -> Sequence[Tree]:
    """The first of the trees that states are shown in."""
    reading = TreeReading(skip_bad=True)
    found: list[Tree] = []
    for source in sources:
        found += reading.clean_trees(source)[: EXAMPLE_TREES - len(found)]
    return found
