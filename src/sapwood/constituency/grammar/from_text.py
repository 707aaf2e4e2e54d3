"""Latent grammars written by hand, as text; the bundled grammar explains the format."""

from __future__ import annotations

import numpy as np

from sapwood.constituency.data.bundled import GrammarText, grammar_text, parse_grammar
from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.grammar.random_trees import project_to_plain
from sapwood.core.arrays import starts_of
from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary

UNKNOWN_PROBABILITY = 1e-4  # for each tag and state: the grammar must read any word


def bundled_grammar() -> LatentGrammar:
    """The hand-written grammar that the bundled treebank was drawn from."""
    return grammar_from_text(grammar_text())


def grammar_from_text(text: str) -> LatentGrammar:
    """Read a hand-written latent grammar.

    Every tag and state gives words that the grammar does not list a probability of 0.0001.
    """
    return _Builder(parse_grammar(text)).grammar()


class _Builder:
    """Numbers the names of a grammar, then makes its arrays."""

    def __init__(self, text: GrammarText) -> None:
        self.text = text
        phrase_names = dict.fromkeys(a for (a, _), _, _, _ in text.binary)
        tag_names = dict.fromkeys(a for (a, _), _, _ in text.lexical)
        self.names = [*phrase_names, *tag_names]
        self.n_phrases = len(phrase_names)
        self.number = {name: a for a, name in enumerate(self.names)}
        self.states: dict[str, dict[str, int]] = {name: {} for name in self.names}
        heads = [a for a, _, _, _ in text.binary] + [a for a, _, _ in text.lexical]
        for name, state in heads:
            self.states[name].setdefault(state, len(self.states[name]))

    def grammar(self) -> LatentGrammar:
        n_states = np.array([len(self.states[name]) for name in self.names])
        start = starts_of(n_states)
        root = np.zeros(int(start[-1]))
        for (name, state), p in self.text.roots.items():
            root[start[self.number[name]] + self.states[name][state]] += p
        rules, weights = self._rules(n_states)
        lexicon = self._lexicon(n_states)
        symbols = tuple(
            Symbol((x[1:],), (), ()) if x.startswith("@") else Symbol(tuple(x.split("|")))
            for x in self.names
        )
        phrases, tags = symbols[: self.n_phrases], symbols[self.n_phrases :]
        coarse = project_to_plain(phrases, n_states, root, rules, weights, lexicon)
        return LatentGrammar(
            phrases, tags, n_states, root, rules, weights, lexicon, coarse,
            transform=Transform(binarise="right", horizontal=0, heads="penn"),
            record={"method": "hand-written"},
        )  # fmt: skip

    def _rules(self, n_states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tensors: dict[tuple[int, int, int], np.ndarray] = {}
        for (a, h), (b, p), (c, q), probability in self.text.binary:
            key = (self.number[a], self.number[b], self.number[c])
            tensor = tensors.setdefault(key, np.zeros([n_states[x] for x in key]))
            tensor[self.states[a][h], self.states[b][p], self.states[c][q]] += probability
        rules = np.array(list(tensors), dtype=np.int32).reshape(-1, 3)
        return rules, np.concatenate([tensor.ravel() for tensor in tensors.values()])

    def _lexicon(self, n_states: np.ndarray) -> Lexicon:
        vectors: dict[tuple[str, int], np.ndarray] = {}
        for (a, h), word, probability in self.text.lexical:
            tag = self.number[a]
            vector = vectors.setdefault((word, tag), np.zeros(n_states[tag]))
            vector[self.states[a][h]] += probability * (1 - UNKNOWN_PROBABILITY)
        words = tuple(dict.fromkeys(word for word, _ in vectors))
        for tag in range(self.n_phrases, len(self.names)):
            vectors[UNKNOWN, tag] = np.full(n_states[tag], UNKNOWN_PROBABILITY)
        rows = {name: [] for name in (*words, UNKNOWN)}  # type: dict[str, list[int]]
        for word, tag in vectors:
            rows[word].append(tag)
        entries = [(name, tag) for name, tags in rows.items() for tag in sorted(tags)]
        sizes = [len(rows[name]) for name in rows]
        return Lexicon(
            Vocabulary(words, (UNKNOWN,), "english"),
            row_start=starts_of(sizes).astype(np.uint32),
            entry_tag=np.array([tag - self.n_phrases for _, tag in entries], dtype=np.uint32),
            weights=np.concatenate([vectors[entry] for entry in entries]),
            weight_start=starts_of([len(vectors[entry]) for entry in entries]),
        )  # fmt: skip
