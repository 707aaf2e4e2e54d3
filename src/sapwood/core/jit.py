"""Where Python calls compiled code: the two decorators of all kernels.

    kernel   called from Python; what was compiled is kept on disk
    part     called from the kernels of its file only; compiled into them

Three things are seen to here, so that no kernel has to:

- Interrupts. Signals wait until a kernel, its compiling included, has returned: see `signals`. No
  kernel returns a named tuple all the same, since those are made by calling a class.
- The cache. When no folder can be written, kernels are kept in a temporary one, or in memory.
- Compiling is announced to `sapwood.core.compiling.compile_watchers`.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from sapwood.core.cold import count_call, is_interpreted
from sapwood.core.compiling import compile_watchers
from sapwood.core.signals import undisturbed

undisturbed(import_module, "numba")  # interrupted half-way, it could not be imported again
from numba import config  # noqa: E402
from numba.core import event, types  # noqa: E402
from numba.core.caching import FunctionCache  # noqa: E402
from numba.core.registry import CPUDispatcher  # noqa: E402

OPTIONS = {
    "nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None,
    "no_cfunc_wrapper": True,
}  # fmt: skip
PART_OPTIONS = OPTIONS | {"no_cpython_wrapper": True}  # a third of the time to compile
all_kernels: list[Kernel] = []


def kernel(function=None, *, fastmath=False):
    """Compile a function at its first call from Python; see this module."""
    if function is None:
        return lambda function: kernel(function, fastmath=fastmath)
    if config.DISABLE_JIT:
        return function
    made = Kernel(function, {}, OPTIONS | {"fastmath": fastmath})
    made.enable_caching()
    all_kernels.append(made)
    return made


def part(function=None, *, fastmath=False):
    """Compile a function into the kernels that call it; see this module."""
    if function is None:
        return lambda function: part(function, fastmath=fastmath)
    if config.DISABLE_JIT:
        return function
    return Part(function, {}, PART_OPTIONS | {"fastmath": fastmath})


class Kernel(CPUDispatcher):
    """A compiled function that is kept on disk and can be interrupted at any moment."""

    def __call__(self, *args):
        """Run it, compiling it first where need be; see `cold` for where there is none."""
        if not self.overloads and is_interpreted() and not self._is_kept():
            count_call()
            return undisturbed(self.py_func, *args)
        return undisturbed(super().__call__, *args)

    def _is_kept(self):
        """Whether it was compiled before, for any types of arguments."""
        try:
            return bool(self._cache._cache_file._load_index())
        except Exception:  # no folder, or whatever damaged bytes lead to
            return False

    def enable_caching(self):
        """Keep what is compiled, where a folder can be written."""
        try:
            self._cache = KernelCache(self.py_func)
        except RuntimeError:  # there is no folder to keep it in
            if _use_temporary_folder():
                self.enable_caching()

    @property
    def name(self) -> str:
        """Its file and its name."""
        return f"{self.__module__.split('.')[-1]}.{self.__name__}"


class Part(CPUDispatcher):
    """A compiled function without a way in from Python, where it runs as it is written."""

    def __call__(self, *args):
        """Run it without compiling, for tests."""
        return self.py_func(*args)

    def get_call_template(self, args, kws):
        """Compile it once for all constants that it is called with."""
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)


class KernelCache(FunctionCache):
    """A cache that never stops a computation: what cannot be read is compiled again."""

    def load_overload(self, sig, target_context):
        """What was compiled before; None where there is nothing, or nothing that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever damaged bytes lead to
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        """Keep what was compiled, where that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"compiled kernels cannot be kept in {self.cache_path} ({error.strerror})")


class _Announcer(event.Listener):
    def on_start(self, event):
        _announce(event, True)

    def on_end(self, event):
        _announce(event, False)


def _announce(event, is_start):
    dispatcher = event.data["dispatcher"]
    if isinstance(dispatcher, Kernel):
        for watch in compile_watchers:
            watch(dispatcher.name, is_start)
        if not compile_watchers and not _told:
            _tell("sapwood: compiling kernels, once for this machine, up to a minute ...")


def _tell(text):
    """Write one line for whoever waits in Python, once, where there is a place to write it."""
    _told.add(text)
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


event.register("numba:compile", _Announcer())

_told: set[str] = set()


def _warn(text):
    """Say something once."""
    if text not in _told:
        _told.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _use_temporary_folder() -> bool:
    """Turn to a temporary folder for all kernels; whether that can be tried."""
    folder = _temporary_folder()
    if folder is None or str(folder) == config.CACHE_DIR:
        _warn("compiled kernels cannot be kept: no folder can be written; set NUMBA_CACHE_DIR")
        return False
    config.CACHE_DIR = str(folder)
    _warn(f"compiled kernels are kept in {folder} only; set NUMBA_CACHE_DIR to a lasting folder")
    return True


def _temporary_folder() -> Path | None:
    """A folder of this user alone, since what lies there will be run; None where there is none."""
    user = getattr(os, "getuid", lambda: "user")()
    try:
        folder = Path(tempfile.gettempdir()) / f"sapwood-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError:
        return None
    is_safe = stat.S_ISDIR(facts.st_mode) and user in (facts.st_uid, "user")
    return folder if is_safe and not facts.st_mode & 0o022 else None
