"""What is killed: every command that writes files, on a few trees of the bundled sample."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from tests.arc_toys import bank
from tests.fuzz.seeds import ARPA

import sapwood as sw
from sapwood.auditing.decisions import FORMAT
from sapwood.constituency.data.treebank import sample_path
from sapwood.corpora.fetch import CorpusEntry, RemoteFile, fetch

N_TREES = 60
MAX_LENGTH = 160  # of a tree on paper: short ones train fast


@dataclass(frozen=True)
class Job:
    """One thing to do that may be killed, and what must be true of what it leaves.

    Attributes
    ----------
    run
        Does it, in the folder it is given.
    outputs
        Files that it makes: each is absent, as it was before, or complete.
    is_complete
        Whether a file that differs from that of an undisturbed run is complete; for outputs that
        hold times. None where every byte is determined.
    progress
        A file that keeps what was done, and a function that counts it.
    told
        How the next run says, in its output or its steps, how much it went on with.
    has_times
        Whether it tells on stdout how long it took.
    """

    name: str
    run: Callable[[Path], object]
    outputs: tuple[str, ...]
    is_complete: Callable[[Path], bool] | None = None
    progress: tuple[str, Callable[[Path], int]] | None = None
    told: Callable[[str, list[tuple[str, str]]], int] | None = None
    has_times: bool = False


def prepare(folder: Path) -> None:
    """What the jobs read: trees, sentences, a model, an older model, files on a server."""
    with gzip.open(str(sample_path("dev")), "rt", encoding="utf-8") as file:
        lines = [line for line in file if len(line) < MAX_LENGTH][:N_TREES]
    (folder / "train.mrg").write_text("".join(lines), encoding="utf-8")
    trees = list(sw.read_trees(folder / "train.mrg"))
    text = "".join(" ".join(tree.words()) + "\n" for tree in trees * 4)
    (folder / "sentences.txt").write_text(text, encoding="utf-8")
    # What is unmixed: every sentence of two and of three words, some more often than others.
    short = [" ".join(words) for n in (2, 3) for words in product("abc", repeat=n)]
    lines_of_short = (line + "\n" for k, line in enumerate(short) for _ in range(1 + k * k % 7))
    (folder / "short.txt").write_text("".join(lines_of_short), encoding="utf-8")
    (folder / "given.arpa").write_text(ARPA, encoding="utf-8")
    records = (f">{k}\n{'G' * k}AAA{'C' * k}\n{'(' * k}...{')' * k}\n" for k in range(1, 300))
    (folder / "structures.dbn").write_text("".join(records), encoding="utf-8")
    sw.PCFG().fit(sw.Treebank.from_trees(trees)).model_.save(folder / "model.sapwood")
    (folder / "saved.sapwood").write_bytes((folder / "model.sapwood").read_bytes())
    sw.write_arcs(bank(40), folder / "train.conllu")
    sw.ArcCRF(1, passes=1, folds=2).fit(bank(40)).model_.save(folder / "arcs.sapwood")
    decide(folder)
    for name in SERVED:
        (folder / "served").mkdir(exist_ok=True)
        (folder / "served" / name).write_text("".join(lines), encoding="utf-8")


def command(*arguments: str) -> Callable[[Path], object]:
    """A command line of Sapwood; a word that starts with @ is a file of the jobs' folder."""

    def run(folder: Path) -> object:
        from sapwood.cli.main import app

        given = [str(folder / word[1:]) if word[:1] == "@" else word for word in arguments]
        return app(given, prog_name="sapwood")

    return run


def training(method: str, *options: str) -> Callable[[Path], object]:
    """`sapwood train` by a method."""
    given = ("train", "@train.mrg", "-o", "@new.sapwood", "--method", method, "--jobs", "1")
    return command(*given, *options)


def save_model(folder: Path) -> None:
    """Save a model over another one."""
    sw.PCFG(binarise="right").fit(sw.read_treebank(folder / "train.mrg")).model_.save(
        folder / "saved.sapwood"
    )


def write_trees(folder: Path) -> None:
    """Write a file of trees through the library."""
    from sapwood.corpora.formats import write_trees as write

    write(sw.read_trees(folder / "train.mrg"), folder / "written.mrg")


SERVED = ("a.mrg", "b.mrg", "c.mrg")


def fetch_corpus(folder: Path) -> None:
    """Fetch a corpus of three files from the server of this machine."""
    files = []
    for name, split in zip(SERVED, ("train", "dev", "test"), strict=True):
        data = (folder / "served" / name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        files.append(RemoteFile(f"served/{name}", digest, len(data), split))
    url = (folder / "url").read_text()
    entry = CorpusEntry("toy", "a toy", "trees", "penn", url, tuple(files))
    fetch(entry, folder / "home")


def serve(folder: Path) -> subprocess.Popen[bytes]:
    """A server of the jobs' files, on a free port of this machine, that `url` names."""
    program = (
        "import functools, http.server, sys, pathlib\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "class Quiet(http.server.SimpleHTTPRequestHandler):\n"
        "    def log_message(self, *args): pass\n"
        "handler = functools.partial(Quiet, directory=str(folder))\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)\n"
        "part = folder / 'url.part'\n"
        "part.write_text(f'http://127.0.0.1:{server.server_port}')\n"
        "part.rename(folder / 'url')\n"
        "server.serve_forever()\n"
    )
    return subprocess.Popen([sys.executable, "-c", program, str(folder)])


# -- what must be true ----------------------------------------------------------------------------


def loads(path: Path) -> bool:
    """Whether a file is a whole model, which parses."""
    return bool(sw.Parser(sw.load(path)).parse(["the", "dog"]).tree)


def n_lines(path: Path) -> int:
    """Complete lines."""
    return path.read_bytes().count(b"\n")


def n_blocks(path: Path) -> int:
    """Complete blocks of lines, each with an empty line behind it."""
    return path.read_bytes().count(b"\n\n")


def lines_gone_on_with(err: str, steps: list[tuple[str, str]]) -> int:
    """What `parse --resume` says that it found."""
    found = [line for line in err.splitlines() if line.startswith("going on after ")]
    return int(found[0].split()[3].replace(",", "")) if found else 0


def n_iterations(path: Path) -> int:
    """EM iterations that a checkpoint holds."""
    from sapwood.core.model_files import read_tensors

    return len(read_tensors(path)[1]["state"]["info"]["log_likelihoods"])


def iterations_left_out(total: int) -> Callable[[str, list[tuple[str, str]]], int]:
    """How many of all iterations a run did not do again: it writes a checkpoint for each."""

    def told(err: str, steps: list[tuple[str, str]]) -> int:
        done = [1 for name, where in steps if name == "replace" and "checkpoint" in where]
        return total - len(done)

    return told


def n_folds(path: Path) -> int:
    """Finished folds of an audit."""
    return len(list(path.glob("fold-*.npz")))


def folds_left_out(err: str, steps: list[tuple[str, str]]) -> int:
    """How many of two folds an audit did not judge again: it writes a file for each."""
    return 2 - sum(name == "replace" and "fold-" in where for name, where in steps)


def decide(folder: Path) -> None:
    """Decisions that accept one of two parts of a finding on the first sentence."""
    one = bank(40)[0]
    heads = [0 if head == 0 else one.heads.index(0) + 1 for head in one.heads]
    parts = [
        {"decision": made, "kind": "head",
         "edit": {"words": [k + 1], "heads": [heads[k]], "relations": ["x"], "tag": None}}
        for made, k in zip(("accept", "reject"), (0, len(heads) - 1), strict=True)
    ]  # fmt: skip
    path = folder / "train.conllu"
    suggested = str(replace(one, heads=tuple(heads), rows=()))
    row = {
        "id": "f", "file": str(path), "line": 1, "tree": 1, "decision": "accept",
        "annotated_tree": str(one), "suggested_tree": suggested,
        "parts": parts,
    }  # fmt: skip
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    data = {"sapwood": FORMAT, "files": {str(path): digest}, "decisions": [row]}
    (folder / "decisions.json").write_text(json.dumps(data))


def _jobs() -> Iterator[Job]:
    model = ("new.sapwood",)
    yield Job("train.pcfg", training("pcfg"), model)
    for method in ("spectral", "pivot", "cluster"):
        yield Job(f"train.{method}", training(method, "--states", "2"), model)
    for method in ("crf", "encoder"):
        yield Job(f"train.{method}", training(method, "--iterations", "1"), model)
    best = training("best", "--budget", "1s", "--dev", "@train.mrg")
    yield Job("train.best", best, model, loads, has_times=True)
    yield Job("train.em", training("em", "--states", "4", "--iterations", "3"), model)
    for method, states, n in (("em", "4", 6), ("pivot-em", "2", 3), ("cluster", "2", 3)):
        options = ("--states", states, "--iterations", "3", "--checkpoint", "@checkpoint")
        yield Job(
            f"train.{method}.checkpoint", training(method, *options), (*model, "checkpoint"),
            progress=("checkpoint", n_iterations), told=iterations_left_out(n),
        )  # fmt: skip
    parse = ("parse", "@model.sapwood", "@sentences.txt", "--jobs", "2", "-o", "@out.mrg")
    yield Job("parse.out", command(*parse), ("out.mrg",))
    for name, options, count in (("lines", (), n_lines), ("blocks", ("--k-best", "2"), n_blocks)):
        yield Job(
            f"parse.resume.{name}", command(*parse, "--resume", *options), ("out.mrg",),
            progress=("out.mrg.part", count), told=lines_gone_on_with,
        )  # fmt: skip
    audit = ("depend", "audit", "@train.conllu", "--fast", "--json", *("--jobs", "1"))
    yield Job(
        "depend.audit", command(*audit, *FOLDS, "--work", "@folds"), KEPT,
        progress=("folds", n_folds), told=folds_left_out,
    )  # fmt: skip
    yield Job("depend.audit.out", command(*audit, *FOLDS, "-o", "@out.json"), ("out.json",))
    apply = ("depend", "audit", "--apply", "@decisions.json", "-o", "@corrected.conllu")
    yield Job("depend.audit.apply", command(*apply), ("corrected.conllu",))
    parts = ("train", "dev", "test")
    yield Job("split", command("split", "@train.mrg", "-o", "@my-"), _named("my-{}.mrg", parts))
    yield Job("save", save_model, ("saved.sapwood",))
    yield Job("write_trees", write_trees, ("written.mrg",))
    fetched = _named("home/toy/{}.mrg", parts) + _named("home/downloads/toy/served/{}", SERVED)
    yield Job("fetch", fetch_corpus, (*fetched, "home/toy/fetched.json"))
    yield Job("unmix", command("unmix", "dep-ies", "@short.txt", "--json"), (), has_times=True)
    one = ("--jobs", "1")
    for name, out, words in (
        ("lm.count", "counts.parquet", ("lm", "count", "@sentences.txt", *one)),
        ("lm.convert", "arpa.lm", ("lm", "convert", "@given.arpa")),
        ("lm.train", "new.lm", ("lm", "train", "@sentences.txt", *EM, *one)),
        ("embed", "new.sapwood", ("embed", "@sentences.txt", "--dimension", "2", *one)),
        ("depend.train", "new.sapwood", ("depend", "train", "@train.conllu", *FIRST, *one)),
        ("depend.parse", "out.conllu", ("depend", "parse", "@arcs.sapwood", "@train.conllu")),
        ("hankel.learn", "new.sapwood", ("hankel", "learn", "@short.txt", *TWO, *one)),
        ("hankel.learn.em", "new.sapwood", ("hankel", "learn", "@short.txt", *EM, *one)),
        ("convert.rna", "rna.mrg", ("data", "convert", "rna", "@structures.dbn")),
    ):  # fmt: skip
        has_times = name.startswith("hankel")
        yield Job(name, command(*words, "-o", f"@{out}"), (out,), has_times=has_times)
    yield Job("sample", command("sample", "@model.sapwood", "-n", "300"), ())
    audit = ("audit", "@train.mrg", "--fast", "--folds", "2", "--json", *one)
    yield Job(
        "audit", command(*audit, "--work", "@kept"),
        ("kept/audit.json", *_named("kept/fold-{}.npz", ("1", "2"))),
        progress=("kept", lambda path: len(list(path.glob("fold-*.npz")))),
        told=lambda err, steps: 2 - sum(name == "replace" and "fold-" in at for name, at in steps),
    )  # fmt: skip


FOLDS = ("--folds", "2")
KEPT = ("folds/audit.json", "folds/fold-1.npz", "folds/fold-2.npz")
TWO = ("--states", "2")
EM = ("--method", "em", *TWO)
FIRST = ("--method", "first", "--passes", "1")


def _named(pattern: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(pattern.format, parts))


JOBS = {job.name: job for job in _jobs()}
