"""Open corpora: which there are, and fetching one.

Fetching downloads, verifies, converts, and writes one ready-made file for each split:

    HOME/downloads/NAME/...   the originals, each kept only when its checksum is right
    HOME/NAME/train.mrg ...   what the readers take; every file is written whole or not at all
    HOME/NAME/fetched.json    written last, when all files are complete

Trees are written as published, one on a line: traces and function tags are kept, and are removed
when a model is trained (`sapwood.corpora.tree`). Only wrappers and codes of Penn-historical files,
and lemmas, are dropped, since they are not part of the tree. `registry_data/corpora.tsv` lists the
corpora, one on a line, and `NAME.tsv` lists the files of one with path, SHA-256, bytes and split.
Where the checksums of the originals are not known, both are `-`, and lines with the path `=` have
the SHA-256 and bytes of the file that is written for a split; of CoNLL-U only the columns that
Sapwood learns from count (`basic_columns`).
"""

from __future__ import annotations

import difflib
import hashlib
import io
import json
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cache
from http.client import responses
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from sapwood.core.errors import CorpusError, SapwoodError, SapwoodWarning, count
from sapwood.core.outputs import check_output, find_target, new_file
from sapwood.corpora import formats
from sapwood.corpora.formats import read_lines

WHOLE = "all"  # the split of a corpus that comes without one
RAW = "raw"  # the only "split" of a corpus that is unpacked as it is
_ORDER = ("train", "dev", "test", WHOLE, RAW)
_DAMAGED = "Sapwood is not installed as it should be: install it again"
_COLUMNS = (
    "name", "title", "kind", "format", "encoding", "members", "ranges", "licence", "source",
    "base_url", "note",
)  # fmt: skip
_ABSENT = "-"  # an empty field of a table
_WRITTEN = "="  # the path, in the table of a corpus, of what is written for a split
Skipped = list[CorpusError]
Convert = Callable[[str, str, Skipped], Iterator[str]]
_HEAD = re.compile(r"\d{1,9}")  # int() refuses digits by the thousand
Progress = Callable[[int, int, str], None]
N_WORKERS = 4
N_TRIES = 2
TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two packets
STAMP = "fetched.json"
VERSION = 2  # raise it when a converter changes, so that corpora are written anew


@dataclass(frozen=True)
class RemoteFile:
    """One file of a corpus, `path` below the base address.

    An archive, whose members are split by name, has the split `all`.
    """

    path: str
    sha256: str  # empty where it is not known: then what is written has a checksum
    size: int
    split: str = WHOLE


@dataclass(frozen=True)
class SplitRange:
    """The members of an archive in one split: stems from `first` to `last`, both included."""

    split: str
    first: str
    last: str

    def __contains__(self, stem: str) -> bool:
        return self.first <= stem <= self.last


@dataclass(frozen=True)
class CorpusEntry:
    """One corpus that can be fetched."""

    name: str  # what the user types
    title: str
    kind: str  # `trees`, `dependencies` or `text`
    format: str  # of the originals: a key of `CONVERTERS`, or `raw`
    base_url: str  # the address that the paths of `files` continue
    files: tuple[RemoteFile, ...]
    licence: str = ""
    source: str = ""  # a page for people
    members: str = ""  # of zip archives: the pattern of the members to read
    ranges: tuple[SplitRange, ...] = ()  # of zip archives: how members are split
    encoding: str = "utf-8"
    note: str = ""  # what one should know before fetching
    # the written files of splits, with their checksums, where those of originals are not known
    written: tuple[RemoteFile, ...] = ()

    @property
    def size(self) -> int:
        """Number of bytes to download; where that is not known, of the trees that are written."""
        return sum(file.size for file in self.files) or sum(file.size for file in self.written)

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, train first."""
        if self.format == RAW:
            return (RAW,)
        parts: Iterable[RemoteFile | SplitRange] = self.ranges or self.files
        splits = {part.split for part in parts}
        usual = [split for split in _ORDER if split in splits]
        return (*usual, *sorted(splits.difference(usual)))

    def split_of(self, stem: str) -> str | None:
        """The split of an archive's member; None when it belongs to none."""
        if not self.ranges:
            return WHOLE
        return next((part.split for part in self.ranges if stem in part), None)

    def as_dict(self) -> dict[str, Any]:
        """The entry as a dictionary for JSON."""
        return {
            "name": self.name, "title": self.title, "kind": self.kind, "bytes": self.size,
            "n_files": len(self.files), "splits": list(self.splits), "licence": self.licence,
            "source": self.source, "note": self.note,
        }  # fmt: skip


def list_corpora() -> list[CorpusEntry]:
    """All corpora of the registry, in its order.

    Examples
    --------
    >>> [entry.name for entry in list_corpora() if entry.kind == "text"]
    ['brown']
    """
    return list(_registry())


def find_corpus(name: str) -> CorpusEntry:
    """The corpus of that name; capitals and the kind of dash do not matter.

    Examples
    --------
    >>> find_corpus("UD_French_Sequoia").splits
    ('train', 'dev', 'test')
    """
    known = {_plain(entry.name): entry for entry in _registry()}
    entry = known.get(_plain(name))
    if entry is not None:
        return entry
    keys = difflib.get_close_matches(_plain(name), known, n=3, cutoff=0.5)
    near = [known[key].name for key in keys]
    names = near or [entry.name for entry in known.values()]
    lead = "did you mean" if near else "known are"
    msg = f"no corpus is called {name!r}; {lead} {', '.join(names)}{'?' if near else ''}"
    raise SapwoodError(msg, hint="`sapwood data list` shows all corpora")


@cache
def _registry() -> tuple[CorpusEntry, ...]:
    return tuple(_entry(row) for row in _rows("corpora", len(_COLUMNS)))


def _entry(row: list[str]) -> CorpusEntry:
    facts: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    facts = {name: "" if field == _ABSENT else field for name, field in facts.items()}
    facts["ranges"] = tuple(map(_range, facts["ranges"].split()))
    files = []
    for path, digest, size, split in _rows(facts["name"], 4):
        is_known = (digest, size) != (_ABSENT, _ABSENT)
        if is_known and not (size.isascii() and size.isdecimal()):
            raise CorpusError(f"{path} has {size!r} bytes, expected a number", hint=_DAMAGED)
        known = (digest, int(size)) if is_known else ("", 0)
        files.append(RemoteFile(path, *known, WHOLE if split == "*" else split))
    written = tuple(file for file in files if file.path == _WRITTEN)
    originals = tuple(file for file in files if file.path != _WRITTEN)
    checked = {file.split for file in written}
    for file in originals:
        if not file.sha256 and file.split not in checked:
            msg = f"neither {file.path} nor the split {file.split} has a checksum"
            raise CorpusError(msg, hint=_DAMAGED)
    return CorpusEntry(**facts, files=originals, written=written)


def _range(text: str) -> SplitRange:
    """The files of a split, written as `train:a_01..a_99`."""
    parts = re.split(r":|\.\.", text)
    if len(parts) != len(fields(SplitRange)):
        raise CorpusError(f"{text!r} is no range of files of a split", hint=_DAMAGED)
    return SplitRange(*parts)


def _rows(name: str, n_fields: int) -> Iterator[list[str]]:
    file = f"{name}.tsv"
    try:
        table = files("sapwood.corpora").joinpath("registry_data", file)
        text = table.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        msg = f"a table of the registry cannot be read: {error}"
        raise CorpusError(msg, file=file, hint=_DAMAGED) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line.startswith("#"):
            row = line.split("\t")
            if len(row) != n_fields:
                msg = f"expected {n_fields} fields, found {len(row)}"
                raise CorpusError(msg, file=file, line=number, hint=_DAMAGED)
            yield row


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def convert_trees(format: str) -> Convert:
    """A converter from a format of `sapwood.corpora.formats` to brackets, one tree on a line."""

    def convert(text: str, name: str, skipped: Skipped) -> Iterator[str]:
        for tree in read_lines(io.StringIO(text), name, format, skipped=skipped):
            yield f"{tree}\n"

    return convert


def convert_dp(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Convert lines `word tag head`, with blank lines between sentences, to CoNLL-U."""
    position = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            if position:
                yield "\n"
            position = 0
            continue
        fields = line.strip().split("\t" if "\t" in line.strip() else None)
        if len(fields) != 3 or not _HEAD.fullmatch(fields[2].strip()):
            msg = f"expected word, tag and head, found {line.strip()[:80]!r}"
            raise CorpusError(msg, file=name, line=number)
        word, tag, head = (field.strip() for field in fields)
        position += 1
        relation = "root" if int(head) == 0 else "dep"
        yield f"{position}\t{word}\t_\t{tag}\t{tag}\t_\t{int(head)}\t{relation}\t_\t_\n"
    if position:
        yield "\n"


def convert_tagged(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Pass on sentences of `word/tag`, one per line, with single blanks."""
    return (" ".join(line.split()) + "\n" for line in text.split("\n") if line.strip())


def convert_conllu(text: str, name: str, skipped: Skipped) -> Iterator[str]:
    """Pass CoNLL-U on unchanged."""
    yield text


CONVERTERS: dict[str, tuple[Convert, str]] = {
    name: (convert_trees(name), ".mrg") for name in formats.FORMATS
} | {
    "dp": (convert_dp, ".conllu"),
    "conllu": (convert_conllu, ".conllu"),
    "tagged": (convert_tagged, ".tagged"),
}


def fetch(
    name: str | CorpusEntry,
    folder: str | Path | None = None,
    *,
    base_url: str | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Download a corpus unless it has been downloaded, and return its files by split.

    Files that were downloaded before an interruption are not downloaded again.

    Parameters
    ----------
    folder
        Where corpora are kept; None means `default_folder()`.
    progress
        Called as `progress(n_done, n_files, path)` after each download.
    force
        Whether files in the corpus's folder may be replaced that Sapwood did not write.

    Returns
    -------
    dict
        For example `{"train": .../craft/train.mrg, "dev": ..., "test": ...}`; `all` when the corpus
        has no split, `raw` with a folder when it is only unpacked.

    Raises
    ------
    SapwoodError
        When no corpus has that name.
    CorpusError
        When the server cannot be reached or lacks a file, a checksum is wrong, an original cannot
        be read, or the folder cannot be written.
    """
    entry = name if isinstance(name, CorpusEntry) else find_corpus(name)
    home = default_folder() if folder is None else Path(folder).expanduser()
    ready = home / entry.name
    with _explain_disk(home):
        written = _already_there(entry, ready)
        if written is None:
            force = force or (ready / STAMP).exists()  # all of it is ours
            if not force:
                _refuse_foreign(entry, ready)
            base = (base_url or entry.base_url).rstrip("/")
            originals = _download_all(entry, home / "downloads" / entry.name, base, progress)
            ready.mkdir(parents=True, exist_ok=True)
            written = _unpack(entry, originals, ready) or _convert(entry, originals, ready)
            sizes = {split: (path.name, _size(path)) for split, path in written.items()}
            stamp = {"fingerprint": _fingerprint(entry), "files": sizes}
            with new_file(find_target(ready / STAMP)) as part:
                part.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    return written


def default_folder() -> Path:
    """The folder that `SAPWOOD_HOME` names, else the user's cache folder of this platform."""
    home = os.environ.get("SAPWOOD_HOME")
    if home:
        return Path(home).expanduser()
    import pooch

    return Path(pooch.os_cache("sapwood"))


def _already_there(entry: CorpusEntry, folder: Path) -> dict[str, Path] | None:
    """The files of an earlier, complete run; None when any is missing, changed or out of date."""
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        sizes = {split: (folder / file, size) for split, (file, size) in stamp["files"].items()}
        if stamp["fingerprint"] == _fingerprint(entry) and all(
            _size(path) == size for path, size in sizes.values()
        ):
            return {split: path for split, (path, _) in sizes.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # no stamp, or a damaged one: the corpus is written again from the kept downloads
    return None


def _refuse_foreign(entry: CorpusEntry, folder: Path) -> None:
    """Refuse, before anything is downloaded, to replace files that Sapwood did not write."""
    if entry.format == RAW:
        if (folder / RAW).exists():
            msg = "is there, and Sapwood did not finish it"
            hint = "choose another folder; --force (in Python force=True) replaces it"
            raise CorpusError(msg, file=str(folder / RAW), hint=hint)
        return
    if folder.is_dir():
        for path in _outputs(entry, folder).values():
            check_output(path)


def _outputs(entry: CorpusEntry, folder: Path) -> dict[str, Path]:
    suffix = CONVERTERS[entry.format][1]
    return {split: folder / f"{split}{suffix}" for split in entry.splits}


def _fingerprint(entry: CorpusEntry) -> str:
    """Changes with the originals, with their splits, and with the converters."""
    facts = (VERSION, entry.format, entry.members, entry.ranges, entry.encoding)
    files = [(file.path, file.sha256, file.split) for file in (*entry.files, *entry.written)]
    return hashlib.sha256(repr((facts, files)).encode()).hexdigest()


def _size(path: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


@contextmanager
def _explain_disk(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        msg = f"cannot write: {error.strerror or error}"
        hint = "choose another folder, or set SAPWOOD_HOME to one with room and write permission"
        raise CorpusError(msg, file=str(error.filename or home), hint=hint) from error


def _download_all(
    entry: CorpusEntry, folder: Path, base: str, progress: Progress | None
) -> list[tuple[RemoteFile, Path]]:
    originals = [(file, folder / file.path) for file in entry.files]
    with ThreadPoolExecutor(N_WORKERS) as pool:
        jobs = {
            pool.submit(_download, f"{base}/{file.path}", file, target): file.path
            for file, target in originals
        }
        try:
            for n_done, job in enumerate(as_completed(jobs), 1):
                job.result()
                if progress is not None:
                    progress(n_done, len(jobs), jobs[job])
        except BaseException:
            # One failure is enough: the remaining files must not ask a dead server as well.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return originals


def _download(url: str, file: RemoteFile, target: Path) -> None:
    """Download one file unless a file with the right checksum exists."""
    if target.is_file() and (not file.sha256 or _sha256(target) == file.sha256):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_file(find_target(target)) as part:
        _transfer(url, part)
        found = _sha256(part)
        if file.sha256 and found != file.sha256:
            msg = f"wrong checksum of {url}: expected SHA-256 {file.sha256}, found {found}; deleted"
            raise CorpusError(msg, hint="try again; if it stays wrong, the original has changed")


def _transfer(url: str, part: Path) -> None:
    import pooch
    import requests  # pooch's own means of transport, needed here for its errors

    get = pooch.HTTPDownloader(timeout=TIMEOUT, chunk_size=1 << 16)
    for n_left in reversed(range(N_TRIES)):
        try:
            get(url, str(part), None)
        except requests.HTTPError as error:
            reply: Any = error.response
            reply.close()
            status = int(reply.status_code)
            if n_left == 0 or status < 500:
                answer = f"{status} {responses.get(status, '')}"
                msg = f"{urlsplit(url).netloc} answered {answer} for {url}"
                hint = "the file has moved; a mirror may still have it"
                raise CorpusError(msg, hint="try again later" if status >= 500 else hint) from error
        except requests.RequestException as error:
            if n_left == 0:
                msg = f"cannot reach {urlsplit(url).netloc or url}: {_reason(error)}"
                hint = "check the connection and try again; what has been downloaded is kept"
                raise CorpusError(msg, hint=hint) from error
        else:
            return


def _reason(error: Exception) -> str:
    """The innermost cause in a few words: libraries wrap it in several layers of their own."""
    text = " ".join(str(error).split())
    if "timed out" in text.lower():
        return "no answer in time"
    cause = re.search(r"\[Errno -?\d+\] ([^'\")\]]+)", text)
    return cause.group(1).strip() if cause else text[:200] or type(error).__name__


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(
    entry: CorpusEntry, originals: list[tuple[RemoteFile, Path]], folder: Path
) -> dict[str, Path]:
    """Unpack a corpus that is offered as it is; empty for every other corpus."""
    if entry.format != RAW:
        return {}
    target, part = folder / RAW, folder / f"{RAW}.{os.getpid()}.part"
    try:
        for _, path in originals:
            with _zip(path) as archive:
                names = [n for n in archive.namelist() if fnmatchcase(n, entry.members)]
                archive.extractall(part, names)  # drops absolute and upward paths itself
        shutil.rmtree(target, ignore_errors=True)
        return {RAW: part.replace(target)}
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _convert(
    entry: CorpusEntry, originals: list[tuple[RemoteFile, Path]], folder: Path
) -> dict[str, Path]:
    """Convert all originals, one after the other, each into the file of its split."""
    convert, _ = CONVERTERS[entry.format]
    skipped: Skipped = []
    n_pieces = dict.fromkeys(entry.splits, 0)
    digests = {file.split: hashlib.sha256() for file in entry.written}
    written = _outputs(entry, folder)
    with ExitStack() as stack:
        outs: dict[str, IO[str]] = {}
        for split, path in written.items():
            part = stack.enter_context(new_file(find_target(path)))
            file = part.open("w", encoding="utf-8", newline="")
            outs[split] = stack.enter_context(file)
        for split, name, text in _texts(entry, originals):
            for piece in convert(text, name, skipped):
                outs[split].write(piece)
                n_pieces[split] += 1
                if split in digests:
                    digests[split].update(_checked_part(entry, piece).encode("utf-8"))
        _check(entry, n_pieces, skipped)
        for checked in entry.written:
            if (found := digests[checked.split].hexdigest()) != checked.sha256:
                msg = f"wrong checksum of {entry.name}, {checked.split}: expected {checked.sha256}"
                msg += f" for what is read from the originals, found {found}"
                hint = f"delete {folder.parent / 'downloads' / entry.name} and try again"
                raise CorpusError(msg, hint=f"{hint}; if it stays wrong, they have changed")
    return written


def _checked_part(entry: CorpusEntry, piece: str) -> str:
    """What the checksum of a written file is made of."""
    if entry.kind != "dependencies":
        return piece
    return "".join(f"{line}\n" for line in basic_columns(piece.split("\n")))


def basic_columns(lines: Iterable[str]) -> Iterator[str]:
    r"""Lines of CoNLL-U with word, tags, head and relation only.

    Comments, words of several tokens, empty nodes, lemmas and features are left out, and two empty
    lines in a row are one.

    Examples
    --------
    >>> row = "1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t0\troot\t0:root\tSpaceAfter=No"
    >>> list(basic_columns(["# text = Dogs", row, ""]))
    ['1\tDogs\t_\tNOUN\tNNS\t_\t0\troot\t_\t_', '']
    """
    is_inside = False
    for line in lines:
        cells = line.rstrip("\r\n").split("\t")
        if cells[0].isdecimal():
            number, form, _, upos, xpos, _, head, relation = cells[:8]
            yield "\t".join([number, form, "_", upos, xpos, "_", head, relation, "_", "_"])
            is_inside = True
        elif cells == [""] and is_inside:
            yield ""
            is_inside = False


def _check(entry: CorpusEntry, n_pieces: dict[str, int], skipped: Skipped) -> None:
    """Refuse an empty or mostly unreadable corpus; warn about trees that were left out."""
    first = f"; the first: {skipped[0]}" if skipped else ""
    empty = [split for split, n in n_pieces.items() if n == 0]
    if empty or len(skipped) > sum(n_pieces.values()):
        what = f"nothing was found for {', '.join(empty)}" if empty else "most cannot be read"
        msg = f"the originals of {entry.name} are not as expected: {what}{first}"
        raise CorpusError(msg, hint="please report this: the registry or a converter is wrong")
    if skipped:
        msg = f"{entry.name}: {count(len(skipped), 'tree')} left out because of errors{first}"
        warnings.warn(msg, SapwoodWarning, stacklevel=4)


def _texts(
    entry: CorpusEntry, originals: list[tuple[RemoteFile, Path]]
) -> Iterator[tuple[str, str, str]]:
    """Split, name and text of every original, members of archives in the order of their names."""
    for file, path in originals:
        if not entry.members:
            yield file.split, str(path), _decode(path.read_bytes(), entry.encoding, str(path))
            continue
        with _zip(path) as archive:
            for name in sorted(archive.namelist()):
                split = entry.split_of(PurePosixPath(name).stem)
                if split is not None and fnmatchcase(name, entry.members):
                    where = f"{path}/{name}"
                    yield split, where, _decode(archive.read(name), entry.encoding, where)


@contextmanager
def _zip(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except zipfile.BadZipFile as error:
        msg = f"cannot be unpacked: {error}"
        raise CorpusError(msg, file=str(path), hint="is it a zip archive?") from error


def _decode(data: bytes, encoding: str, name: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        msg = f"not {encoding} text (byte {data[error.start]:#04x} at {error.start:,})"
        hint = "please report this: the registry is wrong"
        raise CorpusError(msg, file=name, hint=hint) from error
