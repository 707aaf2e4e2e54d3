"""`audit` and `audit_arcs`: which annotations of a treebank are probably wrong.

The one takes phrase trees, the other dependency trees.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import SapwoodTypeError, describe
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
        A folder that keeps finished folds, with which an interrupted audit continues.
    settings
        Fields of `sapwood.constituency.audit.run.AuditSettings`, such as `folds` and `fast`.
    """
    from sapwood.constituency.audit.located import locate, read_located_trees
    from sapwood.constituency.audit.run import AuditSettings, audit_trees
    from sapwood.corpora.tree import is_tree
    from sapwood.dependency.data.bank import ArcBank, Arcs

    items = _items(sources)
    if isinstance(sources, ArcBank) or (items and isinstance(items[0], Arcs)):
        msg = f"{describe(sources)} holds dependency trees, expected phrase trees"
        raise SapwoodTypeError(msg, hint="`sapwood.audit_arcs` takes dependency trees")
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


def audit_arcs(
    sources: Any,
    *,
    jobs: int = 1,
    engine: Engine | None = None,
    encoding: str = "utf-8",
    skip_bad: bool = False,
    left_out: list[str] | None = None,
    work: str | Path | None = None,
    **settings: Any,
) -> Audit:
    """Find heads, relations and universal tags of dependency trees that are probably wrong.

    Parameters
    ----------
    sources
        Files, folders or globs of CoNLL-U, an `ArcBank`, or several `Arcs`.
    jobs, engine
        Threads, or where the work runs; findings do not depend on it.
    encoding, left_out
        As `sapwood.read_arcs` takes them.
    skip_bad
        Whether sentences that cannot be read become findings of the kind `unreadable`.
    work
        A folder that keeps finished folds, with which an interrupted audit continues.
    settings
        Fields of `sapwood.dependency.audit.run.ArcAuditSettings`, such as `folds` and `fast`.
    """
    from sapwood.corpora.tree import is_tree
    from sapwood.dependency.audit.located import locate_arcs, read_located
    from sapwood.dependency.audit.run import ArcAuditSettings, audit_sentences
    from sapwood.dependency.data.bank import ArcBank, Arcs

    items = None if isinstance(sources, ArcBank) else _items(sources)
    if items and is_tree(items[0]):
        msg = f"{describe(sources)} holds phrase trees, expected dependency trees"
        raise SapwoodTypeError(msg, hint="`sapwood.audit` takes phrase trees")
    if isinstance(sources, ArcBank) or (items and all(isinstance(one, Arcs) for one in items)):
        located = locate_arcs(items or sources)
    else:
        located = read_located(
            items or sources, encoding=encoding, skip_bad=skip_bad, left_out=left_out
        )
    where = as_engine(engine if engine is not None else jobs)
    return audit_sentences(
        located, ArcAuditSettings(**settings), where, None if work is None else Path(work)
    )


def _items(sources: Any) -> list[Any] | None:
    """What may be several sources or trees, as a list; None for one source."""
    is_many = isinstance(sources, Iterable) and not isinstance(sources, str)
    return list(sources) if is_many else None
