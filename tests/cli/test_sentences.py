"""Sentences and trees in every notation, as commands read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sapwood as sw
from sapwood.cli.options import FORMAT_NAMES
from sapwood.corpora.formats import read_trees

TREES = (
    "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sleeps) (NP (-NONE- *))) (. .)) )\n(X (-NONE- *))\n"
)
CONLLU = "# text = the dog\n1\tthe\tthe\tDET\t_\n2\tdog\tdog\tNOUN\t_\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- given by mistake -----------------------------------------------------------------------------


def test_trees_are_refused_with_the_option_that_takes_them(fails, model: Path, tmp_path) -> None:
    path = tmp_path / "gold.mrg"
    path.write_text(TREES)
    result = fails("parse", model, path)
    assert f"error: {path}:1: expected one sentence per line, found bracketed trees" in result.err
    assert "hint: --trees takes the words" in result.err
    assert result.out == ""


def test_trees_over_several_lines_and_behind_a_comment(fails, model: Path) -> None:
    assert "<stdin>:2: " in fails("parse", model, stdin="(TOP\n  (S (NP (DT the)\n").err
    assert (
        "<stdin>:3: " in fails("parse", model, stdin="a comment\n\n(TOP (S (NN a) (NN b)))\n").err
    )


@pytest.mark.parametrize("command", ["parse", "score"])
def test_conllu_is_refused_with_the_command_that_reads_it(fails, model: Path, command: str) -> None:
    result = fails(command, model, stdin=CONLLU)
    assert "found CoNLL-U" in result.err
    assert "`sapwood words -`" in result.err


def test_a_missing_file_is_called_missing(fails, model: Path, tmp_path: Path) -> None:
    for command in ("parse", "score"):
        missing = fails(command, model, tmp_path / "none.txt").err
        assert "none.txt: no such file\n" in missing
        assert "complete" not in missing
    assert "a folder, expected a file" in fails("parse", model, tmp_path).err


PARAGRAPHS = "The dog sleeps. It is late.\nThe dog barks.\n"


def test_lines_of_several_sentences_are_doubted(cli, model: Path) -> None:
    text = PARAGRAPHS.replace(".", " .")
    result = cli("parse", model, stdin=text)
    assert len(result.out.splitlines()) == 2
    assert "1 of the first 2 lines seem to hold several (line 1 is the first)" in result.err
    assert "hint: write one sentence on each line" in result.err
    single = cli("parse", model, stdin=text.splitlines()[1])
    assert "warning" not in single.err


@pytest.mark.parametrize("command", ["parse", "score"])
def test_json_is_refused(fails, cli, model: Path, command: str) -> None:
    output = cli("parse", model, "--json", stdin="the dog sleeps .").out
    assert "found JSON" in fails(command, model, stdin=output).err


def test_sentences_takes_any_line(cli, model: Path) -> None:
    result = cli("parse", model, "--sentences", stdin=TREES + CONLLU)
    assert result.status == 0
    assert len(result.out.splitlines()) == 5
    assert "warning:" not in result.err


def test_sentences_with_brackets_are_no_trees(cli, model: Path) -> None:
    result = cli("parse", model, stdin="( the dog sleeps . )\n( ( dog ) )\n")
    assert sw.Tree.parse(result.out.splitlines()[0]).words()[0] == "-LRB-"


def test_a_line_that_tells_nothing_yet_is_parsed_in_the_end(cli, model: Path) -> None:
    result = cli("parse", model, stdin="\n(\n")
    assert [bool(line) for line in result.out.splitlines()] == [False, True]


@pytest.mark.parametrize("command", ["parse", "score"])
def test_untokenised_text_is_parsed_with_a_warning(cli, model: Path, command: str) -> None:
    result = cli(command, model, stdin="The dog sleeps.\n\nthe man, sleeps.\n")
    assert result.status == 0
    assert result.out.count("\n") == 3
    assert "warning: the text seems not to be tokenised: 'sleeps.'" in result.err
    assert "has '.' as a word" in result.err
    assert "hint: --raw tokenises" in result.err
    assert result.err.count("warning:") == 1


def test_the_warning_comes_once_in_a_long_text(cli, model: Path) -> None:
    assert cli("parse", model, stdin="dog.\n" * 50).err.count("warning:") == 1


@pytest.mark.parametrize("text", ["the dog sleeps .\n" * 3 + "sleeps.\n", "Dr. Lee sleeps .", ""])
def test_tokenised_text_gets_no_warning(cli, model: Path, text: str) -> None:
    assert "warning:" not in cli("parse", model, stdin=text).err


# -- --trees --------------------------------------------------------------------------------------


def test_the_words_of_trees_are_parsed(cli, model: Path) -> None:
    result = cli("parse", model, "--trees", stdin=TREES)
    first, second = result.out.split("\n")[:2]
    assert sw.Tree.parse(first).words() == ["the", "dog", "sleeps", "."]
    assert second == ""  # nothing is left of it, and the next tree keeps its place
    assert "1 sentence  1 empty line" in result.err


def test_parsed_trees_can_be_evaluated(cli, dev: Path, tmp_path: Path) -> None:
    predicted = tmp_path / "predicted.mrg"
    assert cli("parse", "bundled", dev, "--trees", "-o", predicted).status == 0
    report = json.loads(cli("evaluate", dev, predicted, "--json").out)
    assert report["all"]["errors"] == 0
    assert report["all"]["sentences"] == 300
    assert report["all"]["f1"] > 90


def test_trees_can_be_resumed(cli, dev: Path, tmp_path: Path) -> None:
    gold = tmp_path / "gold.mrg"
    trees = list(sw.read_trees(dev))[:5]
    sw.write_trees(trees, gold)
    out = tmp_path / "out.mrg"
    assert cli("parse", "bundled", gold, "--trees", "-o", out, "--resume").status == 0
    assert [t.words() for t in sw.read_trees(out)] == [t.words() for t in trees]


def test_a_broken_tree_is_an_error_with_its_place(fails, model: Path) -> None:
    assert "<stdin>:1:" in fails("parse", model, "--trees", stdin="(S (NN dog)").err


# -- --raw and --tokenizer ------------------------------------------------------------------------


def test_raw_text(cli, model: Path) -> None:
    raw = cli(
        "parse", model, "--raw", stdin="The king's dog sleeps. It barks.\n\nThe dog sleeps!\n"
    )
    lines = "The king 's dog sleeps .\nIt barks .\nThe dog sleeps !\n"
    assert raw.out == cli("parse", model, stdin=lines).out
    assert "warning:" not in raw.err
    assert "3 sentences" in raw.err


def test_raw_lines_that_are_sentences(cli, model: Path) -> None:
    text = "The king's dog sleeps. It barks.\n\nThe dog sleeps!\n"
    raw = cli("parse", model, "--raw", "--one-per-line", stdin=text)
    lines = "The king 's dog sleeps . It barks .\n\nThe dog sleeps !\n"
    assert raw.out == cli("parse", model, stdin=lines).out
    assert raw.out.count("\n") == 3


def test_offsets_of_raw_text_count_line_ends(cli, model: Path, tmp_path: Path) -> None:
    text = '\r\nThe dog sleeps. It barks ("loud").\r\n\tThe U.S.\r\n'
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    for more in ([], ["--jobs", 1], ["--one-per-line"]):
        out = cli("parse", model, path, "--raw", "--json", *more).out
        found = [report for report in map(json.loads, out.splitlines()) if report["tree"]]
        assert len(found) == (2 if more == ["--one-per-line"] else 3)
        for report in found:
            assert text[report["char_start"] : report["char_end"]] == report["text"]
            written = [text[w["char_start"] : w["char_end"]] for w in report["words"]]
            assert " ".join(w["word"] for w in report["words"]) in {
                "The dog sleeps .", "It barks -LRB- `` loud '' -RRB- .", "The U.S. .",
                "The dog sleeps . It barks -LRB- `` loud '' -RRB- .",
            }  # fmt: skip
            for part in report["constituents"]:
                whole = text[part["char_start"] : part["char_end"]]
                assert "".join(whole.split()).startswith(written[part["start"]])
                assert whole.endswith(written[part["end"] - 1])


def test_a_splitter_of_ones_own(cli, fails, model: Path, folder: Path) -> None:
    (folder / "my_ends.py").write_text("def cut(text):\n    return text.split(';')\n")
    result = cli("parse", model, "--raw", "--splitter", "my_ends:cut", stdin="The dog; the cat\n")
    assert len(result.out.splitlines()) == 2
    (folder / "no_ends.py").write_text("def cut(text):\n    return ['x']\ncut2 = 3\n")
    wrong = fails("parse", model, "--raw", "--splitter", "no_ends:cut", stdin="The dog\n")
    assert "the splitter returned 'x'" in wrong.err
    wrong = fails("parse", model, "--raw", "--splitter", "no_ends:cut2", stdin="The dog\n")
    assert "--splitter no_ends:cut2: not a function" in wrong.err


def test_words_as_universal_dependencies_have_them(cli, model: Path) -> None:
    result = cli("parse", model, "--raw", "--tokens", "ud", "--json", stdin='A long-term "plan".\n')
    words = [word["word"] for word in json.loads(result.out)["words"]]
    assert words == ["A", "long", "-", "term", '"', "plan", '"', "."]


def test_score_of_raw_text(cli, model: Path) -> None:
    raw = cli("score", model, "--raw", stdin="The dog sleeps.\n")
    assert raw.out == cli("score", model, stdin="The dog sleeps .\n").out


def test_raw_text_may_start_with_a_bracket(cli, model: Path) -> None:
    result = cli("score", model, "--raw", stdin="(The dog sleeps.)\n")
    assert (result.status, result.err.split()[1]) == (0, "sentences")


def test_a_tokenizer_of_ones_own(cli, model: Path, folder: Path) -> None:
    (folder / "my_words.py").write_text("def cut(text):\n    return text.split('_')\n")
    result = cli("parse", model, "--tokenizer", "my_words:cut", stdin="the_dog_sleeps_.\n")
    assert sw.Tree.parse(result.out).words() == ["the", "dog", "sleeps", "."]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("def cut(text): return text", "returned 'a b'"),
        ("def cut(text): return [text]", "returned ['a b']"),
        ("def cut(text): return ['', 'a']", "returned ['', 'a']"),
        ("def cut(text): return [1]", "returned [1]"),
        ("cut = 3", "not a function, but int"),
        ("other = 3", "no attribute 'cut'"),
        ("import no_such_module", "no_such_module"),
    ],
)
def test_tokenizers_that_are_none(fails, model: Path, folder: Path, body: str, complaint) -> None:
    name = f"bad_words_{abs(hash(body))}"
    (folder / f"{name}.py").write_text(body + "\n")
    assert complaint in fails("parse", model, "--tokenizer", f"{name}:cut", stdin="a b").err


def test_misuse(misused, model: Path) -> None:
    misused("parse", model, "--trees", "--raw")
    misused("score", model, "--trees", "--tokenizer", "a:b")
    misused("parse", model, "--tokenizer", "nocolon")
    for option in (["--splitter", "a:b"], ["--one-per-line"], ["--tokens", "ud"]):
        assert "add --raw" in misused("parse", model, *option).err
    misused("parse", model, "--raw", "--splitter", "a:b", "--one-per-line")
    misused("parse", model, "--raw", "--tokenizer", "a:b", "--tokens", "ud")


# -- Python ---------------------------------------------------------------------------------------


def test_parse_text() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    found = parser.parse_text("The king's dog sleeps.")
    assert found.words[1:3] == ["king", "'s"]
    assert found.offsets is not None
    assert found.offsets[1:3] == [(4, 8), (8, 10)]
    assert parser.parse(["the", "dog"]).offsets is None
    assert parser.parse_text("the-dog", tokenize=lambda text: text.split("-")).words == [
        "the", "dog",
    ]  # fmt: skip
    with pytest.raises(sw.SapwoodError, match="empty sentence"):
        parser.parse_text(" ")


@pytest.mark.parametrize("jobs", [1, 2])
def test_parse_document(jobs: int) -> None:
    parser = sw.Parser(sw.bundled_grammar())
    text = "The dog sleeps. A girl saw it.\n\nThe king's dog sleeps!"
    found = list(parser.parse_document(text, jobs=jobs))
    assert [parse.source.text for parse in found] == [
        "The dog sleeps.", "A girl saw it.", "The king's dog sleeps!",
    ]  # fmt: skip
    for parse in found:
        alone = parser.parse(parse.words)
        assert (alone.tree, alone.log_prob) == (parse.tree, parse.log_prob)
        assert [text[i:j] for i, j in parse.offsets] == parse.words
    whole = list(parser.parse_document(text, split=lambda paragraph: [paragraph], jobs=jobs))
    assert len(whole) == 2


PENN = "( (S (NP-SBJ (DT the) (NN baker)) (VP (VBZ sings) (NP-TMP (NN today))) (. .)))\n"
GOOD = """\
#BOS 1
die\tART\t--\tNK\t500
Suppe\tNN\t--\tNK\t500
kocht\tVVFIN\t--\tHD\t501
.\t$.\t--\t--\t0
#500\tNP\t--\tSB\t501
#501\tS\t--\t--\t0
#EOS 1
"""
GAP = GOOD.replace("NK\t500\nSuppe", "NK\t502\nSuppe").replace(
    "HD\t501", "HD\t502\n#502\tVP\t--\tOC\t501"
)
CESS = "(S (sn-SUJ (da El el) (nc café café)) (gv (vm hierve hervir) (rg bien bien)) (Fp . .))\n"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "x.export"
    path.write_text(GOOD * 3 + GAP + GOOD)
    return path


def test_train_reads_them_all(cli, tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    folder.mkdir()
    (folder / "a.MRG").write_text(PENN)
    (folder / "b.export").write_text(GOOD)
    (folder / "c.psd").write_text("( (IP-MAT (N x) (V y)) (ID a,1))\n")
    (folder / "d.txt").write_text("S(agent:NP(Head:Na:x)|Head:V:y)#\n")
    (folder / "notes.doc").write_text("x")
    (folder / "README.txt").write_text("Please read me .\n")
    out = tmp_path / "m"
    result = cli("train", folder, "-o", out, "--method", "pcfg", "--json")
    assert json.loads(result.out)["trees"] == 4
    assert "2 files skipped: README.txt, notes.doc" in result.err
    assert "IP" in {symbol.chain[0] for symbol in sw.load(out).symbols}


def test_discontinuous_trees_stop_it_or_are_counted(cli, fails, export: Path, tmp_path) -> None:
    out = tmp_path / "m"
    result = fails("train", export, "-o", out, "--method", "pcfg")
    assert f"error: {export}:25: not supported: discontinuous" in result.err
    result = cli("train", export, "-o", out, "--method", "pcfg", "--skip-bad", "--json")
    assert json.loads(result.out)["trees"] == 4
    assert f"skipped 1 broken tree; the first: {export}:25: not supported" in result.err


def test_encoding_and_its_hint(cli, fails, tmp_path: Path) -> None:
    path = tmp_path / "x.tbf"
    path.write_bytes(CESS.encode("latin-1"))
    out = tmp_path / "m"
    result = fails("train", path, "-o", out, "--method", "pcfg")
    assert "not UTF-8 text" in result.err
    assert "--encoding latin-1" in result.err
    result = cli("train", path, "-o", out, "--method", "pcfg", "--encoding", "latin-1")
    assert result.status == 0
    assert "café" in sw.load(out).lexicon.words
    assert "hervir" not in sw.load(out).lexicon.words
    result = fails("train", path, "-o", out, "--encoding", "klingon")
    assert "no encoding is called 'klingon'" in result.err


def test_keep_functions(cli, tmp_path: Path) -> None:
    path, out = tmp_path / "x.mrg", tmp_path / "m"
    path.write_text(PENN * 3)
    cli("train", path, "-o", out, "--method", "pcfg", "--keep-functions")
    labels = {label for symbol in sw.load(out).symbols for label in symbol.chain}
    assert {"NP-SBJ", "NP-TMP"} <= labels
    cli("train", path, "-o", out, "--method", "pcfg")
    labels = {label for symbol in sw.load(out).symbols for label in symbol.chain}
    assert "NP" in labels
    assert "NP-SBJ" not in labels


def test_a_wrong_name_of_a_format(misused, tmp_path: Path) -> None:
    result = misused("train", "x", "-o", tmp_path / "m", "--format", "ptb")
    assert "'ptb' is not one of penn" in result.err


def test_what_is_no_treebank_is_named(fails, tmp_path: Path) -> None:
    path = tmp_path / "x.conllu"
    path.write_text("1\tSoup\tsoup\tNOUN\t_\t_\t0\troot\t_\t_\n")
    result = fails("train", path, "-o", tmp_path / "m")
    assert f"error: {path}:1:1: expected '(' to start a tree" in result.err
    assert "this looks like CoNLL-U" in result.err
    assert "hint: `sapwood depend train`" in result.err


def test_compare_takes_them(cli, tmp_path: Path) -> None:
    path = tmp_path / "x.export"
    path.write_text(GOOD * 4 + GAP)
    result = cli("compare", path, path, "--methods", "pcfg", "--skip-bad", "--json")
    assert json.loads(result.out)[0]["sentences"] == 4
    assert "skipped 2 broken trees" in result.err


# -- evaluate and score ---------------------------------------------------------------------------


def test_evaluate_takes_gold_in_any_format(cli, fails, export: Path, tmp_path: Path) -> None:
    predicted = tmp_path / "p.mrg"
    tree = "(VROOT (S (NP (ART die) (NN Suppe)) (VVFIN kocht)) ($. .))\n"
    predicted.write_text(tree * 4)
    assert "discontinuous" in fails("evaluate", export, predicted).err
    result = cli("evaluate", export, predicted, "--skip-bad", "--json")
    assert json.loads(result.out)["all"]["f1"] == 100.0
    assert "skipped 1 broken tree" in result.err
    result = cli("evaluate", export, export, "--skip-bad", "--json")
    assert result.status == 1  # a prediction must be whole


def test_evaluate_can_read_gold_with_functions(cli, tmp_path: Path) -> None:
    """Phrases are compared without functions, tags with those that the treebank has."""
    gold, predicted = tmp_path / "g.txt", tmp_path / "p.mrg"
    gold.write_text("S(agent:NP(Head:Na:x)|Head:VA:y)#\n")
    predicted.write_text("(S (NP-agent (Na-Head x)) (VA-Head y))\n")
    plain = json.loads(cli("evaluate", gold, predicted, "--json").out)["all"]
    kept = json.loads(cli("evaluate", gold, predicted, "--json", "--keep-functions").out)["all"]
    assert plain["f1"] == kept["f1"] == 100.0
    assert (plain["tagging_accuracy"], kept["tagging_accuracy"]) == (0.0, 100.0)


def test_score_takes_them(cli, tmp_path: Path) -> None:
    path, penn, out = tmp_path / "x.export", tmp_path / "x.mrg", tmp_path / "m"
    path.write_text(GOOD * 2)
    penn.write_text("".join(f"{tree}\n" for tree in read_trees(path)))
    cli("train", path, "-o", out, "--method", "pcfg")
    assert cli("score", out, path).out == cli("score", out, penn).out
    assert "2 trees" in cli("score", out, path).err
    result = cli("score", out, "-", "--format", "export", "--skip-bad", stdin=GAP + GOOD)
    assert "skipped 1 broken tree" in result.err
    assert len(result.out.splitlines()) == 1


# -- data convert ---------------------------------------------------------------------------------


def test_convert_writes_brackets(cli, export: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mrg"
    result = cli("data", "convert", export, "-o", out, "--skip-bad", "--json")
    assert out.read_text() == "(VROOT (S (NP (ART die) (NN Suppe)) (VVFIN kocht)) ($. .))\n" * 4
    report = json.loads(result.out)
    assert (report["trees"], len(report["skipped"]), report["file"]) == (4, 1, str(out))
    assert "discontinuous" in report["skipped"][0]
    assert f"4 trees: {out}" in result.err
    again = cli("data", "convert", out)
    assert again.out == out.read_text()


def test_convert_keeps_or_cleans(cli, tmp_path: Path) -> None:
    path = tmp_path / "x.mrg"
    path.write_text("( (S (NP-SBJ-1 (N soup)) (VP (V boils) (NP (-NONE- *-1)))))\n")
    assert cli("data", "convert", path).out == path.read_text()
    cleaned = cli("data", "convert", path, "--clean").out
    assert cleaned == "(TOP (S (NP (N soup)) (VP (V boils))))\n"
    kept = cli("data", "convert", path, "--clean", "--keep-functions").out
    assert kept == "(TOP (S (NP-SBJ (N soup)) (VP (V boils))))\n"


def test_convert_by_name_from_stdin(cli) -> None:
    result = cli("data", "convert", "-", "--from", "cess", stdin="(S (a b c) (d e f))\n")
    assert result.out == "(S (a b) (d e))\n"
    result = cli("data", "convert", "-", "--from", "export", "--keep-functions", stdin=GOOD)
    assert result.out == (
        "(VROOT (S (NP-SB (ART-NK die) (NN-NK Suppe)) (VVFIN-HD kocht)) ($. .))\n"
    )


def test_convert_leaves_nothing_behind(fails, misused, export: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mrg"
    fails("data", "convert", export, "-o", out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.export"]
    empty = tmp_path / "empty.mrg"
    empty.touch()
    assert "no tree found" in fails("data", "convert", empty, "-o", out).err
    assert "is also an input" in fails("data", "convert", export, "-o", export).err
    misused("data", "convert", export, "--json")


def test_help_names_the_formats(cli) -> None:
    for command in (["train"], ["compare"], ["evaluate"], ["score"], ["data", "convert"]):
        text = " ".join(cli(*command, "--help").out.split()).replace("- ", "-")
        assert all(option in text for option in ("--encoding", "--keep-functions", "--skip-bad"))
        assert all(name in text for name in FORMAT_NAMES), command
