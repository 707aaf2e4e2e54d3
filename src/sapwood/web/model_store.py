"""The models and the uploaded treebanks of a server, by name."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from threading import RLock
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.web.limits import Refusal
from sapwood.web.loaded_models import ARCS, OTHER, TEXT, TREES, LoadedModel

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree

N_KEPT = 8  # uploaded treebanks that are kept, and as many trained models
N_ERRORS = 20  # errors of a treebank that are shown
EXCERPT = 160  # characters of a broken line that are shown
LEAST_TREES = 2  # trees that a treebank needs for training
HELD_OUT = 10  # every tenth tree is held out


@dataclass(frozen=True)
class Upload:
    """An uploaded treebank: its good trees in a file of the server, and the report on it."""

    name: str
    file: Path
    report: dict[str, Any]


@dataclass
class ModelStore:
    """All models and uploaded treebanks of a server, by name.

    Attributes
    ----------
    folder
        Holds uploads and trained models; the server makes it and removes it when it stops.
    """

    folder: Path
    models: dict[str, LoadedModel] = field(default_factory=dict)
    treebanks: dict[str, Upload] = field(default_factory=dict)
    n_named: int = 0
    _lock: RLock = field(default_factory=RLock)

    def add(self, loaded: LoadedModel) -> LoadedModel:
        """Add a model, and remove the oldest trained ones beyond `N_KEPT`."""
        with self._lock:
            self.models[loaded.name] = loaded
            made = [name for name, one in self.models.items() if one.file is not None]
            for name in made[:-N_KEPT]:
                old = self.models.pop(name)
                assert old.file is not None
                old.file.unlink(missing_ok=True)  # loaded models were read into memory
        return loaded

    def get(self, name: str | None, kind: str) -> LoadedModel:
        """The model of this name, or without a name the first model of the kind.

        Raises
        ------
        Refusal
            404 where there is no such model, 422 where it is of another kind.
        """
        with self._lock:
            found = list(self.models.values())
        if name is None:
            wanted = next((loaded for loaded in found if loaded.kind == kind), None)
            if wanted is None:
                msg = f"this server has no model of {_NOUNS[kind]}"
                raise Refusal(404, msg, "start it with one: sapwood serve MODEL")
            return wanted
        wanted = self.models.get(name)
        if wanted is None:
            known = ", ".join(loaded.name for loaded in found)
            raise Refusal(404, f"there is no model {name[:80]!r} here", f"there are {known}")
        if wanted.kind != kind:
            msg = f"{name} is a model of {_NOUNS[wanted.kind]}, one of {_NOUNS[kind]} was expected"
            known = ", ".join(loaded.name for loaded in found if loaded.kind == kind)
            raise Refusal(422, msg, f"there are {known}" if known else None)
        return wanted

    def fresh_name(self, stem: str) -> str:
        """A name that no model or treebank of this server has."""
        with self._lock:
            self.n_named += 1
            return f"{stem}-{self.n_named}"

    # -- treebanks --------------------------------------------------------------------------------

    def upload(
        self, title: str, data: bytes, ask: Callable[[str, dict[str, str]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Check an uploaded treebank, and keep its good trees.

        Parameters
        ----------
        ask
            Runs the check in a process of its own, see `sapwood.web.apart`.
        """
        name = self.fresh_name("treebank")
        file = self.folder / f"{name}.mrg"
        apart = self.folder / f"{name}-upload"  # the process may be killed while it writes here
        apart.mkdir()
        try:
            sent, good = apart / "sent", apart / "good.mrg"
            sent.write_bytes(data)
            report = ask("upload", {"data": str(sent), "trees": str(good)})
            if report["trees"] < LEAST_TREES:
                return report | {"treebank": None}
            good.replace(file)
        finally:
            rmtree(apart, ignore_errors=True)
        shown = title[:80] or name
        with self._lock:
            self.treebanks[name] = Upload(name, file, report | {"title": shown})
            for old in list(self.treebanks)[:-N_KEPT]:
                self.treebanks.pop(old).file.unlink(missing_ok=True)
        return report | {"treebank": name, "title": shown}

    def find_treebank(self, name: str) -> Upload:
        """The uploaded treebank of this name; refused with 404 where there is none."""
        with self._lock:
            if name not in self.treebanks:
                msg = f"there is no treebank {name[:80]!r} here"
                raise Refusal(404, msg, "upload it again, or take `bundled`")
            return self.treebanks[name]


_NOUNS = {TREES: "trees", ARCS: "dependencies", TEXT: "text", OTHER: "another kind"}


def check_treebank(data: bytes) -> tuple[dict[str, Any], list[Tree]]:
    r"""Read the trees of a treebank, and report those that cannot be read.

    Returns
    -------
    tuple
        The report (`trees`, `words`, `labels`, the first of the `errors`, each with `line`,
        `column`, an `excerpt` of the line and `at`, the position of the error in the excerpt; and
        the number of all errors, `n_errors`), and the good trees, cleaned.

    Examples
    --------
    >>> report, trees = check_treebank(b"(S (NP (NN dogs)) (VP (VB bark)))\n(S (NP oops\n")
    >>> report["trees"], report["errors"][0]["line"]
    (1, 2)
    """
    from sapwood.corpora.formats import read_lines
    from sapwood.corpora.tree import clean

    if data[:2] == b"\x1f\x8b":
        msg = "a compressed file, expected text"
        raise SapwoodError(msg, hint="unpack it first; only the server's own files are unpacked")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = f"not UTF-8: byte {data[error.start]:#x}"
        raise CorpusError(msg, line=line, hint="save the file as UTF-8 text") from None
    skipped: list[CorpusError] = []
    trees: list[Tree] = []
    for tree in read_lines(io.StringIO(text), "treebank", skipped=skipped):
        kept = clean(tree)
        if kept is not None:
            trees.append(kept)
    lines = text.split("\n")
    labels = {node.label for tree in trees for node in tree.nodes() if not node.is_preterminal}
    report = {
        "trees": len(trees),
        "words": sum(len(tree.words()) for tree in trees),
        "labels": len(labels),
        "n_errors": len(skipped),
        "errors": [_place(error, lines) for error in skipped[:N_ERRORS]],
    }
    if not trees and not skipped:
        msg = "no tree found"
        raise CorpusError(msg, hint="trees are written in brackets: (S (NP (NN dogs)) (VP ...))")
    return report, trees


def _place(error: CorpusError, lines: list[str]) -> dict[str, Any]:
    """An error, with an excerpt of its line and the position of the error in the excerpt."""
    line = lines[error.line - 1].rstrip("\r") if error.line and error.line <= len(lines) else ""
    at = max((error.column or 1) - 1, 0)
    first = max(0, at - EXCERPT // 2)
    return {
        "error": error.message, "hint": error.hint, "line": error.line, "column": error.column,
        "excerpt": line[first : first + EXCERPT], "at": min(at - first, EXCERPT),
    }  # fmt: skip
