"""Reports on a grammar or ensemble: its symbols, states and members, and bounds on its data."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from sapwood.core.errors import SapwoodError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sapwood.constituency.grammar.ensemble import Ensemble, Model
    from sapwood.constituency.grammar.member import Member
    from sapwood.constituency.parse.state_vectors import Item, StateVectors


def inspect_model(
    model: Model,
    name: str | None = None,
    *,
    label: str | None = None,
    member: int | None = None,
    top: int = 10,
) -> dict[str, Any]:
    """Describe a model: its sizes, symbols and states, or the members of an ensemble.

    Parameters
    ----------
    name
        Name of the model in the report and in messages, such as its file.
    label
        A treebank label such as NP, or a symbol as the model writes it: its rules or words, its
        contexts, and what each state means, instead of the list of all symbols.
    member
        The number of an ensemble's member to look into, from 1.
    top
        Rules, words or contexts of each list.

    Returns
    -------
    dict
        `model` (the name), `method`, `probabilistic`, `sizes`, `states`, `transform`, `signatures`,
        `record`, and `symbols`, commonest first; without a label also `unknown_words`.
        Probabilities are of a rule or word given its symbol (and state), of a tag given its class
        of unknown words; `share` is of all nodes of a random tree. States of a label that derive
        almost the same are one row, the first with the others as `twins`. An ensemble, unless a
        member is named, is reported as `members` with their weights.

    Examples
    --------
    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> found = inspect_model(bundled_grammar(), label="NP", top=1)
    >>> found["symbols"][0]["symbol"], found["symbols"][0]["states"]
    ('NP', 20)
    """
    grammar = member_of(model, member, name)
    if grammar is None:
        return {"model": name} | _ensemble(cast("Ensemble", model))
    view = GrammarView(grammar, top)
    facts = {"model": name} | ({"member": member} if member else {}) | view.overview()
    if label is None:
        return facts | {"symbols": view.symbols(), "unknown_words": view.unknown_words()}
    return facts | {"label": label, "symbols": view.of_label(label)}


def inspect_spectrum(
    model: Model, name: str | None = None, *, label: str | None = None, member: int | None = None
) -> dict[str, Any]:
    """The singular values behind a spectral model, symbol by symbol, commonest first.

    Parameters
    ----------
    name, label, member
        As `inspect_model` takes them; all symbols without a label.

    Returns
    -------
    dict
        `model`, and `spectrum`: rows of `symbol`, `kind`, `states`, `share` and `singular_values`,
        of which the first `states` are states; only for labels whose values the model has kept.
    """
    grammar = member_of(model, member, name)
    record = model.record if grammar is None else grammar.record
    kept = record.get("spectrum") or {}
    if grammar is None or not kept:
        method = record.get("method") or "unknown"
        raise SapwoodError(
            f"{_place(name)}no singular values in this model (method {method})",
            hint="train one with: sapwood train ... --method spectral",
        )
    view = GrammarView(grammar)
    rows = [
        row | {"singular_values": kept[row["symbol"]]}
        for row in (view.symbols() if label is None else map(view.symbol, view.find(label)))
        if row["symbol"] in kept
    ]
    if not rows:
        raise SapwoodError(
            f"{_place(name)}singular values are kept for the {len(kept)} commonest labels only",
            hint=f"among them {', '.join(list(kept)[:8])}",
        )
    return {"model": name, "spectrum": rows}


def _place(name: str | None) -> str:
    return f"{name}: " if name else ""


def member_of(model: Model, number: int | None, name: str | None = None) -> Member | None:
    """The member to look into; None for a whole ensemble."""
    if not model.is_ensemble:
        if number is None:
            return model.members[0]
        raise SapwoodError(
            f"{_place(name)}a single grammar, not an ensemble: it has no members",
            hint="leave --member out",
        )
    n = len(model.members)
    if number is None:
        return model.members[0] if n == 1 else None
    if not 1 <= number <= n:
        raise SapwoodError(
            f"{_place(name)}an ensemble of {n}, which has no member {number}",
            hint=f"give a number from 1 to {n}",
        )
    return model.members[number - 1]


def telling_member(model: Model, *, spectrum: bool = False) -> int | None:
    """The number of the member that tells most, where a view shows one and nobody said which.

    The heaviest of those that have singular values for a spectrum, of those whose states have
    probabilities for anything else. None for a single grammar.
    """
    if len(model.members) == 1:
        return None

    def rank(k: int) -> tuple[bool, bool, float]:
        grammar = model.grammars[k]
        has_states = bool((grammar.n_states > 1).any())
        is_telling = bool(grammar.record.get("spectrum")) if spectrum else grammar.is_probabilistic
        return is_telling and has_states, has_states, float(model.weights[k])

    return 1 + max(range(len(model.members)), key=rank)


def _ensemble(model: Ensemble) -> dict[str, Any]:
    """Method, members with their weights, and training record."""
    chart = {k: place for place, group in enumerate(model.groups, 1) for k in group}
    rows = [
        {
            "member": k + 1,
            "method": member.record.get("method"),
            "probabilistic": grammar.is_probabilistic,
            "states": {"total": int(grammar.n_states.sum()), "most": int(grammar.n_states.max())},
            "weight": float(model.weights[k]),
            "chart": chart[k],
            "transform": grammar.transform.as_dict(),
            "dev_f1": member.record.get("dev_f1"),
        }
        for k, (member, grammar) in enumerate(zip(model.members, model.grammars, strict=True))
    ]
    return {
        "method": model.record.get("method"),
        "ensemble": True,
        "probabilistic": model.is_probabilistic,
        "combine": model.combine,
        "members": rows,
        "record": dict(model.record),
    }


class GrammarView:
    """Readable facts about a grammar, with lists of `top` rules, words or tags."""

    def __init__(self, member: Member, top: int = 10) -> None:
        self.model = member.chart_grammar
        self.record = member.record
        self.top = top
        self.names = [str(symbol) for symbol in self.model.symbols]

    @cached_property
    def share(self) -> npt.NDArray[np.float64]:
        """Fraction of each symbol among the nodes of a random tree, shape [n_symbols]."""
        from sapwood.constituency.parse.prepared import prepare

        visits = prepare(self.model).plain.visits
        share: npt.NDArray[np.float64] = visits / visits.sum()
        return share

    @cached_property
    def vectors(self) -> StateVectors:
        """Rules, words and contexts as vectors over states."""
        from sapwood.constituency.parse.state_vectors import StateVectors

        return StateVectors(self.model)

    def overview(self) -> dict[str, Any]:
        """Method, sizes, transform and training record."""
        model = self.model
        parts = (model.root, model.rule_weights, model.lexicon.weights)
        return {
            "method": self.record.get("method"),
            "probabilistic": model.is_probabilistic,
            "sizes": {
                "phrases": model.n_phrases,
                "tags": len(model.tags),
                "rules": len(model.rules),
                "words": len(model.lexicon.words),
                "unknown_classes": len(model.lexicon.vocabulary.classes),
                "parameters": sum(len(part) for part in parts),
            },
            "states": {
                "total": int(model.n_states.sum()),
                "least": int(model.n_states.min()),
                "most": int(model.n_states.max()),
            },
            "transform": model.transform.as_dict(),
            "signatures": model.lexicon.vocabulary.style,
            "record": dict(self.record),
        }

    def symbols(self) -> list[dict[str, Any]]:
        """All symbols with their states, commonest first."""
        return [self.symbol(a) for a in self._by_share(range(self.model.n_symbols))]

    def unknown_words(self) -> list[dict[str, Any]]:
        """Classes of unknown words with their likeliest tags."""
        model, lexicon = self.model, self.model.lexicon
        out = []
        for place, name in enumerate(lexicon.vocabulary.classes):
            entries = lexicon.entries(len(lexicon.words) + place)
            tags = model.n_phrases + lexicon.entry_tag[entries].astype(int)
            weight = model.coarse.lexical[entries] * self.share[tags]
            total = float(weight.sum()) or 1.0
            pairs = ((self.names[a], p / total) for a, p in zip(tags, weight.tolist(), strict=True))
            out.append({"class": name, "tags": self._best("tag", pairs)})
        return out

    def of_label(self, label: str) -> list[dict[str, Any]]:
        """Rules or words and contexts of every symbol of a label, over all states and in each."""
        return [self.symbol(a) | self._meaning(a) for a in self.find(label)]

    def find(self, label: str) -> list[int]:
        """The symbol of this name, else the symbols with the label, commonest first."""
        if label in self.names:
            return [self.names.index(label)]
        symbols = self.model.symbols
        found = [a for a, s in enumerate(symbols) if label in s.chain and not s.is_intermediate]
        if found:
            return self._by_share(found)
        labels = dict.fromkeys([part for s in symbols for part in s.chain] + self.names)
        near = difflib.get_close_matches(label, labels, n=3) or list(labels)[:8]
        raise SapwoodError(
            f"the model has no label {label!r}; it has, among others, {', '.join(near)}",
            hint="`sapwood inspect MODEL --json` lists all symbols",
        )

    def _by_share(self, numbers: Iterable[int]) -> list[int]:
        return sorted(numbers, key=lambda a: -self.share[a])

    def symbol(self, a: int) -> dict[str, Any]:
        """One symbol with its states, and the pivots that they were made from."""
        is_phrase = a < self.model.n_phrases
        found: dict[str, Any] = {
            "symbol": self.names[a],
            "kind": "phrase" if is_phrase else "tag",
            "states": int(self.model.n_states[a]),
            "share": float(self.share[a]),
        }
        pivots = self.record.get("pivots", {}).get(self.names[a])
        if pivots and found["states"] > 1:
            found["pivots"] = [pivot_of(name, is_phrase=is_phrase) for name in pivots]
        return found

    def row(self, a: int, state: int | None) -> dict[str, Any]:
        """One state of a symbol, or None for all of them: its rules or words, and contexts."""
        return self._row(a, None if state is None else [state], self._items(a))

    def _blocks(self, a: int) -> list[list[int]]:
        """The states of a symbol, twins together; states with a pivot of their own stay apart."""
        n_states = int(self.model.n_states[a])
        if n_states == 1 or self.names[a] in self.record.get("pivots", {}):
            return [[state] for state in range(n_states)]
        block = self._twins[a]
        return [(block == k).nonzero()[0].tolist() for k in range(int(block.max()) + 1)]

    @cached_property
    def _twins(self) -> Sequence[npt.NDArray[np.int64]]:
        from sapwood.constituency.learn.em_states import NEAR_TWINS, twin_states

        return twin_states(self.model, NEAR_TWINS)

    def _items(self, a: int) -> dict[str, list[Item]]:
        kind = "rule" if a < self.model.n_phrases else "word"
        return {kind: list(self.vectors.below(a)), "context": self.vectors.contexts(a)}

    def _meaning(self, a: int) -> dict[str, Any]:
        """One row over all states, then one for each state, or for each dimension of a basis."""
        items = self._items(a)
        n_states = int(self.model.n_states[a])
        if n_states > 1 and not self.model.is_probabilistic:
            # The states of a spectral model are known only up to a change of basis: no rows.
            return {"rows": [self._row(a, None, items)], "dimensions": self._dimensions(a, items)}
        blocks = self._blocks(a) if n_states > 1 else ()
        return {"rows": [self._row(a, states, items) for states in (None, *blocks)]}

    def _row(
        self, a: int, states: list[int] | None, items: dict[str, list[Item]]
    ) -> dict[str, Any]:
        """One row over all states, or over some states, each as often as it occurs."""
        row: dict[str, Any]
        if states is None:
            row = {"state": None, "root": float(self.model.coarse.root[a])}
        else:
            row = {"state": states[0], "root": float(self.model.root_vector(a)[states].sum())}
        if states is not None and len(states) > 1:
            row["twins"] = states[1:]
        for kind, found in items.items():
            if states is None:
                pairs = [(x.name, x.probability) for x in found]
            elif len(states) == 1:
                pairs = [(x.name, x.vector[states[0]]) for x in found]
            else:
                weight = (
                    self.vectors.out[a][states] + 1e-300
                )  # states nobody uses still have a mean
                weight = weight / weight.sum()
                pairs = [(x.name, x.vector[states] @ weight) for x in found]
            row[f"{kind}s"] = self._best(kind, pairs)
        return row

    def _dimensions(self, a: int, items: dict[str, list[Item]]) -> list[dict[str, Any]]:
        """List the rules, words and contexts furthest to either side of each axis of a basis."""
        from sapwood.constituency.parse.state_vectors import pulls

        values = self.record.get("spectrum", {}).get(self.names[a], [])
        out = []
        for d in range(int(self.model.n_states[a])):
            sides: dict[str, Any] = {"positive": {}, "negative": {}}
            for kind, every in items.items():
                for side, found in zip(sides, pulls(every, d, self.top), strict=True):
                    sides[side][f"{kind}s"] = [
                        {kind: x.name, "pull": round(x.pull, 3), "probability": x.probability}
                        for x in found
                    ]
            value = values[d] if d < len(values) else None
            out.append({"dimension": d + 1, "singular_value": value} | sides)
        return out

    def _best(self, kind: str, pairs: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        ordered = sorted((pair for pair in pairs if pair[1]), key=lambda pair: (-pair[1], pair[0]))
        return [{kind: name, "probability": float(p)} for name, p in ordered[: self.top]]


# What a template says about a node: inside features about what stands below it, outside ones about
# what stands above and around it, its own place in brackets. The training record keeps an example
# with each pivot; "as in" marks templates that an example does not tell in full.
INSIDE_PHRASES = {
    "word": "word {}",
    "rule": "rule {}",
    "left_label": "left child {left}",
    "right_label": "right child {right}",
    "left_rule": "rule below the left child, as in {}",
    "right_rule": "rule below the right child, as in {}",
    "head": "head tag, as in {}",
    "length": "number of words, as in {}",
}
OUTSIDE_PHRASES = {
    "rule_above": "rule above {}",
    "two_rules_above": "rules above {}",
    "three_rules_above": "rules above {}",
    "parent": "parent, as in {}",
    "grandparent": "parent and grandparent, as in {}",
    "head_above": "head tag above, as in {}",
    "words_before": "number of words before, as in {}",
    "words_behind": "number of words behind, as in {}",
}


def pivot_of(name: str, *, is_phrase: bool) -> dict[str, str]:
    """A pivot of the training record, `template: example`, in words.

    Examples
    --------
    >>> pivot_of("right_label: S -> NP VP|VBZ", is_phrase=True)["feature"]
    'right child VP|VBZ'
    """
    template, _, example = name.partition(": ")
    text = (INSIDE_PHRASES | OUTSIDE_PHRASES).get(template, template + ", as in {}")
    _, _, right_side = example.partition(" -> ")
    left, _, right = right_side.partition(" ")
    if template in INSIDE_PHRASES and is_phrase == (template == "word"):
        # Tags have no children and one word, phrases no word of their own: all nodes have this.
        text = "any rule" if is_phrase else "any word"
    feature = text.format(example, left=left, right=right)
    return {"template": template, "example": example, "feature": feature}


def identify_bounds(
    model: Model,
    name: str | None = None,
    *,
    member: int | None = None,
    length: int = 20,
    epsilon: float = 0.1,
    delta: float = 0.05,
    depth: int = 1,
) -> dict[str, Any]:
    """How many trees of a grammar would surely be enough to learn it back by the spectral method.

    The grammar is taken as the truth that made the data (SPECTRAL, Theorem 8). The bounds are
    enough, and far from necessary.

    Parameters
    ----------
    model
        A grammar of probabilities: of the methods pcfg, em, cluster, pivot or pivot-em.
    name, member
        As `inspect_model` takes them.
    length
        Words of the sentences whose trees are bounded.
    epsilon, delta
        The sum of errors allowed over all trees of that length, and the probability of more.
    depth
        How many rules below a node its features tell; see
        `sapwood.constituency.evaluate.sample_bounds`.

    Returns
    -------
    dict
        `model`; what the theorem depends on (`states`, `phrases`, `tags`, `words`, `length`,
        `depth`, `epsilon`, `delta`, `sigma`, `xi`, `gamma`); samples that it asks for
        (`phrase_nodes`, `tag_nodes`, `phrase_nodes_svd`, `tag_nodes_svd`, `roots`, `trees`),
        infinite where it promises nothing; `labels` with their own `xi` and `sigma`, the weakest
        first; `impossible`, steps that some state never takes; `trained_on`, the trees that the
        model was learnt from, if it says so; and the assumed `constants`.

    Raises
    ------
    SapwoodError
        For a model without probabilities, which has neither xi nor gamma.
    """
    from sapwood.constituency.evaluate.sample_bounds import (
        BoundInputs,
        hidden_constants,
        sample_bounds,
    )

    chosen = member_of(model, member, name)
    if chosen is None:
        raise SapwoodError(
            f"{_place(name)}an ensemble: the theorem is about the states of one grammar",
            hint="--member K takes one of them; `sapwood inspect` lists them",
        )
    if not chosen.can.sample:
        method = chosen.record.get("method") or "unknown"
        msg = f"{_place(name)}holds weights, not probabilities of hidden states (method {method})"
        hint = "give a grammar of method pcfg, em, cluster, pivot or pivot-em, or `bundled`"
        raise SapwoodError(msg, hint=hint)
    grammar = chosen.chart_grammar
    hidden = hidden_constants(grammar, depth=depth)
    inputs = BoundInputs(
        n_states=int(grammar.n_states.max()),
        n_phrases=grammar.n_phrases,
        n_tags=len(grammar.tags),
        n_words=len(grammar.lexicon.words),
        n_binary=max(1, length - 1),
        epsilon=epsilon,
        delta=delta,
        sigma=hidden.sigma,
        xi=hidden.xi,
        gamma=hidden.gamma,
    )
    bounds = sample_bounds(inputs)
    needed = ("phrase_nodes", "tag_nodes", "phrase_nodes_svd", "tag_nodes_svd", "roots", "trees")
    found = asdict(inputs)
    labels = [
        {"label": label, "xi": xi, "sigma": hidden.sigma_by_label[label]}
        for label, xi in hidden.by_label.items()
    ]
    return (
        {"model": name}
        | {size: found[f"n_{size}"] for size in ("states", "phrases", "tags", "words")}
        | {"length": length, "depth": depth}
        | {symbol: found[symbol] for symbol in ("epsilon", "delta", "sigma", "xi", "gamma")}
        | {size: getattr(bounds, size) for size in needed}
        | {
            "labels": sorted(labels, key=lambda row: (row["xi"], row["sigma"])),
            "impossible": hidden.n_impossible,
            "trained_on": grammar.record.get("trees"),
            "constants": list(bounds.constants),
        }
    )
