"""Dependency trees and texts of CoNLL-U, drawn at random."""

from __future__ import annotations

import random

from sapwood.dependency.audit.located import Annotation
from sapwood.dependency.audit.posteriors import Judgement

RELATIONS = ("nsubj", "obj", "obl", "punct")
TAGS = ("NOUN", "VERB", "ADP")


def random_heads(rng: random.Random, n: int) -> tuple[int, ...]:
    """The heads of any tree with one root, projective or not."""
    order = rng.sample(range(1, n + 1), n)
    heads = [0] * n
    for k, word in enumerate(order[1:], 1):
        heads[word - 1] = rng.choice(order[:k])
    return tuple(heads)


def random_annotation(rng: random.Random, n: int) -> Annotation:
    """Any tree with tags and relations."""
    heads = random_heads(rng, n)
    relations = tuple("root" if head == 0 else rng.choice(RELATIONS) for head in heads)
    return Annotation(tuple(rng.choice(TAGS) for _ in heads), heads, relations)


def conllu_text(rng: random.Random, annotation: Annotation, words: list[str], end: str) -> str:
    """A sentence as treebanks publish it: comments, multiword tokens, empty nodes, all columns."""
    lines = [f"# sent_id = {rng.random()}", "# text = a  b"]
    if rng.random() < 0.2:
        lines.insert(0, "# newdoc id = x")
    rows = zip(words, *annotation, strict=True)
    covered = 0  # the last word of a multiword token
    for k, (word, upos, head, relation) in enumerate(rows, 1):
        if covered < k < len(words) and rng.random() < 0.2:
            covered = k + 1
            lines.append(f"{k}-{k + 1}\t{word}x\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No")
        cells = (k, word, f"le mma{k}", upos, "X", "Case=Nom", head, relation, "2:obj|3:x", "A=b")
        lines.append("\t".join(map(str, cells)))
        if rng.random() < 0.1:
            lines.append(f"{k}.1\te\t_\t_\t_\t_\t_\t_\t_\t_")
    return end.join(lines) + end + end


def judgement(best: Annotation, rng: random.Random) -> Judgement:
    """A judgement with a best tree, and posteriors drawn at random."""
    n = len(best.heads)
    heads = tuple({k: rng.random() for k in range(n + 1) if rng.random() < 0.5} for _ in range(n))
    relations = tuple(dict.fromkeys(RELATIONS, 0.25) for _ in range(n))
    tags = tuple(dict.fromkeys(TAGS, 0.3) for _ in range(n))
    return Judgement(heads, relations, tags, best, best.heads, relations)
