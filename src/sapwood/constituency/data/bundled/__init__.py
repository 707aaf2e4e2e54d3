"""The grammar that comes with Sapwood, beside the trees that were drawn from it.

The header of ``english.grammar`` describes the format that :func:`parse_grammar` reads.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import product

from sapwood.core.errors import CorpusError

#: A symbol with its hidden state; the state is ``""`` for a symbol that has only one.
LatentSymbol = tuple[str, str]
_Rule = tuple[LatentSymbol, LatentSymbol, LatentSymbol]

_GRAMMAR_FILE = "english.grammar"
_TOKEN = re.compile(r"\S+")
_COMMENT = re.compile(r"(^|\s)#.*$")
_VARIABLE = re.compile(r"\$[A-Za-z]+")
_SYMBOL = re.compile(r"(?P<name>[^\s\[\]~]+)(\[(?P<state>[\w-]+)\])?")
_CHOICE = re.compile(r"~[A-Za-z]+(\[[\w-]+\])?")
_WEIGHTED = re.compile(r"(?P<item>.+?)(\*(?P<weight>[^*]*))?")


@dataclass(frozen=True)
class GrammarText:
    """A latent grammar as written down: its symbols and words are still strings."""

    # probability of each symbol and state at the root; the values sum to one
    roots: dict[LatentSymbol, float]
    # ``(parent, left, right, probability)`` of each rule with two children
    binary: list[tuple[LatentSymbol, LatentSymbol, LatentSymbol, float]]
    # ``(tag, word, probability)`` of each rule that emits a word. For each left-hand side the
    # probabilities of its rules, which are all binary or all lexical, sum to one
    lexical: list[tuple[LatentSymbol, str, float]]


def grammar_text() -> str:
    """Return the text of the bundled English grammar."""
    return resources.files(__name__).joinpath(_GRAMMAR_FILE).read_text(encoding="utf-8")


def parse_grammar(text: str, *, file: str | None = None) -> GrammarText:
    """Read a latent grammar from its text.

    Returns
    -------
    GrammarText
        The rules with all abbreviations written out, normalised, in the order of the text.

    Raises
    ------
    CorpusError
        If a line cannot be read, or a symbol is used in a way that contradicts another line.
    """
    reader = _Reader(file)
    contents = [_COMMENT.sub("", line) for line in text.splitlines()]
    lines = [
        [_Token(found.group(), number, found.start() + 1) for found in _TOKEN.finditer(content)]
        for number, content in enumerate(contents, start=1)
    ]
    # Abbreviations first, so that a rule may use one that is defined further down.
    for tokens in lines:
        reader.read_abbreviation(tokens)
    for tokens in lines:
        reader.read_item(tokens)
    return reader.finish()


@dataclass(frozen=True)
class _Token:
    """A piece of a line without spaces, with the place where it stands."""

    text: str
    line: int
    column: int

    def fill(self, values: dict[str, str]) -> _Token:
        """Put values in the place of variables."""
        filled = _VARIABLE.sub(lambda match: values[match.group()], self.text)
        return _Token(filled, self.line, self.column)


class _Reader:
    """Collects the items of a grammar line by line."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        # Each variable knows its group; each group knows the values its variables take together.
        self.groups: dict[str, tuple[str, ...]] = {}
        self.values: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        self.choices: dict[str, list[tuple[_Token, float]]] = {}
        self.roots: dict[LatentSymbol, float] = defaultdict(float)
        self.binary: dict[_Rule, float] = defaultdict(float)
        self.lexical: dict[tuple[LatentSymbol, str], float] = defaultdict(float)
        # Where each symbol was first met, so that errors found at the end can point at a line.
        self.used: dict[LatentSymbol, _Token] = {}
        self.defined: dict[LatentSymbol, _Token] = {}
        self.phrases: dict[str, _Token] = {}
        self.tags: dict[str, _Token] = {}

    def read_abbreviation(self, tokens: list[_Token]) -> None:
        """Read a line if it is a ``let`` or a ``choice``."""
        if tokens and tokens[0].text == "let":
            self.read_let(tokens)
        elif tokens and tokens[0].text == "choice":
            self.read_each(tokens, self.read_choice)

    def read_item(self, tokens: list[_Token]) -> None:
        """Read a line if it is a rule or a root."""
        if not tokens or tokens[0].text in ("let", "choice"):
            return
        if tokens[0].text == "root":
            self.read_each(tokens, self.read_root)
        elif len(tokens) > 1 and tokens[1].text == "->":
            self.read_each(tokens, self.read_binary)
        elif any(token.text == ":" for token in tokens[1:]):
            self.read_each(tokens, self.read_lexical)
        else:
            raise self.error(
                tokens[0],
                f"cannot read a line that begins with {tokens[0].text!r}",
                hint="expected 'A -> B C weight', 'T : words', 'root A weight', 'let' or 'choice'",
            )

    def read_each(self, tokens: list[_Token], read: Callable[[list[_Token]], None]) -> None:
        """Read a line once for each assignment of values to its variables."""
        for values in self.assignments(tokens):
            read([token.fill(values) for token in tokens])

    def read_let(self, tokens: list[_Token]) -> None:
        """Read ``let $a/$b = x/y u/v``."""
        if len(tokens) < 4 or tokens[2].text != "=":
            raise self.error(tokens[0], "expected 'let $name = value value ...'")
        names = tuple(tokens[1].text.split("/"))
        for name in names:
            if not _VARIABLE.fullmatch(name):
                raise self.error(tokens[1], f"{name!r} is not a variable: expected $ and letters")
            if name in self.groups:
                raise self.error(tokens[1], f"the variable {name} is already defined")
        rows = [(token, tuple(token.text.split("/"))) for token in tokens[3:]]
        for token, row in rows:
            if len(row) != len(names):
                raise self.error(
                    token, f"expected {len(names)} value(s) joined by '/', found {token.text!r}"
                )
        self.groups.update(dict.fromkeys(names, names))
        self.values[names] = [row for _, row in rows]

    def read_choice(self, tokens: list[_Token]) -> None:
        """Read ``choice ~X[h] = A[i]*3 B[j]``."""
        if len(tokens) < 4 or tokens[2].text != "=":
            raise self.error(tokens[0], "expected 'choice ~Name = A*weight B*weight ...'")
        name = tokens[1]
        if not _CHOICE.fullmatch(name.text):
            raise self.error(name, f"{name.text!r} is not the name of a choice, such as ~X[h]")
        if name.text in self.choices:
            raise self.error(name, f"the choice {name.text} is already defined")
        weighted = [self.split_weight(token) for token in tokens[3:]]
        total = math.fsum(weight for _, weight in weighted)
        self.choices[name.text] = [(item, weight / total) for item, weight in weighted]

    def read_root(self, tokens: list[_Token]) -> None:
        """Read ``root A[h] weight``."""
        if len(tokens) != 3:
            raise self.error(tokens[0], "expected 'root A weight'")
        symbol = self.symbol(tokens[1])
        self.used.setdefault(symbol, tokens[1])
        self.roots[symbol] += self.weight(tokens[2], tokens[2].text)

    def read_binary(self, tokens: list[_Token]) -> None:
        """Read ``A[h] -> B[i] C[j] weight``."""
        if len(tokens) != 5:
            raise self.error(tokens[0], "expected 'A -> B C weight': two children and a weight")
        parent = self.symbol(tokens[0])
        self.phrases.setdefault(parent[0], tokens[0])
        self.defined.setdefault(parent, tokens[0])
        weight = self.weight(tokens[4], tokens[4].text)
        pairs = product(self.child(tokens[2]), self.child(tokens[3]))
        for (left, p), (right, q) in pairs:
            self.binary[parent, left, right] += weight * p * q

    def read_lexical(self, tokens: list[_Token]) -> None:
        """Read ``T[h] U[i] : word*weight word ...``."""
        colon = next(place for place, token in enumerate(tokens) if place and token.text == ":")
        if colon == len(tokens) - 1:
            raise self.error(tokens[colon], "expected words after the colon")
        words = [self.split_weight(token) for token in tokens[colon + 1 :]]
        for token in tokens[:colon]:
            tag = self.symbol(token)
            self.tags.setdefault(tag[0], token)
            self.defined.setdefault(tag, token)
            for word, weight in words:
                self.lexical[tag, word.text] += weight

    def assignments(self, tokens: list[_Token]) -> Iterator[dict[str, str]]:
        """Yield each assignment of values to the variables of a line."""
        names: dict[str, None] = {}
        for token in tokens:
            for name in _VARIABLE.findall(token.text):
                if name not in self.groups:
                    raise self.error(token, f"the variable {name} is not defined")
                names[name] = None
        groups = dict.fromkeys(self.groups[name] for name in names)
        # A line that uses only one name of a group must not be repeated for equal values of it.
        options = []
        for group in groups:
            rows = (zip(group, row, strict=True) for row in self.values[group])
            used = (tuple(pair for pair in row if pair[0] in names) for row in rows)
            options.append(list(dict.fromkeys(used)))
        for combination in product(*options):
            yield dict(pair for pairs in combination for pair in pairs)

    def child(
        self, token: _Token, within: tuple[str, ...] = ()
    ) -> list[tuple[LatentSymbol, float]]:
        """Return the symbols that a child stands for, with their probabilities."""
        if not token.text.startswith("~"):
            symbol = self.symbol(token)
            self.used.setdefault(symbol, token)
            return [(symbol, 1.0)]
        if token.text not in self.choices:
            raise self.error(token, f"the choice {token.text} is not defined")
        if token.text in within:
            raise self.error(token, f"the choice {token.text} is defined by itself")
        return [
            (symbol, p * part)
            for item, p in self.choices[token.text]
            for symbol, part in self.child(item, (*within, token.text))
        ]

    def symbol(self, token: _Token) -> LatentSymbol:
        """Split ``A[h]`` into its name and its state."""
        match = _SYMBOL.fullmatch(token.text)
        if match is None:
            raise self.error(token, f"{token.text!r} is not a symbol such as NP or NP[sg]")
        return match["name"], match["state"] or ""

    def split_weight(self, token: _Token) -> tuple[_Token, float]:
        """Split ``item*weight``; the weight is 1 if it is absent."""
        match = _WEIGHTED.fullmatch(token.text)
        assert match is not None  # a token has at least one character
        item = _Token(match["item"], token.line, token.column)
        if match["weight"] is None:
            return item, 1.0
        return item, self.weight(token, match["weight"])

    def weight(self, token: _Token, digits: str) -> float:
        """Read a weight, which must be positive and finite."""
        try:
            value = float(digits)
        except ValueError:
            raise self.error(token, f"{digits!r} is not a weight: expected a number") from None
        if not (0.0 < value < math.inf):
            raise self.error(token, f"the weight {digits} is not positive and finite")
        return value

    def finish(self) -> GrammarText:
        """Check what only the whole text can tell, and normalise."""
        if not self.roots:
            raise CorpusError("the grammar has no 'root' line", file=self.file)
        self.check_symbols()
        totals: dict[LatentSymbol, float] = defaultdict(float)
        for (parent, _, _), weight in self.binary.items():
            totals[parent] += weight
        for (tag, _), weight in self.lexical.items():
            totals[tag] += weight
        root_total = math.fsum(self.roots.values())
        return GrammarText(
            roots={symbol: weight / root_total for symbol, weight in self.roots.items()},
            binary=[(a, b, c, w / totals[a]) for (a, b, c), w in self.binary.items()],
            lexical=[(a, word, w / totals[a]) for (a, word), w in self.lexical.items()],
        )

    def check_symbols(self) -> None:
        """Refuse symbols that are both phrase and tag, lack rules, or have states only at times."""
        for name in self.tags:
            if name in self.phrases:
                later = _later(self.tags[name], self.phrases[name])
                raise self.error(later, f"{name} has both children and words: it can have only one")
        for symbol, token in self.used.items():
            if symbol not in self.defined:
                written = f"{symbol[0]}[{symbol[1]}]" if symbol[1] else symbol[0]
                raise self.error(token, f"{written} has no rules")
        for (name, state), token in self.defined.items():
            if state and (name, "") in self.defined:
                later = _later(token, self.defined[name, ""])
                raise self.error(later, f"{name} is used both with and without a state")

    def error(self, token: _Token, message: str, *, hint: str | None = None) -> CorpusError:
        """Make an error that points at a token."""
        return CorpusError(message, file=self.file, line=token.line, column=token.column, hint=hint)


def _later(one: _Token, other: _Token) -> _Token:
    """Return the token that stands further down, which is likelier to be the mistake."""
    return max(one, other, key=lambda token: (token.line, token.column))
