"""`sapwood depend parse --keep-tags` and `--partial`: what is filled in is kept, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.arc_toys import bank
from tests.conftest import Run

import sapwood as sw
from sapwood.dependency.data.bank import HEAD, RELATION, UPOS, XPOS


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("partial") / "parser.sapwood"
    sw.ArcEnsemble(passes=1, folds=2, encoder_passes=2).fit(bank(40)).model_.save(path)
    return str(path)


def begun(path: Path, columns: dict[tuple[int, int], str], n: int = 3) -> Path:
    """Sentences of the toy language without tags and trees; the first with some cells."""
    sentences = []
    for number, arcs in enumerate(bank(n, 4)):
        rows = arcs.all_rows()
        for place, row in enumerate(rows, 1):
            for column in (UPOS, XPOS, HEAD, RELATION):
                row[column] = columns.get((place, column), "_") if number == 0 else "_"
        sentences.append("# a comment\n" + "\n".join("\t".join(row) for row in rows) + "\n\n")
    path.write_text("".join(sentences))
    return path


def cells(text: str, sentence: int = 0) -> list[list[str]]:
    lines = text.split("\n\n")[sentence].split("\n")
    return [line.split("\t") for line in lines if line[0] != "#"]


def test_filled_tags_are_kept(cli: Run, parser: str, tmp_path: Path) -> None:
    file = begun(tmp_path / "f.conllu", {(1, UPOS): "NOUN", (3, XPOS): "VBZ"})
    rows = cells(cli("depend", "parse", parser, file, "--keep-tags").out)
    assert (rows[0][UPOS], rows[2][UPOS], rows[2][XPOS]) == ("NOUN", "VERB", "VBZ")
    assert all(row[UPOS] != "_" and row[HEAD] != "_" for row in rows)


def test_filled_heads_and_relations_are_kept(cli: Run, parser: str, tmp_path: Path) -> None:
    given = {(1, HEAD): "0", (3, RELATION): "obl", (2, HEAD): "1"}
    file = begun(tmp_path / "f.conllu", given)
    done = cli("depend", "parse", parser, file, "--partial", "--scores")
    rows = cells(done.out)
    assert (rows[0][HEAD], rows[1][HEAD], rows[2][RELATION]) == ("0", "1", "obl")
    assert rows[0][9].startswith("Posterior=1.0000")
    listed = cli("depend", "parse", parser, file, "--partial", "--n-best", "3").out
    assert all(cells(listed, k)[0][HEAD] == "0" for k in range(3))


def test_probabilities_of_constraints_are_told(cli: Run, parser: str, tmp_path: Path) -> None:
    file = begun(tmp_path / "f.conllu", {(1, HEAD): "0"})
    done = cli("depend", "parse", parser, file, "--partial", "--json", "--n-best", "2")
    first, second, _ = map(json.loads, done.out.splitlines())
    assert first["heads"][0] == 0
    assert first["constraint_log_prob"] < -1
    assert second["constraint_log_prob"] == 0.0
    assert len(first["k_best"]) == 2
    assert first["k_best"][0]["heads"][0] == 0
    names = ("words", "upos", "xpos", "heads", "relations", "posteriors")
    assert {len(first[name]) for name in names} == {len(first["words"])}


def test_nothing_filled_in_changes_nothing(cli: Run, parser: str, tmp_path: Path) -> None:
    file = begun(tmp_path / "f.conllu", {})
    free = cli("depend", "parse", parser, file).out
    assert cli("depend", "parse", parser, file, "--partial", "--keep-tags").out == free


@pytest.mark.parametrize(
    ("given", "line", "message"),
    [
        ({(1, UPOS): "NOM"}, 2, "UPOS of word 1 is NOM, which the model has never seen"),
        ({(2, XPOS): "XYZ"}, 3, "XPOS of word 2 is XYZ"),
        ({(3, RELATION): "subj"}, 4, "the relation of word 3 is subj"),
        ({(1, HEAD): "2", (2, HEAD): "1"}, 3, "words 1 and 2 depend on each other in a cycle (see"),
        ({(1, HEAD): "0", (3, HEAD): "0"}, 4, "words 1 and 3 both have the head 0"),
        ({(1, HEAD): "3", (2, HEAD): "4"}, 3, "the arcs from 3 to 1 and from 4 to 2 cross"),
        ({(2, HEAD): "1", (2, RELATION): "root"}, 3, "word 2 has the relation root, and its"),
        ({(1, HEAD): "0", (3, RELATION): "root"}, 4,
         "words 1 and 3 are both the root, by head 0 or relation root, and a tree has one root"),
        ({(1, RELATION): "root", (2, RELATION): "root"}, 3, "words 1 and 2 are both the root"),
        ({(1, HEAD): "99"}, 2, "word 1 has the head 99, but the sentence has"),
        ({(1, HEAD): "x"}, 2, "word 1 has the head 'x', expected a number"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_line(
    fails: Run, cli: Run, parser: str, tmp_path: Path, given: dict, line: int, message: str
) -> None:
    file = begun(tmp_path / "f.conllu", given)
    command = ("depend", "parse", parser, file, "--partial", "--keep-tags")
    said = fails(*command).err
    assert f"f.conllu:{line}: {message}" in said
    assert "hint: " in said
    done = cli(*command, "--skip-bad")
    assert done.out.count("# a comment") == 2
    assert "1 " in done.err


def test_options_that_contradict_each_other(misused: Run, parser: str, tmp_path: Path) -> None:
    file = begun(tmp_path / "f.conllu", {})
    done = misused("depend", "parse", parser, file, "--gold-tags", "--keep-tags")
    assert "never seen" in done.err
    for option in ("--keep-tags", "--partial"):
        done = misused("depend", "parse", parser, file, "--text", option)
        assert "lines of words" in done.err
    misused("depend", "parse", parser, file, "--scores", "--json")


@pytest.mark.parametrize("options", [(), ("--partial",), ("--keep-tags",)])
def test_an_empty_file_has_no_sentence_and_a_broken_one_is_refused(
    cli: Run, fails: Run, parser: str, options: tuple[str, ...]
) -> None:
    done = cli("depend", "parse", parser, *options, stdin="")
    assert (done.status, done.out) == (0, "")
    assert "0 sentences" in done.err
    said = fails("depend", "parse", parser, *options, "--skip-bad", stdin="1\tx\n").err
    assert "<stdin>: no sentence found" in said
