"""What a dependency parser says of a sentence, and a latent model of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.dependency.data.bank import ArcBank, Arcs
    from sapwood.dependency.model.dependency import DependencyModel
    from sapwood.dependency.parse.parser import ArcParse
    from sapwood.dependency.parse.reranking import RerankedParse
if TYPE_CHECKING:
    from sapwood.dependency.model.dependency import DependencyModel, HiddenMarkovModel

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
    >>> from sapwood.dependency.data.bank import Arcs
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


def tree_scores(model: DependencyModel, bank: ArcBank) -> dict[str, Any]:
    """Log-probabilities of trees under a latent model, and their sums.

    Returns
    -------
    dict
        `log_probs` and `signs` of all trees; how many are `negative` or `impossible` (a weight of
        0); `log_prob` and `log_prob_per_word` over the trees of positive weight; `unknown_tags`,
        the number of words with a tag that the model has never seen.

    Examples
    --------
    >>> import sapwood as sw
    >>> bank = sw.ArcBank.of([sw.Arcs(["dogs", "bark"], [2, 0], upos=["NOUN", "VERB"])])
    >>> scores = tree_scores(sw.EMDependency(1).fit(bank).model_, bank)
    >>> round(scores["log_prob_per_word"], 3)  # two tags, and half a word for unknown ones
    -0.916
    """
    import numpy as np

    logs, signs = model.signed_log_probs(bank)
    kept = signs > 0
    n_words = int(np.diff(bank.offsets)[kept].sum())
    total = float(logs[kept].sum())
    return {
        "is_probabilistic": model.is_probabilistic,
        "trees": len(logs),
        "words": bank.n_tokens,
        "impossible": int((signs == 0).sum()),
        "negative": int((signs < 0).sum()),
        "unknown_tags": model.seen.count_unknown_tags(bank),
        "log_prob": total,
        "log_prob_per_word": total / n_words if n_words else None,
        "log_probs": logs.tolist(),
        "signs": [int(sign) for sign in signs.tolist()],
    }


def inspect_latent(
    model: DependencyModel | HiddenMarkovModel, name: str | None = None, *, top: int = 10
) -> dict[str, Any]:
    """Tell what is in a model of latent trees or chains.

    Returns
    -------
    dict
        `model` (the name), `kind`, `seen`, `states`, `symbols`, `probabilistic`, `record`, and
        `symbols_by_state`: for models of probabilities, rows of `state`, `root` and the likeliest
        `symbols`; empty for spectral ones, whose directions are no states.
    """
    arcs = model.arcs
    rows = []
    for state in range(arcs.n_states if model.is_probabilistic else 0):
        column = arcs.symbols[:, state]
        best = (-column).argsort(kind="stable")[:top]
        symbols = [{"symbol": model.seen.symbol(x), "probability": float(column[x])}
                   for x in best.tolist()]  # fmt: skip
        rows.append({"state": state, "root": float(arcs.root[state]), "symbols": symbols})
    return {
        "model": name, "kind": type(model).__name__, "seen": model.seen.kind,
        "states": arcs.n_states, "symbols": len(arcs.symbols),
        "probabilistic": model.is_probabilistic, "record": model.record,
        "symbols_by_state": rows,
    }  # fmt: skip
