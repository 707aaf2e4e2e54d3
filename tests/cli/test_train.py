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

import sapwood as sw
from sapwood.cli.constituency.train import Binarise, Heads, Signatures, seconds_of
from sapwood.cli.methods import METHODS, OPTIONS
from sapwood.constituency.data import treebank
from sapwood.constituency.data.transform import BINARISATIONS, HEADS, Transform
from sapwood.constituency.learn import choice, em_checkpoint
from sapwood.constituency.learn.em_steps import Progress
from sapwood.constituency.learn.ensemble import PLAN, Candidate
from sapwood.constituency.learn.pcfg import LexiconSettings
from sapwood.core.errors import FewDataWarning, SapwoodWarning
from sapwood.corpora.vocabulary import STYLES

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))\n"
REPORT_KEYS = {
    "seconds", "cpu_seconds", "peak_memory_mb", "states", "iterations", "method", "trees", "tokens",
    "symbols", "rules", "phases",
}  # fmt: skip


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    path = tmp_path / "trees.mrg"
    path.write_text(TREE * 5)
    return path


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
    result = cli("train", trees, "-o", tmp_path / "m", "--dev", trees)
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


def test_defaults_are_those_of_the_library(cli, dev: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    cli("train", dev, "-o", out, "--method", "pcfg")
    model, ours = sw.load(out), sw.PCFG().fit(sw.read_treebank(dev)).model_
    assert model.transform == ours.transform
    assert (model.rule_weights == ours.rule_weights).all()
    assert (model.lexicon.weights == ours.lexicon.weights).all()
    assert model.record["rare_count"] == LexiconSettings().rare_count


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
    monkeypatch.setattr(choice, "LEAST_TREES", 100)
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
    cli, dev: Path, tmp_path: Path, method: str, short_plan: tuple[Candidate, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whatever the clock says, and on however many threads."""
    monkeypatch.setattr(treebank, "SHARD_NODES", 2000)
    few = tmp_path / "few.mrg"
    sw.write_trees(sw.bundled_treebank("dev")[:60], few)
    options = ("--method", method, *few_states(method), "--dev", few)
    options += ("--budget", "none") if METHODS[method].has_candidates else ()
    written = []
    source = few if method == "encoder" else dev  # the slowest by far
    for jobs in (1, 1, 3):
        assert cli("train", source, "-o", tmp_path / "m", *options, "--jobs", jobs).status == 0
        written.append((tmp_path / "m").read_bytes())
    assert len(set(written)) == 1
    assert cli("inspect", tmp_path / "m").status == 0


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_trains_a_model_that_parses(
    cli, dev: Path, tmp_path: Path, method: str, short_plan: tuple[Candidate, ...]
) -> None:
    out = tmp_path / "m"
    options = ("--method", method, *few_states(method), "--dev", dev, "--json")
    report = json.loads(cli("train", dev, "-o", out, *options).out)
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
    told = f"Invalid value for {option[0]}: it does not apply to --method {method}; "
    assert " ".join(result.err.split()).endswith(f"{told}it applies to {users}")
    assert not out.exists()


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_says_which_methods_it_is_for(option: str) -> None:
    users = [name for name in METHODS if any(METHODS[name].has(x) for x in OPTIONS[option])]
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
    cli, dev: Path, tmp_path: Path, short_plan: tuple[Candidate, ...]
) -> None:
    """With the seconds and, where there are dev trees, F1 alone and in the mix."""
    out = tmp_path / "m"
    without = cli("train", dev, "-o", out)
    assert sw.load(out).weights.tolist() == pytest.approx([1 / 3] * 3)
    assert "2/3 training  best  3 members" in without.err
    graded = cli("train", dev, "-o", out, "--dev", dev, "--json")
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
    assert seconds_of(text) == seconds
    cli("train", trees, "-o", tmp_path / "m", "--budget", text)
    assert sw.load(tmp_path / "m").record["budget"] == seconds


@pytest.mark.parametrize("text", ["0", "0s", "-5s", "soon", "5x", "s", "", "nan", "inf", "1e400h"])
def test_budgets_that_are_no_time(misused, text: str, tmp_path: Path) -> None:
    # The treebank does not exist: the option is what is complained about, before reading.
    result = misused("train", "nowhere.mrg", "-o", tmp_path / "m", "--budget", text)
    assert "is no time" in result.err
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
    ("method", "iterations"), [("em", 20), ("cluster", 0), ("pivot", 0), ("pivot-em", 10)]
)
def test_iterations_unless_told(
    cli, dev: Path, tmp_path: Path, method: str, iterations: int
) -> None:
    options = ("--method", method, "--states", 2, "--json")
    report = json.loads(cli("train", dev, "-o", tmp_path / "m", *options).out)
    assert report["iterations"] == iterations


@pytest.mark.parametrize("method", ["cluster", "pivot-em"])
def test_iterations_behind_other_starts(cli, dev: Path, tmp_path: Path, method: str) -> None:
    options = ("--method", method, "--states", 2, "--iterations", 2, "--json")
    assert json.loads(cli("train", dev, "-o", tmp_path / "m", *options).out)["iterations"] == 2


def test_options_of_em_are_let_through(cli, dev: Path, tmp_path: Path) -> None:
    options = ("--iterations", 2, "--patience", 1, "--dev", dev, "--checkpoint", tmp_path / "em")
    assert cli("train", dev, "-o", tmp_path / "m", *EM, *options).status == 0
    assert (tmp_path / "em").exists()


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

    whole = em_checkpoint.save
    monkeypatch.setattr(em_checkpoint, "save", saving(5))
    result = cli(*command)
    assert (result.status, out.exists(), checkpoint.exists()) == (130, False, True)
    monkeypatch.setattr(em_checkpoint, "save", saving(0))
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


def test_patience_needs_dev_trees(misused, trees: Path, tmp_path: Path) -> None:
    result = misused("train", trees, "-o", tmp_path / "m", "--method", "em", "--patience", 2)
    assert "--patience" in result.err
    assert "--dev FILE" in result.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("place", [".", "no/such/em"])
def test_a_checkpoint_place_is_checked_before_reading(fails, tmp_path: Path, place: str) -> None:
    # The treebank does not exist, yet the checkpoint is what is complained about.
    options = ("--method", "em", "--checkpoint", tmp_path / place)
    assert "folder" in fails("train", "nowhere.mrg", "-o", tmp_path / "m", *options).err


def test_the_treebank_is_no_checkpoint(fails, trees: Path, tmp_path: Path) -> None:
    options = ("--method", "em", "--checkpoint", trees)
    assert "also an input" in fails("train", trees, "-o", tmp_path / "m", *options).err
    assert trees.read_text() == TREE * 5


def test_jobs_do_not_change_the_model(cli, dev: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    cli("train", dev, "-o", one, "--method", "pcfg", "--jobs", 1)
    cli("train", dev, "-o", two, "--method", "pcfg", "--jobs", 2)
    assert (sw.load(one).rule_weights == sw.load(two).rule_weights).all()


def test_several_sources_and_stdin(cli, trees: Path, tmp_path: Path) -> None:
    packed = tmp_path / "more.mrg.gz"
    packed.write_bytes(gzip.compress(TREE.encode()))
    result = cli("train", trees, packed, "-", "-o", tmp_path / "m", "--json", stdin=TREE * 3)
    assert json.loads(result.out)["trees"] == 9


def test_an_old_model_is_replaced(cli, trees: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    cli("train", trees, "-o", out, "--method", "pcfg")
    cli("train", trees, "-o", out)
    assert sw.load(out).record["method"] == "best"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "trees.mrg"]


# -- what goes wrong ------------------------------------------------------------------------------


def test_broken_trees_stop_it_with_their_place(fails, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mrg"
    bad.write_text(TREE + "(S (NP (NN dog))\n")
    result = fails("train", bad, "-o", tmp_path / "m")
    assert f"error: {bad}:2:1: " in result.err
    assert not (tmp_path / "m").exists()


def test_skip_bad_counts_them(cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mrg"
    bad.write_text("(S (NP (NN dog) word))\n" + TREE * 2)
    result = cli("train", bad, "-o", tmp_path / "m", "--skip-bad", "--json")
    assert json.loads(result.out)["trees"] == 2
    assert f"skipped 1 broken tree; the first: {bad}:1:" in result.err


def test_nothing_but_broken_trees(fails, tmp_path: Path) -> None:
    bad = tmp_path / "bad.mrg"
    bad.write_text("(S (NP (NN dog))\n")
    result = fails("train", bad, "-o", tmp_path / "m", "--skip-bad")
    assert f"error: {bad}: no tree found" in result.err
    assert "1 tree skipped" in result.err


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_empty_input_names_the_file(fails, tmp_path: Path, text: str) -> None:
    source = tmp_path / "none.mrg"
    source.write_text(text)
    assert f"error: {source}: no tree found" in fails("train", source, "-o", tmp_path / "m").err
    assert "no tree found" in fails("train", "-", "-o", tmp_path / "m", stdin=text).err


def test_missing_file(fails, tmp_path: Path) -> None:
    assert "nowhere.mrg: no such file" in fails("train", "nowhere.mrg", "-o", tmp_path / "m").err


def test_folder_without_trees(fails, tmp_path: Path) -> None:
    assert "holds no file" in fails("train", tmp_path, "-o", tmp_path / "m").err


def test_missing_dev_is_told_before_training(fails, trees: Path, tmp_path: Path) -> None:
    result = fails("train", trees, "-o", tmp_path / "m", "--dev", tmp_path / "no.mrg")
    assert "training" not in result.err
    assert not (tmp_path / "m").exists()


def test_empty_dev(fails, trees: Path, empty: Path, tmp_path: Path) -> None:
    assert "no tree found" in fails("train", trees, "-o", tmp_path / "m", "--dev", empty).err


@pytest.mark.parametrize("out", [".", "no/such/m"])
def test_output_is_checked_before_reading(fails, tmp_path: Path, out: str) -> None:
    # The treebank does not exist, yet the output is what is complained about.
    assert "folder" in fails("train", "nowhere.mrg", "-o", tmp_path / out).err


def test_the_treebank_is_not_overwritten(fails, trees: Path) -> None:
    assert "also an input" in fails("train", trees, "-o", trees).err
    assert trees.read_text() == TREE * 5


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
        ["-o", "m", "--method", "em", "--patience", "2"],
    ],
)  # fmt: skip
def test_misuse(misused, options: list[str]) -> None:
    misused("train", "-", *options)


def test_an_unknown_method_lists_the_known_ones(misused) -> None:
    assert "pcfg, spectral" in misused("train", "-", "-o", "m", "--method", "magic").err


def test_no_treebank(misused, tmp_path: Path) -> None:
    misused("train", "-o", tmp_path / "m")


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


@pytest.mark.parametrize("method", ["best", "crf"])
def test_what_holds_all_charts_is_not_for_the_disk(
    cli, dev: Path, tmp_path: Path, method: str
) -> None:
    result = cli("train", dev, "-o", tmp_path / "m", "--method", method, "--on-disk", tmp_path)
    assert result.status == 2
    assert f"does not apply to --method {method}" in result.err
    assert "spectral, em" in result.err


def test_a_folder_that_is_not_there(fails, dev: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    message = fails("train", dev, "-o", tmp_path / "m", "--method", "pcfg", "--on-disk", missing)
    assert str(missing) in message.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("method", ["encoder", "crf"])
def test_no_passes_at_all_are_a_usage_error(
    misused, dev: Path, tmp_path: Path, method: str
) -> None:
    told = misused("train", dev, "-o", tmp_path / "m", "--method", method, "--iterations", 0).err
    assert "--iterations" in told
    assert f"from 1 up for --method {method}" in told


def test_a_treebank_of_one_tree_is_doubted(cli, tmp_path: Path) -> None:
    one = tmp_path / "one.mrg"
    one.write_text("(TOP (S (NP (NNS dogs)) (VP (VBP bark))))\n")
    with pytest.warns(FewDataWarning, match="were learnt from 1 tree only") as told:
        result = cli("train", one, "-o", tmp_path / "m.sapwood", "--method", "pcfg")
    assert result.status == 0
    assert isinstance(told[0].message, SapwoodWarning)
    assert told[0].message.hint.startswith("give at least 20")
