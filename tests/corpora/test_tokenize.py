"""Tokenising by Penn conventions, and by those of a vocabulary."""

# ruff: noqa: RUF001 - quotes and dashes that look alike are what this file is about

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.corpora.tokenize import PennTokenizer

ENGLISH = ["the", "of"]  # what makes a vocabulary English

CASES = {
    # quotes
    '"Hello," she said.': "`` Hello , '' she said .",
    'He said "no".': "He said `` no '' .",
    'He said "no."': "He said `` no . ''",
    '("Quoted.")': "-LRB- `` Quoted . '' -RRB-",
    "“Curly,” he said.": "`` Curly , '' he said .",
    "«Angles» here": "`` Angles '' here",
    "„Low” quotes": "`` Low '' quotes",
    "'Single,' he said.": "` Single , ' he said .",
    "‘Single,’ he said.": "` Single , ' he said .",
    '" Loose quotes , " he said .': "`` Loose quotes , '' he said .",
    "\"'Both,' he said.\"": "`` ` Both , ' he said . ''",
    'The pseudo-"word"': "The pseudo- `` word ''",
    # contractions and possessives
    "I don't, can't, won't.": "I do n't , ca n't , wo n't .",
    "I'm, you're, he's, we've, they'll, she'd": "I 'm , you 're , he 's , we 've , they 'll , she 'd",  # noqa: E501
    "DON'T SHOUT": "DO N'T SHOUT",
    "I don’t": "I do n't",
    "She shouldn't've": "She should n't 've",
    "the dog's and the dogs' bones": "the dog 's and the dogs ' bones",
    "Cannot you? gonna, gotta, wanna": "Can not you ? gon na , got ta , wan na",
    "'Tis so; 'twas not": "'T is so ; 't was not",
    "O'Brien, D'Amico, ma'am": "O'Brien , D'Amico , ma'am",
    "get 'em in the '90s": "get 'em in the '90s",
    "the 1990's": "the 1990 's",
    "Jr.'s and U.S.'s": "Jr. 's and U.S. 's",
    # brackets
    "a (small) word(s) [sic] {x}": "a -LRB- small -RRB- word -LRB- s -RRB- -LSB- sic -RSB- -LCB- x -RCB-",  # noqa: E501
    "f(x)": "f -LRB- x -RRB-",
    # periods and abbreviations
    "Mr. Lee met Dr. No.": "Mr. Lee met Dr. No .",
    "He works at Acme Inc.": "He works at Acme Inc .",
    "Acme Inc. of Calif. fell.": "Acme Inc. of Calif. fell .",
    "He lives in the U.S.": "He lives in the U.S. .",
    "the U.S. economy": "the U.S. economy",
    "non-U.S. and U.S.-based firms": "non-U.S. and U.S.-based firms",
    "J. P. Morgan and J.P. Smith": "J. P. Morgan and J.P. Smith",
    "at 5 p.m. today": "at 5 p.m. today",
    "Ph.D. students, e.g., her; i.e. me": "Ph.D. students , e.g. , her ; i.e. me",
    "He left. She stayed.": "He left . She stayed .",
    "vitamin C.": "vitamin C .",
    "Really?! Yes!": "Really ? ! Yes !",
    # dashes, hyphens, ellipses
    "well--known -- and — so—on – yes": "well -- known -- and -- so -- on -- yes",
    "a long-term, three-year-old plan": "a long-term , three-year-old plan",
    "short- and long-term": "short- and long-term",
    "wait... what…": "wait ... what ...",
    "wait....": "wait ... .",
    ". . .": ". . .",
    # numbers, money, dates, times
    "$1,000.50 and 5% of .5": "$ 1,000.50 and 5 % of .5",
    "US$5, C$10, £3, 4€, $.50": "US$ 5 , C$ 10 , £ 3 , 4 € , $ .50",
    "Lot #5 of C#": "Lot # 5 of C#",
    "12/31/99 at 10:30, 1/2 of it": r"12\/31\/99 at 10:30 , 1\/2 of it",
    "-5, +3, 1990-91, 1990–91": "-5 , +3 , 1990-91 , 1990–91",
    "1, 2, and 3": "1 , 2 , and 3",
    "and/or": r"and\/or",
    "Note: 3.5.1": "Note : 3.5.1",
    "5'10 tall": "5'10 tall",
    # addresses and names
    "See http://a.b/c?d=e,f.": "See http://a.b/c?d=e,f .",
    "(see www.a.org/b)": "-LRB- see www.a.org/b -RRB-",
    "Mail me@x.org.": "Mail me@x.org .",
    "visit example.com.": "visit example.com .",
    "AT&T and R&D & more": "AT&T and R&D & more",
    "@you #tag": "@you #tag",
    # blanks and nothing
    "  two\t words\u00a0here \n": "two words here",
    "": "",
    # other alphabets
    "日本語。": "日本語 。",
    "हिन्दी, में": "हिन्दी , में",
    "¿Qué? ¡No!": "¿ Qué ? ¡ No !",
}


@pytest.mark.parametrize("text", CASES)
def test_penn_conventions(text: str) -> None:
    assert " ".join(PennTokenizer()(text)) == CASES[text]


@pytest.mark.parametrize("text", CASES)
def test_twice_is_once(text: str) -> None:
    tokenize = PennTokenizer()
    words = tokenize(text)
    assert tokenize(" ".join(words)) == words


@pytest.mark.parametrize(
    ("vocabulary", "text", "expected"),
    [
        (["Yahoo!", "don't"], "Yahoo! don't go", "Yahoo! don't go"),
        (["Rec."], "Rec. Nine, Foo. Nine", "Rec. Nine , Foo . Nine"),
        (['"'], '"Yes," he said.', '" Yes , " he said .'),
        (["“", "”"], '"Yes," “No”', "“ Yes , ” “ No ”"),
        (["``", "''", "“", "”"], '"Yes," “No”', "`` Yes , '' “ No ”"),
        (["[", "]"], "[1] (2)", "[ 1 ] -LRB- 2 -RRB-"),
        (["—"], "so--on", "so — on"),
        (["…"], "so...", "so …"),
        (["/", "="], "and/or a=b 1-2", "and / or a = b 1-2"),
        ([r"1\/2"], "and/or", r"and\/or"),
        (["x"], "and/or", "and/or"),
        (["'"], "'Yes'", "' Yes '"),
        # words that a treebank has both ways, and a mark without its partner
        (["it's", "it", "'s"], "it's late", "it 's late"),
        (["it's", "it"], "it's late", "it's late"),
        (["``", '"'], '"Yes,"', '" Yes , "'),
    ],
)
def test_the_vocabulary_says_how_marks_are_written(
    vocabulary: list[str], text: str, expected: str
) -> None:
    tokenize = PennTokenizer([*ENGLISH, *vocabulary])
    assert " ".join(tokenize(text)) == expected
    assert " ".join(tokenize(expected)) == expected


def test_elisions_of_a_vocabulary_that_has_some() -> None:
    french = PennTokenizer(["l'", "qu'", "aujourd'hui"])
    assert french("L'eau qu'il boit aujourd'hui, c'est l'eau.") == [
        "L'", "eau", "qu'", "il", "boit", "aujourd'hui", ",", "c'est", "l'", "eau", ".",
    ]  # fmt: skip
    assert "don't" in french("don't")  # contractions are English


@pytest.mark.parametrize("apart", [True, False])
def test_hyphens_are_split_where_the_vocabulary_does(apart: bool) -> None:
    words = [*ENGLISH, "-", *(f"word{i}" for i in range(2500)), "non-toxic", "two-fold"]
    if not apart:
        words += [f"a-{i}" for i in range(200)]
    tokenize = PennTokenizer(words)
    expected = "a long - term plan , non-acid" if apart else "a long-term plan , non-acid"
    assert " ".join(tokenize("a long-term plan, non-acid")) == expected
    assert " ".join(tokenize(expected)) == expected


TEXT = st.text(
    st.one_of(
        st.sampled_from("abcIJS'\"`.,:;!?()[]{}-–—/\\$%#&@*…“”‘’«»019 \t"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
)
VOCABULARIES = st.sampled_from(
    [
        (),
        tuple(ENGLISH),
        ('"', "'", "."),
        ("“", "”", "’s", "—"),
        ("l'", "/", "=", "-", "$"),
        ("``", "`", "-LRB-"),
    ]
)


@given(TEXT, VOCABULARIES)
@example("U.S.", ())
@example("Inc. \"'", ())
@example("'tis'", ())
@example("a.-b", ())
@example("''''\"", ())
def test_tokenised_text_comes_back_unchanged(text: str, vocabulary: tuple[str, ...]) -> None:
    tokenize = PennTokenizer(vocabulary)
    words = tokenize(text)
    assert tokenize(" ".join(words)) == words


# Marks that may be written in another way, and blanks, which come and go.
_UNSTABLE = re.compile(r"-[LR][RSC]B-|[()\[\]{}`'\"“”„«»‘’\\…—–.\s-]")


@given(TEXT, VOCABULARIES)
def test_nothing_but_blanks_and_spellings_changes(text: str, vocabulary: tuple[str, ...]) -> None:
    words = PennTokenizer(vocabulary)(text)
    assert all(word and not re.search(r"\s", word) for word in words)
    assert _UNSTABLE.sub("", "".join(words)) == _UNSTABLE.sub("", text)


def plain_text(words: list[str]) -> str:
    """The sentence as it would be printed: blanks and quotes as people write them."""
    text = " ".join(words).replace("-LRB- ", "(").replace(" -RRB-", ")")
    text = text.replace("-LCB- ", "{").replace(" -RCB-", "}").replace("[ ", "[").replace(" ]", "]")
    text = text.replace("`` ", '"').replace(" ''", '"').replace(r"\/", "/").replace(" -- ", " — ")
    text = re.sub(r"(^| )` ", r"\1'", text)
    text = re.sub(r" (n't|'(?:s|re|ve|ll|d|m))(?= |$)", r"\1", text)
    text = re.sub(r" '(?= |$)", "'", text)
    for _ in range(2):  # a mark behind a mark
        text = re.sub(r" ([,.;:?!%]|\.\.\.)(?= |$|[\"')\]}])", r"\1", text)
    text = re.sub(r"([$#]) (?=[\d.])", r"\1", text)
    return re.sub(r"(?<=[A-Z]\.)\.$", "", text)


def test_the_bundled_sentences_survive_being_printed() -> None:
    tokenize = PennTokenizer(sw.bundled_grammar().lexicon.words)
    for tree in sw.bundled_treebank("dev").trees():
        words = tree.words()
        assert tokenize(plain_text(words)) == words


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("name", "share"),
    [("ptb_nltk_sample", 1.0), pytest.param("craft", 0.985, marks=pytest.mark.slow)],
)
def test_sentences_of_a_treebank_survive_being_printed(
    corpora: Path, name: str, share: float
) -> None:
    train = sw.read_treebank(corpora / name / "train.mrg.xz")
    tokenize = PennTokenizer(train.inventory.words)
    sentences = [t.words() for t in sw.read_treebank(corpora / name / "dev.mrg.xz").trees()]
    n_back = sum(tokenize(plain_text(words)) == words for words in sentences)
    assert n_back >= share * len(sentences)
    n_same = sum(tokenize(" ".join(words)) == words for words in sentences)
    assert n_same >= 0.99 * len(sentences)
