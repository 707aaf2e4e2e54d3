"""Decisions on the findings of an audit, and corrected copies of the audited files.

A decisions file is what the report saves:

    {"sapwood": "audit decisions 2", "files": {NAME: SHA-256}, "decisions": [
        {"id", "file", "line", "tree", "decision": "accept" | "reject" | "skip",
         "annotated_tree", "suggested_tree",
         "parts": [{"decision", "kind", "edit"}, ...]}, ...]}

Without `parts`, as in files of version 1, the decision is about the whole suggested tree; with them
it is `accept` where some part is accepted, and only those parts are corrected.

Only what an accepted finding changes is replaced in a file. All other characters, line ends, the
encoding and the compression stay as they were; a file that is not the audited one is refused.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from sapwood.core.errors import CorpusError, ModelFormatError, SapwoodError, count, describe
from sapwood.core.outputs import check_output, hold_output, write_bytes

FORMAT = "audit decisions 2"
_READABLE = ("audit decisions 1", FORMAT)  # version 1 had no parts
ACCEPT, REJECT, SKIP = "accept", "reject", "skip"
MOST_PARTS_IN_PATCH = 5  # of a finding whose parts can be in a patch without the others
_PACK: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (gzip.decompress, lambda data: gzip.compress(data, mtime=0)),
    ".xz": (lzma.decompress, lzma.compress),
    ".bz2": (bz2.decompress, bz2.compress),
}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # as text files are read: all three ends
_PATCH_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LONE_RETURN = re.compile(r"\r(?!\n)")
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "id": str, "file": str, "line": int, "tree": int, "decision": str, "annotated_tree": str,
    "suggested_tree": str,
}  # fmt: skip


class DecidedPart(NamedTuple):
    """A decision on a part of a finding, and what accepting it changes; see `Part`."""

    decision: str
    kind: str
    edit: Mapping[str, Any]


@dataclass(frozen=True)
class Decision:
    """A decision on a finding, with its place, both trees, and its parts; see `Finding`."""

    id: str
    file: str
    line: int
    tree: int
    decision: str
    annotated_tree: str
    suggested_tree: str
    parts: tuple[DecidedPart, ...] = ()

    def accepted_parts(self) -> list[int] | None:
        """Places of the accepted parts; None where the whole suggested tree is accepted."""
        found = [k for k, part in enumerate(self.parts) if part.decision == ACCEPT]
        return None if len(found) == len(self.parts) else found

    def refuse(self, what: str, hint: str) -> CorpusError:
        """The error that a decision cannot be applied."""
        return CorpusError(f"decision {self.id} {what}", file=self.file, line=self.line, hint=hint)


class Replacement(NamedTuple):
    """A text that replaces some characters of a file."""

    start: int
    end: int
    text: str


class Corrected(NamedTuple):
    """A file whose findings were applied: its name, the file written, how many were accepted."""

    file: str
    out: str
    corrections: int


# The replacements that make one tree of a text the suggested one.
Correct = Callable[[str, Decision], Sequence[Replacement]]


def read_decisions(path: str | Path) -> tuple[dict[str, str], list[Decision]]:
    """The SHA-256 of each audited file, and the decisions, of a decisions file.

    Raises
    ------
    ModelFormatError
        If the file is none, or a decision lacks a field.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        hint = "name the file that the report saved"
        raise CorpusError(f"cannot read: {error.strerror}", file=str(path), hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise _not_decisions(path, "it is not JSON") from error
    if not isinstance(data, dict) or data.get("sapwood") not in _READABLE:
        found = data.get("sapwood") if isinstance(data, dict) else data
        raise _not_decisions(path, f'"sapwood" is {describe(found)}, expected {FORMAT!r}')
    files, rows = data.get("files"), data.get("decisions")
    if not isinstance(files, dict) or not isinstance(rows, list):
        raise _not_decisions(path, '"files" or "decisions" is missing')
    return {str(k): str(v) for k, v in files.items()}, [
        _decision(path, number, row) for number, row in enumerate(rows, 1)
    ]


def _decision(path: str | Path, number: int, row: object) -> Decision:
    if not isinstance(row, dict):
        raise _not_decisions(path, f"decision {number} is {describe(row)}, expected an object")
    for name, kind in _FIELDS.items():
        if not isinstance(row.get(name), kind) or isinstance(row.get(name), bool):
            raise _not_decisions(path, f'decision {number}: "{name}" is {describe(row.get(name))}')
    for name in ("id", "file"):
        if set(row[name]) & set("\0\r\n"):
            raise _not_decisions(path, f'decision {number}: "{name}" is {describe(row[name])}')
    if row["decision"] not in {ACCEPT, REJECT, SKIP}:
        raise _not_decisions(path, f"decision {number} is {describe(row['decision'])}")
    parts = row.get("parts", [])
    if not isinstance(parts, list):
        raise _not_decisions(path, f'decision {number}: "parts" is {describe(parts)}')
    made = tuple(_part(path, number, part) for part in parts)
    is_any = any(part.decision == ACCEPT for part in made)
    if made and is_any != (row["decision"] == ACCEPT):
        why = f"decision {number} is {row['decision']!r}, but its parts say something else"
        raise _not_decisions(path, why)
    return Decision(**{name: row[name] for name in _FIELDS}, parts=made)


def _part(path: str | Path, number: int, part: object) -> DecidedPart:
    if isinstance(part, dict):
        made, kind, edit = (part.get(name) for name in ("decision", "kind", "edit"))
        is_made = isinstance(made, str) and made in {ACCEPT, REJECT, SKIP}
        if is_made and isinstance(kind, str) and isinstance(edit, dict):
            return DecidedPart(str(made), kind, edit)
    raise _not_decisions(path, f"decision {number}: a part is {describe(part)}")


def _not_decisions(path: str | Path, why: str) -> ModelFormatError:
    msg = f"{path}: not a decisions file of an audit: {why}"
    return ModelFormatError(msg, hint="name the file that `Save decisions` of the report wrote")


def apply_decisions(
    files: Mapping[str, str],
    decisions: Iterable[Decision],
    correct: Correct,
    *,
    out: str | Path | None = None,
    encoding: str = "utf-8",
    force: bool = False,
) -> list[Corrected]:
    """Write the files with all accepted findings applied; every other byte stays as it was.

    Parameters
    ----------
    files, decisions
        What `read_decisions` returns.
    correct
        Gives the replacements of one decision in the text of its file.
    out
        The file to write, or where several are corrected, a folder for files of the same names;
        None replaces the files themselves.
    encoding
        The encoding of the files.
    force
        Whether files at `out` may be replaced that Sapwood did not write.

    Raises
    ------
    SapwoodError
        Where a file has changed since the audit, two corrections overlap, or a tree is not where it
        was; nothing is written then.
    """
    accepted: dict[str, list[Decision]] = {}
    for one in decisions:
        if one.decision == ACCEPT:
            accepted.setdefault(one.file, []).append(one)
    targets = _targets(list(accepted), out, force=force)
    made: dict[str, bytes] = {}
    with ExitStack() as held:  # two commands that correct one file must not undo one another
        for target in sorted(t for t in targets.values() if t.parent.is_dir()):
            held.enter_context(hold_output(target))
        for name, some in accepted.items():
            data = audited_bytes(name, files.get(name))
            text = decode_exactly(name, data, encoding)
            found = [replacement for one in some for replacement in correct(text, one)]
            made[name] = encode_exactly(name, replace_in(text, found), encoding)
        for name, data in made.items():
            write_bytes(targets[name], data, force=force or out is None)
    return [Corrected(name, str(targets[name]), len(accepted[name])) for name in made]


def _targets(names: Sequence[str], out: str | Path | None, *, force: bool) -> dict[str, Path]:
    """The file to write for each input."""
    paths = {name: _path_of(name) for name in names}
    if out is None:
        return paths
    folder = Path(out)
    if len(names) == 1 and not folder.is_dir():
        targets = {names[0]: folder}
    else:
        if names and not folder.is_dir():
            msg = f"{folder}: expected a folder, for {count(len(names), 'corrected file')}"
            raise SapwoodError(msg, hint=f"make it first: mkdir -p {folder}")
        targets = {name: folder / path.name for name, path in paths.items()}
    if len(set(targets.values())) < len(targets):
        msg = "two corrected files would have the same name"
        raise SapwoodError(msg, hint="correct them in their folders, without an output")
    for target in targets.values():
        check_output(target, inputs=paths.values(), force=force)
    return targets


def _path_of(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # a home that nobody has
        hint = "run it in the folder in which the audit ran"
        raise CorpusError("no such folder", file=name, hint=hint) from error


def audited_bytes(name: str, digest: str | None) -> bytes:
    """The bytes of an audited file; refused where its SHA-256 is another than at the audit."""
    try:
        data = _path_of(name).read_bytes()
    except OSError as error:
        hint = "run it in the folder in which the audit ran"
        raise CorpusError(f"cannot read: {error.strerror}", file=name, hint=hint) from error
    if digest is None:
        raise SapwoodError(f"{name}: not among the audited files", hint="run the audit again")
    if sha256(data).hexdigest() != digest:
        msg = f"{name}: has changed since it was audited"
        raise SapwoodError(msg, hint="run the audit again, or restore the file")
    return data


def decode_exactly(name: str, data: bytes, encoding: str) -> str:
    """The text of a file, unpacked by its ending; a byte-order mark is its first character.

    A text that would not become the same bytes again is refused.
    """
    unpack = _PACK.get(Path(name).suffix.lower())
    data = unpack[0](data) if unpack else data
    try:
        text = data.decode(encoding)
        is_same = text.encode(encoding) == data
    except (UnicodeError, LookupError) as error:
        msg = f"not {encoding} text ({error})"
        raise CorpusError(msg, file=name, hint="give the encoding of the audit") from error
    if not is_same:
        msg = f"{name}: its {encoding} text cannot be written back byte for byte"
        raise SapwoodError(msg, hint="name the exact encoding, such as utf-16-le, with --encoding")
    return text


def encode_exactly(name: str, text: str, encoding: str) -> bytes:
    """The bytes of a file with this text, packed by its ending."""
    try:
        data = text.encode(encoding)
    except UnicodeError as error:
        raise CorpusError(f"cannot be written as {encoding} ({error})", file=name) from error
    pack = _PACK.get(Path(name).suffix.lower())
    return pack[1](data) if pack else data


def replace_in(text: str, replacements: Iterable[Replacement]) -> str:
    """A text with some parts replaced, which must not overlap.

    Insertions at the same position keep their order.

    Examples
    --------
    >>> replace_in("abcd", [Replacement(3, 4, ""), Replacement(1, 1, "x"), Replacement(1, 1, "y")])
    'axybc'
    """
    parts, at = [], 0
    # an insertion goes before a deletion that starts at the same place
    for start, end, new in sorted(replacements, key=lambda one: (one.start, one.end)):
        if start < at:
            msg = "two corrections change the same characters"
            raise SapwoodError(msg, hint="accept one of them, and run the audit again")
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def line_starts(text: str) -> list[int]:
    r"""Where each line of a text starts; `\n`, `\r\n` and `\r` end lines, as readers take them.

    Examples
    --------
    >>> line_starts("a\r\nb\rc\n")
    [0, 3, 5]
    """
    return [match.start() for match in _LINE.finditer(text)]


def patch_of(text: str, replacements: Sequence[Replacement]) -> dict[str, Any] | None:
    r"""The lines that replacements change: the number of the first, the old and the new lines.

    Lines of text that a patch can hold end in `\n`; None where others are among them.

    Examples
    --------
    >>> patch_of("(A b)\n(C d)\n", [Replacement(7, 8, "X")])
    {'line': 2, 'old': ['(C d)\n'], 'new': ['(X d)\n']}
    """
    if not replacements:
        return None
    first, last = _lines_around(text, replacements)
    moved = [Replacement(one.start - first, one.end - first, one.text) for one in replacements]
    old, new = text[first:last], replace_in(text[first:last], moved)
    if _LONE_RETURN.search(old):
        return None
    return {
        "line": text.count("\n", 0, first) + 1,
        "old": _PATCH_LINE.findall(old), "new": _PATCH_LINE.findall(new),
    }  # fmt: skip


def _lines_around(text: str, replacements: Sequence[Replacement]) -> tuple[int, int]:
    """Where the lines that replacements change start and end; these lines end with a line feed."""
    start = min(one.start for one in replacements)
    end = max(max(one.end, one.start + 1) for one in replacements)
    return text.rfind("\n", 0, start) + 1, text.find("\n", end - 1) + 1 or len(text)


def patches_of_parts(text: str, decision: Decision, correct: Correct) -> dict[str, Any] | None:
    """What each part of an accepted finding replaces, and which parts can be accepted together.

    Returns
    -------
    dict
        `line` and `old`, the number of the first line and the lines that any part changes; `parts`,
        the replacements of each part as `[start, end, text]`, in characters of these lines; `sets`,
        lists of parts that can be corrected without the others, each by the replacements of its
        parts. None for a finding of one part, of too many, or where no part can be applied alone.
    """
    n = len(decision.parts)
    if not 1 < n <= MOST_PARTS_IN_PATCH:
        return None
    alone = [_accepting(decision, [k], text, correct) or [] for k in range(n)]
    every = [one for some in alone for one in some]
    if not every:
        return None
    first, last = _lines_around(text, every)
    if _LONE_RETURN.search(text, first, last):
        return None
    inside = [
        [Replacement(one.start - first, one.end - first, one.text) for one in some]
        for some in alone
    ]
    sets = []
    for size in range(1, n):
        for some in combinations(range(n), size):
            made = _accepting(decision, some, text, correct)
            if made is None or not all(inside[k] for k in some):
                continue
            moved = [Replacement(one.start - first, one.end - first, one.text) for one in made]
            with suppress(SapwoodError):  # parts that change the same characters
                together = [one for k in some for one in inside[k]]
                lines = text[first:last]
                if replace_in(lines, together) == replace_in(lines, moved):
                    sets.append(list(some))
    if not sets:
        return None
    parts = [[list(one) for one in some] for some in inside]
    line = text.count("\n", 0, first) + 1
    old = _PATCH_LINE.findall(text[first:last])
    return {"line": line, "old": old, "parts": parts, "sets": sets}


def _accepting(
    decision: Decision, accepted: Sequence[int], text: str, correct: Correct
) -> Sequence[Replacement] | None:
    """The replacements of some parts of a finding; None where these cannot be applied alone."""
    parts = tuple(
        part._replace(decision=ACCEPT if k in accepted else SKIP)
        for k, part in enumerate(decision.parts)
    )
    try:
        return correct(text, replace(decision, parts=parts))
    except SapwoodError:
        return None


def with_patches(
    findings: Iterable[dict[str, Any]], correct: Correct, *, encoding: str = "utf-8"
) -> list[dict[str, Any]]:
    """Findings as plain data, with patches where their lines can be corrected.

    `patch` is that of the whole finding, `part_patches` what `patches_of_parts` gives.
    """
    rows, texts = list(findings), dict[str, str | None]()
    for row in rows:
        name = row["file"]
        if name not in texts:
            texts[name] = None
            if Path(name).suffix.lower() in _PACK:  # a patch is of plain text
                continue
            try:
                texts[name] = decode_exactly(name, Path(name).expanduser().read_bytes(), encoding)
            except (OSError, SapwoodError):  # stdin, or a file that cannot be corrected
                continue
        text = texts[name]
        if text is None or not row.get("annotated_tree") or not row.get("suggested_tree"):
            continue
        one = Decision(decision=ACCEPT, **{k: row[k] for k in _FIELDS if k != "decision"})
        try:
            row["patch"] = patch_of(text, correct(text, one))
        except SapwoodError:
            continue
        parts = (DecidedPart(SKIP, part["kind"], part["edit"]) for part in row.get("parts", ()))
        of_parts = patches_of_parts(text, replace(one, parts=tuple(parts)), correct)
        if of_parts is not None:
            row["part_patches"] = of_parts
    return rows
