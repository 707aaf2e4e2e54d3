"""Random tags, heads, relations and pairs: every request is satisfied, or refused for a reason.

Cases are CoNLL-U whose columns are partly filled, and strings with signs of pairs. Whether heads
can be kept is decided by all projective trees of the sentence, without the code that is tested.
`python -m tests.fuzz.given` counts sentences that are parsed, that are refused, and violations.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.reference.arcs import projective_trees

import sapwood as sw
from sapwood.cli.inputs import ArcReading
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.dependency.data.bank import HEAD, ID, RELATION, UPOS, XPOS
from sapwood.dependency.parse.constraints import ArcConstraintError, PartialArcs
from sapwood.hankel.data import pair_signs
from sapwood.hankel.report import with_pairs

SENTENCES = (
    ("the old dog sleeps now", (3, 3, 4, 0, 4), "det amod nsubj root advmod",
     "DET ADJ NOUN VERB ADV", "DT JJ NN VBZ RB"),
    ("dogs see a cat", (2, 0, 4, 2), "nsubj root det obj", "NOUN VERB DET NOUN", "NNS VBP DT NN"),
    ("sleep", (0,), "root", "VERB", "VB"),
)  # fmt: skip
PARTIAL_ARCS = """\
# half of a tree
1\tthe\t_\tDET\t_\t_\t3\t_\t_\t_
2\told\t_\t_\tJJ\t_\t_\tamod\t_\t_
2.1\tso\t_\t_\t_\t_\t_\t_\t_\t_
3\tdog\t_\t_\t_\t_\t_\t_\t_\t_
4\tsleeps\t_\tVERB\tVBZ\t_\t0\troot\t_\t_

1\tdogs\t_\t_\t_\t_\t2\tnsubj\t_\t_
2\tsee\t_\t_\t_\t_\t_\t_\t_\t_

"""
PARTIAL_STRINGS = "a a b b\n(..)\nb a\t.x\n\na b a b a\n<.|.x\n"
WORDS = ("the", "old", "dog", "dogs", "sleeps", "see", "a", "cat", "Unheard", "1990")
KINDS = ("first", "second", "latent", "mix")
MOST_WORDS = 6


@cache
def parser(kind: str) -> sw.ArcParser:
    """A parser of one kind, learnt from a few sentences."""
    trees = [
        sw.Arcs(words.split(), heads, relations.split(), upos.split(), xpos.split())
        for words, heads, relations, upos, xpos in SENTENCES
    ] * 4
    learners: dict[str, Any] = {
        "first": sw.ArcCRF(order=1, passes=1, folds=2),
        "second": sw.ArcCRF(order=2, passes=1, folds=2),
        "latent": sw.LatentArcCRF(n_states=2, passes=1, folds=2),
        "mix": sw.ArcEnsemble(passes=1, folds=2, encoder_passes=1),
    }
    return sw.ArcParser(learners[kind].fit(trees).model_)


@cache
def grammar() -> sw.WeightedGrammar:
    """A grammar with weights of both signs."""
    rng = np.random.default_rng(0)
    return sw.WeightedGrammar(
        ("a", "b"), rng.normal(size=2), rng.normal(size=(2, 2)), rng.normal(size=(2, 2, 2))
    )


@cache
def all_trees(n: int) -> list[tuple[int, ...]]:
    return [tree[1:] for tree in projective_trees(n)]


# -- sentences ------------------------------------------------------------------------------------


def random_arcs(rng: random.Random) -> PartialArcs:
    """A sentence of up to six words, with anything given; most heads are those of some tree."""
    model = parser("mix").model
    n = rng.randint(1, MOST_WORDS)
    words = rng.choices(WORDS, k=n)
    tree = rng.choice(all_trees(n))
    heads: list[int | None] = [None] * n
    relations: list[Any] = [None] * n
    tags: list[Any] = [None] * n
    for word in range(n):
        if rng.random() < 0.4:
            heads[word] = tree[word] if rng.random() < 0.8 else rng.randint(-1, n + 1)
        if rng.random() < 0.2:
            relations[word] = rng.choice([*model.relations, "subject"])
        if rng.random() < 0.3:
            pair = rng.choice(model.tags)
            tags[word] = rng.choice(
                [pair, pair[0], pair[1], (pair[0], "_"), ("NOUN", pair[1]), "NOUNS",
                 {pair[0]: 0.3, "VERB": 0.7}, {pair: 1.0, "VBZ": 0.0}]
            )  # fmt: skip
    return PartialArcs(words, tags, heads, relations)


def reason(asked: PartialArcs) -> str | None:
    """Why a request has to be refused; None where it has not."""
    model = parser("mix").model
    words, tags, heads, relations = asked
    assert tags is not None
    assert heads is not None
    assert relations is not None
    names = {name for pair in model.tags for name in pair}
    for tag in tags:
        for one in tag if isinstance(tag, dict) else () if tag is None else (tag,):
            for name in (one,) if isinstance(one, str) else one:
                if name not in names | {"_"}:
                    return f"{name} is no tag"
    for name in relations:
        if name is not None and name not in model.relations:
            return f"{name} is no relation"
    if any(name == "root" and head for name, head in zip(relations, heads, strict=True)):
        return "the root has a head"
    roots = [k for k, name in enumerate(relations) if name == "root" and heads[k] is None]
    given = [0 if k in roots else head for k, head in enumerate(heads)]
    if not any(_fits(tree, given) for tree in all_trees(len(words))):
        return "no tree has these heads"
    return None


def _fits(tree: tuple[int, ...], heads: list[int | None]) -> bool:
    return all(head in (None, found) for head, found in zip(heads, tree, strict=True))


def outcome(asked: PartialArcs, kind: str) -> str:
    """Whether a sentence is parsed or refused, both rightly."""
    try:
        parse = parser(kind).parse(asked)
    except ArcConstraintError as error:
        if not (error.hint and reason(asked)):
            raise AssertionError(f"refused without a reason: {error}") from error
        return "refused"
    assert not reason(asked), f"not refused, though {reason(asked)}"
    for tree in (parse.arcs, *(one.arcs for one in parse.k_best(3))):
        check_arcs(tree, asked)
    assert parse.constraint_log_prob <= 0.0
    assert (parse.posteriors > -1e-9).all()
    assert (parse.posteriors.sum(axis=1) < 1 + 1e-6).all()
    return "parsed"


def check_arcs(tree: sw.Arcs, asked: PartialArcs) -> None:
    """Require that a tree is projective and has all that was asked."""
    _, tags, heads, relations = asked
    assert tree.is_projective()
    for k in range(len(tree)):
        pair, tag = (tree.upos[k], tree.xpos[k]), None if tags is None else tags[k]
        some = tag if isinstance(tag, dict) else {tag: 1.0}
        assert tag is None or any(_is_tag(pair, one) for one, p in some.items() if p > 0), pair
        assert heads is None or heads[k] in (None, tree.heads[k]), tree.heads
        assert relations is None or relations[k] in (None, tree.relations[k]), tree.relations


def _is_tag(pair: tuple[str, str], asked: Any) -> bool:
    if isinstance(asked, str):
        return asked in pair
    return all(one in ("_", found) for one, found in zip(asked, pair, strict=True))


def read_partial_arcs(data: bytes, folder: Path) -> None:
    """Read CoNLL-U that is partly filled, parse it, and look whether the trees obey."""
    path = folder / "input.conllu"
    path.write_bytes(data)
    chosen = parser("mix")
    reading = ArcReading(None, "utf-8", skip_bad=len(data) % 2 == 1)
    for asked in reading.partial(str(path), chosen.constrain, tags=True, tree=True):
        arcs = chosen.parse(asked).arcs
        assert isinstance(asked.sentence, sw.Arcs)
        given = [row for row in asked.sentence.rows if row[ID].isdecimal()]
        found = [row for row in arcs.all_rows() if row[ID].isdecimal()]
        for old, new in zip(given, found, strict=True):
            for column in (UPOS, XPOS, HEAD, RELATION):
                assert old[column] in ("_", new[column]) or _same_number(old[column], new[column])
    assert all(error.line and error.hint for error in reading.skipped)


def _same_number(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and int(one) == int(other)


# -- strings --------------------------------------------------------------------------------------


def read_partial_strings(data: bytes, folder: Path) -> None:
    """Read strings with signs of pairs, bracket them, and look whether the pairs are there."""
    model = grammar()
    lines = data.decode("utf-8", "replace").split("\n")
    try:
        for _, words, pairs in with_pairs(lines, "input"):
            if not words or pairs is None or set(words) - set(model.symbols):
                continue
            found = pair_signs(model.best_brackets(words, pairs))
            for asked, sign in zip(pairs.signs, found, strict=True):
                allowed = {".": "().", "x": ".", "|": "()", "<": "(", ">": ")"}.get(asked, asked)
                assert sign in allowed, f"{found} for {pairs.signs}"
    except CorpusError as error:
        if not (error.line and error.hint):
            raise AssertionError(f"no place or no hint: {error}") from error
        raise


def random_strings(rng: random.Random) -> bytes:
    """A string with signs of pairs, most of them balanced."""
    n = rng.randint(1, 12)
    signs = [rng.choice("....x|<>") if rng.random() < 0.5 else "." for _ in range(n)]
    for _ in range(rng.randint(0, 3)):
        i, j = sorted(rng.choices(range(n), k=2))
        if i < j:
            signs[i], signs[j] = "(", ")"
    return f"{' '.join(rng.choice('ab') for _ in range(n))}\n{''.join(signs)}\n".encode()


def main() -> int:
    """Count what becomes of many cases; status 1 where one is violated."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz.given", description=__doc__)
    options.add_argument("--cases", type=int, default=10_000, help="of sentences, and of strings")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    counts = {kind: Counter[str]() for kind in (*KINDS, "strings")}
    for index in range(2 * given.cases):
        rng = random.Random(f"{given.seed} {index}")
        kind = KINDS[index // 2 % len(KINDS)] if index % 2 else "strings"
        try:
            if index % 2:
                counts[kind][outcome(random_arcs(rng), kind)] += 1
            else:
                read_partial_strings(random_strings(rng), Path())
                counts[kind]["parsed"] += 1
        except SapwoodError:
            counts[kind]["refused"] += 1
        except Exception as error:
            counts[kind]["violated"] += 1
            print(f"{kind} {index}: {type(error).__name__}: {error}", file=sys.stderr)
    columns = ("parsed", "refused", "violated")
    print(f"{'kind':<12}" + "".join(f"{name:>10}" for name in ("cases", *columns)))
    for kind, found in counts.items():
        cells = (found.total(), *(found[name] for name in columns))
        print(f"{kind:<12}" + "".join(f"{n:>10,}" for n in cells))
    return int(sum(counts.values(), Counter())["violated"] > 0)


if __name__ == "__main__":
    sys.exit(main())
