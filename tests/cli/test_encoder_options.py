"""`--encoder`, `--vectors` and `--include-encoder`, in training and parsing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.networks.pretrained import source as sources

ENCODERS = Path(__file__).parents[1] / "data" / "encoders"
SMALL = ("--method", "encoder", "--iterations", 1, "--jobs", 1)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "_open", {})
    monkeypatch.setattr(sources, "_places", [])
    monkeypatch.delenv(sources.PLACE, raising=False)
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ENCODERS / "roberta", tmp_path / "tiny"))


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.mrg"
    sw.write_trees(list(sw.bundled_treebank("dev"))[:40], path)
    return path


def test_a_model_is_trained_with_an_encoder_and_parses_where_it_is_found(
    cli, few: Path, folder: Path, tmp_path: Path
) -> None:
    model, text = tmp_path / "m.sapwood", tmp_path / "text"
    text.write_text("the dog sees a cat\n", encoding="utf-8")
    assert cli("train", few, "-o", model, *SMALL, "--encoder", folder).status == 0
    card = json.loads(cli("inspect", model, "--card", "--json").out)
    assert card["training"]["pretrained"].startswith("tiny (licence apache-2.0; SHA-256 ")
    expected = cli("parse", model, text)
    assert (expected.status, expected.out.count("(")) >= (0, 3)
    checksum = card["training"]["pretrained"].split("SHA-256 ")[1]
    moved = folder.rename(tmp_path / "moved")
    sources._open.clear()
    result = cli("parse", model, text)
    assert (result.status, result.out) == (1, "")
    assert f"needs the encoder tiny (SHA-256 {checksum[:12]})" in result.err
    assert "hint: give it by --encoder" in result.err
    assert cli("parse", model, text, "--encoder", moved).out == expected.out
    sources._open.clear()
    sources._places.clear()
    result = cli("parse", model, text, "--encoder", ENCODERS / "bert")
    assert (result.status, result.out) == (1, "")
    assert "holds another one" in result.err


def test_a_file_that_holds_the_encoder_parses_alone(
    cli, few: Path, folder: Path, tmp_path: Path
) -> None:
    model, text = tmp_path / "m.sapwood", tmp_path / "text"
    text.write_text("the dog sees a cat\n", encoding="utf-8")
    options = (*SMALL, "--encoder", folder, "--include-encoder", "8")
    assert cli("train", few, "-o", model, *options).status == 0
    shutil.rmtree(folder)
    assert cli("parse", model, text).status == 0


def test_a_dependency_parser_is_trained_with_word_vectors(cli, tmp_path: Path) -> None:
    row = "{}\t{}\t_\tNOUN\tNN\t_\t{}\t{}\t_\t_\n"
    tree = row.format(1, "dogs", 2, "nsubj") + row.format(2, "bark", 0, "root") + "\n"
    train, vectors, model = (tmp_path / name for name in ("t.conllu", "w.vec", "m.sapwood"))
    train.write_text(tree * 30, encoding="utf-8")
    vectors.write_text("dogs 1 0\nbark 0 1\n", encoding="utf-8")
    options = ("--vectors", vectors, "--include-encoder", "16", "--budget", "none", "--jobs", 1)
    result = cli("depend", "train", train, "-o", model, *options)
    assert result.status == 0, result.err
    vectors.unlink()
    assert sw.load(model).encoder.network.given.record.kind == "vectors"
    parsed = cli("depend", "parse", model, train)
    assert parsed.status == 0
    assert parsed.out.count("nsubj") == 30


@pytest.mark.parametrize(
    ("options", "status", "expected"),
    [
        (("--method", "em", "--encoder", "x"), 2, "it does not apply to --method em"),
        (("--include-encoder", "8"), 2, "there is nothing to include"),
        (("--encoder", "x", "--vectors", "y"), 2, "leave out one"),
        (("--encoder", "nowhere"), 1, "nowhere: no such folder"),
        (("--vectors", "nowhere"), 1, "nowhere: no such file"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_read(
    cli, few: Path, tmp_path: Path, options: tuple[str, ...], status: int, expected: str
) -> None:
    result = cli("train", few, "-o", tmp_path / "m.sapwood", *options)
    assert (result.status, result.out) == (status, "")
    assert expected in result.err
    assert not (tmp_path / "m.sapwood").exists()
