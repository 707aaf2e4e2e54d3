"""`sapwood depend train` and `parse`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.arc_toys import bank
from tests.conftest import Run

import sapwood as sw
from sapwood.networks import training as network_training

QUICK = ("--passes", 2, "--jobs", 1)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arcs") / "train.conllu"
    sw.write_arcs(bank(), path)
    return path


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parsers") / "parser.sapwood"
    sw.ArcCRF(passes=2, folds=2).fit(bank()).model_.save(path)
    return path


@pytest.mark.parametrize("method", ["first", "second", "latent", "best", "rerank"])
def test_a_parser_is_learnt_and_graded(
    cli: Run, train: Path, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_training, "MOST_PASSES", 12)
    out = tmp_path / "parser.sapwood"
    dev = tmp_path / "dev.conllu"
    sw.write_arcs(bank(30, 1), dev)
    result = cli("depend", "train", train, "-o", out, "--method", method, "--dev", dev, "--json",
                 *QUICK)  # fmt: skip
    report = json.loads(result.out)
    assert report["method"] == method
    assert report["sentences"] == 120
    assert report["dev"]["uas"] > 90
    assert report["dev"]["las"] > 85
    assert report["dev"]["upos"] > 95
    assert {"seconds", "cpu_seconds", "peak_memory_mb", "members", "iterations"} <= set(report)
    assert sw.load(out).record["treebanks"] == [str(train)]
    assert result.err.splitlines()[0].startswith("1/4 reading  120 sentences")


@pytest.mark.parametrize("method", ["spectral", "em"])
def test_latent_models_are_learnt_and_score_trees(
    cli: Run, fails: Run, train: Path, method: str, tmp_path: Path
) -> None:
    """The paper's own model: what `train` writes, `score` takes."""
    out, dev = tmp_path / "latent.sapwood", tmp_path / "dev.conllu"
    sw.write_arcs(bank(30, 1), dev)
    settings = ("--states", 2, "--seen", "tags", "--tags", "xpos", "--jobs", 1)
    result = cli("depend", "train", train, "-o", out, "--method", method, "--dev", dev, "--json",
                 *settings)  # fmt: skip
    report = json.loads(result.out)
    assert (report["method"], report["states"], report["dev"]["trees"]) == (method, 2, 30)
    model = sw.load(out)
    assert isinstance(model, sw.DependencyModel)
    assert model.seen.column == "xpos"
    assert model.record["treebanks"] == [str(train)]
    scored = json.loads(cli("depend", "score", out, dev, "--json").out)
    logs, signs = model.signed_log_probs(sw.read_arcs(dev))
    assert scored["log_probs"] == pytest.approx(logs.tolist())
    kept = logs[signs > 0].sum() / np.diff(sw.read_arcs(dev).offsets)[signs > 0].sum()
    assert report["dev"]["log_prob_per_word"] == pytest.approx(kept)
    assert "Log-probability a word" in cli(
        "depend", "train", train, "-o", out, "--force", "--method", method, "--dev", dev, *settings
    ).out  # fmt: skip
    assert "expected a dependency parser" in fails("depend", "parse", out, dev).err


def test_score_takes_the_latent_model_of_a_parser(
    cli: Run, fails: Run, train: Path, parser: Path, tmp_path: Path
) -> None:
    out, dev = tmp_path / "latent.sapwood", tmp_path / "dev.conllu"
    cli("depend", "train", train, "-o", out, "--method", "latent", "--states", 2, "--iterations", 3,
        *QUICK)  # fmt: skip
    model = sw.load(out)
    assert model.latent is not None
    assert model.latent.model.record["iterations"] <= 3
    trees = bank(5, 1)
    sw.write_arcs([*trees, sw.Arcs(["new"], [0], upos=["X"], xpos=["NEW"])], dev)
    result = cli("depend", "score", out, dev)
    logs = [float(line) for line in result.out.splitlines()]
    assert logs[:-1] == pytest.approx(model.latent.model.log_probs(trees).tolist(), abs=1e-5)
    assert logs[-1] == pytest.approx(np.log(0.5 / (bank().n_tokens + 0.5)), abs=1e-5)
    assert "1 word with a tag that the model has never seen" in result.err
    told = fails("depend", "score", parser, dev).err
    assert "no hidden states" in told
    assert "--method spectral" in told


def test_scores_are_shown_without_json(cli: Run, train: Path, tmp_path: Path) -> None:
    out = tmp_path / "parser.sapwood"
    lines = cli("depend", "train", train, "-o", out, "--method", "first", "--dev", train,
                *QUICK).out.splitlines()  # fmt: skip
    assert [line.split()[0] for line in lines] == [
        "UAS", "LAS", "Complete", "Universal", "Sentences", "Sentences/CPU",
    ]  # fmt: skip


def test_options_of_other_methods_are_refused(misused: Run, train: Path, tmp_path: Path) -> None:
    out = ("-o", tmp_path / "x.sapwood")
    told = misused("depend", "train", train, *out, "--method", "first", "--budget", "1m").err
    assert "it applies to best" in told
    told = misused("depend", "train", train, *out, "--method", "em", "--embed", "u.sapwood").err
    assert "does not apply to --method em" in told
    told = misused("depend", "train", train, *out, "--method", "first", "--children").err
    assert "it applies to latent, spectral, em" in told.replace("\n", " ")
    assert "methods: best, second, first" in misused(
        "depend", "train", train, *out, "--method", "magic"
    ).err.replace("\n", " ")


def test_conllu_keeps_all_but_what_is_parsed(cli: Run, parser: Path, tmp_path: Path) -> None:
    rows = [
        "# text = the dog sees it", "1-2\tthedog\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
        "1\tthe\tthe\t_\t_\tA=b\t_\t_\t_\t_", "2\tdog\tdog\tX\tY\t_\t_\t_\t_\t_",
        "3\tsees\tsee\t_\t_\t_\t_\t_\t_\tNote=1", "4\t.\t.\t_\t_\t_\t_\t_\t_\t_",
    ]  # fmt: skip
    file = tmp_path / "in.conllu"
    file.write_text("\n".join(rows) + "\n\n")
    out = cli("depend", "parse", parser, file).out.splitlines()
    assert out[:2] == rows[:2]
    assert out[2] == "1\tthe\tthe\tDET\tDT\tA=b\t2\tdet\t_\t_"
    assert out[3].split("\t")[3:8] == ["NOUN", "NN", "_", "3", "nsubj"]
    assert out[4].endswith("\t0\troot\t_\tNote=1")
    told = cli("depend", "parse", parser, file, "--scores").out
    assert "Note=1|Posterior=" in told
    assert told.count("Posterior=") == 4


def test_lines_of_words_are_parsed(cli: Run, parser: Path) -> None:
    result = cli(
        "depend", "parse", parser, "--text", stdin="the dog sees a cat .\n\na dog sings .\n"
    )
    found = result.out.strip().split("\n\n")
    assert len(found) == 2
    assert sw.Arcs.parse(found[1]).heads == (2, 3, 0, 3)
    assert result.err.startswith("2 sentences")


def test_tags_are_those_given_when_asked(cli: Run, parser: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.conllu"
    sw.write_arcs(
        [sw.Arcs(["glorb", "sings"], [2, 0], upos=["NOUN", "VERB"], xpos=["Q", "VBZ"])], file
    )
    assert sw.Arcs.parse(cli("depend", "parse", parser, file, "--gold-tags").out).xpos == (
        "Q",
        "VBZ",
    )
    assert sw.Arcs.parse(cli("depend", "parse", parser, file).out).xpos[0] != "Q"


def test_lists_have_ranks_and_scores(cli: Run, parser: Path) -> None:
    text = cli("depend", "parse", parser, "--text", "--n-best", 3, stdin="the dog sees a cat .").out
    found = [sw.Arcs.parse(block) for block in text.strip().split("\n\n")]
    assert [arcs.comments[:2] for arcs in found] == [
        ("# sentence = 1", f"# rank = {rank}") for rank in (1, 2, 3)
    ]
    scores = [float(arcs.comments[2].split("=")[1]) for arcs in found]
    assert scores == sorted(scores, reverse=True)
    assert len({arcs.heads for arcs in found}) == 3


def test_threads_change_no_line(cli: Run, parser: Path, train: Path) -> None:
    one, three = (cli("depend", "parse", parser, train, "--jobs", jobs).out for jobs in (1, 3))
    assert one == three


def test_another_model_is_refused(fails: Run, misused: Run, train: Path, parser: Path,
                                  tmp_path: Path) -> None:  # fmt: skip
    other = tmp_path / "grammar.sapwood"
    sw.bundled_grammar().save(other)
    told = fails("depend", "parse", other, train).err
    assert "expected a dependency parser" in told
    assert "depend train" in told
    assert "holds a dependency parser" in fails("parse", parser, stdin="a b").err
    misused("depend", "parse", parser, "--text", "--gold-tags")


def test_an_output_among_the_inputs_is_refused(fails: Run, parser: Path, train: Path) -> None:
    before = train.read_bytes()
    fails("depend", "parse", parser, train, "-o", train, "--force")
    assert train.read_bytes() == before


def test_plain_text_and_trees_are_told_from_conllu(fails: Run, parser: Path) -> None:
    ten_words = "the old dog sees a cat in the big garden"
    assert "`sapwood depend parse --text`" in fails("depend", "parse", parser, stdin=ten_words).err
    spaced = "1 dogs dog NOUN NNS _ 2 nsubj _ _"
    assert "put tabs, not blanks" in fails("depend", "parse", parser, stdin=spaced).err
    rows = "1\tdogs\t_\t_\t_\t_\t_\t_\t_\t_\n"
    assert "leave out --text" in fails("depend", "parse", parser, "--text", stdin=rows).err
    trees = "(S (NP (NNS dogs)) (VP (VBP bark)))"
    refused = fails("depend", "parse", parser, "--text", stdin=trees)
    assert "found bracketed trees" in refused.err
    assert "`sapwood depend convert`" in refused.err
