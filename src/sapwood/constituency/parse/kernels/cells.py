"""Cells of charts, for the kernels of all files.

Numba's cache does not see edits in other files than a kernel's own, so nothing may be shared but
what never changes.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.arrays import cell
from sapwood.core.jit import part

_cell = part(cell)


@part
def cell_of(i, j, n):
    """Number of the span [i, j) of n words, unsigned: it needs no check for negative indices."""
    return np.uint64(_cell(i, j, n))
