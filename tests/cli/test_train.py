"""`sapwood train`."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from tests.cli.conftest import TREE

import sapwood as sw
from sapwood.cli.constituency.train import Binarise, Heads, Signatures
from sapwood.cli.options import TREE_OPTIONS, parse_duration
from sapwood.constituency.data import treebank
from sapwood.constituency.data.transform import BINARISATIONS, HEADS, Transform
from sapwood.constituency.learn import em, settings_search
from sapwood.constituency.learn.em import Progress
from sapwood.constituency.learn.ensemble_budget import PLAN, Candidate
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.learn.training_data import LexiconSettings
from sapwood.core.errors import FewDataWarning, SapwoodWarning
from sapwood.corpora.vocabulary import STYLES

REPORT_KEYS = {
    "seconds", "cpu_seconds", "peak_memory_mb", "states", "iterations", "method", "trees", "tokens",
    "symbols", "rules", "phases",
}  # fmt: skip


def test_writes_a_model_and_says_what_it_does(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.sapwood"
    result = cli("train", dev, "-o", out, "--method", "pcfg")
    assert (result.status, result.out) == (0, "")
    shapes = (
        r"1/3 reading  300 trees  [\d,]+ words  [\d.]+ s",
        r"2/3 training  pcfg  \d+ symbols  \d+ rules  [\d.]+ s",
        r"3/3 writing  .*m\.sapwood  [\d.]+ s",
    )
    lines = result.err.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(*pair) for pair in zip(shapes, lines, strict=True))
    assert sw.load(out).record["treebanks"] == [str(dev)]


def test_json_report_with_dev(cli, dev: Path, tmp_path: Path) -> None:
    options = ("--method", "pcfg", "--dev", dev, "--json", "--jobs", 1)
    result = cli("train", dev, "-o", tmp_path / "m", *options)
    report = json.loads(result.out)
    assert report.keys() >= REPORT_KEYS | {"dev"}
    assert (report["method"], report["states"], report["trees"]) == ("pcfg", 1, 300)
    assert report["dev"].keys() >= {"f1", "strict_f1", "tagging_accuracy", "sentences_per_second"}
    assert report["dev"]["sentences"] == 300
    assert 80 < report["dev"]["f1"] <= 100
    assert "4/4 parsing dev  300 sentences" in result.err


def test_dev_figures_as_text(cli, trees: Path, tmp_path: Path) -> None:
    result = cli("train", trees, "-o", tmp_path / "m", "--method", "pcfg", "--dev", trees)
    assert re.search(r"^F1 \(EVALB\) +100\.00$", result.out, re.MULTILINE)
    assert re.search(r"^F1 \(strict\) +100\.00$", result.out, re.MULTILINE)
    assert re.search(r"^Tagging accuracy +100\.00$", result.out, re.MULTILINE)


def test_options_reach_the_model(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    options = "--binarise right --horizontal 2 --vertical 2 --tag-parents --heads generic"
    more = "--rare-count 2 --signatures generic --seed 7"
    command = ("train", dev, "-o", out, "--method", "pcfg")
    assert cli(*command, *options.split(), *more.split()).status == 0
    model = sw.load(out)
    assert model.transform == Transform("right", 2, 2, True, "generic")
    assert model.lexicon.vocabulary.style == "generic"
    assert (model.record["seed"], model.record["rare_count"]) == (7, 2)
    lexicon = LexiconSettings(rare_count=2, style="generic")
    bank = sw.read_treebank(dev, model.transform)
    expected = sw.PCFG(lexicon=lexicon).fit(bank).model_.lexicon
    assert model.lexicon.vocabulary.classes == expected.vocabulary.classes
    assert model.lexicon.weights.tolist() == expected.weights.tolist()
    assert expected.weights.tolist() != sw.PCFG().fit(bank).model_.lexicon.weights.tolist()


def test_choices_are_those_of_the_library() -> None:
    assert get_args(Binarise) == BINARISATIONS
    assert get_args(Heads) == HEADS
    assert get_args(Signatures) == ("auto", *STYLES)


def test_spectral(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    result = cli(
        "train", dev, "-o", out, "--method", "spectral", "--states", 3, "--horizontal", 0,
        "--rare-count", 2, "--seed", 7, "--json",
    )  # fmt: skip
    report = json.loads(result.out)
    assert report.keys() >= REPORT_KEYS
    assert (report["method"], report["states"], report["iterations"]) == ("spectral", 3, 0)
    assert report["phases"].keys() >= {"svd", "tensors"}
    assert all(seconds >= 0 for seconds in report["phases"].values())
    assert re.search(r"^2/3 training  spectral  .*\n    plain grammar .* svd ", result.err, re.M)
    model = sw.load(out)
    assert (model.transform.horizontal, model.record["rare_count"]) == (0, 2)
    assert (model.record["seed"], model.record["n_states"]) == (7, 3)
    assert model.n_states.max() == report["most_states"] == 3


def test_what_the_treebank_decides_is_told_and_kept(
    cli, dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = settings_search.LIMITS._replace(least_trees=100)
    monkeypatch.setattr(settings_search, "LIMITS", few)
    out = tmp_path / "m"
    result = cli("train", dev, "-o", out, "--method", "pcfg", "--vertical", 1, "--json")
    found = json.loads(result.out)["choice"]
    settings = found["settings"]
    assert settings.keys() == {"horizontal", "binarise"}
    line = f"    horizontal {settings['horizontal']}, binarise {settings['binarise']}: chosen on "
    assert f"{line}{found['held']} held trees by pcfg (F1 " in result.err
    model = sw.load(out)
    assert model.transform.as_dict().items() >= settings.items()
    assert {"seconds": found["seconds"], "reason": ""} | model.record["choice"] == found
    fixed = ("--horizontal", 1, "--binarise", "left", "--vertical", 1)
    result = cli("train", dev, "-o", out, "--method", "pcfg", *fixed, "--json")
    assert json.loads(result.out)["choice"]["reason"] == "all were given"
    assert "chosen on" not in result.err
    assert sw.load(out).transform.binarise == "left"


def few_states(method: str) -> tuple[object, ...]:
    """An option for methods that have states, and for one that would take half a minute."""
    if method == "encoder":
        return ("--iterations", 2)
    return ("--states", 2) if METHODS[method].has_states else ()


@pytest.mark.parametrize("method", list(METHODS))
def test_the_same_command_writes_the_same_file(
    cli, few: Path, tmp_path: Path, method: str, short_plan: tuple[Candidate, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whatever the clock says, and on however many threads."""
    monkeypatch.setattr(treebank, "SHARD_NODES", 400)
    options = ("--method", method, *few_states(method), "--dev", few)
    options += ("--budget", "none") if METHODS[method].has_candidates else ()
    written = []
    for jobs in (1, 1, 3):
        assert cli("train", few, "-o", tmp_path / "m", *options, "--jobs", jobs).status == 0
        written.append((tmp_path / "m").read_bytes())
    assert len(set(written)) == 1
    assert cli("inspect", tmp_path / "m").status == 0


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_trains_a_model_that_parses(
    cli, few: Path, tmp_path: Path, method: str, short_plan: tuple[Candidate, ...]
) -> None:
    out = tmp_path / "m"
    options = ("--method", method, *few_states(method), "--dev", few, "--json")
    report = json.loads(cli("train", few, "-o", out, *options).out)
    assert report.keys() >= REPORT_KEYS
    assert report["method"] == method
    least = 20 if method == "encoder" else 80  # scored on the trees it was learnt from
    assert report["dev"]["f1"] > least
    words = ["the", "dog", "sleeps", "."]
    assert sw.Parser(sw.load(out)).parse(words).tree.words() == words


def test_spectral_is_that_of_the_library(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    cli("train", dev, "-o", out, "--method", "spectral", "--seed", 5)
    ours = sw.SpectralLPCFG(seed=5).fit(sw.read_treebank(dev)).model_
    assert (sw.load(out).rule_weights == ours.rule_weights).all()
    assert (sw.load(out).lexicon.weights == ours.lexicon.weights).all()


def test_the_spectrum_is_kept_short(cli, spectral: Path) -> None:
    spectrum = sw.load(spectral).record["spectrum"]
    assert 0 < len(spectrum) <= 40
    for values in spectrum.values():
        assert 0 < len(values) <= 4
        assert values == sorted(values, reverse=True)
        assert values == [round(value, 4) for value in values]


@pytest.mark.parametrize("text", [TREE * 5, "(NN dog)\n" * 5])
@pytest.mark.parametrize("states", [1, 256])
def test_spectral_models_of_hardly_any_data_can_be_used(
    cli, tmp_path: Path, text: str, states: int
) -> None:
    source, out = tmp_path / "few.mrg", tmp_path / "m"
    source.write_text(text)
    result = cli(
        "train", source, "-o", out, "--method", "spectral", "--states", states, "--json",
        "--dev", source,
    )  # fmt: skip
    assert json.loads(result.out)["dev"]["tagging_accuracy"] == 100
    assert cli("parse", out, stdin="dog\n").out == "(TOP (NN dog))\n"


@pytest.mark.parametrize(
    ("method", "option", "users"),
    [
        ("pcfg", ("--states", 8), "best, spectral, em, cluster, pivot, pivot-em"),
        ("crf", ("--states", 8), "best, spectral, em, cluster, pivot, pivot-em"),
        ("em", ("--budget", "5m"), "best"),
        ("spectral", ("--iterations", 3), "em, cluster, pivot-em, crf, encoder"),
        ("best", ("--iterations", 3), "em, cluster, pivot-em, crf, encoder"),
        ("pivot", ("--iterations", 3), "em, cluster, pivot-em, crf, encoder"),
        ("pivot", ("--checkpoint", "em.check"), "em, cluster, pivot-em"),
        ("crf", ("--patience", 3), "em, cluster, pivot-em"),
    ],
)
def test_options_of_other_methods_are_refused(
    misused, tmp_path: Path, method: str, option: tuple[str, Any], users: str
) -> None:
    # The treebank does not exist: the option is what is complained about, before reading.
    out = tmp_path / "m"
    result = misused("train", "nowhere.mrg", "-o", out, "--method", method, *option)
    told = f"error: {option[0]}: it does not apply to --method {method}; "
    assert result.err.splitlines()[0] == f"{told}it applies to {users}"
    assert not out.exists()


@pytest.mark.parametrize("option", TREE_OPTIONS)
def test_every_option_says_which_methods_it_is_for(option: str) -> None:
    users = [name for name in METHODS if any(METHODS[name].has(x) for x in TREE_OPTIONS[option])]
    assert users
    assert set(users) != set(METHODS)  # it would need no check


# -- best -----------------------------------------------------------------------------------------


def test_best_is_the_default(cli, trees: Path, tmp_path: Path) -> None:
    """With the whole plan, which takes no time on five small trees."""
    out = tmp_path / "m"
    result = cli("train", trees, "-o", out, "--dev", trees, "--json")
    report, model = json.loads(result.out), sw.load(out)
    assert isinstance(model, sw.Ensemble)
    assert report["method"] == model.record["method"] == "best"
    assert [trial["name"] for trial in report["trials"]] == [str(c) for c in PLAN]
    verdicts = [trial["verdict"] for trial in report["trials"]]
    assert verdicts.count("member") == report["members"] == len(model.members)
    assert set(verdicts) <= {"member", "trained"}
    assert [trial["name"] for trial in model.record["trials"]] == [str(c) for c in PLAN]
    assert report["phases"].keys() == {"training", "choosing", "grading"}
    assert report["dev"]["f1"] == model.record["dev_f1"]
    assert report["dev"]["f1"] == 100
    assert sw.Parser(model).parse(["the", "dog", "sleeps", "."]).tree == sw.clean(
        sw.Tree.parse(TREE)
    )


def test_every_candidate_is_shown(
    cli, few: Path, tmp_path: Path, short_plan: tuple[Candidate, ...]
) -> None:
    """With the seconds and, where there are dev trees, F1 alone and in the mix."""
    out = tmp_path / "m"
    without = cli("train", few, "-o", out)
    assert sw.load(out).weights.tolist() == pytest.approx([1 / 3] * 3)
    assert "2/3 training  best  3 members" in without.err
    graded = cli("train", few, "-o", out, "--dev", few, "--json")
    trials = json.loads(graded.out)["trials"]
    for candidate, trial in zip(short_plan, trials, strict=True):
        name = re.escape(str(candidate))
        assert re.search(rf"^    {name} +[\d.]+ s$", without.err, re.MULTILINE)
        line = rf"^    {name} +[\d.]+ s  alone [\d.]+  equal mix [\d.]+$"
        assert re.search(line, graded.err, re.MULTILINE)
        assert f"alone {trial['f1']:.2f}  equal mix {trial['mix_f1']:.2f}" in graded.err
    assert f"\n    3 members: {', '.join(map(str, short_plan))}\n" in without.err
    members = [trial["name"] for trial in trials if trial["verdict"] == "member"]
    assert re.search(rf"^    \d members?: {', '.join(members)}$", graded.err, re.MULTILINE)


def test_best_is_that_of_the_library(
    cli, dev: Path, tmp_path: Path, short_plan: tuple[Candidate, ...]
) -> None:
    out = tmp_path / "m"
    options = ("--seed", 5, "--states", 3, "--rare-count", 2, "--dev", dev, "--jobs", 1)
    cli("train", dev, "-o", out, *options)
    bank = sw.read_treebank(dev)
    lexicon = LexiconSettings(rare_count=2)
    learner = sw.EnsembleLPCFG(plan=short_plan, n_states=3, seed=5, plain=sw.PCFG(lexicon=lexicon))
    ours, found = learner.fit(bank, list(bank.trees())).model_, sw.load(out)
    assert found.weights.tolist() == ours.weights.tolist()
    for one, other in zip(found.grammars, ours.grammars, strict=True):
        np.testing.assert_allclose(one.rule_weights, other.rule_weights, rtol=1e-6)
        assert one.n_states.max() <= 3
    assert found.record["dev_f1"] == ours.record["dev_f1"]


def test_a_budget_too_small_for_more_than_one(
    cli, dev: Path, tmp_path: Path, short_plan: tuple[Candidate, ...]
) -> None:
    result = cli("train", dev, "-o", tmp_path / "m", "--budget", "0.001s", "--json")
    report = json.loads(result.out)
    first, *others = report["trials"]
    assert (first["verdict"], report["members"]) == ("member", 1)
    for trial in others:
        assert re.fullmatch(r"skipped: about \d+ s, 0 s left", trial["verdict"])
        assert re.search(rf"^    {trial['name']} +skipped: ", result.err, re.MULTILINE)
    assert sw.load(tmp_path / "m").record["budget"] == 0.001


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("none", None)],
)
def test_budgets(
    text: str, seconds: float | None, cli, trees: Path, tmp_path: Path,
    short_plan: tuple[Candidate, ...],
) -> None:  # fmt: skip
    assert parse_duration(text) == seconds
    cli("train", trees, "-o", tmp_path / "m", "--budget", text)
    assert sw.load(tmp_path / "m").record["budget"] == seconds


@pytest.mark.parametrize("text", ["0", "0s", "-5s", "soon", "5x", "s", "", "nan", "inf", "1e400h"])
def test_budgets_that_are_no_time(misused, text: str, tmp_path: Path) -> None:
    # The treebank does not exist: the option is what is complained about, before reading.
    result = misused("train", "nowhere.mrg", "-o", tmp_path / "m", "--budget", text)
    assert "is not a duration" in result.err
    assert "90s" in result.err


def test_crf_on_the_command_line(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    report = json.loads(cli("train", dev, "-o", out, "--method", "crf", "--json").out)
    assert (report["method"], report["states"], report["iterations"]) == ("crf", 1, 5)
    assert report["phases"].keys() == {"charts", "passes"}
    ours = sw.SpanCRF().fit(sw.read_treebank(dev)).model_
    assert sw.load(out).feature_weights.tobytes() == ours.feature_weights.tobytes()


# -- EM on the command line -----------------------------------------------------------------------

EM = ("--method", "em", "--states", 2, "--jobs", 1, "--json")


def is_same(one: Path, other: sw.LatentGrammar) -> bool:
    found = sw.load(one)
    return bool(
        np.array_equal(found.rule_weights, other.rule_weights)
        and np.array_equal(found.lexicon.weights, other.lexicon.weights)
    )


def test_iterations(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    report = json.loads(cli("train", dev, "-o", out, *EM, "--iterations", 3).out)
    assert report["iterations"] == sw.load(out).record["iterations"] == 3
    assert is_same(out, sw.EMLPCFG(2, iterations=3).fit(sw.read_treebank(dev)).model_)


@pytest.mark.parametrize(
    ("method", "told", "iterations"),
    [("em", (), 20), ("cluster", (), 0), ("pivot", (), 0), ("pivot-em", (), 10),
     ("cluster", ("--iterations", 2), 2), ("pivot-em", ("--iterations", 2), 2)],
)  # fmt: skip
def test_iterations_told_or_not(
    cli, dev: Path, tmp_path: Path, method: str, told: tuple[object, ...], iterations: int
) -> None:
    options = ("--method", method, "--states", 2, "--json", *told)
    report = json.loads(cli("train", dev, "-o", tmp_path / "m", *options).out)
    assert report["iterations"] == iterations


def test_an_interrupted_training_goes_on_from_its_checkpoint(
    cli, dev: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, checkpoint = tmp_path / "m", tmp_path / "em"
    told: list[int] = []
    command = ("train", dev, "-o", out, *EM, "--iterations", 8, "--checkpoint", checkpoint)

    def saving(stop: int) -> Callable[..., None]:
        def save(path: Path, now: Progress, settings: dict[str, Any]) -> None:
            told.append(now.info.iterations)
            if now.info.iterations == stop:
                raise KeyboardInterrupt
            whole(path, now, settings)

        return save

    whole = em.save_checkpoint
    monkeypatch.setattr(em, "save_checkpoint", saving(5))
    result = cli(*command)
    assert (result.status, out.exists(), checkpoint.exists()) == (130, False, True)
    monkeypatch.setattr(em, "save_checkpoint", saving(0))
    assert json.loads(cli(*command).out)["iterations"] == 8
    assert told == [1, 2, 3, 4, 5, 5, 6, 7, 8]
    assert is_same(out, sw.EMLPCFG(2, iterations=8).fit(sw.read_treebank(dev)).model_)


def test_a_checkpoint_of_another_training_is_refused(fails, cli, dev: Path, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "m", tmp_path / "em"
    options = ("--iterations", 2, "--checkpoint", checkpoint)
    cli("train", dev, "-o", out, *EM, *options)
    before = checkpoint.read_bytes()
    result = fails("train", dev, "-o", out, *EM, *options, "--seed", 1)
    assert f"error: {checkpoint}: belongs to a training with other settings" in result.err
    assert checkpoint.read_bytes() == before


def test_patience_keeps_the_best_iteration(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    options = (*EM, "--iterations", 6, "--dev", dev)
    patient = json.loads(cli("train", dev, "-o", out, *options, "--patience", 3).out)
    ours = sw.EMLPCFG(2, iterations=6, patience=3)
    bank = sw.read_treebank(dev)
    ours.fit(bank, list(bank.trees()))
    assert is_same(out, ours.model_)
    assert patient["dev"]["f1"] == max(f1 for _, f1 in ours.info_.dev_f1)
    assert sw.load(out).record["best_iteration"] == ours.info_.best_iteration
    assert patient["phases"].keys() == {"em", "dev"}
    alone = json.loads(cli("train", dev, "-o", out, *options).out)
    assert "best_iteration" not in sw.load(out).record  # --dev alone chooses nothing
    assert alone["dev"]["f1"] <= patient["dev"]["f1"]


def test_several_sources_and_stdin(cli, trees: Path, tmp_path: Path) -> None:
    packed = tmp_path / "more.mrg.gz"
    packed.write_bytes(gzip.compress(TREE.encode()))
    command = ("train", trees, packed, "-", "-o", tmp_path / "m", "--method", "pcfg", "--json")
    result = cli(*command, stdin=TREE * 3)
    assert json.loads(result.out)["trees"] == 9


def test_an_old_model_is_replaced(cli, trees: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    cli("train", trees, "-o", out, "--method", "pcfg")
    cli("train", trees, "-o", out, "--method", "spectral")
    assert sw.load(out).record["method"] == "spectral"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "trees.mrg"]


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_empty_input_names_the_file(fails, tmp_path: Path, text: str) -> None:
    source = tmp_path / "none.mrg"
    source.write_text(text)
    assert f"error: {source}: no tree found" in fails("train", source, "-o", tmp_path / "m").err
    assert "no tree found" in fails("train", "-", "-o", tmp_path / "m", stdin=text).err


@pytest.mark.parametrize(
    "options",
    [
        [], ["-o"], ["-o", "m", "--method", "magic"], ["-o", "m", "--binarise", "up"],
        ["-o", "m", "--horizontal", "-1"], ["-o", "m", "--vertical", "0"],
        ["-o", "m", "--jobs", "x"], ["-o", "m", "--dev", "-"],
        ["-o", "m", "--method", "spectral", "--states", "0"], ["-o", "m", "--states", "many"],
        ["-o", "m", "--method", "spectral", "--states", "257"],
        ["-o", "m", "--method", "em", "--iterations", "-1"],
        ["-o", "m", "--method", "em", "--patience", "0", "--dev", "d"],
    ],
)  # fmt: skip
def test_misuse(misused, options: list[str]) -> None:
    misused("train", "-", *options)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        ("- -o m --method magic", ["pcfg, spectral"]),
        ("- -o m --method em --patience 2", ["--patience", "--dev FILE"]),
        ("- -o m --method crf --iterations 0", ["--iterations", "from 1 up for --method crf"]),
        ("- -o m --method encoder --iterations 0", ["from 1 up for --method encoder"]),
        ("- -o m --method best --on-disk .", ["not apply to --method best", "spectral, em"]),
        ("- -o m --method crf --on-disk .", ["not apply to --method crf", "spectral, em"]),
        ("-o m", ["TREEBANK"]),
    ],
)
def test_misuse_is_explained(misused, options: str, messages: list[str]) -> None:
    told = " ".join(misused("train", *options.split()).err.split())
    assert all(message in told for message in messages)


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        # The treebank does not exist, yet the output is what is complained about.
        ("nowhere.mrg -o .", ["folder"]),
        ("nowhere.mrg -o no/such/m", ["folder"]),
        ("nowhere.mrg -o m --method em --checkpoint .", ["folder"]),
        ("nowhere.mrg -o m --method em --checkpoint no/such/em", ["folder"]),
        ("trees.mrg -o trees.mrg", ["also an input"]),
        ("trees.mrg -o m --method em --checkpoint trees.mrg", ["also an input"]),
        ("nowhere.mrg -o m", ["nowhere.mrg: no such file"]),
        ("sub -o m", ["holds no file"]),
        ("trees.mrg -o m --dev no.mrg", ["no.mrg: no such file"]),
        ("trees.mrg -o m --dev empty", ["no tree found"]),
        ("trees.mrg -o m --method pcfg --on-disk missing", ["missing"]),
        ("bad.mrg -o m", ["error: bad.mrg:2:1: "]),
        ("worse.mrg -o m --skip-bad", ["error: worse.mrg: no tree found", "1 tree skipped"]),
    ],
)
def test_what_is_refused(
    fails, trees: Path, empty: Path, monkeypatch: pytest.MonkeyPatch, options: str,
    messages: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(trees.parent)
    Path("sub").mkdir()
    Path("bad.mrg").write_text(TREE + "(S (NP (NN dog))\n")
    Path("worse.mrg").write_text("(S (NP (NN dog))\n")
    told = fails("train", *options.split()).err
    assert all(message in told for message in messages)
    assert "training" not in told
    assert not Path("m").exists()
    assert trees.read_text() == TREE * 5


def test_skip_bad_counts_them(cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mrg"
    bad.write_text("(S (NP (NN dog) word))\n" + TREE * 2)
    command = ("train", bad, "-o", tmp_path / "m", "--method", "pcfg", "--skip-bad", "--json")
    result = cli(*command)
    assert json.loads(result.out)["trees"] == 2
    assert f"skipped 1 broken tree; the first: {bad}:1:" in result.err


# -- on disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pcfg", "spectral", "em"])
def test_trees_on_disk_give_the_same_model(
    cli, dev: Path, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treebank, "SHARD_NODES", 2000)
    options = ("--method", method, *few_states(method), "--dev", dev)
    folder = tmp_path / "folder"
    folder.mkdir()
    assert cli("train", dev, "-o", tmp_path / "memory", *options).status == 0
    result = cli("train", dev, "-o", tmp_path / "disk", *options, "--on-disk", folder)
    assert result.status == 0
    assert "dev trees are also in the training trees" in result.err
    assert (tmp_path / "memory").read_bytes() == (tmp_path / "disk").read_bytes()
    assert list(folder.iterdir()) == []


def test_a_treebank_of_one_tree_is_doubted(cli, tmp_path: Path) -> None:
    one = tmp_path / "one.mrg"
    one.write_text("(TOP (S (NP (NNS dogs)) (VP (VBP bark))))\n")
    with pytest.warns(FewDataWarning, match="were learnt from 1 tree only") as told:
        result = cli("train", one, "-o", tmp_path / "m.sapwood", "--method", "pcfg")
    assert result.status == 0
    assert isinstance(told[0].message, SapwoodWarning)
    assert told[0].message.hint.startswith("give at least 20")
