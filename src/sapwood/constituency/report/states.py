"""Reports on the hidden states of a grammar: cards, neighbours, words, examples in trees.

The states of a spectral label are directions. A constituent's inside vector b, divided by
b . out[a] / V(a), is on the scale on which `state_vectors.pulls` compares rules and words. How far
a constituent lies to a side is its distance from the median of the label's constituents, in median
absolute deviations: a few constituents with almost no weight would stretch a scale of standard
deviations for all others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.constituency.report.inspect import GrammarView
from sapwood.core.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from sapwood.constituency.grammar.member import Member
    from sapwood.constituency.parse.state_vectors import StateVectors
    from sapwood.corpora.tree import Tree

N_STATE_EXAMPLES, N_DIRECTION_EXAMPLES = 6, 4  # constituents listed for a state, or a direction
N_NEIGHBOURS = 5  # similar states of other symbols that are listed
N_HEAD_WORDS = 8  # head words that are listed
TREES_PER_CHECK = 50  # trees between two calls of `check`
LEAST_DEVIATION = 0.5  # distance from the median below which a constituent is no example


class StateAtlas:
    """The states of one grammar; what takes long is worked out when it is first asked for.

    Parameters
    ----------
    member
        A grammar. One without hidden states has an atlas with one state per symbol.
    top
        Rules, words or contexts of each list.

    Examples
    --------
    >>> from sapwood.constituency.grammar.from_text import bundled_grammar
    >>> atlas = StateAtlas(bundled_grammar())
    >>> card = atlas.cards("NN")[0]
    >>> card["symbol"], len(card["rows"]), round(sum(row["share"] for row in card["rows"][1:]), 6)
    ('NN', 11, 1.0)
    """

    def __init__(self, member: Member, top: int = 8) -> None:
        self.view = GrammarView(member, top)
        self.model = self.view.model

    @property
    def vectors(self) -> StateVectors:
        """Rules, words and contexts as vectors over states."""
        return self.view.vectors

    def labels(self) -> list[dict[str, Any]]:
        """All symbols with the number of their states, commonest first."""
        return self.view.symbols()

    def cards(self, label: str) -> list[dict[str, Any]]:
        """Describe each state of a label.

        Returns
        -------
        list
            For each symbol of the label: `symbol`, `kind`, `states`, `share`, `singular_values`
            where they were kept, and `rows` (over all states first) or `dimensions`, as
            `inspect_model` gives them; rows of states have their `share` of the symbol.
        """
        kept = self.view.record.get("spectrum") or {}
        found = []
        for symbol in self.view.of_label(label):
            card = symbol | {"singular_values": kept.get(symbol["symbol"])}
            shares = self.state_shares(self.view.names.index(symbol["symbol"]))
            for row in card["rows"]:
                states = [row["state"], *row.get("twins", [])]
                row["share"] = 1.0 if row["state"] is None else float(shares[states].sum())
            found.append(card)
        return found

    def card(self, symbol: str, state: int | None) -> dict[str, Any]:
        """Describe one state: its frequency, and its likeliest rules or words, and contexts."""
        a = self.view.find(symbol)[0]
        key = (a, state)
        if key not in self._cards:
            is_state = state is not None and self.model.is_probabilistic
            if is_state and not 0 <= int(state or 0) < int(self.model.n_states[a]):
                from sapwood.core.errors import SapwoodError

                msg = f"{symbol} has {self.model.n_states[a]} states, so there is no state {state}"
                raise SapwoodError(msg, hint="states count from 0")
            row = self.view.row(a, state if is_state else None)
            share = float(self.state_shares(a)[state]) if is_state else 1.0
            self._cards[key] = {"symbol": self.view.names[a], "share": share} | row
        return self._cards[key]

    @cached_property
    def _cards(self) -> dict[tuple[int, int | None], dict[str, Any]]:
        return {}

    def state_shares(self, a: int) -> FloatArray:
        """Fraction of each state among the nodes of a symbol; all 0 where there are none."""
        if self.model.n_states[a] == 1 or not self.model.is_probabilistic:
            return np.ones(1) if self.model.n_states[a] == 1 else np.zeros(self.model.n_states[a])
        visits = self.vectors.out[a] * self.vectors.one[a]
        return np.asarray(visits / (visits.sum() or 1.0))

    @cached_property
    def _profiles(self) -> tuple[Any, Any]:
        """Distributions of expansions and of contexts of each state, as square roots."""
        from sapwood.constituency.parse.state_vectors import at_rules

        model, vectors = self.model, self.vectors
        below, contexts = _Profiles(model.state_start), _Profiles(model.state_start)
        for (a, b, c), (own, left, right) in zip(vectors.triples, at_rules(vectors), strict=True):
            below.add(a, (b, c), own)
            contexts.add(b, (a, "left", c), left)  # a context does not depend on the symbol in it
            contexts.add(c, (a, "right", b), right)
        lexicon = model.lexicon
        tags = lexicon.entry_tag.astype(int) + model.n_phrases
        for entry, (a, row) in enumerate(zip(tags.tolist(), lexicon.entry_row, strict=True)):
            first, last = lexicon.weight_start[entry : entry + 2]
            below.add(a, row, lexicon.weights[first:last])
        for a in range(model.n_symbols):
            contexts.add(a, "root", model.root_vector(a))
        return below.roots_of_shares(), contexts.roots_of_shares()

    def nearest(self, symbol: str, state: int) -> list[dict[str, Any]]:
        """The states of other phrases, or tags, that are most like one: in rules, words, contexts.

        Returns
        -------
        list
            `symbol`, `state` and `overlap`: 1 for the same rules, words and contexts, 0 for none
            in common. Empty for a spectral model, whose states have no meaning alone.
        """
        if not self.model.is_probabilistic:
            return []
        model, names = self.model, self.view.names
        a = self.view.find(symbol)[0]
        first = model.state_start
        # the overlap of p and q: sum of sqrt(p q)
        parts = [roots @ roots[[first[a] + state], :].T for roots in self._profiles]
        overlap = sum(part.toarray().ravel() for part in parts) / len(parts)
        owner = np.repeat(np.arange(model.n_symbols), model.n_states)
        is_like = (owner != a) & ((owner < model.n_phrases) == (a < model.n_phrases))
        order = np.argsort(-np.where(is_like, overlap, 0.0), kind="stable")[:N_NEIGHBOURS].tolist()
        return [
            {
                "symbol": names[owner[k]],
                "state": int(k - first[owner[k]]),
                "overlap": float(overlap[k]),
            }
            for k in order
            if is_like[k] and overlap[k] > 0
        ]

    def find_word(self, word: str) -> dict[str, Any]:
        """The tags and states that a word may be in, by probability.

        Returns
        -------
        dict
            `word`, `known`, the `class` that stands for an unknown word, and `states`: `symbol`,
            `state` (None where a tag has none) and `probability` of both given the word.
        """
        model, lexicon = self.model, self.model.lexicon
        row = lexicon.vocabulary.row(word, is_first=False)
        n_words = len(lexicon.words)
        entries = lexicon.entries(row)
        found: list[tuple[float, int, int | None]] = []
        for entry in range(entries.start, entries.stop):
            a = model.n_phrases + int(lexicon.entry_tag[entry])
            visits = float(self.vectors.visits[a])
            if model.n_states[a] == 1 or not model.is_probabilistic:
                found.append((float(model.coarse.lexical[entry]) * visits, a, None))
                continue
            weights = lexicon.weights[lexicon.weight_start[entry] : lexicon.weight_start[entry + 1]]
            joint = weights * self.vectors.out[a]
            found += [(float(p), a, h) for h, p in enumerate(joint) if p > 0]
        total = sum(p for p, _, _ in found) or 1.0
        best = sorted(found, key=lambda each: (-each[0], each[1], each[2] or 0))
        return {
            "word": word,
            "known": row < n_words,
            "class": None if row < n_words else lexicon.vocabulary.classes[row - n_words],
            "states": [
                {"symbol": self.view.names[a], "state": h, "probability": p / total}
                for p, a, h in best[:20]
            ],
        }

    def examples(
        self,
        label: str,
        trees: Sequence[Tree],
        *,
        most: int = 400,
        check: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Constituents of trees by state: the surest examples, and what heads them.

        Parameters
        ----------
        trees
            Clean ones, such as those that the grammar was learnt from.
        most
            Trees with the label that are looked at.
        check
            Called between trees; raises an error to give up.

        Returns
        -------
        dict
            `trees` that were looked at, `nodes` found, and `symbols`: for each symbol of the label
            rows of `state`, `count` (expected), `head_words` and `examples` (`words`, `start`,
            `end`, `share`). Of a spectral model, `directions` instead: rows of `dimension`, and
            `positive` and `negative` with the head words and examples furthest to that side.
        """
        from sapwood.constituency.parse.state_vectors import states_in_trees

        wanted = {self.view.names[a]: a for a in self.view.find(label)}
        numbers = set(wanted.values())
        labels = {part for a in numbers for part in self.model.symbols[a].chain}
        chosen = [tree for tree in trees if any(n.label in labels for n in tree.nodes())][:most]
        counts = {a: _Found(int(self.model.n_states[a])) for a in numbers}
        is_spectral = not self.model.is_probabilistic
        leanings = {
            a: DirectionExamples(self.vectors.out[a])
            for a in numbers
            if is_spectral and self.model.n_states[a] > 1
        }
        n_nodes = 0
        for first in range(0, len(chosen), TREES_PER_CHECK):
            check()
            part = chosen[first : first + TREES_PER_CHECK]
            for tree, found in zip(part, states_in_trees(self.vectors, part), strict=True):
                words = tree.words()
                heads = _head_words(tree, self.model.transform.heads)
                for span, (a, shares, inside) in found.items():
                    if a not in numbers:
                        continue
                    n_nodes += 1
                    if a in leanings:
                        leanings[a].add(words, span, heads.get(span, ""), inside)
                    else:
                        counts[a].add(words, span, heads.get(span, ""), shares.tolist())
        return {
            "trees": len(chosen),
            "nodes": n_nodes,
            "symbols": [
                {"symbol": name, "directions": leanings[a].rows(), "rows": []}
                if a in leanings
                else {"symbol": name, "rows": counts[a].rows()}
                for name, a in wanted.items()
            ],
        }


class _Profiles:
    """Weights of things in states, gathered one by one."""

    def __init__(self, state_start: IntArray) -> None:
        self.first = state_start.tolist()
        self.numbers: dict[Hashable, int] = {}
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []

    def add(self, a: int, thing: Hashable, weights: FloatArray) -> None:
        """Add the weights of an item in each state of a symbol."""
        place = self.numbers.setdefault(thing, len(self.numbers))
        for state in weights.nonzero()[0].tolist():
            self.row.append(self.first[a] + state)
            self.column.append(place)
            self.value.append(float(weights[state]))

    def roots_of_shares(self) -> Any:
        """A sparse matrix whose rows have length 1."""
        from scipy.sparse import csr_array

        shape = (self.first[-1], max(len(self.numbers), 1))
        weights = csr_array((self.value, (self.row, self.column)), shape=shape)
        total = np.asarray(weights.sum(axis=1)).ravel()
        scale = 1.0 / np.where(total > 0, total, 1.0)
        return csr_array(weights.multiply(scale[:, None])).sqrt()


class _Found:
    """Examples of the states of one symbol."""

    def __init__(self, n_states: int) -> None:
        self.heads: list[defaultdict[str, float]] = [defaultdict(float) for _ in range(n_states)]
        self.total = [0.0] * n_states
        self.best: list[dict[str, tuple[float, list[str], tuple[int, int]]]] = [
            {} for _ in range(n_states)
        ]

    def add(self, words: list[str], span: tuple[int, int], head: str, shares: list[float]) -> None:
        text = " ".join(words[span[0] : span[1]])
        for state, share in enumerate(shares):
            if share < 0.05:
                continue
            self.total[state] += share
            self.heads[state][head] += share
            kept = self.best[state]
            # one of each wording, and not many more than are shown
            if text not in kept and (len(kept) < 40 or share > 0.99):
                kept[text] = (share, words, span)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "state": state,
                "count": round(self.total[state], 1),
                "head_words": nlargest(
                    N_HEAD_WORDS, self.heads[state], key=self.heads[state].__getitem__
                ),
                "examples": [
                    {"words": words, "start": span[0], "end": span[1], "share": round(share, 4)}
                    for share, words, span in sorted(  # short sentences first of equally sure ones
                        self.best[state].values(), key=lambda row: (-round(row[0], 2), len(row[1]))
                    )[:N_STATE_EXAMPLES]
                ],
            }
            for state in range(len(self.total))
        ]


def _head_words(tree: Tree, heads: str) -> dict[tuple[int, int], str]:
    """The head word of each constituent."""
    from sapwood.corpora.tree import HEAD_RULES

    rule = HEAD_RULES["penn" if heads == "auto" else heads]
    found: dict[tuple[int, int], str] = {}
    done: list[str] = []
    for node, (_, start, end) in zip(
        reversed(list(tree.nodes())), reversed(tree.spans()), strict=True
    ):
        if node.is_preterminal:
            done.append(node.word)
        else:
            n_kids = len(node.children)
            kids = done[: -n_kids - 1 : -1]
            del done[-n_kids:]
            done.append(kids[rule(node.label, [kid.label for kid in node])])
        found[start, end] = done[-1]
    return found


class DirectionExamples:
    """The constituents of one spectral label, gathered tree by tree.

    Parameters
    ----------
    out : [m]
        The label's outside vector, summed over all its places.
    """

    def __init__(self, out: FloatArray) -> None:
        self.out = out
        self.values: list[FloatArray] = []
        self.found: list[tuple[list[str], tuple[int, int], str]] = []

    def add(self, words: list[str], span: tuple[int, int], head: str, inside: FloatArray) -> None:
        """One constituent more; left out where the model gives it no positive weight."""
        weight = float(inside @ self.out)
        if weight > 0:
            self.values.append(inside / weight)
            self.found.append((words, span, head))

    def rows(self) -> list[dict[str, Any]]:
        """For each direction, `positive` and `negative`: `head_words` and `examples` of a side."""
        if not self.values:
            return []
        values = np.array(self.values)  # [n, m]
        middle = np.median(values, axis=0)
        spread = np.median(np.abs(values - middle), axis=0)
        far = np.where(spread > 0, values - middle, 0.0) / np.where(spread > 0, spread, 1.0)
        return [
            {
                "dimension": d + 1,
                "positive": self._side(far[:, d]),
                "negative": self._side(-far[:, d]),
            }
            for d in range(values.shape[1])
        ]

    def _side(self, far: FloatArray) -> dict[str, Any]:
        """The head words and constituents furthest to one side, one of each wording."""
        heads: defaultdict[str, list[float]] = defaultdict(list)
        for (_, _, head), distance in zip(self.found, far.tolist(), strict=True):
            heads[head].append(distance)
        pull = {head: sum(all_) / len(all_) ** 0.5 for head, all_ in heads.items()}
        seen: dict[str, dict[str, Any]] = {}
        for place in np.argsort(-far, kind="stable").tolist():
            words, (start, end), _ = self.found[place]
            if far[place] < LEAST_DEVIATION or len(seen) == N_DIRECTION_EXAMPLES:
                break
            text = " ".join(words[start:end])
            seen.setdefault(text, {"words": words, "start": start, "end": end})
        best = sorted(
            (head for head in pull if pull[head] > LEAST_DEVIATION), key=lambda head: -pull[head]
        )
        return {"head_words": best[:N_HEAD_WORDS], "examples": list(seen.values())}
