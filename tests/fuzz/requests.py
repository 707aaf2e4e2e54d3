"""Random constraints on small models: every request is satisfied, or refused for a reason.

A case is a sentence with tags, required and forbidden phrases, as JSON. Some of them contradict
each other, name labels that no model has, or spans that no sentence has. What is satisfied and what
is a reason is decided here without the code that is tested. `python -m tests.fuzz --reader
constraints` looks for crashes as well; `python -m tests.fuzz.requests` counts trees that a model
has, trees joined from pieces because no tree of the model has all that was asked, refusals, and
violations.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.fuzz import seeds

import sapwood as sw
from sapwood.constituency.grammar.partial_text import LinePlace, read_bracketing, read_tagged
from sapwood.constituency.parse.decoders import DECODERS
from sapwood.core.errors import CorpusError, SapwoodError

KINDS = ("plain", "em", "spectral", "crf", "network", "ensemble")
WORDS = ("the", "dog", "a", "cat", "sees", "sleeps", "in", "garden", "Kim", "it", "old", "now", ".",
         "Unheard", "1990-91")  # fmt: skip
RIGHT = {
    "words": ["the", "dog", "sleeps", "."],
    "tags": [None, "NN", None, None],
    "spans": [[0, 2, "NP"], [2, 3, None]],
    "forbidden": [[1, 3, None]],
    "decoder": 0,
}
LINES = """\
( (NP the dog) (VP sleeps) . )
(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sees) (a cat)) (. .))
the (NN dog) sees ( a cat) in the garden
((Kim) sees (NP (NP a dog) (PP in the garden)))
(NP (-NONE- *)) (VP sleeps)
"""
TAGGED = "the/DT dog/NN sleeps/ ./.\nKim/NNP sees/VBZ it/PRP\n\nthe/ old/ 1/2/NN\n"

Span = tuple[int, int, Any]


# -- making cases ---------------------------------------------------------------------------------


def random_request(rng: random.Random, n_edits: int) -> bytes:
    """A sentence with constraints; without edits, one that every model satisfies.

    Most sentences are those of sampled trees, and most constraints are true of these trees.
    """
    if not n_edits:
        return json.dumps(RIGHT).encode()
    tree = rng.choice(sampled_trees())
    is_true = rng.random() < 0.7
    words = tree.words() if is_true else [rng.choice(WORDS) for _ in range(rng.randint(1, 8))]
    n = len(words)
    odd = 0.05 if n_edits > 2 else 0.0  # how often something is no label, tag or span at all
    wild = rng.choice((0.0, 0.1, 0.5)) if is_true else 1.0  # how often something is not the tree's
    phrases = [span for node, span in zip(tree.nodes(), tree.spans(), strict=True)
               if not node.is_preterminal and node.label != "TOP"]  # fmt: skip
    spans: list[Any] = []
    for _ in range(rng.choice((0, 1, 2, 3, 5))):
        label, i, j = rng.choice(phrases)
        random_one = _random_span(rng, n, odd)
        spans.append(random_one if rng.random() < wild else [i, j, rng.choice((label, None))])
    if rng.random() < 0.6:  # most of those that cross would be refused
        spans = list(_without_crossing(spans))
    tags = [tag if rng.random() >= wild else _random_tag(rng, odd) for tag in tree.tags()]
    if not is_true:
        tags = [_random_tag(rng, odd) for _ in words]
    case = {
        "words": words,
        "tags": [tag if rng.random() < 0.3 else None for tag in tags],
        "spans": spans,
        "forbidden": [_random_span(rng, n, odd) for _ in range(rng.choice((0, 0, 1, 2, 3)))],
        "decoder": rng.randrange(len(DECODERS)),
    }
    return json.dumps(case).encode()


@cache
def sampled_trees() -> list[sw.Tree]:
    """Trees of at most ten words, drawn from the plain grammar."""
    trees = seeds.grammars()["plain"].sample(400, seed=0)
    return [tree for tree in trees if len(tree.words()) <= 10]


@cache
def labels() -> tuple[list[str], list[str]]:
    """The labels of phrases and the tags of the small treebank."""
    known = parser("plain", "f1").known_labels
    return sorted(known.phrases), sorted(known.tags)


def _random_tag(rng: random.Random, odd: float) -> Any:
    tags = labels()[1]
    if rng.random() < odd:
        return rng.choice(("XX", 3, "", {"XX": 1.0}, {"NN": -1}, {"NN": 0.0}, {}, ["NN"], "NP"))
    if rng.random() < 0.3:
        return {tag: rng.choice((1, 0.5, 0.01, 1e-9, 0.0)) for tag in rng.sample(tags, 2)} | {
            rng.choice(tags): 0.2
        }
    return rng.choice(tags)


def _random_span(rng: random.Random, n: int, odd: float) -> Any:
    i = rng.randrange(n)
    if rng.random() >= odd:
        return [i, rng.randint(i + 1, n), rng.choice((None, *labels()[0]))]
    return rng.choice(([i, n + 1, None], [i, i, "NP"], [i, n, "XX"], [i, n], ["a", n, None],
                       [-1, n, None], [i, n, ""], [i, n, 7], [0.5, n, None], [i, n, ["NP"]],
                       7, None))  # fmt: skip


def _without_crossing(spans: list[Any]) -> Iterator[Any]:
    kept: list[Any] = []
    for span in spans:
        if not any(_cross(span, other) for other in kept):
            kept.append(span)
            yield span


def _cross(one: Any, other: Any) -> bool:
    try:
        (a, b), (i, j) = sorted((one[:2], other[:2]))
        return bool(a < i < b < j)
    except (TypeError, ValueError):
        return False


# -- reading them ---------------------------------------------------------------------------------


@cache
def parser(kind: str, decoder: str) -> sw.Parser:
    """A parser with a small model of a kind; `f1` where the kind lacks the decoder."""
    model = seeds.grammars()[kind]
    is_there = kind in {"plain", "em"} or (kind != "network" and decoder != "viterbi")
    return sw.Parser(model, decoder=decoder if is_there else "f1")


def require(condition: bool, message: str) -> None:
    """Report a violation, also while an error is handled."""
    if not condition:
        raise AssertionError(message)


def ask(data: bytes, folder: Path, kind: str) -> None:
    """Parse with random constraints: the trees satisfy them, or there is a reason."""
    outcome(data, kind)


def outcome(data: bytes, kind: str) -> str:
    """What became of a case: the kind of its parse; an error where it is refused."""
    case = json.loads(data)
    words, tags, spans, forbidden = (case[x] for x in ("words", "tags", "spans", "forbidden"))
    chosen = parser(kind, DECODERS[case["decoder"]])
    try:
        parse = chosen.parse(words, tags=tags, spans=spans, forbidden=forbidden)
    except SapwoodError as error:
        require(bool(error.hint and reason(case)), f"refused without a reason: {error}")
        raise
    assert not reason(case), f"not refused, though {reason(case)}"
    check_tree(parse.tree, case)
    for one in parse.k_best(2):
        check_tree(one.tree, case)
    assert parse.constraint_log_prob < 1e-6, f"a probability of e^{parse.constraint_log_prob}"
    assert all(-1e-6 < c.probability < 1 + 1e-6 for c in parse.marginals)
    is_possible = parse.constraint_log_prob > float("-inf")
    if parse.is_fallback and is_possible and (kind != "ensemble" or chosen.decoder == "f1"):
        # In an ensemble, the other decoders do not ask the network, which has every tree.
        assert chosen.parse(words).is_fallback, "no tree, though there is one"
    if parse.kind == "parsed" and kind in {"plain", "em"}:
        posterior = {c[:3]: c.probability for c in parse.marginals}
        for i, j, label in spans:
            p = 1.0 if label is None else posterior.get((label, i, j), 0.0)
            assert p > 1 - 1e-6, f"the posterior of {label} over {i} to {j} is {p}"
    return parse.kind


def check_tree(tree: sw.Tree, case: dict[str, Any]) -> None:
    """Require that a tree has the words and all that was asked."""
    assert tree.words() == case["words"], str(tree)
    over: dict[tuple[int, int], list[str]] = {}
    place = 0
    for node, (label, i, j) in zip(tree.nodes(), tree.spans(), strict=True):
        if node.is_preterminal:
            asked = case["tags"][place]
            allowed = {asked: 1.0} if isinstance(asked, str) else asked
            assert allowed is None or allowed.get(label, 0.0) > 0.0, f"the tag {label}: {tree}"
            place += 1
        elif label != "TOP":
            over.setdefault((i, j), []).append(label)
    wanted: dict[tuple[int, int], list[str]] = {}
    for i, j, label in case["spans"]:
        chain = wanted.setdefault((i, j), [])
        if label not in (None, *chain[-1:]):  # a label right behind itself is one request
            chain.append(label)
    for span, labels_ in wanted.items():
        rest = iter(over.get(span, []))
        assert span in over, f"no phrase over {span}: {tree}"
        assert all(label in rest for label in labels_), f"not {labels_} over {span}: {tree}"
    for i, j, label in case["forbidden"]:
        found = over.get((i, j), [])
        assert label not in found, f"{label} over {i} to {j}: {tree}"
        assert label is not None or not found, f"{found} over {i} to {j}: {tree}"


def reason(case: dict[str, Any]) -> str | None:
    """Why a case has to be refused; None where it has not."""
    n = len(case["words"])
    phrases, tags = labels()
    for tag in case["tags"]:
        soft = {tag: 1.0} if isinstance(tag, str) else tag
        if soft is not None and not (
            isinstance(soft, dict)
            and all(x in tags and p >= 0 for x, p in soft.items())
            and sum(soft.values()) > 0
        ):
            return f"{tag} is no tag"
    for span in case["spans"] + case["forbidden"]:
        is_span = isinstance(span, list) and len(span) == 3
        if not is_span or not all(isinstance(x, int) for x in span[:2]):
            return f"{span} is no span"
        if not 0 <= span[0] < span[1] <= n or span[2] not in [None, *phrases]:
            return f"{span} is no span"
    for one, other in combinations(case["spans"], 2):
        if _cross(one, other):
            return f"{one} and {other} cross"
    for *one, label in case["spans"]:
        banned = {x for *span, x in case["forbidden"] if span == one}
        if (None in banned) or (label in banned) or banned >= set(phrases):
            return f"{label} over {one} is required and forbidden"
    return None


def read_given_lines(data: bytes, folder: Path, *, tagged: bool) -> None:
    """Read partial bracketings or tagged lines, parse them, and look whether the trees obey."""
    chosen = parser("em", "f1")
    read = read_tagged if tagged else read_bracketing
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        try:
            sentence = read(line, chosen.known_labels, LinePlace("input", number))
        except CorpusError as error:
            is_there = error.line == number and 1 <= (error.column or 0) <= len(line)
            require(bool(is_there and error.hint), f"refused in the wrong place: {error}")
            raise
        words, tags, spans, forbidden = sentence
        if not words or len(words) > 12:
            continue
        parse = chosen.parse(words, tags=tags, spans=spans, forbidden=forbidden)
        given = {"words": list(words), "tags": tags or [None] * len(words), "spans": spans,
                 "forbidden": []}  # fmt: skip
        check_tree(parse.tree, given)


def main() -> int:
    """Count what becomes of many cases; status 1 where one is violated."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz.requests", description=__doc__)
    options.add_argument("--cases", type=int, default=100_000, help="over all kinds of models")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    counts = {kind: Counter[str]() for kind in KINDS}
    for index in range(given.cases):
        kind = KINDS[index % len(KINDS)]
        rng = random.Random(f"{given.seed} {index}")
        data = random_request(rng, rng.choice((1, 1, 2, 3)))
        try:
            counts[kind][outcome(data, kind)] += 1
        except SapwoodError:
            counts[kind]["refused"] += 1
        except Exception as error:
            counts[kind]["violated"] += 1
            print(f"{kind}: {type(error).__name__}: {error}: {data.decode()}", file=sys.stderr)
    columns = ("parsed", "joined", "refused", "violated")
    print(f"{'model':<12}" + "".join(f"{name:>10}" for name in ("cases", *columns)))
    counts["all"] = sum(counts.values(), Counter())
    for kind, found in counts.items():
        cells = (found.total(), *(found[name] for name in columns))
        print(f"{kind:<12}" + "".join(f"{n:>10,}" for n in cells))
    return int(counts["all"]["violated"] > 0)


if __name__ == "__main__":
    sys.exit(main())
