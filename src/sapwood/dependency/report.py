"""Reports on parsed sentences and models of arcs, as plain dictionaries."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.dependency.data.bank import ArcBank, Arcs
    from sapwood.dependency.model.dependency import DependencyModel, HiddenMarkovModel
    from sapwood.dependency.parse.parser import ArcParse
    from sapwood.dependency.parse.reranking import RerankedParse
    from sapwood.execute import Engine

N_RIVALS = 3  # other heads of a word that are listed
MIN_RIVAL_POSTERIOR = 1e-3


def score_on_arcs(model: Any, gold: ArcBank, engine: Engine | int = 1) -> dict[str, Any]:
    """Scores of parses of gold sentences, and the speed; of a latent model, log-probabilities."""
    from sapwood.core.progress import counted
    from sapwood.dependency.data.bank import ArcBank
    from sapwood.dependency.evaluate import attachment
    from sapwood.dependency.model.dependency import DependencyModel
    from sapwood.dependency.parse.reranking import arc_parser
    from sapwood.execute.engine import Meter

    if isinstance(model, DependencyModel):
        scores = tree_scores(model, gold)
        kept = ("trees", "words", "negative", "impossible", "unknown_tags", "log_prob_per_word")
        return {name: scores[name] for name in kept}
    parser, meter = arc_parser(model), Meter()
    words = gold.sentences()
    parses: Any = counted(parser.parse_many(words, jobs=engine), total=len(gold), unit="sentence")
    found = ArcBank.of(parse.arcs for parse in parses)
    took = meter.as_dict()
    cpu = took["cpu_seconds"]
    return dict(attachment(gold, found).as_dict()) | {
        "seconds": took["seconds"],
        "cpu_seconds": cpu,
        "sentences_per_cpu_second": round(len(gold) / cpu, 1) if cpu else None,
    }


def depend_answer(parse: ArcParse | RerankedParse, k: int = 1) -> dict[str, Any]:
    """A parsed sentence: words, tags, heads with posteriors, and the k best trees.

    Returns
    -------
    dict
        The report of `draw_arcs` on the best tree; its words have a `posterior`, and the `rivals`
        among their heads (`head`, 0 for the root, and `posterior`). `k_best` has `rank`, `score`,
        `heads`, `relations` and `conllu` of each tree. `constraint_probability` is that of the
        heads and relations that were given, 1 without any.
    """
    answer = draw_arcs(parse.arcs)
    answer["constraint_probability"] = exp(parse.constraint_log_prob)
    for row, posterior, of_heads in zip(
        answer["nodes"], parse.head_posteriors, parse.posteriors, strict=True
    ):
        order = (-of_heads).argsort(kind="stable")[: N_RIVALS + 1].tolist()
        row["posterior"] = posterior
        row["rivals"] = [
            {"head": head, "posterior": float(of_heads[head])}
            for head in order
            if head != row["head"] and of_heads[head] >= MIN_RIVAL_POSTERIOR
        ]
    answer["k_best"] = [
        {
            "rank": rank, "score": tree.score, "heads": list(tree.arcs.heads),
            "relations": list(tree.arcs.relations), "conllu": str(tree.arcs),
        }
        for rank, tree in enumerate(parse.k_best(k), 1)
    ]  # fmt: skip
    return answer


def parse_record(parse: ArcParse | RerankedParse, k: int = 0) -> dict[str, Any]:
    """A parsed sentence as a short record, without drawings.

    Returns
    -------
    dict
        `words`, `upos`, `xpos`, `heads` and `relations` of the tree, `posteriors` of its heads,
        `constraint_log_prob`, and for a positive `k` the list `k_best` of `score`, `heads` and
        `relations`. Sentences of running text also have the entries of
        `text_fields`.
    """
    from sapwood.dependency.data.reader import text_fields

    names = ("words", "upos", "xpos", "heads", "relations")
    record: dict[str, Any] = {name: list(getattr(parse.arcs, name)) for name in names}
    record |= text_fields(parse.arcs)
    record["posteriors"] = parse.head_posteriors
    record["constraint_log_prob"] = parse.constraint_log_prob
    if k:
        record["k_best"] = [
            {"score": tree.score} | {name: list(getattr(tree.arcs, name)) for name in names[3:]}
            for tree in parse.k_best(k)
        ]
    return record


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
    """Report on a model of latent trees or chains.

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
