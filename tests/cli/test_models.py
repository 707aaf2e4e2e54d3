"""`sapwood score`, `sapwood sample`, `sapwood inspect`: commands that look into a model."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Learn, Run

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.identify.model.uniform_trees import UniformTreeModel

SENTENCE = "the dog sleeps ."
TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"


# -- score ----------------------------------------------------------------------------------------


def test_score_of_sentences(cli, model: Path) -> None:
    result = cli("score", model, "-", stdin=f"{SENTENCE}\n\ndog\n")
    first, nothing, last = result.out.split("\n")[:-1]
    grammar = sw.load(model)
    assert float(first) == pytest.approx(grammar.log_prob(SENTENCE.split()), abs=1e-6)
    assert float(last) == pytest.approx(grammar.log_prob(["dog"]), abs=1e-6)
    assert nothing == ""
    assert result.err.startswith("2 sentences  5 words  log-probability ")
    assert "perplexity" in result.err
    assert "1 empty line" in result.err


def test_score_of_trees(cli, model: Path) -> None:
    result = cli("score", model, stdin=f"\n  {TREE}\n{TREE}")
    expected = sw.load(model).log_prob(sw.Tree.parse(TREE))
    assert [float(line) for line in result.out.splitlines()] == pytest.approx(
        [expected] * 2, abs=1e-6
    )
    assert result.err.startswith("2 trees  8 words  ")


def test_score_as_json(cli, model: Path) -> None:
    text = f"{TREE}\n(FOO (BAR dog) (BAZ cat))\n"
    report = json.loads(cli("score", model, "--json", stdin=text).out)
    assert (report["kind"], report["scored"], report["impossible"]) == ("trees", 1, 1)
    assert report["log_probs"][1] is None
    assert report["perplexity"] == pytest.approx(math.exp(-report["log_prob"] / 4))


def test_impossible_items_are_told(cli, model: Path) -> None:
    result = cli("score", model, stdin="(FOO (BAR dog) (BAZ cat))")
    assert result.out == "-inf\n"
    assert "1 impossible, left out" in result.err


def test_what_the_file_holds_can_be_said(cli, model: Path) -> None:
    assert len(cli("score", model, "--sentences", stdin="( the dog )\n").out.splitlines()) == 1
    assert cli("score", model, "--trees", stdin="the dog\n").status == 1


def test_score_of_the_bundled_grammar(cli) -> None:
    tree, sentence = (float(cli("score", "bundled", stdin=s).out) for s in (TREE, SENTENCE))
    assert tree <= sentence < 0


def test_a_model_of_another_kind_is_refused(cli, tmp_path: Path) -> None:
    path, tables = tmp_path / "unmixed.sapwood", {"root": np.full(2, 0.5), "argument": np.eye(2)}
    UniformTreeModel("dep-ies", ("a", "b"), tables).save(path)
    for command in ("parse", "sample"):
        result = cli(command, path)
        assert result.status == 1
        assert "holds a model of sentences whose trees are hidden" in result.err
        assert "expected a grammar or an ensemble" in result.err
        assert "hint: " in result.err


def test_score_without_input(cli, model: Path, empty: Path) -> None:
    result = cli("score", model, empty)
    assert (result.status, result.out) == (0, "")


def test_score_fails(fails, model: Path, tmp_path: Path) -> None:
    assert "<stdin>:1:1" in fails("score", model, stdin="(S (NP").err
    assert "none: no such file" in fails("score", model, tmp_path / "none").err
    assert "a folder, expected a file" in fails("score", model, tmp_path).err
    fails("score", tmp_path / "none", stdin=TREE)


def test_score_tells_weights_from_probabilities(cli, tmp_path: Path) -> None:
    """A spectral model's weights may be negative: with their sign, and without a perplexity."""
    path = tmp_path / "spectral.sapwood"
    bank = sw.bundled_treebank("dev")
    model = sw.SpectralLPCFG(4).fit(bank).model_
    lexicon = model.lexicon
    of_the = lexicon.entries(lexicon.vocabulary.row("the", is_first=False))
    place = slice(lexicon.weight_start[of_the.start], lexicon.weight_start[of_the.stop])
    weights = lexicon.weights.copy()
    weights[place] *= -1.0  # of trees with an odd number of them
    model = replace(model, lexicon=replace(lexicon, weights=weights))
    model.save(path)
    texts = [str(tree) for tree in bank[:40].trees()]
    signs = model.signed_log_probs(bank[:40])[1]
    n_scored, n_negative = int((signs != 0).sum()), int((signs < 0).sum())
    assert 0 < n_negative < n_scored
    result = cli("score", path, stdin="\n".join(texts))
    columns = [line.split("\t") for line in result.out.splitlines()]
    assert [{"+": 1, "-": -1, "0": 0}[sign] for _, sign in columns] == signs.tolist()
    assert f"{n_negative} of {n_scored} are negative" in result.err
    assert "perplexity 1" not in result.err
    assert "per word" not in result.err
    report = json.loads(cli("score", path, "--json", stdin="\n".join(texts)).out)
    assert report["is_probabilistic"] is False
    assert (report["perplexity"], report["negative"]) == (None, n_negative)
    assert report["signs"] == signs.tolist()


def test_score_of_probabilities_has_no_sign(cli, model: Path) -> None:
    result = cli("score", model, "--json", stdin=f"{SENTENCE}\n\n")
    report = json.loads(result.out)
    assert report["is_probabilistic"] is True
    assert (report["signs"], report["negative"]) == ([1, None], 0)
    assert "negative" not in result.err


def test_score_of_an_ensemble(cli, ensemble: Path) -> None:
    model = sw.load(ensemble)
    lines = [cli("score", ensemble, "-j", 2, stdin=s).out for s in (TREE, SENTENCE)]
    found = [float(line.split("\t")[0]) for line in lines]  # a member is spectral: signs follow
    expected = [model.log_prob(sw.Tree.parse(TREE)), model.log_prob(SENTENCE.split())]
    assert found == pytest.approx(expected, abs=1e-6)


# -- sample ---------------------------------------------------------------------------------------


def test_sample(cli, model: Path) -> None:
    result = cli("sample", model, "-n", 5, "--seed", 3)
    trees = [sw.Tree.parse(line) for line in result.out.splitlines()]
    assert trees == sw.load(model).sample(5, seed=3)
    assert result.err == ""


def test_sample_words(cli) -> None:
    trees = cli("sample", "bundled", "-n", 4).out.splitlines()
    words = cli("sample", "bundled", "-n", 4, "--words").out.splitlines()
    assert words == [" ".join(sw.Tree.parse(tree).words()) for tree in trees]


def test_seeds_differ(cli) -> None:
    one, other = (cli("sample", "bundled", "-n", 4, "--seed", seed).out for seed in (1, 2))
    assert one != other


def test_many_are_drawn_in_chunks(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli("sample", "bundled", "-n", 7).out
    monkeypatch.setattr("sapwood.cli.constituency.use.SAMPLE_CHUNK", 2)
    assert cli("sample", "bundled", "-n", 7).out == whole


def test_sample_nothing(cli) -> None:
    assert cli("sample", "bundled", "-n", 0) == (0, "", "")


def test_sample_misuse(misused, fails, empty: Path) -> None:
    misused("sample", "bundled", "-n", "-1")
    misused("sample")
    fails("sample", empty)


def test_sample_of_an_ensemble(cli, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.sapwood"
    two = sw.Ensemble.of([sw.load(model), sw.bundled_grammar()])
    two.save(path)
    lines = cli("sample", path, "-n", 20, "--seed", 5).out.splitlines()
    assert [sw.Tree.parse(line) for line in lines] == two.sample(20, seed=5)


def test_sample_of_a_mix_leaves_out_members_without_probabilities(
    cli, fails, learn: Learn, ensemble: Path, tmp_path: Path
) -> None:
    drawn = cli("sample", ensemble, "-n", 3)
    assert len(drawn.out.splitlines()) == 3
    assert "drawn from pcfg (67%) and cluster (33%)" in drawn.err
    assert "left out: spectral" in drawn.err
    alone = tmp_path / "spectral.sapwood"
    learn("spectral").save(alone)
    refused = fails("sample", alone).err
    assert f"{alone}: trees are drawn by their probabilities, and spectral has none" in refused
    assert "hint: use a model of --method pcfg, em, pivot or cluster" in refused


# -- inspect --------------------------------------------------------------------------------------


def test_inspect_tells_what_is_in_it(cli, model: Path) -> None:
    text = cli("inspect", model).out
    for expected in (
        "method     pcfg",
        "binarise=head",
        "trees 300",
        "<unk-",
        "NP ",
        "1 to 1 a symbol",
    ):
        assert expected in text


def test_inspect_as_json(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--json", "--top", 3).out)
    grammar = sw.load(model)
    assert report["method"] == "pcfg"
    assert report["sizes"]["rules"] == len(grammar.rules)
    assert len(report["symbols"]) == grammar.n_symbols
    assert sum(row["share"] for row in report["symbols"]) == pytest.approx(1)
    for row in report["unknown_words"]:
        assert 0 < sum(tag["probability"] for tag in row["tags"]) <= 1 + 1e-9


def test_rules_of_a_phrase(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--label", "NP", "--top", 500, "--json").out)
    (symbol,) = report["symbols"]
    (row,) = symbol["rows"]
    assert sum(rule["probability"] for rule in row["rules"]) == pytest.approx(1)
    assert row["rules"][0]["rule"] == "DT NN"


def test_words_of_a_tag(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--label", "DT", "--top", 5000, "--json").out)
    words = report["symbols"][0]["rows"][0]["words"]
    assert sum(word["probability"] for word in words) == pytest.approx(1)
    assert words[0]["word"] == "the"
    assert "DT -> the" in cli("inspect", model, "--label", "DT").out


@pytest.mark.parametrize("label", ["NP", "NN"])
def test_states_have_rows_of_their_own(cli, label: str) -> None:
    report = json.loads(cli("inspect", "bundled", "--label", label, "--top", 5000, "--json").out)
    symbol = report["symbols"][0]
    assert symbol["states"] > 1
    assert [row["state"] for row in symbol["rows"]] == [None, *range(symbol["states"])]
    for row in symbol["rows"]:
        assert sum(
            item["probability"] for item in row.get("rules") or row["words"]
        ) == pytest.approx(1)
    assert "state 1" in cli("inspect", "bundled", "--label", label).out


def test_a_label_inside_chains_is_found(cli, model: Path) -> None:
    assert cli("inspect", model, "--label", "PRP").out.startswith("NP|PRP  tag")


def test_symbols_as_the_model_writes_them(cli, model: Path) -> None:
    names = [row["symbol"] for row in json.loads(cli("inspect", model, "--json").out)["symbols"]]
    assert {"|", "@"} <= set("".join(names))
    for name in names[:: len(names) // 12]:
        assert cli("inspect", model, "--label", name).out.startswith(f"{name}  ")


def test_unknown_label_offers_near_ones(fails, model: Path) -> None:
    error = fails("inspect", model, "--label", "NPP").err
    assert re.search("no label 'NPP'; it has, among others, .*NP", error)
    fails("inspect", model, "--label", "")


def test_inspect_fails(fails, misused, empty: Path, tmp_path: Path) -> None:
    fails("inspect", empty)
    fails("inspect", tmp_path)
    fails("inspect", tmp_path / "none")
    misused("inspect", "bundled", "--top", 0)


def test_contexts_of_a_plain_label(cli, model: Path) -> None:
    report = json.loads(cli("inspect", model, "--label", "NP", "--top", 500, "--json").out)
    contexts = report["symbols"][0]["rows"][0]["contexts"]
    assert sum(context["probability"] for context in contexts) == pytest.approx(1, abs=1e-3)
    assert all(re.search(r"-> (\[NP\] \S+|\S+ \[NP\])$", c["context"]) for c in contexts)
    assert "found in" in cli("inspect", model, "--label", "NP").out


def test_contexts_of_states(cli) -> None:
    report = json.loads(cli("inspect", "bundled", "--label", "NN", "--top", 999, "--json").out)
    rows = {row["state"]: row for row in report["symbols"][0]["rows"]}
    for row in rows.values():
        assert sum(c["probability"] for c in row["contexts"]) == pytest.approx(1, abs=1e-3)
    # The states mean something: bowls and cups are only ever counted, never possessors.
    (vessels,) = [row for row in rows.values() if row["words"][0]["word"] == "bowl"]
    assert [c["context"] for c in vessels["contexts"]] == ["NP -> DT [NN]"]


@pytest.mark.parametrize(("label", "kind"), [("NP", "rule"), ("NN", "word")])
def test_dimensions_of_a_spectral_label(cli, spectral: Path, label: str, kind: str) -> None:
    report = json.loads(cli("inspect", spectral, "--label", label, "--top", 3, "--json").out)
    symbol = report["symbols"][0]
    assert [row["state"] for row in symbol["rows"]] == [None]
    assert [d["dimension"] for d in symbol["dimensions"]] == list(range(1, symbol["states"] + 1))
    for dimension in symbol["dimensions"]:
        assert dimension["singular_value"] > 0
        for side, sign in (("positive", 1), ("negative", -1)):
            for family in (kind, "context"):
                items = dimension[side][f"{family}s"]
                assert 0 < len(items) <= 3
                assert all(item["pull"] * sign > 0 and item[family] for item in items)


def test_dimensions_are_said_to_be_no_states(cli, spectral: Path) -> None:
    text = cli("inspect", spectral, "--label", "NN").out
    assert "directions of a basis found by SVD, not states" in text
    assert re.search(r"^  dimension 1, singular value [\d.]+$", text, re.MULTILINE)
    assert re.search(r"^    \+ words +\S+ \+[\d.]+, ", text, re.MULTILINE)
    assert re.search(r"^    - contexts .* \[NN\] -[\d.]+", text, re.MULTILINE)


def test_a_spectral_label_of_one_state(cli, spectral: Path) -> None:
    names = [row for row in json.loads(cli("inspect", spectral, "--json").out)["symbols"]]
    single = next(row["symbol"] for row in names if row["states"] == 1)
    assert "dimension" not in cli("inspect", spectral, "--label", single).out


def test_the_overview_leaves_singular_values_out(cli, spectral: Path) -> None:
    text = cli("inspect", spectral).out
    assert "method     spectral" in text
    assert "spectrum" not in text


# -- inspect --spectrum ---------------------------------------------------------------------------


def test_spectrum(cli, spectral: Path) -> None:
    text = cli("inspect", spectral, "--spectrum", "--top", 4).out
    header, *rows = text.splitlines()[:5]
    assert header.split() == ["label", "states", "spectrum", "singular", "values"]
    for row in rows:
        _, states, bars, *numbers = row.split()
        assert bars.index("|") == int(states)
        assert float(numbers[0]) > 0
    assert "... and " in text


def test_spectrum_as_json(cli, spectral: Path) -> None:
    report = json.loads(cli("inspect", spectral, "--spectrum", "--json").out)
    assert report["spectrum"][0]["symbol"] == "NP"
    for row in report["spectrum"]:
        assert 1 <= row["states"] <= max(1, len(row["singular_values"]))


def test_spectrum_of_a_label(cli, fails, spectral: Path) -> None:
    report = json.loads(cli("inspect", spectral, "--spectrum", "--label", "NN", "--json").out)
    assert "NN" in [row["symbol"] for row in report["spectrum"]]
    assert "no label" in fails("inspect", spectral, "--spectrum", "--label", "NNN").err


@pytest.mark.parametrize(
    ("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_spectrum_plot(cli, spectral: Path, tmp_path: Path, suffix: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"spectrum{suffix}"
    assert cli("inspect", spectral, "--spectrum", "--plot", path).status == 0
    assert path.read_bytes().startswith(magic)


def test_labels_of_dollars_are_no_formulas(cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model, path = tmp_path / "m", tmp_path / "p.png"
    tree = sw.Tree.parse("(NP ($ $) (QP ($ $) (CD 5)) ($ $$) ($ $))")
    sw.SpectralLPCFG(2).fit(sw.Treebank.from_trees([tree] * 20)).model_.save(model)
    assert cli("inspect", model, "--spectrum", "--plot", path).status == 0
    assert path.exists()


def test_spectrum_of_a_model_without_one(fails, model: Path) -> None:
    for name in (model, "bundled"):
        error = fails("inspect", name, "--spectrum").err
        assert "no singular values in this model" in error
        assert "--method spectral" in error


def test_plot_misuse(fails, misused, spectral: Path, tmp_path: Path) -> None:
    assert "--spectrum" in misused("inspect", spectral, "--plot", tmp_path / "p.png").err
    error = fails("inspect", spectral, "--spectrum", "--plot", tmp_path / "p.doc").err
    assert ".png, .svg, .pdf" in error
    fails("inspect", spectral, "--spectrum", "--plot", tmp_path / "no" / "p.png")


@pytest.mark.usefixtures("no_matplotlib")
def test_plot_without_matplotlib(fails, spectral: Path, tmp_path: Path) -> None:
    error = fails("inspect", spectral, "--spectrum", "--plot", tmp_path / "p.png").err
    assert "pip install matplotlib" in error


# -- inspect an ensemble --------------------------------------------------------------------------


def test_an_ensemble_is_shown_by_its_members(cli, ensemble: Path) -> None:
    text = cli("inspect", ensemble).out
    assert "best, 3 grammars that parse together" in text
    rows = [line.split() for line in text.splitlines() if re.match(r"\d ", line)]
    model = sw.load(ensemble)
    totals = [f"{int(m.n_states.sum()):,}" for m in model.members]
    assert [row[:3] for row in rows] == [
        ["1", "spectral", totals[0]], ["2", "pcfg", totals[1]], ["3", "cluster", totals[2]],
    ]  # fmt: skip
    assert [row[4:] for row in rows] == [
        ["0.500", "1", "head"], ["0.333", "1", "head", "91.25"], ["0.167", "2", "right"],
    ]  # fmt: skip
    assert "record      dev_f1 93.50, trees 300\n" in text
    assert "--member K" in text


def test_an_ensemble_as_json(cli, ensemble: Path) -> None:
    report = json.loads(cli("inspect", ensemble, "--json").out)
    assert (report["method"], report["ensemble"], report["combine"]) == ("best", True, "mean")
    assert [row["weight"] for row in report["members"]] == pytest.approx([1 / 2, 1 / 3, 1 / 6])
    assert [row["chart"] for row in report["members"]] == [1, 1, 2]
    assert [row["dev_f1"] for row in report["members"]] == [None, 91.25, None]
    assert [row["transform"]["binarise"] for row in report["members"]] == ["head", "head", "right"]
    assert report["record"]["trials"] == [{"name": "em"}]


@pytest.mark.parametrize("options", [[], ["--label", "NP"], ["--spectrum"]])
def test_a_member_is_shown_like_a_model(cli, ensemble: Path, tmp_path: Path, options) -> None:
    alone = tmp_path / "alone.sapwood"
    for number in [1] if "--spectrum" in options else [1, 2, 3]:
        sw.load(ensemble).members[number - 1].save(alone)
        expected = json.loads(cli("inspect", alone, "--json", *options).out)
        report = json.loads(cli("inspect", ensemble, "--member", number, "--json", *options).out)
        assert report.pop("member", number) == number
        assert (report.pop("model"), expected.pop("model")) == (str(ensemble), str(alone))
        assert report == expected
    text = cli("inspect", ensemble, "--member", 1, *options).out
    assert options or text.startswith(f"model      {ensemble}, member 1\n")


@pytest.mark.parametrize(("options", "member"), [(["--label", "NP"], 3), (["--spectrum"], 1)])
def test_the_most_telling_member_is_shown(cli, ensemble: Path, options, member: int) -> None:
    """The clusters' states have probabilities; only the spectral member has singular values."""
    result = cli("inspect", ensemble, *options)
    assert result.status == 0
    assert result.out == cli("inspect", ensemble, *options, "--member", member).out
    assert result.err.startswith(f"member {member} of 3 (method ")
    assert "--member K looks into another" in result.err


def test_members_that_are_not_there(fails, misused, ensemble: Path, model: Path) -> None:
    assert "which has no member 4" in fails("inspect", ensemble, "--member", 4).err
    assert "a single grammar" in fails("inspect", model, "--member", 1).err
    misused("inspect", ensemble, "--member", 0)


def test_a_model_for_other_commands_names_them(fails, tmp_path: Path) -> None:
    language, strings = tmp_path / "kn.lm", tmp_path / "strings.sapwood"
    sw.KneserNey(1).fit([["a", "b"]]).model_.save(language)
    sw.EMWCFG(1, iterations=1).fit([["a", "b"], ["a"]]).model_.save(strings)
    told = fails("inspect", language).err
    assert "holds a language model by n-grams, expected a grammar or an ensemble" in told
    assert "sapwood lm evaluate" in told
    assert "sapwood hankel score" in fails("lm", "evaluate", strings, tmp_path / "x").err
    assert "sapwood lm evaluate" in fails("depend", "parse", language, tmp_path / "x").err
    assert "sapwood lm evaluate" in fails("hankel", "score", language, tmp_path / "x").err


# -- a mix with a network -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_network(learn: Learn, bank: Treebank, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grammar and a network that has read a few trees."""
    path = tmp_path_factory.mktemp("models") / "network.sapwood"
    network = sw.SpanEncoder(width=6, hidden=5, passes=1).fit(bank[:40]).model_
    sw.Ensemble.of([learn("cluster"), network], [3, 1]).save(path)
    return path


def test_a_mix_with_a_network_is_one_model(cli, with_network: Path) -> None:
    """Probabilities of sentences are those of all members; what cannot be is refused."""
    model, words = sw.load(with_network), "the dog sleeps ."
    scored = float(cli("score", with_network, stdin=words).out)
    assert scored == pytest.approx(model.log_prob(words.split()), abs=1e-6)
    parsed = json.loads(cli("parse", with_network, "--json", "--k-best", 2, stdin=words).out)
    assert scored - 0.3 < parsed["sentence_log_prob"] <= scored + 1e-6  # without what is pruned
    best = parsed["k_best"]
    assert [tree["rank"] for tree in best] == [1, 2]
    assert best[0]["tree"] == parsed["tree"]
    assert best[1]["tree"] != parsed["tree"]
    drawn = cli("sample", with_network, "-n", 2)
    assert len([sw.Tree.parse(line) for line in drawn.out.splitlines()]) == 2
    assert "drawn from cluster (100%)" in drawn.err
    assert "left out: encoder" in drawn.err
    shown = cli("inspect", with_network).out
    assert "cluster" in shown
    assert "encoder" in shown


@pytest.mark.parametrize(
    ("command", "writers"),
    [
        (("parse",), "`sapwood train`"),
        (("depend", "parse"), "`sapwood depend train`"),
        (("depend", "rerank"), "`sapwood depend train --method rerank`"),
        (("lm", "evaluate"), "`sapwood lm train`"),
        (("hankel", "parse"), "`sapwood hankel learn`"),
        (("surprisal",), "`sapwood train` or `sapwood lm train`"),
    ],
)
def test_where_a_model_is_missing_the_command_that_writes_it_is_named(
    fails: Run, tmp_path: Path, command: tuple[str, ...], writers: str
) -> None:
    said = fails(*command, tmp_path / "missing", tmp_path / "text").err
    assert "missing: no such model file" in said
    assert f"hint: name a file that {writers} wrote" in said
