"""All that can be shown of one sentence: its tree with posteriors and states, chart, members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Ensemble, Model
    from sapwood.constituency.parse.parser import Parse, Parser
    from sapwood.constituency.parse.state_vectors import NodeStates, Span, StateVectors
    from sapwood.corpora.tree import Tree

LEAST_SHOWN = 1e-3  # posterior below which a label is not shown in a chart


def parse_answer(parse: Parse, k: int = 1) -> dict[str, Any]:
    """A parsed sentence in the words of the JSON API.

    Returns
    -------
    dict
        `tree`, `log_prob`, `is_fallback`, `constituents` (`label`, `start`, `end`, `probability`),
        `k_best`: rows of `rank`, `score`, `log_prob` and `tree`; and `constraint_probability`, 1
        without constraints.

    Examples
    --------
    >>> import sapwood as sw
    >>> parse = sw.Parser(sw.bundled_grammar()).parse(["they", "sleep", "."])
    >>> list(parse_answer(parse))
    ['tree', 'log_prob', 'is_fallback', 'constituents', 'k_best', 'constraint_probability']
    """
    return {  # without the sentence's probability, which takes another chart
        "tree": str(parse.tree),
        "log_prob": parse.log_prob,
        "is_fallback": parse.is_fallback,
        "constituents": constituent_rows(parse),
        "k_best": k_best_rows(parse, k),
        "constraint_probability": exp(parse.constraint_log_prob),
    }


def parse_report(parse: Parse | None, k_best: int | None = None) -> dict[str, Any]:
    """A parsed sentence, with its phrases and tags and their posteriors.

    A sentence of running text comes with the fields of `source_fields`.

    Examples
    --------
    >>> import sapwood as sw
    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> report = parse_report(sw.Parser(bundled_grammar()).parse(["they", "sleep", "."]))
    >>> report["kind"], report["constituents"][0]["label"]
    ('parsed', 'S')
    """
    if parse is None:
        nothing = dict.fromkeys(("tree", "log_prob", "sign", "sentence_log_prob"))
        empty: dict[str, Any] = nothing | {"fallback": False, "kind": None, "constituents": []}
        return empty | ({"k_best": []} if k_best else {})
    report: dict[str, Any] = {
        "tree": str(parse.tree),
        "log_prob": parse.log_prob,
        "sign": parse.sign,
        "sentence_log_prob": parse.sentence_log_prob,
        "fallback": parse.is_fallback,
        "kind": parse.kind,
        "constituents": constituent_rows(parse),
    }
    report |= source_fields(parse)
    if k_best:
        report["k_best"] = k_best_rows(parse, k_best)
    return report


def source_fields(parse: Parse) -> dict[str, Any]:
    """The places in a text: `text` of the sentence with its own, `words` and `constituents`.

    Places are `char_start` and `char_end`, counted in characters of the whole text; nothing for a
    sentence that was given as words.
    """
    source = parse.source
    if source is None:
        return {}
    words = zip(source.words, source.offsets, strict=True)
    rows = constituent_rows(parse)
    for row in rows:
        row["char_start"], row["char_end"] = source.place(row["start"], row["end"])
    return {
        "constituents": rows,
        "text": source.text,
        "char_start": source.start,
        "char_end": source.start + len(source.text),
        "words": [{"word": word, "char_start": i, "char_end": j} for word, (i, j) in words],
    }


def constituent_rows(parse: Parse) -> list[dict[str, Any]]:
    """The phrases and tags of a tree: `label`, `start`, `end` and `probability` of each."""
    names = ("label", "start", "end", "probability")
    return [dict(zip(names, row, strict=True)) for row in constituents(parse)]


def k_best_rows(parse: Parse, k: int) -> list[dict[str, Any]]:
    """The k best trees: `rank`, `score`, `log_prob` and `tree` of each."""
    return [
        {"rank": rank, "score": b.score, "log_prob": b.log_prob, "tree": str(b.tree)}
        for rank, b in enumerate(parse.k_best(k), 1)
    ]


def constituents(parse: Parse) -> Iterator[tuple[str, int, int, float | None]]:
    """Label, start, end and posterior of the phrases and tags below the root of a tree."""
    posterior = {(c.label, c.start, c.end): c.probability for c in parse.marginals}
    for span in parse.tree.spans()[1:]:
        yield (*span, posterior.get(span))


def draw_parse(parse: Parse, k: int = 1, states: StateVectors | None = None) -> dict[str, Any]:
    """A parsed sentence with its drawing, the states of its nodes, and the whole chart.

    Parameters
    ----------
    states
        Of the grammar whose states are shown; None for a model that has none.

    Returns
    -------
    dict
        The fields of `draw_given_tree`, with `kind`, `is_fallback`, `sentence_log_prob`,
        `k_best` and `chart`; not the probability of the constraints, which takes longer than all.
    """
    return drawing_of(parse.tree, parse, states) | {
        "log_prob": parse.log_prob,
        "sign": parse.sign,
        "kind": parse.kind,
        "is_fallback": parse.is_fallback,
        "sentence_log_prob": parse.sentence_log_prob,
        "k_best": k_best_rows(parse, k),
        "chart": chart_cells(parse),
    }


def draw_given_tree(
    model: Model, tree: Tree, parse: Parse, states: StateVectors | None = None
) -> dict[str, Any]:
    """A given tree as it is: drawn, scored, with the posteriors that its parts have.

    Parameters
    ----------
    tree
        Any; it is drawn as it is, and scored after it was cleaned.
    parse
        Of the tree's words.

    Returns
    -------
    dict
        As `draw_parse`, but `kind` is `given`, and there is no list of trees; `posterior` is how
        probable the tree is given its sentence and the constraints, where all have a probability.
    """
    weight = model.signed_log_prob(tree)
    whole = parse.sentence_log_prob
    posterior = None
    if isfinite(weight.log) and isfinite(whole) and model.can.probabilities:
        posterior = 0.0 if parse.unmet(tree) else min(exp(weight.log - whole), 1.0)
    return drawing_of(tree, parse, states) | {
        "log_prob": weight.log,
        "sign": weight.sign,
        "kind": "given",
        "is_fallback": False,
        "sentence_log_prob": whole,
        "posterior": posterior,
        "k_best": [],
        "chart": chart_cells(parse),
    }


def drawing_of(tree: Tree, parse: Parse | None, states: StateVectors | None) -> dict[str, Any]:
    """Words, brackets, drawings, and the nodes of a tree in pre-order.

    A node has `label`, `start`, `end`, `depth`, `is_tag`, `posterior` (None at the root and where
    nothing is known), and in `states` its symbol and the posterior of each hidden state.
    """
    from sapwood.constituency.parse.state_vectors import states_in_trees
    from sapwood.corpora.tree import clean

    posterior = {} if parse is None else {c[:3]: c.probability for c in parse.marginals}
    has_chart = bool(posterior)
    cleaned = clean(tree)
    found: Mapping[Span, NodeStates] = {}
    if states is not None and cleaned is not None and cleaned.words() == tree.words():
        found = next(states_in_trees(states, [cleaned]))
    rows = []
    for number, (span, (depth, is_tag)) in enumerate(zip(tree.spans(), _places(tree), strict=True)):
        label, start, end = span
        known = posterior.get(span, 0.0) if has_chart else None
        is_root = number == 0 and not is_tag and span not in posterior
        rows.append({
            "label": label, "start": start, "end": end, "depth": depth, "is_tag": is_tag,
            "posterior": None if is_root else known,
            "states": _shares(found.get((start, end)), states),
        })  # fmt: skip
    return {
        "words": tree.words(),
        "tree": str(tree),
        "svg": tree.svg(width=None),
        "latex": tree.to_latex(),
        "nodes": rows,
    }


def _places(tree: Tree) -> Iterator[tuple[int, bool]]:
    """Depth of each node in pre-order, and whether it is a tag."""
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        yield depth, node.is_preterminal
        stack.extend((kid, depth + 1) for kid in reversed(list(node)))


def _shares(found: NodeStates | None, states: StateVectors | None) -> dict[str, Any] | None:
    if found is None or states is None or len(found.posterior) == 1:
        return None
    return {
        "symbol": states.names[found.symbol],
        "are_directions": not states.model.is_probabilistic,
        "shares": [round(float(share), 6) for share in found.posterior],
    }


def chart_cells(parse: Parse) -> list[dict[str, Any]]:
    """Posteriors of a chart: for each span that has some, its labels, the likeliest first.

    Returns
    -------
    list
        `start`, `end`, and `labels`: pairs of name and posterior; tags are among those of one word.
    """
    cells: dict[tuple[int, int], list[tuple[str, float]]] = {}
    for c in parse.marginals:
        if c.probability >= LEAST_SHOWN:
            labels = cells.setdefault((c.start, c.end), [])
            labels.append((c.label, round(c.probability, 6)))
    return [
        {"start": start, "end": end, "labels": sorted(labels, key=lambda pair: (-pair[1], pair[0]))}
        for (start, end), labels in cells.items()
    ]


def posterior_report(parse: Parse) -> dict[str, Any]:
    """Posteriors of all constituents and tags that survived pruning."""
    return {
        "words": parse.words,
        "sentence_log_prob": parse.sentence_log_prob,
        "is_fallback": parse.is_fallback,
        "posteriors": [c._asdict() for c in parse.marginals],
    }


def member_report(
    ensemble: Ensemble,
    parse_by: Callable[[int], Parse],
    tree: Tree,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Where the members of an ensemble disagree about a tree.

    Parameters
    ----------
    parse_by
        The parse of the tree's words by each member alone.
    tree
        The tree that they score.
    check
        Called between members; raises an error to give up.

    Returns
    -------
    dict
        `members`: `member`, `method`, `weight`, their own `tree` and whether it is the `same`.
        `nodes`: for each node of the tree in pre-order, the `posteriors` by member (None for a
        fallback), their `spread`, and whether they `disagree`: some hold it likelier than not, and
        some do not.
    """
    spans = tree.spans()
    members, columns = [], []
    for place, member in enumerate(ensemble.members):
        check()
        parse = parse_by(place)
        posterior = {c[:3]: c.probability for c in parse.marginals}
        columns.append([posterior.get(span, 0.0) if posterior else None for span in spans])
        members.append({
            "member": place + 1, "method": member.record.get("method"),
            "weight": float(ensemble.weights[place]), "tree": str(parse.tree),
            "same": parse.tree == tree, "is_fallback": parse.is_fallback,
        })  # fmt: skip
    nodes = [_opinions(row) for row in zip(*columns, strict=True)]
    nodes[0] = {"posteriors": [None] * len(members), "spread": 0.0, "disagree": False}
    return {"members": members, "nodes": nodes}


def _opinions(row: Sequence[float | None]) -> dict[str, Any]:
    known = [p for p in row if p is not None]
    return {
        "posteriors": list(row),
        "spread": max(known) - min(known) if known else 0.0,
        "disagree": bool(known) and min(known) < 0.5 <= max(known),
    }


def compare_parses(names: Sequence[str], parses: Sequence[Parse]) -> dict[str, Any]:
    """Two parses of a sentence, with what only one of them has marked in its nodes.

    Returns
    -------
    dict
        `words`; `sides`, each with `model`, `log_prob`, `is_fallback` and the fields of
        `drawing_of`, whose nodes have `differs`; and `shared`, the phrases that both have, of
        `phrases` each.
    """
    sides = []
    for name, parse in zip(names, parses, strict=True):
        side = drawing_of(parse.tree, parse, None)
        side |= {"model": name, "log_prob": parse.log_prob, "is_fallback": parse.is_fallback}
        sides.append(side)
    shared = mark_differences(sides[0]["nodes"], sides[1]["nodes"])
    return {"words": parses[0].words, "sides": sides, "shared": shared}


def mark_differences(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> int:
    """Say of each node whether it `differs`: the other tree has it not; count shared phrases."""
    from collections import Counter

    n_shared = 0
    for mine, theirs in ((one, other), (other, one)):
        left = Counter((node["label"], node["start"], node["end"]) for node in theirs)
        n_shared = 0
        for node in mine:
            key = (node["label"], node["start"], node["end"])
            node["differs"] = left[key] == 0
            left[key] -= not node["differs"]
            n_shared += not node["differs"] and not node["is_tag"]
    return n_shared


def compare_on_gold(
    names: Sequence[str],
    parsers: Sequence[Parser],
    gold: Sequence[Tree],
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Models on the sentences of gold trees.

    Parameters
    ----------
    gold
        Clean trees.
    check
        Called between sentences; raises an error to give up.

    Returns
    -------
    dict
        `models`: `model`, `scores` (EVALB's), `kinds` of errors, and `fallbacks`; `sentences`:
        `words`, the `gold` tree, and each model's `trees` and `f1`.
    """
    from sapwood.constituency.evaluate.reliability import Predicted
    from sapwood.constituency.report.trees import evaluate_trees

    models, columns = [], []
    for name, parser in zip(names, parsers, strict=True):
        trees, n_fallbacks = [], 0
        for tree in gold:
            check()
            parse = parser.parse(tree.words())
            trees.append(parse.tree)
            n_fallbacks += parse.is_fallback
        found = evaluate_trees(gold, [Predicted(tree) for tree in trees], errors=True)
        report = found.as_dict(per_sentence=True)
        models.append({
            "model": name, "scores": report["all"], "strict": report["strict"],
            "kinds": report["errors"]["kinds"], "wrong_labels": report["errors"]["wrong_labels"],
            "fallbacks": n_fallbacks,
        })  # fmt: skip
        columns.append((trees, report["sentences"]))
    return {
        "models": models,
        "sentences": [
            {
                "words": tree.words(),
                "gold": str(tree),
                "trees": [str(trees[k]) for trees, _ in columns],
                "f1": [_f1(rows[k]) for _, rows in columns],
            }
            for k, tree in enumerate(gold)
        ],
    }


def _f1(row: Mapping[str, Any]) -> float:
    both = row["recall"] + row["precision"]
    return 2 * row["recall"] * row["precision"] / both if both else 0.0


def compare_trees(trees: Sequence[Tree]) -> dict[str, Any]:
    """Two trees over the same words, drawn, with what only one of them has marked."""
    sides = [drawing_of(tree, None, None) for tree in trees]
    shared = mark_differences(sides[0]["nodes"], sides[1]["nodes"])
    return {"words": trees[0].words(), "sides": sides, "shared": shared}
