"""Running text: ends of sentences beside other libraries, tokens, and 10,000 sentences through.

ends     F1 of the ends of sentences inside documents, sentences a CPU second, and megabytes of the
         package with what it needs, on documents of EWT (their text as it was) and on GUM (ten
         trees each, put together again): Sapwood, and the libraries that are installed
tokens   F1 of words on the sentences of EWT: by the rules of UD, and by those of Penn
through  sentences of EWT through `text_sentences`, and some of them through `sapwood parse MODEL
         --raw --json`: every word must stand in its place

The other libraries: pip install pysbd syntok blingfire sentence-splitter
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import lzma
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import machine  # first: it pins BLAS to one thread

from sapwood.corpora.running_text import split_english, text_sentences
from sapwood.corpora.tokenize import PennTokenizer
from sapwood.corpora.universal_tokens import UniversalTokenizer

Place = tuple[int, int]
Document = list[str]  # its sentences
# The marks of Universal Dependencies, as a vocabulary of the Penn rules.
MARKS = ("the", "of", '"', "[", "]", "{", "}", "–", "—", "…")  # noqa: RUF001


# -- texts with known ends ------------------------------------------------------------------------


class Gold(NamedTuple):
    """The text of a sentence, the places of its words, and whether it starts a document."""

    text: str
    words: list[Place]
    is_first: bool


def ewt(split: str) -> Iterator[Gold]:
    """The sentences of EWT; the words of a contraction are parts of it."""
    with lzma.open(machine.corpus_file("ud_english_ewt", split, "conllu"), "rt") as file:
        text, words, is_first, last = "", [], False, 0
        for line in file:
            columns = line.rstrip("\n").split("\t")
            if line.startswith("# newdoc"):
                is_first = True
            elif not line.strip() and words:
                yield Gold(text.strip(), words, is_first)
                text, words, is_first, last = "", [], False, 0
            elif len(columns) > 1 and "." not in columns[0]:
                number, form, misc = columns[0], columns[1], columns[-1]
                if "-" in number:
                    last, start = int(number.split("-")[1]), len(text)
                elif int(number) <= last:  # a word of the contraction that is there already
                    end = len(text.rstrip()) if int(number) == last else start + len(form)
                    words.append((start, end))
                    start = end
                    continue
                else:
                    words.append((len(text), len(text) + len(form)))
                text += form + ("" if "SpaceAfter=No" in misc else " ")


def ewt_documents(split: str) -> list[Document]:
    """The sentences of EWT by document."""
    found: list[Document] = []
    for gold in ewt(split):
        if gold.is_first or not found:
            found.append([])
        found[-1].append(gold.text)
    return found


_PLAIN = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"'}
_TO_THE_LEFT = {*".,;:?!)]}%…”", "''", "n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "'"}
_TO_BOTH = {"-", "–", "/"}  # noqa: RUF001


def as_text(words: Iterable[str]) -> str:
    """The words of a tree as people would write them."""
    text, is_glued, is_open = "", True, False
    for word in words:
        is_open ^= word == '"'
        stays = word in _TO_THE_LEFT | _TO_BOTH or (word == '"' and not is_open)
        text += ("" if is_glued or stays else " ") + _PLAIN.get(word, word)
        is_glued = word in {"(", "[", "-LRB-", "-LSB-", "``", "$", *_TO_BOTH} or (
            word == '"' and is_open
        )
    return text


def gum_documents(split: str) -> list[Document]:
    """Ten sentences of GUM each."""
    texts = [as_text(tree.words()) for tree in machine.gold_trees("gum_open", split)]
    return [texts[i : i + 10] for i in range(0, len(texts), 10)]


# -- ends -----------------------------------------------------------------------------------------


def _sentencex() -> Callable[[str], list[str]]:
    find = importlib.import_module("sentencex").get_sentence_boundaries
    return lambda text: [one["text"] for one in find("en", text)]


def _pysbd() -> Callable[[str], list[str]]:
    return importlib.import_module("pysbd").Segmenter("en", clean=False).segment  # type: ignore[no-any-return]


def _syntok() -> Callable[[str], list[str]]:
    analyze = importlib.import_module("syntok.segmenter").analyze
    return lambda text: [
        "".join(token.spacing + token.value for token in sentence)
        for paragraph in analyze(text)
        for sentence in paragraph
    ]


def _blingfire() -> Callable[[str], list[str]]:
    return lambda text: importlib.import_module("blingfire").text_to_sentences(text).split("\n")


def _sentence_splitter() -> Callable[[str], list[str]]:
    return importlib.import_module("sentence_splitter").SentenceSplitter("en").split  # type: ignore[no-any-return]


# name: the packages that it needs, and a function that makes it
SPLITTERS: dict[str, tuple[tuple[str, ...], Callable[[], Callable[[str], list[str]]]]] = {
    "Sapwood (sentencex)": (("sentencex",), lambda: split_english),
    "sentencex alone": (("sentencex",), _sentencex),
    "pysbd": (("pysbd",), _pysbd),
    "syntok": (("syntok", "regex"), _syntok),
    "blingfire": (("blingfire",), _blingfire),
    "sentence-splitter": (("sentence-splitter", "regex"), _sentence_splitter),
}


def ends(sentences: Iterable[str]) -> set[int]:
    """Where sentences end, in characters that are no blanks; without the end of the document."""
    found, at = set(), 0
    for sentence in sentences:
        at += len("".join(sentence.split()))
        found.add(at)
    return found - {0, at}


def f1(n_right: int, n_found: int, n_gold: int) -> tuple[float, float, float]:
    """Precision, recall and F1, in per cent."""
    both = n_found + n_gold
    return 100 * n_right / n_found, 100 * n_right / n_gold, 200 * n_right / both


def megabytes(packages: Iterable[str]) -> float:
    """The size of installed packages."""
    files = [file for name in packages for file in metadata.files(name) or ()]
    return sum(Path(str(file.locate())).stat().st_size for file in files) / 1e6


def ends_rows(limit: int) -> Iterator[list[Any]]:
    """A row for each text and splitter that is installed."""
    texts = {
        "EWT dev": ewt_documents("dev"),
        "EWT train": ewt_documents("train"),
        "GUM dev": gum_documents("dev"),
        "GUM train": gum_documents("train"),
    }
    for title, whole in texts.items():
        documents = whole[:limit]
        n_sentences = sum(map(len, documents))
        for name, (packages, make) in SPLITTERS.items():
            try:
                split, size = make(), megabytes(packages)
            except (ImportError, metadata.PackageNotFoundError):
                print(f"{name} is not installed", file=sys.stderr)
                continue
            with machine.Clock() as clock:
                found = [split(" ".join(document)) for document in documents]
            pairs = [
                (ends(document), ends(parts))
                for document, parts in zip(documents, found, strict=True)
            ]
            n_right = sum(len(gold & other) for gold, other in pairs)
            scores = f1(
                n_right, sum(len(other) for _, other in pairs), sum(len(gold) for gold, _ in pairs)
            )
            rates = (f"{n_sentences / max(clock.cpu, 1e-6):,.0f}", f"{size:.1f}")
            yield [title, n_sentences, name, *(f"{score:.1f}" for score in scores), *rates]


# -- tokens ---------------------------------------------------------------------------------------


def token_rows() -> Iterator[list[Any]]:
    """F1 of the words of EWT."""
    rules = {"UD": UniversalTokenizer(), "Penn with marks of UD": PennTokenizer(MARKS)}
    for split in ("dev", "train"):
        for name, tokenizer in rules.items():
            n_right = n_found = n_gold = 0
            with machine.Clock() as clock:
                for gold in ewt(split):
                    found = {(token.start, token.end) for token in tokenizer.tokens(gold.text)}
                    n_right += len(found & set(gold.words))
                    n_found, n_gold = n_found + len(found), n_gold + len(gold.words)
            scores = [f"{score:.2f}" for score in f1(n_right, n_found, n_gold)]
            yield [f"EWT {split}", name, *scores, f"{n_gold / clock.cpu:,.0f}"]


# -- through --------------------------------------------------------------------------------------


def through(n_sentences: int, model: str, n_parsed: int) -> None:
    """Send real text through, check every place, and print sentences a second."""
    documents, n = [], 0
    for document in [*ewt_documents("train"), *ewt_documents("dev")]:
        if n < n_sentences:
            documents.append(" ".join(document))
            n += len(document)
    text = "\n\n".join(documents)
    for name, tokenizer in (("Penn", PennTokenizer()), ("UD", UniversalTokenizer())):
        with machine.Clock() as clock:
            found = list(text_sentences(io.StringIO(text, newline=""), tokenizer))
        n_wrong, covered = 0, 0
        for sentence in found:
            before = sentence.start
            for word, (start, end) in zip(sentence.words, sentence.offsets, strict=True):
                written = text[start:end]
                is_shared = word == "." and end == before
                n_wrong += written != "".join(written.split()) or not written
                n_wrong += not is_shared and bool(text[before:start].strip())
                covered += 0 if is_shared else end - start
                before = end
        missed = len("".join(text.split())) - covered
        print(
            f"{name}: {n:,} sentences of EWT, {len(found):,} found, "
            f"{sum(len(one.words) for one in found):,} words, {n_wrong} wrong places, "
            f"{missed} characters in no word; {len(found) / clock.cpu:,.0f} sentences a CPU second"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        part = text[: n_parsed or None]
        path.write_text(part, encoding="utf-8", newline="")
        command = [sys.executable, "-m", "sapwood", "parse", model, str(path), "--raw"]
        (trees, tree_seconds), (done, seconds) = map(_timed, (command, [*command, "--json"]))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    n_wrong = sum(
        part[row["char_start"] : row["char_end"]] != row["text"]
        or any(not part[word["char_start"] : word["char_end"]].strip() for word in row["words"])
        for row in rows
    )
    print(
        f"sapwood parse {Path(model).name} --raw --json: {len(rows):,} sentences, "
        f"{n_wrong} with a wrong place, {len(rows) / seconds:,.1f} sentences a CPU second; "
        f"trees alone: {len(rows) / tree_seconds:,.1f}"
    )
    for one in (trees, done):
        print(one.stderr.strip().splitlines()[-1])


def _timed(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """What a command wrote, and its CPU seconds."""
    before = machine.cpu_of_all()[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done, machine.cpu_of_all()[1] - before


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="ends,tokens,through")
    parser.add_argument("--documents", type=int, default=10_000, help="for ends, of each text")
    parser.add_argument("--sentences", type=int, default=10_000, help="for through")
    parser.add_argument("--model", default="bundled", help="for through")
    parser.add_argument("--characters", type=int, default=40_000, help="parsed; 0 for all")
    args = parser.parse_args()
    machine.print_facts("Running text")
    parts = args.parts.split(",")
    if "ends" in parts:
        header = ("text", "sentences", "splitter", "precision", "recall", "F1", "sentences/s", "MB")
        machine.print_table(header, ends_rows(args.documents))
    if "tokens" in parts:
        header = ("text", "rules", "precision", "recall", "F1", "words/s")
        machine.print_table(header, token_rows())
    if "through" in parts:
        through(args.sentences, args.model, args.characters)


if __name__ == "__main__":
    main()
