"""`sapwood unmix`."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sapwood.core.errors import SapwoodWarning
from sapwood.core.model_files import load
from sapwood.identify.model.uniform_trees import UniformTreeModel

KEYS = {
    "family", "states", "words", "sentences", "sentences_by_length", "vocabulary", "parameters",
    "moment_error", "moment_noise", "eigengap", "noise_gain", "clipped", "refine", "iterations",
    "log_likelihood", "warnings", "seconds", "cpu_seconds", "peak_memory_mb",
}  # fmt: skip


@pytest.fixture(scope="module")
def text() -> str:
    model = UniformTreeModel(
        "pcfg-ie",
        ("the", "a", "dog", "runs"),
        {
            "root": np.array([0.6, 0.4]),
            "child": np.array([[0.9, 0.2], [0.1, 0.8]]),
            "words": np.array([[0.55, 0.0], [0.4, 0.05], [0.05, 0.45], [0.0, 0.5]]),
        },
    )
    drawn = model.sample([2] * 500 + [3] * 20_000 + [4] * 200, seed=2)
    return "".join(" ".join(words) + "\n" for words in drawn)


@pytest.fixture(scope="module")
def file(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unmix") / "sentences.txt"
    path.write_text(text)
    return path


def test_states_are_shown_by_their_words(cli, file: Path) -> None:
    result = cli("unmix", "pcfg-ie", "--states", 2, file)
    assert result.status == 0, result
    lines = result.out.splitlines()
    assert lines[0] == "pcfg-ie  2 states  4 types of words  20,700 sentences"
    assert lines[2].split() == ["state", "root", "below", "0", "below", "1", "words"]
    assert lines[3].split()[4] == "the"
    assert {lines[4].split()[4], lines[4].split()[6]} == {"dog", "runs"}
    assert "sampling alone makes it" in result.out
    assert "eigengap" in result.out


def test_the_report_for_machines_is_complete(cli, text: str) -> None:
    result = cli("unmix", "pcfg-ie", "--states", 2, "--json", "-", stdin=text)
    report = json.loads(result.out)
    assert report.keys() == KEYS
    assert report["sentences_by_length"] == {"2": 500, "3": 20_000, "4": 200}
    tables = {name: np.array(table) for name, table in report["parameters"].items()}
    for table in tables.values():
        np.testing.assert_allclose(table.sum(axis=0), 1)
    assert tables["words"].shape == (4, 2)
    assert report["warnings"] == []


@pytest.mark.filterwarnings("ignore::sapwood.core.errors.SapwoodWarning")
@pytest.mark.parametrize("refine", ["moments", "em"])
def test_arguments_are_shown_for_every_head(cli, file: Path, refine: str) -> None:
    result = cli("unmix", "dep-ies", "--refine", refine, "--max-length", 4, "--top", 2, file)
    assert result.status == 0, result
    lines = result.out.splitlines()
    assert lines[0] == "dep-ies  4 types of words  20,700 sentences"
    assert lines[2].split() == ["head", "share", "arguments"]
    assert lines[5] == "... and 2 more (--top, --json)"
    assert f"refined by {refine}, " in result.out
    assert ("log-likelihood" in result.out) == (refine == "em")


def test_the_same_seed_gives_the_same_report(cli, file: Path) -> None:
    one, two = (cli("unmix", "pcfg-ie", file, "--seed", 5).out for _ in range(2))
    assert one == two


def test_too_few_sentences_are_warned_about(cli) -> None:
    with pytest.warns(SapwoodWarning):
        result = cli("unmix", "pcfg-ie", "--json", stdin="a b a\nb b a\nc a b\nb c b\na a c\n")
    assert "too few" in " ".join(json.loads(result.out)["warnings"])


@pytest.mark.parametrize(
    ("args", "stdin", "message"),
    [
        (("pcfg", "--states", 3), "a b c\n", "no sentences determine a pcfg with 3 states"),
        (("pcfg-i",), "a b c\n", "no closed form is known for pcfg-i"),
        (("dep-ie",), "a b c\n", "no closed form is known for dep-ie"),
        (("pcgf",), "a b c\n", "unknown model family 'pcgf'"),
        (("dep-ies", "--states", 2), "a b c\n", "dep-ies has no hidden states"),
        (("pcfg-ie", "--states", 4), "a b c\n", "4 states, but only 3 types of words"),
        (("pcfg-ie",), "a b\nb a c d\n", "no sentence of 3 words; found lengths 2, 4"),
        (("dep-ies",), "a b c\n", "no sentence of 2 words; found lengths 3"),
        (("pcfg-ie",), "a a a\na a\n", "all words are 'a'"),
        (("pcfg-ie",), "", "stdin: no sentences"),
        (("dep-ies",), "\n \n", "stdin: no sentences"),
    ],
)
def test_what_cannot_be_learnt_is_one_line_and_a_hint(fails, args, stdin, message: str) -> None:
    result = fails("unmix", *args, stdin=stdin)
    assert f"error: {message}" in result.err
    assert "\nhint: " in result.err
    assert result.out == ""


def test_what_no_sentences_determine_is_refused_with_its_report(fails, file: Path) -> None:
    result = fails("unmix", "PCFG", "--states", 3, file)
    lines = result.err.splitlines()
    assert lines[0].startswith("not identifiable: pcfg with 3 words and 3 states")
    assert "all 6 are changes of basis of the hidden states" in result.err
    assert "pcfg-ie" in lines[-1]


def test_more_states_than_the_sentences_show_are_refused_with_the_rank(fails) -> None:
    """Words that are independent of each other have one state."""
    sentences = "".join(f"{' '.join(words)}\n" for words in product("ab", repeat=3))
    result = fails("unmix", "pcfg-ie", "--states", 2, stdin=sentences)
    assert result.err.startswith("not identifiable: 2 states from a moment of rank 1\n")
    assert "at most 1" in result.err.splitlines()[-1]


def test_files_that_cannot_be_read_are_named(fails, empty: Path, tmp_path: Path) -> None:
    assert f"{empty}: no sentences" in fails("unmix", "pcfg-ie", empty).err
    assert "missing.txt" in fails("unmix", "pcfg-ie", tmp_path / "missing.txt").err


@pytest.mark.parametrize(
    "args", [("--refine", "all"), ("--states", 0), ("--max-length", 2), ("--top", 0)]
)
def test_options_out_of_range_are_usage_errors(misused, args) -> None:
    misused("unmix", "pcfg-ie", *args)


@pytest.mark.filterwarnings("ignore:ill-conditioned")  # the sentences are of the other family
@pytest.mark.parametrize("family", ["pcfg-ie", "dep-ies"])
def test_what_was_learnt_can_be_saved_shown_and_scored(
    cli, fails, file: Path, tmp_path: Path, family: str
) -> None:
    model = tmp_path / "hidden.sapwood"
    shown = cli("unmix", family, file, "-o", model)
    assert shown.status == 0, shown
    again = cli("inspect", model).out.splitlines()
    assert again[1:] == shown.out.splitlines()[1 : len(again)]  # the first line counts sentences
    parameters = json.loads(cli("inspect", model, "--json").out)["parameters"]
    saved = load(model)
    assert parameters == {name: table.tolist() for name, table in saved.tables.items()}
    assert saved.record["texts"] == [str(file)]
    scored = cli("score", model, stdin="the dog runs\n\nthe cat\n")
    expected = saved.log_probs([["the", "dog", "runs"]])[0]
    assert scored.out == f"{expected:.6f}\n\n-inf\n"
    assert "1 sentence  log-probability" in scored.err
    assert "1 impossible" in scored.err
    assert "is also an input" in fails("unmix", family, file, "-o", file).err
