"""What can be learnt at all, and from how much data."""

from sapwood.identify.check import check as check
from sapwood.identify.check import check_map as check_map
from sapwood.identify.check import remedy as remedy
from sapwood.identify.dual import einsum as einsum
from sapwood.identify.dual import solve as solve
from sapwood.identify.families import Table as Table
from sapwood.identify.jacobian import MomentMap as MomentMap
from sapwood.identify.report import Report as Report
