"""`sapwood parse --resume`: a killed run goes on, and its output is that of one that was not."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import complete_records, open_output, open_part

WAIT = 120  # seconds; the first run on a machine compiles the kernels
LAYOUTS: dict[str, list[str]] = {
    "trees": [],
    "scores": ["--scores"],
    "k-best": ["--k-best", "4"],
    "json": ["--json"],
    "json k-best": ["--json", "--k-best", "3"],
}


@pytest.fixture
def corpus(tmp_path: Path, dev: Path) -> Path:
    """Sentences of the bundled treebank, empty lines among them, the last without an end."""
    lines = [" ".join(tree.words()) for tree in sw.read_trees(dev)][:24]
    lines[7::11] = [""] * len(lines[7::11])
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines))
    return path


def parts_of(out: Path) -> tuple[Path, Path]:
    return out.with_name(f"{out.name}.part"), out.with_name(f"{out.name}.part.json")


def begin(cli, model: Path, corpus: Path, out: Path, options: list[str]) -> bytes:
    """The output of a whole run; the part and the note of one that was interrupted are in place."""
    options = [*options, "--jobs", "1"]
    assert cli("parse", model, corpus, "-o", out, *options).status == 0
    whole = out.read_bytes()
    out.unlink()
    folder = out.parent / "other"
    folder.mkdir(exist_ok=True)
    elsewhere = folder / out.name
    part, note = parts_of(elsewhere)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sapwood.cli.constituency.parse.stream_answers", _stopping)
        assert cli("parse", model, corpus, "-o", elsewhere, "--resume", *options).status == 130
    part.replace(parts_of(out)[0])
    note.replace(parts_of(out)[1])
    return whole


def _stopping(parser, layout, sentences, jobs):
    """Two answers, then Ctrl-C."""
    for k, words in enumerate(sentences):
        if k == 2:
            raise KeyboardInterrupt
        yield layout.text(parser.parse(words) if words else None)


# -- in this process: wherever it was cut ---------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_goes_on_wherever_it_was_cut(
    cli, model: Path, corpus: Path, tmp_path: Path, layout: str
) -> None:
    out, options = tmp_path / "out", [*LAYOUTS[layout], "--jobs", "1"]
    whole = begin(cli, model, corpus, out, options)
    part, note = parts_of(out)
    origin = note.read_bytes()
    n = len(whole)
    first = whole.index(b"\n") + 1
    for size in (0, 1, first - 1, first, first + 1, n // 3, n // 2, n - 2, n - 1, n):
        part.write_bytes(whole[:size])
        note.write_bytes(origin)
        result = cli("parse", model, corpus, "-o", out, "--resume", *options)
        assert result.status == 0
        assert out.read_bytes() == whole, f"cut at {size} of {n}"
        assert not part.exists()
        assert not note.exists()
        out.unlink()


def test_what_is_done_is_not_done_again(cli, model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = begin(cli, model, corpus, out, [])
    part, _ = parts_of(out)
    lines = whole.splitlines(keepends=True)
    n_done = len(lines) - 10
    part.write_bytes(b"".join(lines[:n_done]) + b"(TOP (S (NP (D")
    result = cli("parse", model, corpus, "-o", out, "--resume")
    assert f"going on after {n_done:,} lines" in result.err
    n_empty = sum(line == b"\n" for line in lines[n_done:])
    assert f"{10 - n_empty} sentences  " in result.err
    assert out.read_bytes() == whole


def test_ctrl_c_tells_how_to_go_on(
    cli, model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapwood.cli.constituency.parse.stream_answers", _stopping)
    out = tmp_path / "out"
    result = cli("parse", model, corpus, "-o", out, "--resume")
    part, note = parts_of(out)
    assert result.status == 130
    assert result.err == (f"2 lines done, in {part}; the same command continues it\ninterrupted\n")
    assert complete_records(part, is_block=False)[0] == 2
    assert json.loads(note.read_text())["decoder"] == "f1"
    assert not out.exists()


def test_without_resume_nothing_is_kept(
    cli, model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapwood.cli.constituency.parse.stream_answers", _stopping)
    result = cli("parse", model, corpus, "-o", tmp_path / "out")
    assert (result.status, result.err) == (130, "interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.txt"]


def test_a_whole_run_leaves_only_its_output(cli, model: Path, corpus: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert cli("parse", model, corpus, "-o", one, "--resume").status == 0
    assert cli("parse", model, corpus, "-o", other).status == 0
    assert one.read_bytes() == other.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "one", "other"]
    # A second run begins anew, and replaces it.
    assert "going on" not in cli("parse", model, corpus, "-o", one, "--resume").err


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--k-best", "3"], "--k-best: then None, now 3"),
        (["--json"], "--json: then False, now True"),
        (["--scores"], "scores: then False, now True"),
        (["--decoder", "goodman"], "decoder: then f1, now goodman"),
        (["--fast"], "fast: then False, now True"),
        (["--threshold", "0.01"], "threshold: then None, now 0.01"),
        (["--memory-limit", "7"], "--memory-limit: then 2000.0, now 7.0"),
    ],
)
def test_other_options_are_refused(
    cli, fails, model: Path, corpus: Path, tmp_path: Path, options: list[str], what: str
) -> None:
    out = tmp_path / "out"
    begin(cli, model, corpus, out, [])
    before = [path.read_bytes() for path in parts_of(out)]
    result = fails("parse", model, corpus, "-o", out, "--resume", *options)
    assert f"begun with another {what}" in result.err
    assert "delete" in result.err
    assert [path.read_bytes() for path in parts_of(out)] == before


def test_other_threads_are_welcome(cli, model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = begin(cli, model, corpus, out, [])
    assert cli("parse", model, corpus, "-o", out, "--resume", "--jobs", 2).status == 0
    assert out.read_bytes() == whole


def test_another_input_or_model_is_refused(
    cli, fails, model: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    whole = begin(cli, model, corpus, out, [])
    text = corpus.read_text()
    corpus.write_text(text.replace("the", "tha", 1))  # of the same size
    result = fails("parse", model, corpus, "-o", out, "--resume")
    assert "begun with another input: its contents have changed" in result.err
    corpus.write_text(text)
    assert "another model" in fails("parse", "bundled", corpus, "-o", out, "--resume").err
    copy = tmp_path / "copy.sapwood"  # the contents count, not the name
    copy.write_bytes(model.read_bytes())
    assert cli("parse", copy, corpus, "-o", out, "--resume").status == 0
    assert out.read_bytes() == whole


@pytest.mark.parametrize("spoilt", [None, "", "[]", "{"])
def test_a_part_of_unknown_origin_is_refused(
    fails, model: Path, corpus: Path, tmp_path: Path, spoilt: str | None
) -> None:
    out = tmp_path / "out"
    part, note = parts_of(out)
    part.write_text("(TOP (X y))\n")
    if spoilt is not None:
        note.write_text(spoilt)
    assert str(part) in fails("parse", model, corpus, "-o", out, "--resume").err
    assert part.read_text() == "(TOP (X y))\n"


def test_more_records_than_sentences_are_refused(
    cli, fails, model: Path, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    whole = begin(cli, model, corpus, out, [])
    part = parts_of(out)[0]
    part.write_bytes(whole + b"(TOP (X y))\n")
    assert (
        "25 records are there already, for 24 sentences"
        in fails("parse", model, corpus, "-o", out, "--resume").err
    )
    assert not out.exists()
    assert part.read_bytes() == whole + b"(TOP (X y))\n"


def test_a_note_without_a_part_is_of_no_account(
    cli, fails, model: Path, corpus: Path, tmp_path: Path
) -> None:
    """Of a run that was killed between the two; but a file of the same name is not ours."""
    out = tmp_path / "out"
    note = parts_of(out)[1]
    with open_output(note) as file:
        file.write("{}")
    assert cli("parse", model, corpus, "-o", out, "--resume").status == 0
    out.unlink()
    note.write_text("{}")
    assert "did not write it" in fails("parse", model, corpus, "-o", out, "--resume").err
    assert note.read_text() == "{}"
    assert cli("parse", model, corpus, "-o", out, "--resume", "--force").status == 0


def test_resume_needs_files(misused, model: Path, corpus: Path, tmp_path: Path) -> None:
    assert "-o OUT" in misused("parse", model, corpus, "--resume").err
    misused("parse", model, "-o", tmp_path / "out", "--resume", stdin="dog\n")
    misused("parse", model, "-", "-o", tmp_path / "out", "--resume", stdin="dog\n")
    misused("parse", model, tmp_path / "none", "-o", tmp_path / "out", "--resume")


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such lock")
def test_two_runs_do_not_write_the_same_part(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_part(out, {"a": 1}, is_block=False, tell=print) as first:
        first.write("one\n")
        with (
            pytest.raises(SapwoodError, match="another command is writing it"),
            open_part(out, {"a": 1}, is_block=False, tell=print),
        ):
            pass
        first.write("two\n")
    assert out.read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("text", "is_block", "expected"),
    [
        (b"", False, (0, 0)),
        (b"a", False, (0, 0)),
        (b"a\n", False, (1, 2)),
        (b"a\n\nb", False, (2, 3)),
        (b"\n\n", False, (2, 2)),
        (b"a\n", True, (0, 0)),
        (b"a\nb\n\n", True, (1, 5)),
        (b"a\n\n\nb\n", True, (2, 4)),
        ("\u2028\x85\r\n".encode(), False, (1, 7)),
    ],
)
def test_records_are_counted(
    tmp_path: Path, text: bytes, is_block: bool, expected: tuple[int, int]
) -> None:
    (tmp_path / "part").write_bytes(text)
    assert complete_records(tmp_path / "part", is_block=is_block) == expected


# -- killed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "copies"), [("trees", 100), ("k-best", 25)])
def test_kill_9_and_restart(
    cli, start, model: Path, corpus: Path, tmp_path: Path, layout: str, copies: int
) -> None:
    """Killed twice, wherever it is by then, and started again: the same bytes, in order."""
    options, out = [*LAYOUTS[layout], "--jobs", "1"], tmp_path / "out"
    corpus.write_text((corpus.read_text() + "\n") * copies)
    expected = tmp_path / "expected"
    assert cli("parse", model, corpus, "-o", expected, *options).status == 0
    part, _ = parts_of(out)
    sizes = [0]
    for _ in range(2):
        with start("parse", model, corpus, "-o", out, "--resume", *options) as process:
            ends = time.monotonic() + WAIT
            while not part.exists() or part.stat().st_size <= sizes[-1]:
                assert process.poll() is None
                assert time.monotonic() < ends
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            assert process.wait(timeout=WAIT) == -signal.SIGKILL
        sizes.append(part.stat().st_size)
        assert not out.exists()
    assert expected.read_bytes().startswith(part.read_bytes())
    assert sizes[0] < sizes[1] < sizes[2] < expected.stat().st_size
    result = cli("parse", model, corpus, "-o", out, "--resume", *options)
    assert "going on after" in result.err
    assert out.read_bytes() == expected.read_bytes()
    assert not part.exists()
