"""Numba kernels: one file per recursion, flat arrays in, flat arrays out.

Nothing here imports Numba; the files of the kernels do.
"""

from collections.abc import Callable

# Called with a kernel's name and True before it is compiled, and with False when it is ready.
compile_watchers: list[Callable[[str, bool], None]] = []
