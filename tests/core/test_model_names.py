"""Names of models: files of the same name, and names of nothing."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from tests.conftest import Learn, Run

import sapwood as sw
from sapwood.core import model_names
from sapwood.core.errors import SapwoodWarning
from sapwood.core.model_names import ENGLISH, ENGLISH_UD, find_model, list_models
from sapwood.corpora.tree import HEAD_RULES
from sapwood.dependency.data.transform import tree_arcs

CARD = {
    "title": "Trees of toys", "language": "en", "task": "constituents", "version": "1.0",
    "sha256": "00", "licence": "CC BY-SA 4.0", "command": "make models",
    "training_data": [
        {
            "name": "toys", "source": "https://example.org", "commit": "1a2b",
            "licence": "CC BY 4.0", "attribution": "A. Author", "trees": 300, "words": 2000,
        },
    ],
    "scores": [{"corpus": "toys", "part": "dev", "sentences": 30, "metric": "F1", "value": 87.5}],
}  # fmt: skip
SENTENCE = "the dog sleeps .\n"


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learn: Learn, bank: sw.Treebank) -> Path:
    """An empty working folder, and a package that comes with two small models."""
    folder, working = tmp_path / "package", tmp_path / "working"
    folder.mkdir()
    working.mkdir()
    learn("pcfg").save(folder / f"{ENGLISH}.sapwood")
    arcs = [tree_arcs(tree, HEAD_RULES["penn"]) for tree in bank[:60]]
    arc_model = sw.ArcCRF(passes=1, folds=2, order=1).fit(arcs).model_
    arc_model.save(folder / f"{ENGLISH_UD}.sapwood")
    for name in (ENGLISH, ENGLISH_UD):
        size = (folder / f"{name}.sapwood").stat().st_size
        (folder / f"{name}.json").write_text(json.dumps({"name": name, "bytes": size} | CARD))
    (folder / "NOTICE.md").write_text("# Notices\n\nToys by A. Author.\n")
    monkeypatch.setattr(model_names, "FOLDER", folder)
    monkeypatch.chdir(working)
    return folder


def test_a_name_is_the_file_in_the_package(named: Path) -> None:
    assert find_model(ENGLISH) == named / "english.sapwood"
    assert sw.load(ENGLISH).record == sw.load(named / "english.sapwood").record
    assert find_model("bundled") is None
    assert sw.load("bundled").record["method"] == "hand-written"


@pytest.mark.parametrize("name", ["../english", "English", "english.sapwood", "./english", ""])
def test_only_plain_names_are_names(named: Path, name: str) -> None:
    with pytest.raises(sw.ModelFormatError):
        find_model(name)
    with pytest.raises(sw.ModelFormatError):
        find_model(Path(ENGLISH))  # a path is never a name


def test_a_file_of_that_name_wins_and_that_is_said(named: Path, learn: Learn, cli: Run) -> None:
    learn("spectral").save("english")
    with pytest.warns(SapwoodWarning, match="file of that name in this folder is read"):
        assert sw.load(ENGLISH).record["method"] == "spectral"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sw.load(named / "english.sapwood").record["method"] == "pcfg"
        Path("english-ud").mkdir()  # a folder is no model file
        assert find_model(ENGLISH_UD) == named / "english-ud.sapwood"


def test_a_name_of_nothing_lists_the_models(named: Path, cli: Run) -> None:
    for call in (lambda: sw.load("englsh"), lambda: find_model("englsh")):
        with pytest.raises(sw.ModelFormatError, match="englsh: no such model file") as caught:
            call()
        assert "english, english-ud, bundled" in str(caught.value.hint)
    result = cli("parse", "englsh", stdin=SENTENCE)
    assert result.status == 1
    error, hint = result.err.splitlines()
    assert error == "error: englsh: no such model file"
    assert hint.startswith("hint: name a file that `sapwood train` wrote, or a model")
    assert hint.endswith("english, english-ud, bundled")


@pytest.mark.parametrize(
    "arguments",
    [
        ("parse", ENGLISH), ("phrases", ENGLISH), ("score", ENGLISH), ("inspect", ENGLISH),
        ("inspect", ENGLISH, "--card"), ("sample", ENGLISH, "-n", "1"), ("surprisal", ENGLISH, "-"),
        ("depend", "parse", ENGLISH_UD, "--text"), ("inspect", ENGLISH_UD, "--card"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_take_names(named: Path, cli: Run, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments, stdin=SENTENCE)
    assert result.status == 0, result.err
    assert result.out.strip()


def test_an_output_over_the_model_itself_is_refused(named: Path, cli: Run) -> None:
    before = (named / "english.sapwood").read_bytes()
    result = cli("parse", ENGLISH, "-o", named / "english.sapwood", "--force", stdin=SENTENCE)
    assert result.status == 1
    assert (named / "english.sapwood").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("parse", ENGLISH_UD), "sapwood depend parse"),
        (("score", ENGLISH_UD), "sapwood depend parse"),
        (("surprisal", ENGLISH_UD), "sapwood depend parse"),
        (("depend", "parse", ENGLISH), "sapwood parse"),
        (("lm", "next", ENGLISH, "the"), "sapwood parse"),
    ],
)
def test_a_model_for_another_command_names_it(
    named: Path, cli: Run, arguments: tuple[str, ...], command: str
) -> None:
    result = cli(*arguments, stdin=SENTENCE)
    assert result.status == 1
    assert f"hint: `{command}`" in result.err


# -- sapwood models -------------------------------------------------------------------------------


def test_the_list_says_what_each_model_is(named: Path, cli: Run) -> None:
    text = cli("models").out
    for fact in (
        "english: Trees of toys",
        "CC BY-SA 4.0",
        "toys, 300 trees",
        "F1 87.5: toys, dev, 30 sentences",
    ):
        assert fact in text
    assert json.loads(cli("models", "--json").out) == list_models()
    assert [card["name"] for card in list_models()] == [ENGLISH, ENGLISH_UD]
    (named / "english.sapwood").unlink()  # a card alone is no model, nor a file without a card
    assert [card["name"] for card in list_models()] == [ENGLISH_UD]


def test_a_card_has_every_attribution(named: Path, cli: Run) -> None:
    text = cli("models", ENGLISH).out
    for fact in (
        "commit         1a2b",
        "attribution    A. Author",
        "Toys by A. Author.",
        "make mo",
    ):
        assert fact in text
    report = json.loads(cli("models", ENGLISH, "--json").out)
    assert report["file"] == str(named / "english.sapwood")
    wrong = cli("models", "englsh")
    assert (wrong.status, wrong.out) == (1, "")
    assert "english, english-ud" in wrong.err
