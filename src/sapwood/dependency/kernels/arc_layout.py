"""What the kernels of arcs and their callers agree on; no compiled code, so quick to import.

template      up to N_ATOMS atoms, each a place and a property of a word
place         5 k + d + 2: the word d behind the k-th word of a part, d from -2 to 2;
              BETWEEN: the words between head and modifier, with N_BETWEEN properties
PLACES        words of a part by letter: head, modifier, third (sibling, or head of the head);
              for relations the modifier's neighbours among the words of its head (l, r), its own
              first and last modifier (f, e), and those of its head (o, t)
PART_KINDS         of parts
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

N_ATOMS = 6
BETWEEN, N_BETWEEN = 63, 3
PLACES = "hmslrfeot"
PART_KINDS = ("arc", "last", "none", "sibling", "grand")


class Templates(NamedTuple):
    """Templates of features as kernels read them.

    Attributes
    ----------
    atoms : [n_templates, N_ATOMS, 2]
        Place and property of each atom.
    bounds : [n_kinds + 1]
        First template of each kind of part.
    """

    atoms: npt.NDArray[np.int32]
    bounds: npt.NDArray[np.int32]
