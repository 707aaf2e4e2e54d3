"""`sapwood score`: log-probabilities of trees or sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sapwood.cli.console import count, echo, print_json
from sapwood.cli.inputs import (
    STDIN,
    JobsOption,
    JsonOption,
    ModelArgument,
    load_model,
    peek,
    read_lines,
)
from sapwood.cli.reading import (
    EncodingOption,
    FormatOption,
    KeepFunctionsOption,
    Reading,
    SkipBadOption,
)
from sapwood.cli.sentences import RawOption, Text, TokenizerOption

if TYPE_CHECKING:
    from sapwood.models.ensemble import Model
    from sapwood.models.score import SignedLog

CHUNK = 1000  # trees scored at once: enough to keep the arrays full, few enough to hold
SIGNS = {1: "+", -1: "-", 0: "0"}

EPILOG = """\b
Examples:
  sapwood score model.sapwood trees.mrg > log-probs.txt
  echo 'the dog sleeps .' | sapwood score bundled -
"""


def score(  # noqa: PLR0913 - every option of the command is an argument
    model: ModelArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Trees or sentences; - for stdin.", show_default="stdin"
        ),
    ] = STDIN,
    *,
    trees: Annotated[
        bool | None,
        typer.Option(
            "--trees/--sentences",
            help="What FILE holds: trees, or one tokenised sentence a line. Only needed for "
            "sentences that start with a bracket.",
            show_default="trees where the text starts like some",
        ),
    ] = None,
    raw: RawOption = False,
    tokenizer: TokenizerOption = None,
    format: FormatOption = None,
    encoding: EncodingOption = "utf-8",
    keep_functions: KeepFunctionsOption = False,
    skip_bad: SkipBadOption = False,
    jobs: JobsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Print the natural logarithm of the probability of each tree or sentence, one a line.

    A tree's probability includes its words and is summed over all its derivations; a sentence's is
    summed over all its trees, without pruning. -inf says that the model cannot build it. For an
    ensemble, probabilities are weighted means over its members. Totals and the perplexity per word
    go to stderr and leave -inf out.

    A spectral model has weights instead of probabilities, and some are negative: each line is then
    the logarithm of the absolute weight, TAB, and its sign (+, - or 0); there is no perplexity.
    """
    how = Text(trees, raw, tokenizer)
    loaded = load_model(model)
    from sapwood.corpus.formats import recognise

    reading = Reading(format, encoding, keep_functions, skip_bad)
    first, lines = peek(read_lines(file, encoding))
    starts_tree = bool(format or recognise(first)) and not (raw or tokenizer)
    holds_trees = starts_tree if trees is None else trees
    tally = _Tally("trees" if holds_trees else "sentences", loaded.is_probabilistic)
    if holds_trees:
        items = _tree_scores(loaded, lines, file, reading)
    else:
        items = _scores(loaded, how.words_of(lines, file, loaded), jobs)
    for weight, n_words in items:
        tally.add(weight, n_words)
        if not as_json:
            print(tally.line(weight) if n_words else "")
    if as_json:
        print_json(tally.as_dict())
    reading.tell()
    for line in tally.text():
        echo(line)


def _tree_scores(
    model: Model, lines: Iterator[str], file: str, reading: Reading
) -> Iterator[tuple[SignedLog, int]]:
    from sapwood.corpus.clean import clean
    from sapwood.models.score import SignedLog

    keep = reading.keep_functions
    trees = (clean(tree, keep_functions=keep) or tree for tree in reading.trees_of(lines, file))
    while chunk := list(islice(trees, CHUNK)):
        columns = (column.tolist() for column in model.signed_log_probs(chunk))
        for log, sign, tree in zip(*columns, chunk, strict=True):
            yield SignedLog(log, int(sign)), len(tree.words())


def _scores(
    model: Model, sentences: Iterator[list[str]], jobs: int
) -> Iterator[tuple[SignedLog, int]]:
    """Log-probability and length of each sentence; an empty line has neither."""
    from sapwood.execute import ordered_map
    from sapwood.models.ensemble import Ensemble
    from sapwood.models.score import SignedLog

    for grammar in model.members if isinstance(model, Ensemble) else (model,):
        _ = (grammar.coarse_rules, grammar.pair_table)  # arranged once, before threads start

    def one(words: list[str]) -> tuple[SignedLog, int]:
        return (model.signed_log_prob(words) if words else SignedLog(math.nan, 0)), len(words)

    return ordered_map(one, sentences, jobs=jobs)


@dataclass
class _Tally:
    """Sums over all items that the model can build."""

    kind: str
    is_probabilistic: bool
    log_probs: list[float | None] = field(default_factory=list)
    signs: list[int | None] = field(default_factory=list)
    total: float = 0.0
    n_scored: int = 0
    n_words: int = 0
    n_empty: int = 0

    def add(self, weight: SignedLog, n_words: int) -> None:
        self.log_probs.append(weight.log)
        self.signs.append(weight.sign if n_words else None)
        if not n_words:
            self.n_empty += 1
        elif math.isfinite(weight.log):
            self.total += weight.log
            self.n_scored += 1
            self.n_words += n_words

    def line(self, weight: SignedLog) -> str:
        """One item as text."""
        sign = "" if self.is_probabilistic else f"\t{SIGNS[weight.sign]}"
        return f"{weight.log:.6f}{sign}"

    @property
    def n_impossible(self) -> int:
        return len(self.log_probs) - self.n_empty - self.n_scored

    @property
    def n_negative(self) -> int:
        return self.signs.count(-1)

    @property
    def perplexity(self) -> float | None:
        """Of a word: exp(-log P / number of words); weights that are no probabilities have none."""
        if not self.n_words or not self.is_probabilistic:
            return None
        return math.exp(-self.total / self.n_words)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "is_probabilistic": self.is_probabilistic,
            "scored": self.n_scored,
            "impossible": self.n_impossible,
            "negative": self.n_negative,
            "empty": self.n_empty,
            "words": self.n_words,
            "log_prob": self.total,
            "perplexity": self.perplexity,
            "log_probs": self.log_probs,
            "signs": self.signs,
        }

    def text(self) -> Iterator[str]:
        name = "log-probability" if self.is_probabilistic else "log |weight|"
        parts = [f"{self.n_scored:,} {self.kind}", count(self.n_words, "word")]
        parts.append(f"{name} {self.total:,.2f}")
        if self.perplexity is not None:
            parts.append(f"perplexity {self.perplexity:,.2f} per word")
        if self.n_impossible:
            parts.append(f"{self.n_impossible:,} impossible, left out")
        if self.n_empty:
            parts.append(count(self.n_empty, "empty line"))
        yield "  ".join(parts)
        if not self.is_probabilistic:
            yield (
                f"this model holds weights, not probabilities: {self.n_negative:,} of "
                f"{self.n_scored:,} are negative (see the sign); no perplexity"
            )
