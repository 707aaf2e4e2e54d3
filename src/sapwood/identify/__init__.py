"""What can be learnt at all, and from how much data."""

from sapwood.identify.check import check, check_map, remedy
from sapwood.identify.dual import einsum, solve
from sapwood.identify.families import Table
from sapwood.identify.jacobian import MomentMap
from sapwood.identify.report import Report

__all__ = ["MomentMap", "Report", "Table", "check", "check_map", "einsum", "remedy", "solve"]
