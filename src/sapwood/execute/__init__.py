"""Engines: map and sum over shards or streams, on threads or a cluster, with equal results."""

from sapwood.execute.cluster import Cluster, Traffic
from sapwood.execute.engine import (
    Engine,
    Placed,
    Stored,
    Threads,
    Windows,
    as_engine,
    map_reduce,
    ordered_map,
    peak_memory,
    resolve_jobs,
    tree_sum,
)
from sapwood.execute.processes import Processes

__all__ = [
    "Cluster",
    "Engine",
    "Placed",
    "Processes",
    "Stored",
    "Threads",
    "Traffic",
    "Windows",
    "as_engine",
    "map_reduce",
    "ordered_map",
    "peak_memory",
    "resolve_jobs",
    "tree_sum",
]
