"""`sapwood parse`."""

from __future__ import annotations

import gzip
import inspect
import json
import math
from pathlib import Path
from typing import get_args

import pytest

import sapwood as sw
from sapwood.cli.constituency import parse as command
from sapwood.constituency.parse.decoders import DECODERS
from sapwood.constituency.parse.parser import FAST, MEMORY_LIMIT_MB, THRESHOLD, Parser

SENTENCES = "the dog sleeps .\nthese men saw a woman with a hat .\ndog\n"


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text(SENTENCES)
    return path


def words_of(lines: list[str]) -> list[str]:
    return [" ".join(sw.Tree.parse(line).words()) if line else "" for line in lines]


def test_one_tree_a_line(cli, model: Path, sentences: Path) -> None:
    result = cli("parse", model, sentences)
    assert result.status == 0
    assert words_of(result.out.splitlines()) == SENTENCES.splitlines()
    assert result.err.startswith("3 sentences  0 fallbacks  0 too long  ")
    assert result.err.rstrip().endswith("sentences/s")


@pytest.mark.parametrize("source", [[], ["-"]])
def test_stdin(cli, model: Path, source: list[str]) -> None:
    result = cli("parse", model, *source, stdin="the dog sleeps .")
    assert result.out == "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))\n"


def test_compressed_input(cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "sentences.gz"
    path.write_bytes(gzip.compress(SENTENCES.encode()))
    assert len(cli("parse", model, path).out.splitlines()) == 3


def test_the_bundled_grammar(cli) -> None:
    assert cli("parse", "bundled", stdin="the dog sleeps .\n").out.startswith("(TOP (S (NP")


@pytest.mark.parametrize("jobs", [1, 3])
def test_empty_lines_keep_their_place(cli, model: Path, jobs: int) -> None:
    text = "\nthe dog sleeps .\n \t \n\ndog\n\n"
    result = cli("parse", model, "--jobs", jobs, stdin=text)
    assert words_of(result.out.split("\n")[:-1]) == ["", "the dog sleeps .", "", "", "dog", ""]
    assert "2 sentences  4 empty lines  " in result.err


def test_jobs_do_not_change_the_trees(cli, model: Path, dev: Path) -> None:
    text = "\n".join(" ".join(tree.words()) for tree in sw.read_trees(dev))
    one = cli("parse", model, "--jobs", 1, stdin=text)
    assert one.out == cli("parse", model, "--jobs", 4, stdin=text).out
    assert len(one.out.splitlines()) == 300


def test_only_ascii_blanks_separate(cli, model: Path) -> None:
    tree = sw.Tree.parse(cli("parse", model, stdin="the\u00a0dog\tsleeps\u2028x  .\r\n").out)
    assert tree.words() == ["the\u00a0dog", "sleeps\u2028x", "."]


def test_brackets_are_escaped(cli, model: Path) -> None:
    assert sw.Tree.parse(cli("parse", model, stdin="the ( dog ) .").out).words()[1] == "-LRB-"


def test_no_input_no_output(cli, model: Path, empty: Path) -> None:
    result = cli("parse", model, empty)
    assert (result.status, result.out) == (0, "")
    assert result.err.startswith("0 sentences  ")


def test_scores(cli, model: Path, sentences: Path) -> None:
    for line in cli("parse", model, sentences, "--scores").out.splitlines():
        tree, log_prob, sentence_log_prob, _ = line.split("\t")
        expected = sw.load(model).log_prob(sw.Tree.parse(tree))
        assert math.isclose(float(log_prob), expected, abs_tol=1e-6)
        assert float(sentence_log_prob) >= float(log_prob)


def test_scores_list_the_phrases_with_their_posteriors(cli, model: Path, sentences: Path) -> None:
    lines = cli("parse", model, sentences, "--scores").out.splitlines()
    objects = map(json.loads, cli("parse", model, sentences, "--json").out.splitlines())
    for line, report in zip(lines, objects, strict=True):
        tree, *_, column = line.split("\t")
        listed = [part.rsplit(":", 3) for part in column.split(" ")] if column else []
        every = zip(list(sw.Tree.parse(tree).nodes())[1:], report["constituents"], strict=True)
        phrases = [c for node, c in every if not node.is_preterminal]
        assert [(label, int(i), int(j)) for label, i, j, _ in listed] == [
            (c["label"], c["start"], c["end"]) for c in phrases
        ]
        assert [float(row[3]) for row in listed] == pytest.approx(
            [c["probability"] for c in phrases], abs=5e-5
        )
    assert {line.count("\t") for line in lines} == {3}


def test_a_flat_tree_has_no_posteriors(cli, model: Path) -> None:
    line = cli("parse", model, "--scores", "--memory-limit", 0, stdin="the dog sleeps .").out
    assert line.rstrip("\n").split("\t")[1:] == ["-inf", "-inf", "S:0:4:-"]


def test_k_best(cli, model: Path) -> None:
    result = cli("parse", model, "--k-best", 3, stdin="the dog saw a man with a hat .\ndog\n")
    blocks = [block.splitlines() for block in result.out.removesuffix("\n\n").split("\n\n")]
    assert len(blocks) == 2
    rows = [line.split("\t") for line in blocks[0]]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert len({row[3] for row in rows}) == 3
    assert all(float(row[2]) < 0 for row in rows)
    assert rows[0][3] == cli("parse", model, stdin="the dog saw a man with a hat .").out.strip()


def test_k_best_has_a_block_for_an_empty_line(cli, model: Path) -> None:
    result = cli("parse", model, "--k-best", 1, stdin="dog\n\ndog\n")
    assert [bool(line) for line in result.out.split("\n")] == [1, 0, 0, 1, 0, 0]


def test_json_lines(cli, model: Path) -> None:
    result = cli("parse", model, "--json", stdin="the dog sleeps .\n\n")
    full, nothing = (json.loads(line) for line in result.out.splitlines())
    tree = sw.Tree.parse(full["tree"])
    assert full["log_prob"] <= full["sentence_log_prob"] < 0
    assert (full["fallback"], full["kind"], full["sign"]) == (False, "parsed", 1)
    assert (nothing["fallback"], nothing["kind"]) == (False, None)
    spans = [(c["label"], c["start"], c["end"]) for c in full["constituents"]]
    assert spans == tree.spans()[1:]
    assert all(0 < c["probability"] <= 1 for c in full["constituents"])
    assert (nothing["tree"], nothing["constituents"]) == (None, [])


def test_json_of_a_flat_tree_has_no_infinities(cli, model: Path) -> None:
    result = cli("parse", model, "--json", "--memory-limit", 0, stdin="the dog sleeps .\n")
    report = json.loads(result.out)
    assert (report["fallback"], report["kind"], report["sign"]) == (True, "flat", 0)
    assert report["log_prob"] is report["sentence_log_prob"] is None
    assert {c["probability"] for c in report["constituents"]} == {None}


def test_json_with_k_best(cli, model: Path) -> None:
    report = json.loads(cli("parse", model, "--json", "--k-best", 2, stdin="the dog sleeps .").out)
    assert [best["rank"] for best in report["k_best"]] == [1, 2]
    assert report["k_best"][0]["tree"] == report["tree"]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("grammar", ["plain", "bundled"])
def test_decoders(cli, model: Path, decoder: str, grammar: str) -> None:
    name = model if grammar == "plain" else grammar
    result = cli("parse", name, "--decoder", decoder, stdin="the dog sleeps .")
    assert result.out == "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))\n"


@pytest.mark.parametrize("decoder", ["f1", "goodman", "max-rule", "viterbi"])
def test_scores_are_those_of_the_decoder(cli, model: Path, decoder: str) -> None:
    result = cli("parse", model, "--decoder", decoder, "--k-best", 1, stdin="the dog sleeps .")
    parse = sw.Parser(sw.load(model), decoder=decoder).parse(["the", "dog", "sleeps", "."])
    assert result.out.split("\t")[1] == f"{parse.k_best(1)[0].score:.6f}"


def test_choices_and_defaults_are_those_of_the_library() -> None:
    assert get_args(command.Decoder) == tuple(DECODERS)
    defaults = inspect.signature(command.parse_sentences).parameters
    assert defaults["decoder"].default.default == Parser(sw.bundled_grammar()).decoder
    assert (
        defaults["threshold"].default.show_default
        == f"{THRESHOLD:g}; {FAST['threshold']:g} with --fast"
    )
    assert defaults["memory_limit"].default.default == MEMORY_LIMIT_MB


def test_a_sentence_without_a_parse_is_joined_from_pieces(cli, model: Path) -> None:
    result = cli("parse", model, "--json", stdin="with a hat\nthe dog sleeps .\n")
    joined, parsed = (json.loads(line) for line in result.out.splitlines())
    assert joined["tree"] == "(TOP (PP (IN with) (NP (DT a) (NN hat))))"
    assert (joined["fallback"], joined["kind"]) == (True, "joined")
    assert joined["log_prob"] is joined["sentence_log_prob"] is None
    assert parsed["kind"] == "parsed"
    assert "2 sentences  1 fallback  0 too long  " in result.err
    assert "1 joined tree: the grammar has no parse" in result.err


def test_a_spectral_model_says_that_it_holds_weights(cli, tmp_path: Path) -> None:
    path = tmp_path / "spectral.sapwood"
    sw.SpectralLPCFG(2).fit(sw.bundled_treebank("dev")).model_.save(path)
    assert "weights, not probabilities" in cli("parse", path, "--scores", stdin="the dog .").err
    assert "weights" not in cli("parse", path, stdin="the dog .").err


def test_fallbacks_are_counted_with_their_reason(cli, model: Path) -> None:
    text = "the dog sleeps .\ndog\n"
    result = cli("parse", model, "--memory-limit", 0.0001, stdin=text)
    assert "2 sentences  1 fallback  1 too long  " in result.err
    assert "1 flat tree: the chart would need more than --memory-limit 0.0001 MB" in result.err
    assert words_of(result.out.splitlines()) == text.splitlines()


def test_output_file(cli, model: Path, sentences: Path, tmp_path: Path) -> None:
    out = tmp_path / "trees.mrg"
    result = cli("parse", model, sentences, "-o", out)
    assert result.out == ""
    assert out.read_text() == cli("parse", model, sentences).out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sentences.txt", "trees.mrg"]


# -- ensembles and --fast -------------------------------------------------------------------------


def test_an_ensemble(cli, ensemble: Path, sentences: Path) -> None:
    result = cli("parse", ensemble, sentences)
    assert words_of(result.out.splitlines()) == SENTENCES.splitlines()
    parser = Parser(sw.load(ensemble))
    expected = [str(parser.parse(line.split()).tree) for line in SENTENCES.splitlines()]
    assert result.out.splitlines() == expected


def test_viterbi_is_not_for_ensembles(fails, ensemble: Path) -> None:
    result = fails("parse", ensemble, "--decoder", "viterbi", stdin="the dog sleeps .")
    assert "follows one grammar" in result.err


@pytest.mark.parametrize("kind", ["model", "ensemble", "spectral"])
def test_fast_parses_everything(request, cli, dev: Path, kind: str) -> None:
    path = request.getfixturevalue(kind)
    words = [" ".join(tree.words()) for tree in sw.read_trees(dev)][:60]
    result = cli("parse", path, "--fast", stdin="\n".join(words))
    assert words_of(result.out.splitlines()) == [w.replace("(", "-LRB-") for w in words]
    fast = Parser.fast(sw.load(path))
    assert result.out.splitlines() == [str(fast.parse(w.split()).tree) for w in words]


def test_fast_with_a_threshold_of_its_own(cli, spectral: Path, dev: Path) -> None:
    text = "\n".join(" ".join(tree.words()) for tree in sw.read_trees(dev))
    as_given = cli("parse", spectral, "--fast", "--threshold", 0.3, "--scores", stdin=text).out
    assert as_given != cli("parse", spectral, "--fast", "--scores", stdin=text).out


# -- what goes wrong ------------------------------------------------------------------------------


def test_unreadable_models(fails, tmp_path: Path, empty: Path, model: Path) -> None:
    assert "no such model file" in fails("parse", tmp_path / "none").err
    assert "a folder" in fails("parse", tmp_path).err
    assert "not a complete Sapwood model" in fails("parse", empty).err
    cut = tmp_path / "cut.sapwood"
    cut.write_bytes(model.read_bytes()[:-100])
    assert "not a complete Sapwood model" in fails("parse", cut).err


def test_a_bad_input_leaves_no_output(fails, model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "latin1.txt"
    bad.write_bytes(b"caf\xe9 .\n")
    assert "not UTF-8" in fails("parse", model, bad, "-o", tmp_path / "out").err
    assert [p.name for p in tmp_path.iterdir()] == ["latin1.txt"]


def test_missing_file_and_folder(fails, model: Path, tmp_path: Path) -> None:
    assert "no such file" in fails("parse", model, tmp_path / "none").err
    assert "a folder, expected a file" in fails("parse", model, tmp_path).err


def test_output_is_checked_before_reading(fails, tmp_path: Path, sentences: Path) -> None:
    assert "a folder" in fails("parse", "bundled", tmp_path / "none", "-o", tmp_path).err
    assert "also an input" in fails("parse", "bundled", sentences, "-o", sentences).err


@pytest.mark.parametrize(
    "options",
    [
        ["--decoder", "best"], ["--k-best", "0"], ["--threshold", "1"], ["--threshold", "x"],
        ["--jobs", "-1"], ["--memory-limit", "-1"], ["a", "b"], ["--resume"],
    ],
)  # fmt: skip
def test_misuse(misused, model: Path, options: list[str]) -> None:
    misused("parse", model, *options)


def test_no_model(misused) -> None:
    assert "MODEL" in misused("parse").err
