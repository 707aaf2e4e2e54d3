"""What is said of a sentence by a dependency parser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.corpus.arcs.bank import Arcs
    from sapwood.inference.arcs.parser import ArcParse
    from sapwood.inference.arcs.reranking import RerankedParse

N_RIVALS = 3  # other heads of a word that are listed
LEAST = 1e-3


def depend_answer(parse: ArcParse | RerankedParse, k: int = 1) -> dict[str, Any]:
    """A parsed sentence: words, tags, heads with posteriors, and the k best trees.

    Returns
    -------
    dict
        What `draw_arcs` tells of the best tree; its words have a `posterior`, and the `rivals`
        among their heads (`head`, 0 for the root, and `posterior`). `k_best` has `rank`, `score`,
        `heads`, `relations` and `conllu` of each tree.
    """
    answer = draw_arcs(parse.arcs)
    chosen = parse.head_posteriors
    for word, row in enumerate(answer["nodes"]):
        shares = parse.posteriors[word]
        order = (-shares).argsort(kind="stable")[: N_RIVALS + 1].tolist()
        row["posterior"] = chosen[word]
        row["rivals"] = [
            {"head": head, "posterior": float(shares[head])}
            for head in order
            if head != row["head"] and shares[head] >= LEAST
        ]
    best = parse.k_best(k)
    answer["k_best"] = [
        {
            "rank": rank,
            "score": found.score,
            "heads": list(found.arcs.heads),
            "relations": list(found.arcs.relations),
            "conllu": str(found.arcs),
        }
        for rank, found in enumerate(best, 1)
    ]
    return answer


def draw_arcs(arcs: Arcs) -> dict[str, Any]:
    """A dependency tree with its drawings.

    Examples
    --------
    >>> from sapwood.corpus.arcs.bank import Arcs
    >>> found = draw_arcs(Arcs(["dogs", "bark"], [2, 0], ["nsubj", "root"]))
    >>> found["nodes"][0]["head"], found["nodes"][0]["relation"]
    (2, 'nsubj')
    """
    columns = zip(arcs.words, arcs.upos, arcs.xpos, arcs.heads, arcs.relations, strict=True)
    names = ("word", "upos", "xpos", "head", "relation")
    return {
        "words": list(arcs.words),
        "conllu": str(arcs),
        "svg": arcs.to_svg(),
        "latex": arcs.to_latex(),
        "nodes": [dict(zip(names, row, strict=True)) for row in columns],
        "k_best": [],
    }
