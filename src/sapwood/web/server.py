"""Starting and stopping a server: its socket, address and temporary folder."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import time
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import STALE_SECONDS, lock
from sapwood.web.guard import Limits
from sapwood.web.models import TREES, LoadedModel, ModelStore, models_from_files, own_models

if TYPE_CHECKING:
    import uvicorn

    from sapwood.corpora.tree import Tree

HEAD_SECONDS = 10.0  # seconds that a client has to send the head of its request
ANSWER_SECONDS = 1  # seconds that answers have to go out when the server stops
MOST_CLIENTS = 1000  # connections at once
ALL_ADDRESSES = ("0.0.0.0", "::", "")
PREFIX, LOCK = "sapwood-serve-", "lock"  # of the folders of servers; the file each has locked


@dataclass(frozen=True)
class ListenAddress:
    """The address at which a server listens.

    Attributes
    ----------
    host
        None for this machine alone.
    port
        0 for a free one.
    """

    host: str | None = None
    port: int = 0

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return self.host is not None and self.host not in {"localhost", "127.0.0.1", "::1"}

    def bind(self) -> socket.socket:
        """Open a listening socket at this address.

        Raises
        ------
        SapwoodError
            Where the address is taken or is not one of this machine.
        """
        host = self.host or "127.0.0.1"
        try:
            family = socket.getaddrinfo(host or None, self.port, type=socket.SOCK_STREAM)[0][0]
            # The protocol is named because asyncio sets TCP_NODELAY only on such sockets; without
            # it, every answer on a connection that stays open waits 40 ms for a delayed ACK.
            made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, self.port))
        except OSError as error:
            msg = f"cannot listen on {host}:{self.port}: {error.strerror or error}"
            hint = "name an address of this machine, such as 0.0.0.0 for all"
            if not isinstance(error, socket.gaierror):
                hint = "leave --port out for a free one"
            raise SapwoodError(msg, hint=hint) from error
        made.listen(128)
        return made


def address_of(address: ListenAddress, bound: socket.socket, token: str | None) -> str:
    """The URL to open in a browser."""
    port = bound.getsockname()[1]
    host = address.host or "127.0.0.1"
    if host in ALL_ADDRESSES:
        host = socket.gethostname()
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


def run_server(
    names: Sequence[str],
    load: Callable[[str], Any],
    trees: Callable[[], Sequence[Tree]] | None,
    address: ListenAddress,
    limits: Limits,
    tell: Callable[[str], None],
    project: Path | None = None,
) -> None:
    """Serve models until the process is stopped.

    Parameters
    ----------
    names
        Names of models; those that come with Sapwood are served where it is empty.
    load
        Loads the model of a name.
    trees
        Returns the trees from which examples of states are taken.
    tell
        Called with the URL when requests are answered.
    project
        The folder of a project of annotation, which may be made by the page.
    """
    token = secrets.token_urlsafe(18) if address.is_open else None
    sweep(Path(tempfile.gettempdir()))
    with (
        _cleanup_on_sigterm(),
        address.bind() as bound,
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder,
        (Path(folder) / LOCK).open("wb") as held,
    ):
        lock(held.fileno())
        store = ModelStore(Path(folder))
        for loaded in models_from_files(names, load, trees) if names else own_models(load):
            store.add(loaded)
        Thread(target=_warm, args=(store,), daemon=True).start()
        server = make_server(store, address, limits, token, project)
        tell(address_of(address, bound, token))
        server.run(sockets=[bound])  # its end removes the folder, see ServerState.stop


class _Terminated(BaseException):
    """Raised in the main thread when SIGTERM arrives."""


@contextmanager
def _cleanup_on_sigterm() -> Iterator[None]:
    """Leave the block by an error when SIGTERM arrives, and end by the signal after the block.

    The server has a handler of its own while it runs; this one is for the moments before and
    after that, in which the signal would end the process before the folder is removed.
    """

    def leave(*_: object) -> None:
        raise _Terminated

    is_main = current_thread() is main_thread()  # others cannot set handlers
    before = signal.signal(signal.SIGTERM, leave) if is_main else None
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def sweep(parent: Path) -> None:
    """Remove the folders of killed servers, whose locks nobody holds."""
    if sys.platform == "win32":  # which has no such locks, and cleans its temporary folder itself
        return
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / LOCK).open("rb") as file:
            is_old = time() - os.fstat(file.fileno()).st_mtime > STALE_SECONDS
            if is_old and not folder.is_symlink() and lock(file.fileno()):
                shutil.rmtree(folder, ignore_errors=True)


def make_server(
    store: ModelStore,
    address: ListenAddress,
    limits: Limits,
    token: str | None,
    project: Path | None = None,
) -> uvicorn.Server:
    """A server with all routes and its guard, ready to run."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from sapwood.web.app import ServerState, make_app
    from sapwood.web.guard import Guard

    class Impatient(H11Protocol):
        """Closes connections that do not send a whole request in time."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(HEAD_SECONDS, self._hurry)

        def _hurry(self) -> None:
            has_asked: object = self.cycle  # which uvicorn declares as if it were always there
            if has_asked is None:
                self.transport.close()

    names = [] if address.host is None or address.host in ALL_ADDRESSES else [address.host]
    guard = Guard(
        make_app(ServerState(store, limits, project)), limits, names=[*names, socket.gethostname()],
        takes_numbers=address.is_open, token=token,
    )  # fmt: skip
    config = uvicorn.Config(
        guard,
        http=Impatient,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=ANSWER_SECONDS,
        limit_concurrency=MOST_CLIENTS,
    )
    return uvicorn.Server(config)


def _warm(store: ModelStore) -> None:
    """Load the first grammar while the server starts."""
    first = next((loaded for loaded in store.models.values() if loaded.kind == TREES), None)
    if first is not None:
        warm(first)


def warm(loaded: LoadedModel) -> None:
    """Parse a sentence, so that the model and the compiled kernels are in memory."""
    parse = loaded.parser().parse_compiled(["the", "dog", "sleeps", "."])
    parse.k_best(2)
    loaded.atlas()
