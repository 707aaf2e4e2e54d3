"""The bundled grammar is sound, and the bundled trees are what it generates."""

from __future__ import annotations

import gzip
import importlib.util
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from sapwood.constituency.data.bundled import GrammarText, grammar_text, parse_grammar
from sapwood.constituency.data.treebank import SPLITS, sample_path
from sapwood.core.errors import CorpusError

SAMPLER = Path(__file__).resolve().parents[3] / "tools" / "sample_bundled.py"
SMALL = """
root S 1
S -> NP VP 1
NP : dogs cats*3
VP : sleep
"""


@pytest.fixture(scope="module")
def grammar() -> GrammarText:
    return parse_grammar(grammar_text())


@pytest.fixture(scope="module")
def samples() -> dict[str, str]:
    return {split: gzip.decompress(sample_path(split).read_bytes()).decode() for split in SPLITS}


def expected_children(grammar: GrammarText) -> tuple[list, np.ndarray]:
    """Symbols, and how many children of each kind one symbol has on average."""
    symbols = sorted({rule[0] for rule in grammar.binary} | {rule[0] for rule in grammar.lexical})
    place = {symbol: index for index, symbol in enumerate(symbols)}
    means = np.zeros((len(symbols), len(symbols)))
    for parent, left, right, probability in grammar.binary:
        means[place[parent], place[left]] += probability
        means[place[parent], place[right]] += probability
    return symbols, means


def words_of(tree: str) -> list[str]:
    return re.findall(r"\([^\s()]+ ([^\s()]+)\)", tree)


# The grammar


def test_probabilities_sum_to_one(grammar: GrammarText) -> None:
    totals: dict = defaultdict(float)
    for parent, _, _, probability in grammar.binary:
        totals[parent] += probability
    for tag, _, probability in grammar.lexical:
        totals[tag] += probability
    assert sum(grammar.roots.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(total == pytest.approx(1.0, abs=1e-12) for total in totals.values())
    assert all(rule[-1] > 0 for rule in [*grammar.binary, *grammar.lexical])


def test_sentences_end(grammar: GrammarText) -> None:
    symbols, means = expected_children(grammar)
    assert max(abs(np.linalg.eigvals(means))) < 0.9
    tags = {rule[0] for rule in grammar.lexical}
    words_below = np.linalg.solve(
        np.eye(len(symbols)) - means, [float(symbol in tags) for symbol in symbols]
    )
    lengths = dict(zip(symbols, words_below, strict=True))
    mean_length = sum(share * lengths[symbol] for symbol, share in grammar.roots.items())
    assert 10 < mean_length < 14


def test_every_symbol_is_reachable(grammar: GrammarText) -> None:
    symbols, means = expected_children(grammar)
    start = np.array([grammar.roots.get(symbol, 0.0) for symbol in symbols])
    visits = np.linalg.solve((np.eye(len(symbols)) - means).T, start)
    never = [symbol for symbol, often in zip(symbols, visits, strict=True) if often < 1e-9]
    assert never == []


def test_phrases_and_tags_are_different_symbols(grammar: GrammarText) -> None:
    assert not {rule[0][0] for rule in grammar.binary} & {rule[0][0] for rule in grammar.lexical}


def test_size_and_ambiguous_words(grammar: GrammarText) -> None:
    tags = defaultdict(set)
    for (symbol, _), word, _ in grammar.lexical:
        tags[word].add(symbol.split("|")[-1])
    assert 300 <= len(tags) <= 500
    assert tags["that"] == {"DT", "IN", "WDT"}
    assert tags["her"] == {"PRP", "PRP$"}
    assert {"NN", "VBD"} <= tags["saw"]
    assert {"NNS", "VBZ"} <= tags["cooks"]


# The samples


def test_samples_come_from_the_sampler(samples: dict[str, str]) -> None:
    spec = importlib.util.spec_from_file_location("sample_bundled", SAMPLER)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name while they are made.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        drawn, too_long = module.sample_splits()
    assert drawn == samples
    assert too_long < 0.005 * sum(module.SIZES.values())


def test_sample_sizes(samples: dict[str, str]) -> None:
    counts = {split: len(text.splitlines()) for split, text in samples.items()}
    assert counts == {"train": 3000, "dev": 300, "test": 300}
    assert all(len(sample_path(split).read_bytes()) < 300_000 for split in SPLITS)


def test_trees_are_plain_penn_brackets(samples: dict[str, str]) -> None:
    for tree in samples["dev"].splitlines():
        assert tree.startswith("(TOP (")
        assert tree.count("(") == tree.count(")")
        assert not set(tree) & set("@|[]~*")
        assert 1 <= len(words_of(tree)) <= 60


def test_samples_have_one_word_sentences(samples: dict[str, str]) -> None:
    assert any(len(words_of(tree)) == 1 for tree in samples["train"].splitlines())


@pytest.mark.parametrize(
    "forbidden",
    [
        r"\(DT (?:this|a|every|another)\) (?:\(JJ \w+\) )*\(NNS ",
        r"\(DT (?:these|those|all)\) (?:\(JJ \w+\) )*\(NN \w+\)\)",
        r"\(NP \(PRP (?:he|she)\)\) \(VP \(VBP ",
        r"\(NP \(PRP (?:they|we)\)\) \(VP \(VBZ ",
        r"\(NP \(NNP \w+\)\) \(VP \(VBP ",
        r"\(VB\w? \w+\) \(NP \(PRP (?:he|she|they|we)\)\)(?! \()",
        r"\((?:IN|TO) (?:with|to|from|about)\) \(NP \(PRP (?:he|she|they|we)\)\)",
        r"\(VP \(MD \w+\) \(VP \(VB[ZPD] ",
    ],
)
def test_samples_show_agreement(samples: dict[str, str], forbidden: str) -> None:
    assert not re.findall(forbidden, samples["train"])


def test_the_agreement_that_is_tested_occurs(samples: dict[str, str]) -> None:
    train = samples["train"]
    assert len(re.findall(r"\(DT this\) (?:\(JJ \w+\) )*\(NN ", train)) > 100
    assert len(re.findall(r"\(DT these\) (?:\(JJ \w+\) )*\(NNS ", train)) > 100
    assert len(re.findall(r"\(NP \(PRP (?:he|she)\)\) \(VP \(VBZ ", train)) > 50


def test_unknown_split() -> None:
    with pytest.raises(CorpusError, match="validation") as caught:
        sample_path("validation")
    assert "dev" in caught.value.hint


# The format


def test_weights_are_normalised() -> None:
    small = parse_grammar(SMALL)
    assert small.roots == {("S", ""): 1.0}
    assert small.binary == [(("S", ""), ("NP", ""), ("VP", ""), 1.0)]
    assert small.lexical[:2] == [(("NP", ""), "dogs", 0.25), (("NP", ""), "cats", 0.75)]


def test_variables_stand_for_lines() -> None:
    read = parse_grammar(
        "let $n = sg pl\nlet $tag/$m = NN/sg NNS/pl\n"
        "root S[$n] 1\nS[$m] -> DT[$m] $tag 2\nDT[$n] : the\nNN : dog\nNNS : dogs\n"
    )
    assert read.roots == {("S", "sg"): 0.5, ("S", "pl"): 0.5}
    assert read.binary == [
        (("S", "sg"), ("DT", "sg"), ("NN", ""), 1.0),
        (("S", "pl"), ("DT", "pl"), ("NNS", ""), 1.0),
    ]


def test_choices_share_the_weight_of_a_rule() -> None:
    read = parse_grammar(
        "choice ~Any = ~Noun*3 C\nchoice ~Noun = A B\nroot S 1\n"
        "S -> ~Any C 4\nS -> C C 4\nA : a\nB : b\nC : c\n"
    )
    shares = {left[0]: probability for _, left, _, probability in read.binary}
    assert shares == pytest.approx({"A": 0.1875, "B": 0.1875, "C": 0.625})


def test_tags_share_words_and_dollar_tags_are_no_variables() -> None:
    read = parse_grammar("root S 1\nS -> PRP$ NN 1  # mine\nPRP$ NN : her*2 # yours\n")
    assert read.lexical == [(("PRP$", ""), "her", 1.0), (("NN", ""), "her", 1.0)]


@pytest.mark.parametrize(
    ("extra", "column", "message"),
    [
        ("S NP VP", 1, "cannot read"),
        ("S -> NP 1", 1, "two children"),
        ("S -> NP VP x", 12, "not a weight"),
        ("S -> NP VP 0", 12, "not positive"),
        ("S -> NP VP nan", 12, "not positive"),
        ("S -> NP VP[ 1", 9, "not a symbol"),
        ("S -> NP PP 1", 9, "PP has no rules"),
        ("S -> NP VP[sg] 1", 9, r"VP\[sg\] has no rules"),
        ("S -> ~Who VP 1", 6, "choice ~Who is not defined"),
        ("S -> NP[$n] VP 1", 6, r"variable \$n is not defined"),
        ("S : word", 1, "both children and words"),
        ("NP -> NP VP 1", 1, "both children and words"),
        ("NP : dogs*", 6, "not a weight"),
        ("NP :", 4, "expected words"),
        ("NP[pl] : dogs", 1, "both with and without"),
        ("root S", 1, "root A weight"),
        ("let n = sg pl", 5, "not a variable"),
        ("let $n sg", 1, "expected 'let"),
        ("let $a/$b = x/y z", 17, "expected 2 value"),
        ("choice Who = NP", 8, "not the name of a choice"),
        ("choice ~Who NP", 1, "expected 'choice"),
    ],
)
def test_errors_point_at_the_line(extra: str, column: int, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        parse_grammar(SMALL + extra + "\n", file="my.grammar")
    error = caught.value
    assert error.file == "my.grammar"
    assert (error.line, error.column) == (6, column)


def test_repeated_definitions_are_errors() -> None:
    for twice in ("let $n = sg pl\n", "choice ~Who = NP\n"):
        with pytest.raises(CorpusError, match="already defined") as caught:
            parse_grammar(twice + twice + SMALL)
        assert caught.value.line == 2


def test_choice_defined_by_itself() -> None:
    with pytest.raises(CorpusError, match="defined by itself"):
        parse_grammar(SMALL + "choice ~Who = NP ~Who\nS -> ~Who VP 1\n")


def test_no_root() -> None:
    with pytest.raises(CorpusError, match="no 'root' line"):
        parse_grammar("NP : dogs\n")
