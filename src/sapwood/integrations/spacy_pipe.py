"""A component of spaCy pipelines that adds constituents to documents.

`Span` and `Token` get `_.labels`, `_.parse_string`, `_.constituents`, `_.children`, `_.parent`, as
users of benepar know them, and `_.probability`. A constituent is a row of lists in the document's
`user_data`, in pre-order, so that documents can be written and read again:

    starts, ends     its tokens; the end is the one after the last
    nexts            the row after its last descendant
    parents          the row of its parent; -1 for the root of a sentence
    labels           outermost first, several where phrases have the same tokens; none over a tag
    probabilities    of the least probable of its labels, or of the tag; None where there is none
    tags, words      the tag, and the word as the model spells it, of the row of a token; else ""
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from sapwood.constituency.parse.parser import Parse
from sapwood.core.errors import SapwoodError
from sapwood.core.model_names import BUNDLED, ENGLISH, find_model
from sapwood.core.outputs import sha256, write_bytes
from sapwood.corpora.running_text import document_places
from sapwood.corpora.tree import ROOT, escape
from sapwood.integrations import as_parser

KEY = "sapwood_constituents"  # of `Doc.user_data`
ROW_COLUMNS = ("starts", "ends", "nexts", "parents", "labels", "probabilities", "tags", "words")
NAME = "sapwood"


DEFAULTS = {"model": ENGLISH, "fast": False, "jobs": 1}


@Language.factory(NAME, assigns=["doc.user_data"], default_config=DEFAULTS)  # type: ignore[untyped-decorator]
def make_pipe(nlp: Language, name: str, model: str, fast: bool, jobs: int) -> SpacyPipe:
    """The component that `nlp.add_pipe("sapwood")` adds."""
    return SpacyPipe(model, name=name, fast=fast, jobs=jobs)


class SpacyPipe:
    """Parses the sentences of documents into constituents.

    Sentences are those of the components before; where none of them marks sentences, they are
    found as in `sapwood parse --raw`, and marked. Tokens stay those of the pipeline; tokens of
    blanks are left out.

    Parameters
    ----------
    model
        The name of a model of phrase trees that comes with Sapwood, or its file.
    fast
        Whether to prune more.
    jobs
        Threads, in `nlp.pipe`.
    """

    def __init__(
        self, model: str = ENGLISH, *, name: str = NAME, fast: bool = False, jobs: int = 1
    ) -> None:
        self.model, self.name, self.jobs = str(model), name, jobs
        self.parser = as_parser(self.model, fast=fast)
        install_extensions()

    def __call__(self, doc: Doc) -> Doc:
        """Add the constituents of one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Add the constituents of documents, whose sentences are parsed together in batches."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            given = [
                (doc, tokens)
                for doc in batch
                for sentence in _sentences(doc)
                if (tokens := [token.i for token in sentence if not token.is_space])
            ]
            words = [
                self.parser.tokenizer.respell(re.sub(r"\s", "_", doc[i].text) for i in tokens)
                for doc, tokens in given
            ]
            for doc in batch:
                doc.user_data[KEY] = {name: [] for name in ROW_COLUMNS}
            parses = self.parser.parse_many(words, jobs=self.jobs)
            for (doc, tokens), parse in zip(given, parses, strict=True):
                add_parse(doc.user_data[KEY], parse, tokens)
            yield from batch

    # -- files ------------------------------------------------------------------------------------

    def to_bytes(self, *, exclude: Sequence[str] = ()) -> bytes:
        """The name of the model's file and its checksum; the file itself stays where it is."""
        return json.dumps({"model": self.model, "sha256": _checksum(self.model)}).encode()

    def from_bytes(self, data: bytes, *, exclude: Sequence[str] = ()) -> SpacyPipe:
        """Check that the model is the one that was there when the pipeline was written."""
        saved = json.loads(data)
        if saved["sha256"] != _checksum(self.model):
            msg = f"{self.model}: not the model that the pipeline was saved with"
            hint = f"its checksum was {saved['sha256']}; add the component again for another model"
            raise SapwoodError(msg, hint=hint)
        return self

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write what `to_bytes` gives into a folder."""
        Path(path).mkdir(parents=True, exist_ok=True)
        write_bytes(Path(path) / "model.json", self.to_bytes(), force=True)

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> SpacyPipe:
        """Check the model by what `to_disk` has written."""
        return self.from_bytes((Path(path) / "model.json").read_bytes())


def _checksum(model: str) -> str:
    path = find_model(model)
    return BUNDLED if path is None else sha256(path)


def _sentences(doc: Doc) -> list[Span]:
    """The sentences of a document, which are marked where no component has done so."""
    if not len(doc):
        return []
    if not doc.has_annotation("SENT_START"):
        starts = [start for start, _ in document_places(doc.text)]
        at = 0
        for token in doc:  # a sentence starts with the first token behind its first character
            n_begun = bisect_right(starts, token.idx)
            token.is_sent_start = token.i == 0 or (n_begun > at and not token.is_space)
            at = n_begun if token.is_sent_start else at
    return list(doc.sents)


# -- constituents ---------------------------------------------------------------------------------


def add_parse(columns: dict[str, list[Any]], parse: Parse, tokens: Sequence[int]) -> None:
    """Add the constituents of a sentence to those of its document.

    Parameters
    ----------
    columns
        The lists of the document; see the module.
    tokens
        Number of the token of each word.
    """
    posteriors = {c[:3]: c.probability for c in parse.marginals}
    chain: list[str] = []  # labels over the same words
    known: list[float | None] = []
    opened: list[int] = []  # the rows around the place
    for node, span in zip(parse.tree.nodes(), parse.tree.spans(), strict=True):
        label, start, end = span
        is_root = label == ROOT and not (opened or chain)
        if not is_root:
            known.append(posteriors.get(span))
            chain += [] if node.is_preterminal else [label]
        if not node.is_preterminal and len(list(node)) == 1:
            continue
        row = len(columns["starts"])
        while opened and columns["ends"][opened[-1]] <= tokens[start]:
            columns["nexts"][opened.pop()] = row
        of_phrases = known[: len(chain)] or known
        values = (
            tokens[start], tokens[end - 1] + 1, row, opened[-1] if opened else -1, chain,
            None if None in of_phrases else min(of_phrases, default=None),  # type: ignore[type-var]
            label if node.is_preterminal else "", escape(node.word) if node.is_preterminal else "",
        )  # fmt: skip
        for name, value in zip(ROW_COLUMNS, values, strict=True):
            columns[name].append(value)
        opened.append(row)
        chain, known = [], []
    for row in opened:
        columns["nexts"][row] = len(columns["starts"])


def find_row(span: Span) -> tuple[dict[str, list[Any]], int]:
    """The lists of a document and the row of a span; an error where it is no constituent."""
    columns = span.doc.user_data.get(KEY)
    if columns is None:
        msg = "the document has no constituents"
        raise SapwoodError(msg, hint='add the component: nlp.add_pipe("sapwood", config=...)')
    first, last = span.start, span.end
    while first < last and span.doc[first].is_space:
        first += 1
    while first < last and span.doc[last - 1].is_space:
        last -= 1
    row = bisect_left(columns["starts"], first)
    while row < len(columns["starts"]) and columns["starts"][row] == first:
        if columns["ends"][row] == last:
            return columns, row
        row += 1
    msg = f"{span.text!r:.80} is no constituent of its sentence"
    raise SapwoodError(msg, hint="sentences and what ._.constituents and ._.children give are some")


def span_labels(span: Span) -> tuple[str, ...]:
    """The labels of a constituent, outermost first; none for a token without a phrase."""
    columns, row = find_row(span)
    return tuple(columns["labels"][row])


def span_probability(span: Span) -> float | None:
    """The posterior of a constituent: of the least probable of its labels, or of its tag."""
    columns, row = find_row(span)
    probability: float | None = columns["probabilities"][row]
    return probability


def span_parse_string(span: Span) -> str:
    """The tree of a constituent in brackets, words as the model spells them."""
    columns, first = find_row(span)
    parts: list[str] = []
    closing: list[tuple[int, int]] = []  # row behind the subtree, and brackets to close there
    for row in range(first, columns["nexts"][first] + 1):
        while closing and closing[-1][0] <= row:
            parts.append(")" * closing.pop()[1])
        if row == columns["nexts"][first]:
            break
        labels, tag = columns["labels"][row], columns["tags"][row]
        names = [*labels, tag] if tag else labels or [ROOT]  # roots side by side
        parts.append((" " if parts else "") + " ".join(f"({name}" for name in names))
        parts.append(f" {columns['words'][row]}" if tag else "")
        closing.append((columns["nexts"][row], len(names)))
    return "".join(parts)


def span_constituents(span: Span) -> Iterator[Span]:
    """A constituent and all below it, parents before children; tokens are some."""
    columns, row = find_row(span)
    for number in range(row, columns["nexts"][row]):
        yield span.doc[columns["starts"][number] : columns["ends"][number]]


def span_children(span: Span) -> Iterator[Span]:
    """The constituents directly below one, from left to right."""
    columns, row = find_row(span)
    child = row + 1
    while child < columns["nexts"][row]:
        yield span.doc[columns["starts"][child] : columns["ends"][child]]
        child = columns["nexts"][child]


def span_parent(span: Span) -> Span | None:
    """The constituent around one; None for a sentence."""
    columns, row = find_row(span)
    parent = columns["parents"][row]
    return None if parent < 0 else span.doc[columns["starts"][parent] : columns["ends"][parent]]


_GETTERS: dict[str, Callable[[Span], Any]] = {
    "labels": span_labels,
    "parse_string": span_parse_string,
    "constituents": span_constituents,
    "children": span_children,
    "parent": span_parent,
    "probability": span_probability,
}


def install_extensions() -> None:
    """Give spans and tokens what this module adds; what another component has added is replaced."""
    for name, getter in _GETTERS.items():
        Span.set_extension(name, getter=getter, force=True)
        Token.set_extension(name, getter=partial(_of_token, getter), force=True)


def _of_token(getter: Callable[[Span], Any], token: Token) -> Any:
    return getter(token.doc[token.i : token.i + 1])
