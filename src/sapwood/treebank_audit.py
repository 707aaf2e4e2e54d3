"""`audit`: which annotations of a treebank are probably wrong, for constituents."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.execute import Engine, as_engine

if TYPE_CHECKING:
    from sapwood.auditing.findings import Audit


def audit(  # noqa: PLR0913 - what is read, where the work runs, and settings
    sources: Any,
    *,
    jobs: int = 1,
    engine: Engine | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    left_out: list[str] | None = None,
    work: str | Path | None = None,
    **settings: Any,
) -> Audit:
    """Find annotations of a treebank that are probably wrong, best first.

    Parameters
    ----------
    sources
        Files, folders or globs of trees, or trees (ours or NLTK's).
    jobs, engine
        Threads, or where the work runs; findings do not depend on it.
    format, encoding, left_out
        As `sapwood.read_trees` takes them.
    skip_bad
        Whether trees that cannot be read become findings of the kind `unreadable`.
    work
        A folder that keeps finished folds, with which an interrupted audit goes on.
    settings
        Fields of `sapwood.constituency.audit.run.AuditSettings`, such as `folds` and `fast`.
    """
    from sapwood.constituency.audit.located import locate, read_located_trees
    from sapwood.constituency.audit.run import AuditSettings, audit_trees
    from sapwood.corpora.tree import is_tree

    items = (
        list(sources) if isinstance(sources, Iterable) and not isinstance(sources, str) else None
    )
    if items and all(is_tree(item) for item in items):
        located = locate(items)
    else:
        located = read_located_trees(
            items or sources, format=format, encoding=encoding, skip_bad=skip_bad,
            left_out=left_out,
        )  # fmt: skip
    where = as_engine(engine if engine is not None else jobs)
    return audit_trees(
        located, AuditSettings(**settings), where, None if work is None else Path(work)
    )
