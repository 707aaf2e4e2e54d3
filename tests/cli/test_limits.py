"""Input without end, and files too large for memory, end in one line that names the file."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Run

from sapwood.core.outputs import READ_SIZE, complete_records
from sapwood.corpora.files import MAX_CHARACTERS

resource = pytest.importorskip("resource")  # limits of memory are a matter of POSIX

ROOM = 700 << 20  # bytes beyond what the imports take; every bomb holds twice as much
BLOCK = 16 << 20
N_BLOCKS = 90
PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))\n"

# All cases in one process that may only take so much memory: imports are the slow part.
RUNNER = f"""
import contextlib, io, json, resource, sys
import numpy, scipy.sparse, safetensors.numpy
import sapwood.corpora.files

sapwood.corpora.files.MAX_CHARACTERS = int(sys.argv[1])  # before others import it
from sapwood.cli.main import app
from sapwood.corpora.formats import read_trees
import sapwood.constituency.data.treebank, sapwood.constituency.learn.pcfg
import sapwood.constituency.evaluate.bracketing, sapwood.constituency.parse.parser
import sapwood.core.model_files, sapwood.identify.learn.unmix

pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + {ROOM}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for arguments in json.load(sys.stdin):
    sys.stdin = open("/dev/zero")
    err, status = io.StringIO(), None
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
        try:
            app(arguments, prog_name="sapwood")
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, err.getvalue()]))
"""


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small files that expand to 1.4 GB each, and one plain file that is all hole."""
    folder = tmp_path_factory.mktemp("bombs")
    blocks = {
        "letters": b"a" * BLOCK,
        "words": b"aa " * (BLOCK // 3),
        "brackets": b"(" * BLOCK,
        "open row": (b"1\tdogs\t" + b"_\t" * 17_000 + b"_\n") * (BLOCK // 34_000),
        "open tree": b"(S\n" + (b"(X aa) " * 5000 + b"\n") * (BLOCK // 35_001),
    }
    kinds = [("letters", ending) for ending in PACK] + [(name, ".gz") for name in blocks]
    found = {}
    for name, ending in kinds:
        packed = PACK[ending](blocks[name])
        path = folder / f"{name}{ending}"
        path.write_bytes(packed * N_BLOCKS)
        found[path.name] = path
    found["hole"] = folder / "hole"
    with found["hole"].open("wb") as file:
        file.truncate(BLOCK * N_BLOCKS)
    return found


def run(cases: list[list[str]], environment: dict[str, str], most: int) -> list[tuple[int, str]]:
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, str(most)], input=json.dumps(cases), env=environment,
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, /dev/zero")
@pytest.mark.parametrize(
    "most", [MAX_CHARACTERS // 10, pytest.param(MAX_CHARACTERS, marks=pytest.mark.slow)]
)
def test_input_without_end_ends_in_an_error(
    bombs: dict[str, Path], environment: dict[str, str], tmp_path: Path, model: Path, most: int
) -> None:
    good, out = tmp_path / "good.mrg", tmp_path / "out"
    good.write_text(TREE)

    def commands(bomb: str) -> list[list[str]]:
        """Every command that reads text, with the bomb in each place."""
        return [
            ["train", bomb, "-o", str(out), "--method", "pcfg"],
            ["train", str(good), "--dev", bomb, "-o", str(out), "--method", "pcfg"],
            ["compare", bomb, str(good), "--methods", "pcfg"],
            ["evaluate", bomb, str(good)],
            ["evaluate", str(good), bomb],
            ["score", str(model), bomb],
            ["score", str(model), "--trees", bomb],
            ["parse", str(model), bomb, "--jobs", "1"],
            ["unmix", "pcfg-ie", bomb],
            ["words", bomb],
            ["split", bomb, "-o", f"{out}-"],
            ["stats", bomb],
        ]

    line, tree = f"a line of more than {most:,}", f"still open after {most:,}"
    cases = [(command, line) for command in commands(str(bombs["letters.gz"]))]
    for name in ("letters.bz2", "letters.xz", "words.gz", "hole"):
        cases += [(["train", str(bombs[name]), "-o", str(out)], line)]
        cases += [(["parse", str(model), str(bombs[name]), "--jobs", "1"], line)]
    cases += [(["train", str(bombs["brackets.gz"]), "-o", str(out)], line)]
    cases += [(["train", str(bombs["open tree.gz"]), "-o", str(out)], tree)]
    cases += [(["score", str(model), str(bombs["open tree.gz"])], tree)]
    cases += [(["words", str(bombs["open row.gz"])], "a sentence of more than")]
    cases += [(["train", "-", "-o", str(out)], line), (["parse", str(model)], line)]
    results = run([command for command, _ in cases], environment, most)
    for (command, expected), (status, err) in zip(cases, results, strict=True):
        name = next((Path(a).name for a in command if "bombs" in a), "<stdin>")
        lines = err.splitlines()
        assert status == 1, (command, err)
        assert [text.split(":")[0] for text in lines[-2:]] == ["error", "hint"], (command, err)
        assert name in lines[-2], (command, err)
        too_large = "hole" in name and "needs about" in lines[-2]  # refused by its size already
        assert too_large or expected in lines[-2], (command, err)
    assert not out.exists()


def test_the_limit_itself_is_read(
    cli, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line as long as the limit passes, one longer by a character does not."""
    limit = 100_000  # much less than the real one, which takes long to parse
    monkeypatch.setattr("sapwood.corpora.files.MAX_CHARACTERS", limit)
    path = tmp_path / "long.txt"
    start, end = "the dog sleeps . ", "\nthe dog sleeps .\n"
    path.write_text(start + "z" * (limit - len(start) - 1) + end)
    assert cli("parse", model, path).status == 0
    path.write_text(start + "z" * (limit - len(start)) + end)
    assert cli("parse", model, path).status == 1


def test_a_part_of_one_endless_line_is_counted_in_pieces(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(b"a\n" + b"b" * (READ_SIZE - 1) + b"\n\n")
    assert complete_records(part, is_block=False) == (3, READ_SIZE + 3)
    assert complete_records(part, is_block=True) == (1, READ_SIZE + 3)
    # The line end is a piece of its own, but no empty line.
    part.write_bytes(b"b" * READ_SIZE + b"\n")
    assert complete_records(part, is_block=True) == (0, 0)


SHORT_TREE = "(S (NP (NNS dogs)) (VP (VBP bark)))\n"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("train TREES -o OUT --method pcfg", "--on-disk"),
        ("evaluate TREES TREES", "fewer trees"),
        ("split TREES -o OUT", "fewer trees"),
        ("hankel learn TREES -o OUT --supervised", "fewer trees"),
        ("hankel learn TEXT -o OUT", "fewer sentences"),
        ("unmix dep-ies TEXT", "fewer sentences"),
    ],
)
def test_a_command_refuses_a_file_that_does_not_fit(
    line: str, hint: str, fails: Run, tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    trees, text = tmp_path / "trees.mrg", tmp_path / "text.txt"
    trees.write_text(SHORT_TREE * 100)
    text.write_text("dogs bark\n" * 1000)
    limit_memory(10_000)
    known = {"TREES": trees, "TEXT": text, "OUT": tmp_path / "out"}
    result = fails(*(known.get(word, word) for word in line.split()))
    assert ": reading 0 MB of" in result.err
    assert "0.0 GB are free" in result.err
    assert hint in result.err.splitlines()[-1]
    assert not list(tmp_path.glob("out*"))
