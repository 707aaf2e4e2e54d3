"""The two decorators of compiled kernels.

    kernel   called from Python; the compiled code is cached on disk
    part     called from kernels of the same file only; compiled into them

Three things happen around every kernel, so that no kernel has to see to them:

- A call of a compiled kernel runs no byte code, so that handlers of signals run when the kernel
  has returned. An exception from a handler inside the call would be lost, turn into another one, or
  end the process. No kernel returns a named tuple, since those are made by calling a class.
- A kernel's first call compiles or loads it, which runs byte code: signals wait (`defer_signals`).
- When no folder can be written, compiled code is cached in a temporary one, or in memory.
- Compilation is announced to `compile_watchers`.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import warnings
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path

from sapwood.core.compiling import (
    compile_watchers,
    defer_signals,
    kernel_calls,
    may_interpret,
)

defer_signals(import_module, "numba")  # interrupted half-way, it could not be imported again
import numpy as np  # noqa: E402
from numba import config  # noqa: E402
from numba.core import event, serialize, types  # noqa: E402
from numba.core.caching import FunctionCache  # noqa: E402
from numba.core.registry import CPUDispatcher  # noqa: E402

OPTIONS = {
    "nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None,
    "no_cfunc_wrapper": True,
}  # fmt: skip
PART_OPTIONS = OPTIONS | {"no_cpython_wrapper": True}  # a third of the time to compile
all_kernels: list[Kernel] = []


def kernel(function=None, *, fastmath=False):
    """Compile a function at its first call from Python, and cache the compiled code on disk."""
    if function is None:
        return lambda function: kernel(function, fastmath=fastmath)
    if config.DISABLE_JIT:
        return function
    made = Kernel(function, {}, OPTIONS | {"fastmath": fastmath})
    made.enable_caching()
    all_kernels.append(made)
    return made


def part(function=None, *, fastmath=False):
    """Compile a function into the kernels of the same file that call it."""
    if function is None:
        return lambda function: part(function, fastmath=fastmath)
    if config.DISABLE_JIT:
        return function
    return Part(function, {}, PART_OPTIONS | {"fastmath": fastmath})


class Kernel(CPUDispatcher):
    """A compiled function that is cached on disk and can be interrupted at any moment."""

    def _compile_for_args(self, *args):
        """The function to call where no compiled code fits: compiled, or the plain one."""
        if not self.overloads and kernel_calls.is_short and may_interpret(self._is_kept):
            kernel_calls.n_calls += 1
            return np.errstate(all="ignore")(self.py_func)  # hashes overflow; kernels never warn
        return partial(defer_signals, defer_signals(super()._compile_for_args, *args))

    def _is_kept(self):
        """Whether the kernel was compiled before, for any types of arguments."""
        try:
            return bool(self._cache._cache_file._load_index())
        except Exception:  # no folder, or whatever damaged bytes lead to
            return False

    def enable_caching(self):
        """Cache the compiled code, where a folder can be written."""
        try:
            self._cache = KernelCache(self.py_func)
        except RuntimeError:  # there is no folder for it
            if _use_temporary_folder():
                self.enable_caching()

    @property
    def name(self) -> str:
        """The kernel's file and function, for messages."""
        return f"{self.__module__.split('.')[-1]}.{self.__name__}"


# Compiled code calls `_numba_unpickle` for the type of every array that it returns. Cached, it runs
# byte code only in the first call of a kernel. Numba looks the function up once in a process: where
# other compiled code has returned an array before, or where a later version of Numba has no such
# function, signals have to wait around every call.
if hasattr(serialize, "_numba_unpickle") and not getattr(serialize, "_unpickled_memo", True):
    serialize._numba_unpickle = lru_cache(maxsize=None)(serialize._numba_unpickle)
else:
    Kernel.__call__ = lambda kernel, *args: defer_signals(CPUDispatcher.__call__, kernel, *args)


class Part(CPUDispatcher):
    """A compiled function that only kernels call; Python runs it uncompiled."""

    def __call__(self, *args):
        """Run the function without compiling it, for tests."""
        return self.py_func(*args)

    def get_call_template(self, args, kws):
        """Compile the function once for all constants that it is called with."""
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)


class KernelCache(FunctionCache):
    """A cache that never stops a computation: a file that cannot be read is compiled again."""

    def load_overload(self, sig, target_context):
        """Compiled code from the cache; None where there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever damaged bytes lead to
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        """Write compiled code to the cache, where that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"compiled kernels cannot be kept in {self.cache_path} ({error.strerror})")


class _Announcer(event.Listener):
    def on_start(self, event):
        self.announce(event, True)

    def on_end(self, event):
        self.announce(event, False)

    def announce(self, event, is_start):
        """Tell the watchers, or without any one line of stderr, which kernel is compiled."""
        dispatcher = event.data["dispatcher"]
        if not isinstance(dispatcher, Kernel):
            return
        for watch in compile_watchers:
            watch(dispatcher.name, is_start)
        if not compile_watchers and not _shown:
            text = (
                "sapwood: compiling kernels, once for this machine; some seconds for most calls, "
                "up to two minutes for all kernels ..."
            )
            _shown.add(text)
            if sys.stderr is not None:
                with suppress(OSError, ValueError):
                    print(text, file=sys.stderr, flush=True)


event.register("numba:compile", _Announcer())

_shown: set[str] = set()  # messages, each of which is shown once


def _warn(text):
    """Show a warning the first time that it is given."""
    if text not in _shown:
        _shown.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _use_temporary_folder() -> bool:
    """Cache all kernels in a temporary folder from now on; whether that can be tried."""
    folder = _temporary_folder()
    if folder is None or str(folder) == config.CACHE_DIR:
        _warn("compiled kernels cannot be kept: no folder can be written; set NUMBA_CACHE_DIR")
        return False
    config.CACHE_DIR = str(folder)
    _warn(f"compiled kernels are kept in {folder} only; set NUMBA_CACHE_DIR to a lasting folder")
    return True


def _temporary_folder() -> Path | None:
    """A folder of this user alone, since its files will be run; None where there is none."""
    user = getattr(os, "getuid", lambda: "user")()
    try:
        folder = Path(tempfile.gettempdir()) / f"sapwood-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError:
        return None
    is_safe = stat.S_ISDIR(facts.st_mode) and user in (facts.st_uid, "user")
    return folder if is_safe and not facts.st_mode & 0o022 else None
