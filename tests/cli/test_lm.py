"""`sapwood lm` and `sapwood embed`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.arc_toys import bank
from tests.conftest import Run, all_commands
from tests.constituency.learn.embedding_text import text
from tests.lm.learn.texts import ARPA, some_text

import sapwood as sw
from sapwood.lm.learn import LM_METHODS

METHODS = tuple(LM_METHODS)
SCORES = {"perplexity", "tokens", "unknown", "log2_prob"}


def write(path: Path, sentences: list[list[str]]) -> Path:
    path.write_text("".join(" ".join(words) + "\n" for words in sentences))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("lm")
    write(here / "train.txt", some_text(600))
    write(here / "held.txt", [*some_text(100, seed=1), ["unheard", "a"]])
    write(here / "test.txt", [*some_text(100, seed=2), ["a", "unheard", "b"]])
    return here


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Path]:
    """A small model of every method."""
    found = {}
    for method in METHODS:
        out = folder / f"{method}.lm"
        held = [] if method in {"kn", "kn-mod"} else ["--held-out", folder / "held.txt"]
        states = [] if method in {"kn", "kn-mod"} else ["--states", 3]
        args = ("lm", "train", folder / "train.txt", "-o", out, "--method", method, *states, *held)
        with pytest.raises(SystemExit) as end:
            all_commands()([str(arg) for arg in args], prog_name="sapwood")
        assert not end.value.code
        found[method] = out
    return found


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_is_scored(cli, folder: Path, models, method: str) -> None:
    result = cli("lm", "evaluate", models[method], folder / "test.txt", "--json")
    report = json.loads(result.out)
    assert set(report) >= SCORES
    assert report["unknown"] == 1
    assert report["tokens"] == sum(len(x) for x in some_text(100, seed=2)) + 2
    assert 1 < report["perplexity"] < 9.0  # eight words, which depend on those before
    expected = 2 ** (-report["log2_prob"] / report["tokens"])
    assert report["perplexity"] == pytest.approx(expected)
    counted = cli("lm", "evaluate", models[method], folder / "test.txt", "--unknown", "count",
                  "--json")  # fmt: skip
    assert json.loads(counted.out)["tokens"] == report["tokens"] + 1
    assert json.loads(counted.out)["log2_prob"] < report["log2_prob"]


def test_counts_first_gives_the_same_model(cli, folder: Path, models, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    counts, out = tmp_path / "counts.parquet", tmp_path / "kn.lm"
    result = cli("lm", "count", folder / "train.txt", "-o", counts, "--json")
    assert json.loads(result.out)["words"] == 8
    assert [path.name for path in tmp_path.iterdir()] == [counts.name]  # no folder is left
    assert cli("lm", "train", counts, "-o", out, "--method", "kn-mod").status == 0
    known, found = sw.load(models["kn-mod"]), sw.load(out)
    assert dict(known.record) | {"texts": [str(counts)]} == found.record
    replace(found, record=known.record).save(out)
    assert out.read_bytes() == models["kn-mod"].read_bytes()
    again = tmp_path / "again.parquet"
    cli("lm", "count", folder / "train.txt", "-o", again, "--jobs", 1, "--memory", "16M")
    assert again.read_bytes() == counts.read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_a_card_says_how_a_model_was_made(cli, folder: Path, models, method: str) -> None:
    card = json.loads(cli("inspect", models[method], "--card", "--json").out)
    told = card["training"]
    assert (told["method"], told["texts"]) == (method, [str(folder / "train.txt")])
    assert (told["words"], told["min count"]) == (8, 2)
    assert told["tokens"] == sum(map(len, some_text(600)))
    assert told.get("states") == (None if method in {"kn", "kn-mod"} else 3)
    assert told.get("held out") == (None if "states" not in told else str(folder / "held.txt"))
    assert ("iterations" in told, "seed" in told) == ("states" in told, "states" in told)
    assert any("other kinds of text" in line for line in card["limits"])
    assert "- tokens: " in cli("inspect", models[method], "--card").out


def test_no_text_has_to_be_held_out(cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "alone.lm"
    assert cli("lm", "train", folder / "train.txt", "-o", out, "--states", 3).status == 0
    report = json.loads(cli("lm", "evaluate", out, folder / "test.txt", "--json").out)
    assert report["perplexity"] < 8.0


def test_a_stream_has_no_ends(cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "stream.lm"
    cli("lm", "train", folder / "train.txt", "-o", out, "--method", "kn", "--stream")
    report = json.loads(cli("lm", "evaluate", out, folder / "test.txt", "--stream", "--json").out)
    assert report["sentences"] == 0
    assert report["perplexity_with_ends"] is None


def test_scores_by_sentence_and_word(cli, models) -> None:
    sentence = "a b c"
    line = cli("lm", "score", models["kn"], stdin=f"{sentence}\n\nb\n").out.splitlines()
    assert [part.partition("\t")[2] for part in line] == [sentence, "", "b"]
    words = cli("lm", "score", models["kn"], "--by-word", stdin=sentence).out.splitlines()
    assert [word.split("\t")[1] for word in words] == ["a", "b", "c", "</s>"]
    total = sum(float(word.split("\t")[0]) for word in words)
    assert float(line[0].split("\t")[0]) == pytest.approx(total, abs=1e-3)
    model = sw.load(models["kn"])
    likelier = max(["a a a", "h g f"], key=lambda text: model.log_prob(text.split()))
    best = cli("lm", "score", models["kn"], "--best", stdin="a a a\nh g f\n\nb\n").out.splitlines()
    assert best == [likelier, "b"]


def test_next_words_and_samples(cli, models) -> None:
    rows = json.loads(cli("lm", "next", models["mix"], "a b", "--top", 100, "--json").out)
    assert sum(row["p"] for row in rows) == pytest.approx(1, abs=1e-3)
    assert [row["p"] for row in rows] == sorted((row["p"] for row in rows), reverse=True)
    drawn = cli("lm", "sample", models["kn"], "-n", 4, "--seed", 3).out
    assert drawn == cli("lm", "sample", models["kn"], "-n", 4, "--seed", 3).out
    assert len(drawn.splitlines()) == 4


@pytest.mark.parametrize(
    ("method", "symbol"),
    [("kn", "<s>"), ("kn", "<nothing>"), *((method, "</s>") for method in METHODS)],
)
def test_reserved_symbols_are_no_words(fails, models, method: str, symbol: str) -> None:
    told = f"word 2 of the sentence is {symbol!r}"
    found = fails("lm", "next", models[method], f"a {symbol}").err
    assert told in found
    assert "hint: leave it out" in found
    for option in ([], ["--by-word"], ["--best"]):
        found = fails("lm", "score", models[method], *option, stdin=f"a b\n\na {symbol} b\n").err
        assert f"<stdin>:3: {told}" in found
    assert not fails("lm", "next", models[method], symbol).out


def test_a_reserved_symbol_in_a_file_is_refused(fails, models, tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt", [["a<s>b"], ["a", "<s>", "b"]])
    assert f"{text}:2: word 2 of" in fails("lm", "score", models["kn"], text).err
    assert f"{text}:2: found <s> as a word" in fails("lm", "evaluate", models["kn"], text).err


def test_samples_can_be_stopped_at_every_word(models) -> None:
    model, asked = sw.load(models["mix"]), []

    def check() -> None:
        asked.append(1)
        if len(asked) == 5:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        list(model.sample(1000, np.random.default_rng(0), check=check))


def test_states_are_shown_by_their_words(cli, fails, models) -> None:
    states = json.loads(cli("lm", "classes", models["em"], "--json").out)
    assert sum(state["share"] for state in states) == pytest.approx(1, abs=1e-3)
    assert "state" in cli("lm", "classes", models["mix"], "--word", "a", "--top", 2).out
    assert "state 0" in cli("lm", "classes", models["kn-latent"]).out
    assert "no hidden states" in fails("lm", "classes", models["kn"]).err
    assert "does not know 'zzz'" in fails("lm", "classes", models["em"], "--word", "zzz").err


def test_arpa_both_ways(cli, fails, folder: Path, models, tmp_path: Path) -> None:
    arpa, back = tmp_path / "kn.arpa", tmp_path / "back.lm"
    assert cli("lm", "convert", models["kn"], "-o", arpa).status == 0
    assert arpa.read_text().startswith("\\data\\\nngram 1=")
    assert cli("lm", "convert", arpa, "-o", back).status == 0
    first, second = (
        json.loads(cli("lm", "evaluate", model, folder / "test.txt", "--json").out)["perplexity"]
        for model in (models["kn"], back)
    )
    assert second == pytest.approx(first, rel=1e-5)
    assert (
        "more than n-grams" in fails("lm", "convert", models["em"], "-o", tmp_path / "em.arpa").err
    )
    bad = tmp_path / "bad.arpa"
    bad.write_text(ARPA.replace("-0.5 </s>", "x"))
    assert "bad.arpa:8" in fails("lm", "convert", bad, "-o", tmp_path / "bad.lm").err


def test_bad_input_is_one_line(fails, misused, folder: Path, models, tmp_path: Path) -> None:
    out, bad = tmp_path / "x.lm", tmp_path / "bad.txt"
    for data, match in (
        (b"", "no words"),
        (b"a\n\xff\xfe\n", "bad.txt:2"),
        (b"\0" * 9, "not UTF-8"),
    ):
        bad.write_bytes(data)
        assert match in fails("lm", "train", bad, "-o", out, "--method", "kn").err
        assert not out.exists()
        assert match in fails("lm", "count", bad, "-o", tmp_path / "c.parquet").err
        assert [path.name for path in tmp_path.iterdir()] == [bad.name]  # nor anything half-done
    assert "no such file" in fails("lm", "train", tmp_path / "none.txt", "-o", out).err
    assert "Sapwood model" in fails("lm", "evaluate", folder / "train.txt", bad).err
    bad.write_text("zzz yyy\n")
    assert "no word that the model knows" in fails("lm", "evaluate", models["kn"], bad).err
    assert (
        "sentences with ends"
        in fails("lm", "evaluate", models["kn"], folder / "test.txt", "--stream").err
    )
    text = folder / "train.txt"
    assert (
        "kn, kn-mod" in misused("lm", "train", text, "-o", out, "--method", "em", "--order", 3).err
    )
    assert "em" in misused("lm", "train", text, "-o", out, "--method", "kn", "--states", 3).err
    bad.write_bytes(b"PAR1\0")
    assert "a file of counts" in fails("lm", "evaluate", models["kn"], bad).err
    device = ("lm", "train", text, "-o", out, "--device", "cuda:7", "--method")
    assert "kn-latent, em" in misused(*device, "kn").err
    assert "device 'cuda:7'" in fails(*device, "em").err
    assert not out.exists()
    assert "is not one of" in misused("lm", "train", text, "-o", out, "--method", "magic").err
    assert "is not a memory size" in misused("lm", "count", text, "-o", out, "--memory", "much").err
    assert "train.txt" in fails("lm", "count", text, "-o", text).err


def test_held_out_text_that_is_trained_on_is_told(cli, folder: Path, tmp_path: Path) -> None:
    args = ("lm", "train", folder / "train.txt", "-o", tmp_path / "x.lm", "--method", "em")
    told = cli(*args, "--states", 2, "--held-out", folder / "train.txt")
    assert "seems to be part of it" in told.err
    assert "part of it" not in cli(*args, "--states", 2, "--held-out", folder / "held.txt").err


def test_trees_are_no_text_to_learn_from(fails, models, tmp_path: Path) -> None:
    trees = tmp_path / "trees.mrg"
    trees.write_text("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n" * 3)
    for command in (
        ("lm", "train", trees, "-o", tmp_path / "x.lm", "--method", "kn"),
        ("lm", "count", trees, "-o", tmp_path / "x.parquet"),
        ("lm", "evaluate", models["kn"], trees),
        ("lm", "score", models["kn"], trees),
        ("embed", trees, "-o", tmp_path / "x.sapwood"),
    ):
        refused = fails(*command).err
        assert "trees.mrg:1: expected one sentence per line, found bracketed trees" in refused
        assert f"hint: `sapwood words {trees}`" in refused
    assert [path.name for path in tmp_path.iterdir()] == [trees.name]


KEYS = {
    "model", "method", "dimension", "words", "classes", "sentences", "tokens", "seconds",
    "cpu_seconds", "peak_memory_mb",
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embed") / "text.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in text(400)))
    return path


@pytest.mark.parametrize("method", ["cca", "two-step", "bigram"])
def test_vectors_and_their_neighbours(cli: Run, file: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "u.sapwood"
    done = cli("embed", str(file), "-o", str(out), "--dimension", "3", "--method", method, "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report.keys() == KEYS
    assert report["tokens"] == 1600
    assert sw.load(out).dimension == 3
    assert sw.load(out).record["texts"] == [str(file)]
    done = cli("inspect", str(out), "--word", "dog", "--word", "Unheard", "--top", "2", "--json")
    rows = json.loads(done.out)["neighbours"]
    assert [row["known"] for row in rows] == [True, False]
    assert {near["word"] for near in rows[0]["nearest"]} <= {"cat", "cow", "yak"}
    done = cli("inspect", str(out), "--word", "dog")
    assert "\ndog\n" in done.out


def test_stdin_and_text_for_people(cli: Run, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "u.sapwood"
    done = cli("embed", "-", "-o", str(out), "--dimension", "2", stdin=file.read_text())
    assert done.status == 0, done.err
    assert done.out == ""
    assert "1,600 tokens" in done.err


def test_what_is_wrong_is_said(cli: Run, file: Path, tmp_path: Path) -> None:
    done = cli("embed", str(file), "-o", str(file))
    assert done.status == 1
    assert "hint:" in done.err
    done = cli("embed", str(tmp_path / "none.txt"), "-o", str(tmp_path / "u"))
    assert done.status == 1
    assert "none.txt" in done.err
    done = cli("embed", str(file), "-o", str(tmp_path / "u"), "--dimension", "900")
    assert done.status == 1
    assert "at most" in done.err
    assert not (tmp_path / "u").exists()


def test_latent_models_are_shown_by_state(cli: Run, tmp_path: Path) -> None:
    model = sw.EMHMM(2, iterations=3).fit([["a", "b"], ["a", "b", "a"]] * 9).model_
    model.save(tmp_path / "hmm")
    done = cli("inspect", str(tmp_path / "hmm"))
    assert done.status == 0, done.err
    assert "a hidden Markov model of tags or words, learnt from words, 2 states" in done.out
    assert "state   1" in done.out
    sw.SpectralHMM(1).fit([["a", "b", "a"]] * 9).model_.save(tmp_path / "spectral")
    done = cli("inspect", str(tmp_path / "spectral"))
    assert "not probabilities (spectral)" in done.out


def test_other_commands_refuse_vectors(cli: Run, file: Path, tmp_path: Path) -> None:
    cli("embed", str(file), "-o", str(tmp_path / "u"), "--dimension", "2")
    done = cli("parse", str(tmp_path / "u"), stdin="a dog\n")
    assert done.status == 1
    assert "holds vectors of words, expected a grammar" in done.err


def test_vectors_help_a_dependency_parser(cli: Run, file: Path, tmp_path: Path) -> None:
    words, out = tmp_path / "u.sapwood", tmp_path / "parser.sapwood"
    assert cli("embed", str(file), "-o", str(words), "--dimension", "3").status == 0
    trees = tmp_path / "trees.conllu"
    sw.write_arcs(bank(30), trees)
    train = ("depend", "train", str(trees), "-o", str(out), "--method", "first", "--passes", "1")
    done = cli(*train, "--embed", str(words))
    assert done.status == 0, done.err
    assert sw.load(out).clusters is not None
    other = tmp_path / "other.sapwood"
    other.write_bytes(out.read_bytes())
    done = cli(*train, "--force", "--embed", str(other))
    assert done.status == 1
    assert "expected vectors of words" in done.err
    assert "hint: `sapwood embed TEXT -o U`" in done.err
    done = cli(*train, "--force", "--embed", str(tmp_path / "none.sapwood"))
    assert done.status == 1
    assert "none.sapwood" in done.err
    done = cli("depend", "train", str(trees), "-o", str(words), "--force", "--embed", str(words))
    assert done.status == 1  # an output that is also an input


def test_a_message_of_the_library_names_the_option(fails, file: Path, tmp_path: Path) -> None:
    command = ("embed", file, "-o", tmp_path / "u", "--dimension", 200, "--min-count", 3)
    assert "or lower --min-count\n" in fails(*command).err
