"""Running text to sentences and words, each with its place."""

# ruff: noqa: RUF001 - quotes and dashes that look alike are what this file is about

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.conventions import make_tokenizer
from sapwood.corpora.running_text import (
    TextSentence,
    locate_words,
    one_sentence,
    paragraphs,
    sentence_places,
    sentences_of,
    split_english,
    text_sentences,
)
from sapwood.corpora.tokenize import PennTokenizer, Tokenizer
from sapwood.corpora.universal_tokens import UniversalTokenizer

# -- offsets --------------------------------------------------------------------------------------

# Spellings of one mark: a treebank may have any of them for any other.
SPELLINGS = [
    ("-LRB-", "("), ("-RRB-", ")"), ("-LSB-", "["), ("-RSB-", "]"), ("-LCB-", "{"), ("-RCB-", "}"),
    ("``", "''", '"', "“", "”", "„", "«", "»"), ("`", "'", "‘", "’"), ("...", "…"),
    ("--", "—", "–"),
]  # fmt: skip


def complaint(text: str, sentences: list[TextSentence]) -> str | None:
    """What is wrong with the places of the words of a text; None where all are right."""
    covered: set[int] = set()
    for sentence in sentences:
        if sentence.text != text[sentence.start : sentence.start + len(sentence.text)]:
            return f"the sentence {sentence.text!r} is not in its place"
        before = sentence.start
        for word, (start, end) in zip(sentence.words, sentence.offsets, strict=True):
            written = text[start:end]
            if not written or any(c.isspace() for c in written):
                return f"{word!r} stands for {written!r}"
            is_shared = word == "." and end == before  # of an abbreviation
            if not is_shared and (start < before or text[before:start].strip()):
                return f"{word!r} is out of order"
            if not spells(word, written):
                return f"{word!r} stands for {written!r}"
            before = end
            covered.update(range(start, end))
    missed = [c for i, c in enumerate(text) if i not in covered and not c.isspace()]
    return f"{missed!r} are in no word" if missed else None


def spells(word: str, written: str) -> bool:
    plain, typed = (one.replace("’", "'").replace("\\/", "/") for one in (word, written))
    if set(typed) == {"-"}:
        typed = "--" if len(typed) > 1 else typed
    return plain == typed or any(word in some and typed in some for some in SPELLINGS)


PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from([
        "Mr. Lee", "U.S.", "e.g.", "can't", "isn’t", "(", ")", "[1]", "{x}", '"', "'", "``", "''",
        "-LRB-", "-RRB-", "--", "----", "—", "...", "…", "!?", "1,000.50", "$5", "5%", "and/or",
        r"a\/b", "http://a.b/c?d=e.", "me@x.org", ":)", "\r\n", "\n", "\n\n", "\t", "\u00a0",
        "\u200b", "\u200d", "e\u0301", "\u0301", "👩‍👩‍👧", "😀", "日本語。", "ﬁ", "İ",
        "\x00", "\x85", "\u2028", "B.\u00a0", "\ud83d", "gonna", "'tis", "the end.", "The next one",
        "so--on", "x-y-z",
    ]),
    st.sampled_from([" ", ". ", "! ", "\n"]),
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)
TOKENIZERS: dict[str, Tokenizer] = {
    "penn": PennTokenizer(),
    "marks of its own": PennTokenizer(["the", "of", '"', "[", "]", "—", "…", "/", "x-y-z"]),
    "ud": UniversalTokenizer(),
}


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS)
@example(text='He (the "king") isn\'t in the U.S.')
@example(text="B.\u00a0Smith.\x85He left.")
@example(text="a\r\n\r\nb\tc\u200bd e\u0301.")
def test_the_text_between_offsets_is_the_word(name: str, text: str) -> None:
    assert complaint(text, list(sentences_of(text, TOKENIZERS[name]))) is None


@given(text=TEXTS)
def test_lines_that_are_sentences_have_places_too(text: str) -> None:
    lines = io.StringIO(text, newline="")
    found = list(text_sentences(lines, PennTokenizer(), one_per_line=True))
    assert complaint(text, found) is None
    assert len(found) == len(list(io.StringIO(text, newline="")))


def test_wrong_places_are_noticed() -> None:
    text = 'He "left" (early). She stayed.'
    found = list(sentences_of(text, PennTokenizer()))
    first = found[0]
    later = first._replace(offsets=[(i + 1, j + 1) for i, j in first.offsets])
    assert "stands for" in str(complaint(text, [later, found[1]]))
    assert "in no word" in str(complaint(text, found[:1]))
    swapped = first._replace(offsets=first.offsets[::-1], words=first.words[::-1])
    assert "out of order" in str(complaint(text, [swapped, found[1]]))
    assert "in its place" in str(complaint(text, [first._replace(start=1), found[1]]))


def test_places_of_phrases() -> None:
    sentence = one_sentence("The (old) dog.", PennTokenizer())
    assert sentence.place(1, 4) == (4, 9)
    assert sentence.words_text(1, 5) == "(old) dog"
    assert sentence.place(2, 2) == (5, 5)
    assert sentence.place(6, 6) == (0, 0)


# -- sentences ------------------------------------------------------------------------------------

SPLIT = {
    "It rains. We stay.": ["It rains.", "We stay."],
    "Mr. Lee met Dr. Fox. They talked.": ["Mr. Lee met Dr. Fox.", "They talked."],
    "J. P. Morgan, e.g., paid $1.50. Who else?": ["J. P. Morgan, e.g., paid $1.50.", "Who else?"],
    'He said: "Go." She went.': ['He said: "Go."', "She went."],
    "“Why?” he asked. “No.”": ["“Why?” he asked.", "“No.”"],
    "See http://a.b/c.html for more. Thanks!": ["See http://a.b/c.html for more.", "Thanks!"],
    "It works! 😀 Try it.": ["It works!", "😀 Try it."],
    "He left (at 5 p.m.) early. So did I.": ["He left (at 5 p.m.) early.", "So did I."],
    ":( It broke. We fixed it.": [":( It broke.", "We fixed it."],
    'An open " quote. Is no trap.': ['An open " quote.', "Is no trap."],
    "B.\u00a0Smith came. He left.": ["B.\u00a0Smith came.", "He left."],
    "no end": ["no end"],
    # tokenised already
    "the dog barks . the cat sleeps !": ["the dog barks .", "the cat sleeps !"],
    "he waits . . . and goes": ["he waits . . . and goes"],
    "  ": [],
}


@pytest.mark.parametrize("text", SPLIT)
def test_ends_of_sentences(text: str) -> None:
    assert [text[i:j] for i, j in sentence_places(text)] == SPLIT[text]


@given(text=TEXTS)
def test_sentences_together_are_the_paragraph(text: str) -> None:
    assert "".join(split_english(text)) == text


WRAPPED = (
    "It was late in the year when they came to the house by\n"
    "the river. Nobody had lived there for as long as anyone\n"
    "in the village could remember.\n"
)


def texts(text: str) -> list[str]:
    found = list(paragraphs(io.StringIO(text, newline="")))
    assert all(text[one.start :].startswith(one.text) for one in found)
    return [" ".join(one.text.split()) for one in found]


def test_lines_are_paragraphs() -> None:
    assert texts("A heading\nOne. Two.\n\nThree.\r\n  Four") == [
        "A heading", "One. Two.", "Three.", "Four",
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_hard_wrapped_lines_are_joined(end: str) -> None:
    text = f"A heading\n\n{WRAPPED}\nThe end.\n".replace("\n", end)
    assert texts(text) == ["A heading", " ".join(WRAPPED.split()), "The end."]


@pytest.mark.parametrize(
    "text",
    [
        # room for the first word of the next line
        WRAPPED.replace("by\n", "\n"),
        # a line for each sentence, in lower case
        "the dog slept in the garden of the old king .\nthe cat was in the kitchen .\n",
        # headings
        "The Life and the Opinions of a Gentleman in the Town\nA Second Heading That is Shorter\n",
        # too wide to be wrapped
        f"{'word ' * 40}\nwent on in the next line\n",
    ],
)
def test_lines_that_are_not_wrapped_stay_apart(text: str) -> None:
    assert len(texts(text)) == len(text.splitlines())


def test_lines_pass_as_soon_as_they_are_no_part_of_a_wrapped_paragraph() -> None:
    taken: list[str] = []

    def lines() -> object:
        for line in ["short.\n", "another\n", "third\n"]:
            taken.append(line)
            yield line

    found = paragraphs(lines())  # type: ignore[arg-type]
    assert next(found).text == "short.\n"
    assert len(taken) == 1


# -- functions of the user ------------------------------------------------------------------------


def test_a_splitter_of_ones_own() -> None:
    places = sentence_places("a; b; c", lambda text: text.split(";"))
    assert places == [(0, 1), (3, 4), (6, 7)]
    for wrong in (["c", "a"], ["A"], [None]):
        with pytest.raises(SapwoodError, match="no part of the text in its place"):
            sentence_places("a; b; c", lambda _, wrong=wrong: wrong)


def test_words_of_a_tokenizer_of_ones_own_are_found() -> None:
    text = 'She said "no" and/or left…'
    words = ["she", "said", "``", "no", "''", r"and\/or", "left", "..."]
    assert [text[t.start : t.end] for t in locate_words(text, words)] == [
        "She", "said", '"', "no", '"', "and/or", "left", "…",
    ]  # fmt: skip


def test_words_that_are_not_in_the_text_stand_for_what_is_between_their_neighbours() -> None:
    text = "5 dogs  and 3 cats"
    found = locate_words(text, ["five", "dogs", "plus", "three", "cats", "end"])
    assert [text[t.start : t.end] for t in found] == ["5", "dogs", "and 3", "and 3", "cats", ""]


def test_a_tokenizer_without_places_has_them_in_the_end() -> None:
    (sentence,) = sentences_of("It's late.", lambda text: text.replace(".", " .").split())
    assert sentence.offsets == [(0, 4), (5, 9), (9, 10)]
    with pytest.raises(CorpusError, match="expected a list of words"):
        list(sentences_of("a b", lambda text: [text]))


# -- conventions ----------------------------------------------------------------------------------

UD = {
    'The "old" dog (of a king).': 'The " old " dog ( of a king ) .',
    "A state-of-the-art, re-made and/or co-owned thing": (
        "A state - of - the - art , re-made and / or co-owned thing"
    ),
    "He lives in the U.S.": "He lives in the U.S.",
    "Acme Inc.": "Acme Inc .",
    "wait.... what?! :) ok": "wait .... what ?! :) ok",
    "(1998) and 8) ---- on 9/11/2001": "( 1998 ) and 8 ) ---- on 9/11/2001",
    "me@x.org or https://a.b/c?d=e.": "me@x.org or https://a.b/c?d=e .",
    "I can't, won't; it's $5": "I ca n't , wo n't ; it 's $ 5",
    "call 713-853-3989 now": "call 713-853-3989 now",
    "[sic] “curly” — dash": "[ sic ] “ curly ” — dash",
}


@pytest.mark.parametrize("text", UD)
def test_words_of_universal_dependencies(text: str) -> None:
    assert " ".join(make_tokenizer("ud")(text)) == UD[text]


def test_an_unknown_convention_is_refused() -> None:
    with pytest.raises(SapwoodError, match="no convention of tokens is called 'ptb'"):
        make_tokenizer("ptb")
