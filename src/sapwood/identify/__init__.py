"""Which models can be learnt from which statistics, and unmixing of those that can."""

from sapwood.identify.check import Report, check, check_map, remedy
from sapwood.identify.model.dual import einsum, solve
from sapwood.identify.model.families import Table
from sapwood.identify.model.jacobian import MomentMap

__all__ = ["MomentMap", "Report", "Table", "check", "check_map", "einsum", "remedy", "solve"]
