"""What a parser found for one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood.inference.parser import Parse


def parse_report(parse: Parse | None, k_best: int | None = None) -> dict[str, Any]:
    """A parsed sentence, with its phrases and tags and their posteriors.

    Parameters
    ----------
    parse
        None for an empty line.
    k_best
        How many of the best trees to list.

    Examples
    --------
    >>> import sapwood as sw
    >>> from sapwood.models.from_text import bundled_grammar
    >>> report = parse_report(sw.Parser(bundled_grammar()).parse(["they", "sleep", "."]))
    >>> report["kind"], report["constituents"][0]["label"]
    ('parsed', 'S')
    """
    if parse is None:
        nothing = dict.fromkeys(("tree", "log_prob", "sign", "sentence_log_prob"))
        empty: dict[str, Any] = nothing | {"fallback": False, "kind": None, "constituents": []}
        return empty | ({"k_best": []} if k_best else {})
    names = ("label", "start", "end", "probability")
    report: dict[str, Any] = {
        "tree": str(parse.tree),
        "log_prob": parse.log_prob,
        "sign": parse.sign,
        "sentence_log_prob": parse.sentence_log_prob,
        "fallback": parse.is_fallback,
        "kind": parse.kind,
        "constituents": [dict(zip(names, row, strict=True)) for row in constituents(parse)],
    }
    if k_best:
        report["k_best"] = [
            {"rank": rank, "score": b.score, "log_prob": b.log_prob, "tree": str(b.tree)}
            for rank, b in enumerate(parse.k_best(k_best), 1)
        ]
    return report


def constituents(parse: Parse) -> Iterator[tuple[str, int, int, float | None]]:
    """Label, start, end and posterior of the phrases and tags below the root of a tree."""
    posterior = {(c.label, c.start, c.end): c.probability for c in parse.marginals}
    for span in parse.tree.spans()[1:]:
        yield (*span, posterior.get(span))
