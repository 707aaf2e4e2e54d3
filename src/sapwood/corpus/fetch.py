"""Fetching an open corpus: download, verify, convert, and write one ready-made file for each split.

    HOME/downloads/NAME/...   the originals, each kept only when its checksum is right
    HOME/NAME/train.mrg ...   what the readers take; every file is written whole or not at all
    HOME/NAME/fetched.json    written last: says that all of it is there

Trees are written as published, one a line: traces and function tags stay, and are cut when a model
is trained (`sapwood.corpus.clean`). Only what is not part of the tree goes: wrappers and codes of
Penn-historical files, and lemmas.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from http.client import responses
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from sapwood.corpus.convert import FORMATS, Skipped
from sapwood.corpus.registry import RAW, CorpusEntry, RemoteFile, find_corpus
from sapwood.errors import CorpusError, SapwoodWarning
from sapwood.outputs import check_output, find_place, new_file

Progress = Callable[[int, int, str], None]

N_WORKERS = 4
N_TRIES = 2
TIMEOUT = (10.0, 30.0)  # seconds to connect, and between two packets
STAMP = "fetched.json"
VERSION = 2  # raise it when a converter changes, so that corpora are written anew


def fetch(
    name: str | CorpusEntry,
    folder: str | Path | None = None,
    *,
    base_url: str | None = None,
    progress: Progress | None = None,
    force: bool = False,
) -> dict[str, Path]:
    """Download a corpus, unless it is there already, and return its files by split.

    What was downloaded before an interruption is kept and not asked for again.

    Parameters
    ----------
    name
        A name of the registry, or an entry of one's own.
    folder
        Where corpora are kept; None means `default_folder()`.
    base_url
        Another address for the same files, for example a mirror.
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
            _write_stamp(entry, ready, written)
    return written


def default_folder() -> Path:
    """The folder that `SAPWOOD_HOME` names, else the user's cache folder of this platform."""
    home = os.environ.get("SAPWOOD_HOME")
    if home:
        return Path(home).expanduser()
    import pooch

    return Path(pooch.os_cache("sapwood"))


# -- what is there already ------------------------------------------------------------------------


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
    """Refuse, before anything is downloaded, to replace somebody else's files."""
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
    suffix = FORMATS[entry.format][1]
    return {split: folder / f"{split}{suffix}" for split in entry.splits}


def _write_stamp(entry: CorpusEntry, folder: Path, written: dict[str, Path]) -> None:
    files = {split: (path.name, _size(path)) for split, path in written.items()}
    text = json.dumps({"fingerprint": _fingerprint(entry), "files": files}, indent=1)
    with new_file(find_place(folder / STAMP)) as part:
        part.write_text(text, encoding="utf-8")


def _fingerprint(entry: CorpusEntry) -> str:
    """Changes with the originals, with their splits, and with the converters."""
    facts = (VERSION, entry.format, entry.members, entry.ranges, entry.encoding)
    files = [(file.path, file.sha256, file.split) for file in entry.files]
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


# -- downloading ----------------------------------------------------------------------------------


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
            # One failure is told once: the files still waiting must not ask a dead server as well.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return originals


def _download(url: str, file: RemoteFile, target: Path) -> None:
    """Bring one file to its place, unless it lies there with the right checksum."""
    if target.is_file() and _sha256(target) == file.sha256:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_file(find_place(target)) as part:
        _transfer(url, part)
        found = _sha256(part)
        if found != file.sha256:
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
            reply.close()  # nobody will read the rest
            status = int(reply.status_code)
            if n_left == 0 or status < 500:
                answer = f"{status} {responses.get(status, '')}"
                msg = f"{urlsplit(url).netloc} answered {answer} for {url}"
                hint = "the file has moved; a mirror may still have it"
                hint = "try again later" if status >= 500 else hint
                raise CorpusError(msg, hint=hint) from error
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


# -- writing --------------------------------------------------------------------------------------


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
    convert, _ = FORMATS[entry.format]
    skipped: Skipped = []
    n_pieces = dict.fromkeys(entry.splits, 0)
    written = _outputs(entry, folder)
    with ExitStack() as stack:
        outs: dict[str, IO[str]] = {}
        for split, path in written.items():
            part = stack.enter_context(new_file(find_place(path)))
            file = part.open("w", encoding="utf-8", newline="")
            outs[split] = stack.enter_context(file)
        for split, name, text in _texts(entry, originals):
            for piece in convert(text, name, skipped):
                outs[split].write(piece)
                n_pieces[split] += 1
        _check(entry, n_pieces, skipped)
    return written


def _check(entry: CorpusEntry, n_pieces: dict[str, int], skipped: Skipped) -> None:
    """Refuse an empty or mostly unreadable corpus; say how much of a readable one was left out."""
    first = f"; the first: {skipped[0]}" if skipped else ""
    empty = [split for split, n in n_pieces.items() if n == 0]
    if empty or len(skipped) > sum(n_pieces.values()):
        what = f"nothing was found for {', '.join(empty)}" if empty else "most cannot be read"
        msg = f"the originals of {entry.name} are not as expected: {what}{first}"
        raise CorpusError(msg, hint="please report this: the registry or a converter is wrong")
    if skipped:
        msg = f"{entry.name}: {len(skipped)} trees cannot be read and were left out{first}"
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
