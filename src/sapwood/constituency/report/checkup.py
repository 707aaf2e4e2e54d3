"""What Sapwood runs on: versions, threads, folders, kernels."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "numba", "safetensors", "typer", "rich", "pooch")
MISSING = "missing"


def checkup() -> dict[str, Any]:
    """What `sapwood doctor` reports, as plain data."""
    from sapwood import __version__
    from sapwood.execute import resolve_jobs

    return {
        "sapwood": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
        "threads": resolve_jobs(None),
        "cores": os.cpu_count(),
        "kernel_cache": _folder(_kernel_cache()),
        "data": _folder(_data_folder()),
    }


def _version(package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return MISSING


def _kernel_cache() -> Path | None:
    """Where Numba keeps what it compiled; None where it cannot say."""
    try:
        from sapwood.constituency.parse.kernels import coarse
    except ImportError:
        return None
    stats = getattr(coarse.fill, "stats", None)  # absent when compiling is switched off
    return Path(stats.cache_path) if stats and stats.cache_path else None


def _data_folder() -> Path | None:
    try:
        from sapwood.corpora.fetch import default_folder

        return default_folder()
    except ImportError:
        return None


def _folder(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {"folder": None, "exists": False, "writable": False}
    nearest = next((p for p in (path, *path.parents) if p.exists()), path)
    return {
        "folder": str(path),
        "exists": path.is_dir(),
        "writable": nearest.is_dir() and os.access(nearest, os.W_OK),
    }
