"""Who is told when a kernel is compiled. Importing this module does not import Numba."""

from collections.abc import Callable

# Called with a kernel's name and True before it is compiled, and with False when it is ready.
compile_watchers: list[Callable[[str, bool], None]] = []
