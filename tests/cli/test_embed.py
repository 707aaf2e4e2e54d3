"""`sapwood embed`, and what `sapwood inspect` says of vectors and latent models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.arc_toys import bank
from tests.conftest import Run
from tests.constituency.learn.embedding_text import text

import sapwood as sw

KEYS = {
    "model", "method", "dimension", "words", "classes", "sentences", "tokens", "seconds",
    "cpu_seconds", "peak_memory_mb",
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embed") / "text.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in text(400)))
    return path


@pytest.mark.parametrize("method", ["cca", "two-step", "bigram"])
def test_vectors_and_their_neighbours(cli: Run, file: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "u.sapwood"
    done = cli("embed", str(file), "-o", str(out), "--dimension", "3", "--method", method, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report.keys() == KEYS
    assert report["tokens"] == 1600
    assert sw.load(out).dimension == 3
    assert sw.load(out).record["texts"] == [str(file)]
    done = cli("inspect", str(out), "--word", "dog", "--word", "Unheard", "--top", "2", "--json")
    rows = json.loads(done.out)["neighbours"]
    assert [row["known"] for row in rows] == [True, False]
    assert {near["word"] for near in rows[0]["nearest"]} <= {"cat", "cow", "yak"}
    done = cli("inspect", str(out), "--word", "dog")
    assert "\ndog\n" in done.out


def test_stdin_and_text_for_people(cli: Run, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "u.sapwood"
    done = cli("embed", "-", "-o", str(out), "--dimension", "2", stdin=file.read_text())
    assert done.status == 0, done.err
    assert done.out == ""
    assert "1,600 tokens" in done.err


def test_what_is_wrong_is_said(cli: Run, file: Path, tmp_path: Path) -> None:
    done = cli("embed", str(file), "-o", str(file))
    assert done.status == 1
    assert "hint:" in done.err
    done = cli("embed", str(tmp_path / "none.txt"), "-o", str(tmp_path / "u"))
    assert done.status == 1
    assert "none.txt" in done.err
    done = cli("embed", str(file), "-o", str(tmp_path / "u"), "--dimension", "900")
    assert done.status == 1
    assert "at most" in done.err
    assert not (tmp_path / "u").exists()


def test_latent_models_are_shown_by_state(cli: Run, tmp_path: Path) -> None:
    model = sw.EMHMM(2, iterations=3).fit([["a", "b"], ["a", "b", "a"]] * 9).model_
    model.save(tmp_path / "hmm")
    done = cli("inspect", str(tmp_path / "hmm"))
    assert done.status == 0, done.err
    assert "a hidden Markov model of tags or words, learnt from words, 2 states" in done.out
    assert "state   1" in done.out
    sw.SpectralHMM(1).fit([["a", "b", "a"]] * 9).model_.save(tmp_path / "spectral")
    done = cli("inspect", str(tmp_path / "spectral"))
    assert "not probabilities (spectral)" in done.out


def test_other_commands_refuse_vectors(cli: Run, file: Path, tmp_path: Path) -> None:
    cli("embed", str(file), "-o", str(tmp_path / "u"), "--dimension", "2")
    done = cli("parse", str(tmp_path / "u"), stdin="a dog\n")
    assert done.status == 1
    assert "holds vectors of words, expected a grammar" in done.err


def test_vectors_help_a_dependency_parser(cli: Run, file: Path, tmp_path: Path) -> None:
    words, out = tmp_path / "u.sapwood", tmp_path / "parser.sapwood"
    assert cli("embed", str(file), "-o", str(words), "--dimension", "3").status == 0
    trees = tmp_path / "trees.conllu"
    sw.write_arcs(bank(30), trees)
    train = ("depend", "train", str(trees), "-o", str(out), "--method", "first", "--passes", "1")
    done = cli(*train, "--embed", str(words))
    assert done.status == 0, done.err
    assert sw.load(out).clusters is not None
    other = tmp_path / "other.sapwood"
    other.write_bytes(out.read_bytes())
    done = cli(*train, "--force", "--embed", str(other))
    assert done.status == 1
    assert "expected vectors of words" in done.err
    assert "hint: `sapwood embed TEXT -o U`" in done.err
    done = cli(*train, "--force", "--embed", str(tmp_path / "none.sapwood"))
    assert done.status == 1
    assert "none.sapwood" in done.err
    done = cli("depend", "train", str(trees), "-o", str(words), "--force", "--embed", str(words))
    assert done.status == 1  # an output that is also an input


def test_a_message_of_the_library_names_the_option(fails, file: Path, tmp_path: Path) -> None:
    command = ("embed", file, "-o", tmp_path / "u", "--dimension", 200, "--min-count", 3)
    assert "or lower --min-count\n" in fails(*command).err
