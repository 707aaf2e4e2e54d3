"""`sapwood depend`: train, parse, score, rerank, evaluate, convert and draw."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.arc_toys import bank
from tests.conftest import Run

import sapwood as sw
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.data.lists import read_lists
from sapwood.networks import training as network_training

GOLD = [
    Arcs(["Big", "dogs", "bark"], [2, 3, 0], ["amod", "nsubj", "root"], ["ADJ", "NOUN", "VERB"]),
    Arcs(["They", "do", "it", "well"], [2, 0, 4, 2], ["nsubj", "root", "obj", "advmod"]),
    Arcs(["a", "b", "c", "d"], [3, 0, 2, 3], ["obl", "root", "acl", "x"]),
]
TREE = "(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))\n"


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.conllu"
    sw.write_arcs(GOLD, path)
    return path


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    path = tmp_path / "predicted.conllu"
    worse = Arcs(GOLD[0].words, [3, 3, 0], GOLD[0].relations, GOLD[0].upos)
    sw.write_arcs([worse, *GOLD[1:]], path)
    return path


def test_evaluate_for_machines(cli, gold: Path, predicted: Path) -> None:
    result = cli("depend", "evaluate", gold, predicted, "--json")
    assert json.loads(result.out) == pytest.approx(
        {"uas": 100 * 10 / 11, "las": 100 * 10 / 11, "complete": 200 / 3, "upos": 100.0,
         "sentences": 3, "tokens": 11}
    )  # fmt: skip
    assert (result.status, result.err) == (0, "")


def test_evaluate_for_people(cli, gold: Path, predicted: Path) -> None:
    lines = cli("depend", "evaluate", gold, predicted).out.splitlines()
    assert lines[0] == "3 sentences  11 words"
    assert lines[2].split() == ["UAS", "90.91"]
    assert lines[4].split() == ["complete", "trees", "66.67"]


def test_evaluate_against_another(cli, gold: Path, predicted: Path) -> None:
    result = cli("depend", "evaluate", gold, gold, "--against", predicted, "--json")
    report = json.loads(result.out)
    assert report["uas"] == 100.0
    assert report["against"]["uas"] == pytest.approx(90.909, abs=1e-3)
    gain = report["against"]["differences"]["uas"]
    assert gain["points"] == pytest.approx(9.091, abs=1e-3)
    assert gain["p_value"] == pytest.approx(1.0)  # one sentence tells nothing
    text = cli("depend", "evaluate", gold, gold, "--against", predicted).out
    assert "+9.09" in text


def test_evaluate_reads_stdin_once(cli, misused, gold: Path) -> None:
    text = gold.read_text()
    assert cli("depend", "evaluate", gold, "-", stdin=text).status == 0
    misused("depend", "evaluate", "-", "-", stdin=text)


def test_evaluate_says_which_sentence_differs(fails, gold: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.conllu"
    sw.write_arcs(GOLD[:2], other)
    assert (
        "other.conllu: 2 sentences predicted, but 3" in fails("depend", "evaluate", gold, other).err
    )


def test_convert_trees(cli, tmp_path: Path) -> None:
    trees, out = tmp_path / "a.mrg", tmp_path / "a.conllu"
    trees.write_text(TREE * 2)
    result = cli("depend", "convert", trees, "-o", out, "--heads", "penn")
    assert result.status == 0
    assert "2 sentences  8 words  0 not projective" in result.err
    assert sw.read_arcs(out)[1].heads == (2, 3, 0, 3)
    assert cli("depend", "convert", "-", "--heads", "penn", stdin=TREE).out.startswith("1\tthe\t")


def test_convert_lifts_and_lowers(cli, gold: Path, tmp_path: Path) -> None:
    lifted, back = tmp_path / "lifted.conllu", tmp_path / "back.conllu"
    assert "1 not projective, lifted" in cli("depend", "convert", gold, "--lift", "-o", lifted).err
    assert all(arcs.is_projective() for arcs in sw.read_arcs(lifted))
    assert cli("depend", "convert", lifted, "--lower", "-o", back).status == 0
    assert back.read_text() == gold.read_text()


def test_convert_refuses_what_makes_no_sense(misused, fails, gold: Path, tmp_path: Path) -> None:
    misused("depend", "convert", gold, "--lift", "--lower")
    misused("depend", "convert", gold, "--heads", "french")
    assert "input" in fails("depend", "convert", gold, "-o", gold).err
    kept = tmp_path / "mine.conllu"
    kept.write_text("precious")
    fails("depend", "convert", gold, "-o", kept)
    assert kept.read_text() == "precious"


@pytest.mark.parametrize("command", ["convert", "draw"])
def test_bad_sentences_stop_or_are_counted(cli, fails, tmp_path: Path, command: str) -> None:
    path = tmp_path / "bad.conllu"
    good = f"{GOLD[0]}\n\n"
    path.write_text(good + good.replace("\t0\t", "\t1\t") + good)
    error = fails("depend", command, path).err
    assert "bad.conllu:5: words 1 and 2 depend on each other in a cycle" in error
    result = cli("depend", command, path, "--skip-bad")
    assert result.status == 0
    assert "skipped 1 broken tree; the first: " in result.err


def test_nothing_readable_is_an_error(fails, tmp_path: Path, empty: Path) -> None:
    assert "no sentence found" in fails("depend", "draw", empty).err
    path = tmp_path / "bad.conllu"
    path.write_text("1\tx\n")
    error = fails("depend", "draw", path, "--skip-bad").err
    assert "1 tree skipped; the first" in error


def test_draw(cli, misused, fails, gold: Path, tmp_path: Path) -> None:
    text = cli("depend", "draw", gold).out
    assert text.startswith(GOLD[0].draw() + "\n\n" + GOLD[1].draw())
    assert cli("depend", "draw", gold, "--sentence", 2, "--as", "latex").out.startswith(r"\begin{d")
    out = tmp_path / "tree.svg"
    assert cli("depend", "draw", gold, "--sentence", 1, "--as", "svg", "-o", out).status == 0
    ElementTree.fromstring(out.read_text())
    misused("depend", "draw", gold, "--as", "svg")
    assert "there is no sentence 4" in fails("depend", "draw", gold, "--sentence", 4).err


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
    monkeypatch.setattr(network_training, "MOST_PASSES", 6)
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


def test_options_of_other_learners_are_refused(misused: Run, train: Path, tmp_path: Path) -> None:
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
    expected = ("Q", "VBZ")
    assert sw.Arcs.parse(cli("depend", "parse", parser, file, "--gold-tags").out).xpos == expected
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
    assert "hint: `sapwood parse`" in told
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


SETTINGS = {"passes": 2, "folds": 2, "list_folds": 2, "n_best": 6, "list_passes": 2,
            "latent": "both"}  # fmt: skip


def test_running_text_has_its_places_in_the_last_column(cli, misused, parser: Path) -> None:
    text = 'He\'s in the U.S. (maybe)! They "bark".\r\n'
    found = sw.Arcs.parse(cli("depend", "parse", parser, "--raw", stdin=text).out.split("\n\n")[1])
    assert found.comments == ('# text = They "bark".',)
    assert found.words == ("They", '"', "bark", '"', ".")
    assert [row[-1] for row in found.rows][:3] == [
        "TokenRange=26:30", "SpaceAfter=No|TokenRange=31:32", "SpaceAfter=No|TokenRange=32:36",
    ]  # fmt: skip
    out = cli("depend", "parse", parser, "--raw", "--json", stdin=text).out
    for report in map(json.loads, out.splitlines()):
        places = zip(report["char_start"], report["char_end"], strict=True)
        assert [text[i:j] for i, j in places] == report["words"]
        assert report["text"] in text
    penn = cli("depend", "parse", parser, "--raw", "--tokens", "penn", "--json", stdin=text).out
    assert "-LRB-" in json.loads(penn.splitlines()[0])["words"]
    misused("depend", "parse", parser, "--raw", "--text")
    misused("depend", "parse", parser, "--raw", "--keep-tags")
    misused("depend", "parse", parser, "--one-per-line")


@pytest.mark.parametrize(("mark", "convention"), [("(", "ud"), ("-LRB-", "penn")])
def test_a_parser_records_the_words_of_its_treebank(
    cli, tmp_path: Path, mark: str, convention: str
) -> None:
    path, out = tmp_path / "train.conllu", tmp_path / "parser.sapwood"
    sw.write_arcs([Arcs(["dogs", mark, "bark"], [3, 3, 0])] * 20, path)
    assert cli("depend", "train", path, "-o", out, "--method", "first").status == 0
    assert sw.load(out).record["tokenisation"] == convention
    parsed = cli("depend", "parse", out, "--raw", "--json", stdin="dogs (bark)")
    assert json.loads(parsed.out)["words"][1] == mark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reranking")


@pytest.fixture(scope="module")
def reranker(folder: Path) -> Path:
    path = folder / "reranker.sapwood"
    sw.ArcReranker(2, **SETTINGS).fit(bank()).model_.save(path)
    return path


@pytest.fixture(scope="module")
def sentences(folder: Path) -> Path:
    path = folder / "dev.conllu"
    sw.write_arcs(bank(20, 1), path)
    return path


def test_parsing_is_reranking_its_own_lists(
    cli: Run, reranker: Path, sentences: Path, folder: Path
) -> None:
    learnt = sw.load(reranker)
    learnt.parser.save(folder / "parser.sapwood", force=True)
    parsed = cli("depend", "parse", reranker, sentences, "--jobs", 1)
    lists = cli(
        "depend", "parse", folder / "parser.sapwood", sentences, "--n-best", 6, "--jobs", 1
    ).out
    reranked = cli("depend", "rerank", reranker, "-", stdin=lists)
    assert reranked.status == 0
    assert "20 sentences" in reranked.err
    ours, theirs = (sw.read_arcs(io.StringIO(r.out)) for r in (parsed, reranked))
    assert [a.heads for a in ours] == [b.heads for b in theirs]
    assert "# score" not in reranked.out
    scores = sw.evaluate.attachment(bank(20, 1), theirs)
    assert scores.uas > 90


def test_an_empty_input_has_nothing_to_score_or_to_rank(
    cli: Run, fails: Run, reranker: Path, folder: Path
) -> None:
    latent = folder / "latent.sapwood"
    sw.EMDependency(1, iterations=1).fit(bank(5)).model_.save(latent)
    for command, model, said in (
        ("score", latent, "0 trees  0 words"), ("rerank", reranker, "0 sentences"),
    ):  # fmt: skip
        done = cli("depend", command, model, stdin="")
        assert (done.status, done.out) == (0, "")
        assert said in done.err
        broken = fails("depend", command, model, "--skip-bad", stdin="1\tx\n").err
        assert "<stdin>: no sentence found" in broken
    report = json.loads(cli("depend", "score", latent, "--json", stdin="").out)
    assert (report["trees"], report["log_probs"], report["log_prob"]) == (0, [], 0.0)


def test_lists_of_a_reranker_are_ranked_by_it(cli: Run, reranker: Path, sentences: Path) -> None:
    text = cli("depend", "parse", reranker, sentences, "--n-best", 3, "--jobs", 1).out
    lists = read_lists(io.StringIO(text))
    assert len(lists) == 20
    for first, end in zip(lists.starts[:-1], lists.starts[1:], strict=True):
        assert sorted(lists.score[first:end], reverse=True) == lists.score[first:end].tolist()
    best = cli("depend", "parse", reranker, sentences, "--jobs", 1).out
    tops = [lists.bank[int(first)].heads for first in lists.starts[:-1]]
    assert [arcs.heads for arcs in sw.read_arcs(io.StringIO(best))] == tops
    assert "Posterior=" in cli("depend", "parse", reranker, sentences, "--scores", "--jobs", 1).out


def test_rerank_refuses_other_models_and_files(
    fails: Run, reranker: Path, sentences: Path, folder: Path
) -> None:
    assert "tree 1 has no comments" in fails("depend", "rerank", reranker, sentences).err
    sw.load(reranker).parser.save(folder / "parser.sapwood", force=True)
    told = fails("depend", "rerank", folder / "parser.sapwood", sentences).err
    assert "holds a dependency parser with its tagger, expected a reranker" in told


def test_a_reranker_scores_no_trees(
    cli: Run, fails: Run, reranker: Path, sentences: Path, folder: Path
) -> None:
    spectral, em = sw.load(reranker).latent
    for latent, columns in ((spectral, 2), (em, 1)):
        latent.save(folder / "latent.sapwood", force=True)
        result = cli("depend", "score", folder / "latent.sapwood", sentences)
        lines = [line.split("\t") for line in result.out.splitlines()]
        assert [len(line) for line in lines] == [columns] * 20
        expected = latent.log_probs(sentences)
        assert [float(line[0]) for line in lines] == pytest.approx(expected.tolist(), abs=1e-5)
        report = json.loads(
            cli("depend", "score", folder / "latent.sapwood", sentences, "--json").out
        )
        assert report["log_prob"] == pytest.approx(expected.sum())
        assert report["is_probabilistic"] == (columns == 1)
    assert "expected a latent model" in fails("depend", "score", reranker, sentences).err
