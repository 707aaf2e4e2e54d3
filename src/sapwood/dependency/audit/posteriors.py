"""Posteriors of heads, relations and tags by models that have not learnt from the sentence.

They are packed as bytes for the folds of an audit that are finished.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.progress import step
from sapwood.dependency.audit.located import Annotation, LocatedSentence
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.data.transform import lift_heads
from sapwood.dependency.learn.crf import ArcCRF, ArcEnsemble
from sapwood.dependency.parse.parser import ArcParse, ArcParser
from sapwood.execute import Engine

Name = TypeVar("Name", int, str)
LEAST = 0.005  # posterior that is kept
WordsAndHeads = tuple[tuple[str, ...], tuple[int, ...]]


class Judgement(NamedTuple):
    """What models expect of a sentence: posteriors for each word, and the best tree.

    Attributes
    ----------
    heads, relations, tags
        For each word, posteriors by head (0 is the root), by relation to the head in the best tree,
        and by universal tag.
    best
        The tree with the most expected right arcs, and the most probable tags.
    annotated_heads, annotated_relations
        For each word, the head that was annotated when it was judged, lifted where its arc crosses
        others, and posteriors by relation to that head.
    """

    heads: tuple[dict[int, float], ...]
    relations: tuple[dict[str, float], ...]
    tags: tuple[dict[str, float], ...]
    best: Annotation
    annotated_heads: tuple[int, ...]
    annotated_relations: tuple[dict[str, float], ...]

    def relations_to(self, k: int, head: int) -> dict[str, float]:
        """Posteriors of the relations of word k, from 0, to a head; empty for unjudged heads."""
        if head == self.best.heads[k]:
            return self.relations[k]
        return self.annotated_relations[k] if head == self.annotated_heads[k] else {}


def judge_fold(
    sentences: Sequence[LocatedSentence],
    inside: IntArray,
    learner: ArcCRF | ArcEnsemble,
    engine: Engine,
) -> Iterator[Judgement]:
    """Train on all sentences outside a fold, and judge the sentences of the fold."""
    held = set(inside.tolist())
    bank = ArcBank.of(one.arcs() for k, one in enumerate(sentences) if k not in held)
    parser = ArcParser(learner.fit(bank).model_)
    some = (
        (sentences[k].words, tuple(lift_heads(sentences[k].annotation.heads)))
        for k in inside.tolist()
    )
    yield from judge_sentences(parser, some, len(inside), engine)


def judge_sentences(
    parser: ArcParser, sentences: Iterable[WordsAndHeads], total: int, engine: Engine
) -> Iterator[Judgement]:
    """Judgements of some sentences, in order."""
    with step("judging", total=total, unit="sentence") as advance:
        for n, judgement in enumerate(engine.stream(judge, sentences, parser), 1):
            yield judgement
            advance(n)


def judge(sentence: WordsAndHeads, parser: ArcParser) -> Judgement:
    """The judgement of one sentence; the annotated heads only select the relations to judge."""
    words, heads = sentence
    parse = parser.parse(list(words))
    upos = sorted({tag for tag, _ in parser.model.tags})
    of_upos = np.array([[tag == name for name in upos] for tag, _ in parser.model.tags], float)
    tags = parse.tag_posteriors @ of_upos
    best = tuple(upos[k] for k in tags.argmax(axis=1).tolist())
    return _judgement(parse, tags, upos, best, heads)


def _judgement(
    parse: ArcParse,
    tags: FloatArray,
    upos: Sequence[str],
    best: tuple[str, ...],
    heads: tuple[int, ...],
) -> Judgement:
    relations = parse._parser.model.relations
    return Judgement(
        tuple(_likely(row, range(len(row))) for row in parse.posteriors),
        tuple(_likely(row, relations) for row in parse.relation_posteriors),
        tuple(_likely(row, upos) for row in tags),
        Annotation(best, parse.arcs.heads, parse.arcs.relations),
        heads,
        tuple(_likely(row, relations) for row in parse.relation_posteriors_of(heads)),
    )


def _likely(row: FloatArray, names: Sequence[Name]) -> dict[Name, float]:
    return {names[k]: float(row[k]) for k in np.flatnonzero(row >= LEAST).tolist()}


_MAPS = ("heads", "relations", "tags", "annotated_relations")  # posteriors for each word


def pack_judgements(judgements: Sequence[Judgement]) -> bytes:
    """Judgements as the bytes of arrays; `unpack_judgements` gives the same numbers again."""
    numbers: dict[str, int] = {}

    def number(name: int | str) -> int:
        return name if isinstance(name, int) else numbers.setdefault(name, len(numbers))

    columns: dict[str, Any] = {"n_words": np.array([len(one.heads) for one in judgements])}
    for field in _MAPS:
        maps: list[Mapping[Any, float]] = [row for one in judgements for row in getattr(one, field)]
        columns[f"{field}_n"] = np.array([len(row) for row in maps], np.int32)
        columns[f"{field}_key"] = np.array([number(k) for row in maps for k in row], np.int32)
        columns[f"{field}_p"] = np.array([p for row in maps for p in row.values()], np.float64)
    words = [word for one in judgements for word in zip(*one.best, strict=True)]
    columns["best"] = np.array([[number(x) for x in w] for w in words], np.int32).reshape(-1, 3)
    given = [head for one in judgements for head in one.annotated_heads]
    columns["annotated_heads"] = np.array(given, np.int32)
    out = io.BytesIO()
    np.savez_compressed(out, names=np.array(list(numbers), np.str_), **columns)
    return out.getvalue()


def unpack_judgements(data: bytes) -> list[Judgement]:
    """Judgements from their bytes."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    names = [str(name) for name in arrays["names"]]
    maps = {field: _maps(arrays, field, None if field == "heads" else names) for field in _MAPS}
    rows = [(names[a], head, names[b]) for a, head, b in arrays["best"].tolist()]
    heads = arrays["annotated_heads"].tolist()
    at = starts_of(arrays["n_words"]).tolist()
    judgements = list[Judgement]()
    for a, b in pairwise(at):
        upos, governors, relations = zip(*rows[a:b], strict=True)
        of_heads, of_relations, of_tags, annotated = (tuple(maps[name][a:b]) for name in _MAPS)
        best = Annotation(upos, governors, relations)
        judgements.append(
            Judgement(of_heads, of_relations, of_tags, best, tuple(heads[a:b]), annotated)
        )
    return judgements


def _maps(
    arrays: Mapping[str, npt.NDArray[Any]], field: str, names: Sequence[str] | None
) -> list[dict[Any, float]]:
    """The posteriors of each word, by the names of labels or by numbers."""
    keys = arrays[f"{field}_key"].tolist()
    p = arrays[f"{field}_p"].tolist()
    named = keys if names is None else [names[k] for k in keys]
    at = starts_of(arrays[f"{field}_n"]).tolist()
    return [dict(zip(named[a:b], p[a:b], strict=True)) for a, b in pairwise(at)]
