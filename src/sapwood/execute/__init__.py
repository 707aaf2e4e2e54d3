"""Where work runs: over shards or streams, on one thread or several, with the same result."""

from sapwood.execute.parallel import map_reduce, ordered_map, resolve_jobs

__all__ = ["map_reduce", "ordered_map", "resolve_jobs"]
