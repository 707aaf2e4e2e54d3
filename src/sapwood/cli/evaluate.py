"""`sapwood evaluate`: EVALB's figures for predicted trees, their errors, their reliability."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from sapwood.cli.console import count, echo, print_json
from sapwood.cli.error_report import errors_text, reliability_text
from sapwood.cli.inputs import ForceOption, JsonOption, claim_stdin, peek
from sapwood.cli.overlap import warn_of_comparing_with_itself
from sapwood.cli.plots import SUFFIXES, check_plot, plot_reliability
from sapwood.cli.reading import (
    EncodingOption,
    FormatOption,
    KeepFunctionsOption,
    Reading,
    SkipBadOption,
)
from sapwood.errors import CorpusError, SapwoodError

if TYPE_CHECKING:
    from sapwood.corpus.files import Source
    from sapwood.corpus.tree import Tree
    from sapwood.evaluate.reliability import Reliability
    from sapwood.evaluate.scores import BracketingReport, SentenceScore

N_EXAMPLES = 2
WITH_JSON = "write it with: sapwood parse MODEL FILE --json"

EPILOG = """\b
Where PREDICTED has one tree a line but fewer trees than GOLD, its empty lines
are missing trees: error sentences for EVALB, all wrong for the strict total.
A PREDICTED that starts with { is taken for what `sapwood parse --json` writes.

\b
Examples:
  sapwood evaluate dev.mrg predicted.mrg
  sapwood evaluate dev.mrg predicted.mrg --errors --examples 5
  sapwood parse model.sapwood dev.txt | sapwood evaluate dev.mrg - --json
  sapwood parse model.sapwood dev.txt --json > parsed.jsonl
  sapwood evaluate dev.mrg parsed.jsonl --reliability --plot reliability.png
"""


def evaluate(  # noqa: PLR0913 - every option of the command is an argument
    gold: Annotated[
        str,
        typer.Argument(metavar="GOLD", help="The right trees; - for stdin.", show_default=False),
    ],
    predicted: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTED",
            help="A parser's trees, in order, or the output of `sapwood parse --json`; - for "
            "stdin.",
            show_default=False,
        ),
    ],
    *,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Score the trees as they are, as EVALB does, without cleaning both sides first. "
            "Not for a gold side with traces and function tags.",
        ),
    ] = False,
    per_sentence: Annotated[
        bool, typer.Option("--per-sentence", help="A row for each sentence, laid out as EVALB's.")
    ] = False,
    errors: Annotated[
        bool,
        typer.Option(
            "--errors",
            help="Also say which labels, attachments and tags are wrong, how often, and where. "
            "Not for test data that must stay unseen.",
        ),
    ] = False,
    examples: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Show N errors of each common kind. Not without --errors.",
            show_default=str(N_EXAMPLES),
        ),
    ] = None,
    reliability: Annotated[
        bool,
        typer.Option(
            "--reliability",
            help="Also say how far the probabilities of the predicted phrases can be believed. "
            "Not for a PREDICTED without them: it takes the output of `sapwood parse --json`.",
        ),
    ] = False,
    format: FormatOption = None,
    encoding: EncodingOption = "utf-8",
    keep_functions: KeepFunctionsOption = False,
    skip_bad: SkipBadOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Draw the reliability diagram ({', '.join(SUFFIXES)}). Not without --reliability "
            "and Matplotlib: pip install matplotlib.",
        ),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score predicted trees: recall, precision, F1, complete match, tagging accuracy.

    The numbers are EVALB's with COLLINS.prm, for all sentences and for those of at most 40 words.
    EVALB drops a sentence whose words differ; the strict total drops none. Phrases are compared
    without function tags. --format, --encoding, --keep-functions and --skip-bad are about GOLD.
    """
    _check_options(errors=errors, examples=examples, reliability=reliability, plot=plot)
    claim_stdin(gold, predicted)
    if plot is not None:
        check_plot(plot, [gold, predicted], force=force)
    from sapwood.evaluate.bracketing import bracketing
    from sapwood.evaluate.errors import diagnose

    reading = Reading(format, encoding, keep_functions, skip_bad)
    gold_trees, items = _read_both(reading, gold, predicted, has_phrases=reliability)
    trees = [item.tree for item in items]
    report = bracketing(gold_trees, trees, raw=raw)
    _warn(report)
    warn_of_comparing_with_itself(gold, predicted)
    found = diagnose(gold_trees, trees, raw=raw) if errors else None
    believed = _reliability(gold_trees, items, predicted, raw=raw) if reliability else None
    n_examples = N_EXAMPLES if examples is None else examples
    if as_json:
        out = _as_dict(report, per_sentence=per_sentence)
        out |= {"errors": found.as_dict(n_examples)} if found else {}
        print_json(out | ({"reliability": believed.as_dict()} if believed else {}))
    else:
        print(report.evalb_table() + "\n" + report.text() if per_sentence else report.text())
        for lines in (
            errors_text(found, n_examples) if found else (),
            reliability_text(believed) if believed else (),
        ):
            if lines:
                print("\n" + "\n".join(lines))
    if plot and believed:
        plot_reliability(plot, believed)  # last: the report is out, whatever becomes of the figure


def _check_options(
    *, errors: bool, examples: int | None, reliability: bool, plot: Path | None
) -> None:
    if examples is not None and not errors:
        msg = "goes with --errors"
        raise typer.BadParameter(msg, param_hint="--examples")
    if plot is not None and not reliability:
        msg = "goes with --reliability"
        raise typer.BadParameter(msg, param_hint="--plot")


# -- reading --------------------------------------------------------------------------------------


class Predicted(NamedTuple):
    """One predicted sentence.

    Attributes
    ----------
    tree
        None where it is missing.
    phrases
        Label, start, end and probability of the phrases below the root, tags apart; None for a
        file of trees, which says nothing about them. A probability may be unknown.
    """

    tree: Tree | None
    phrases: list[tuple[str, int, int, float | None]] | None = None


def _read_both(
    reading: Reading, gold: str, predicted: str, *, has_phrases: bool
) -> tuple[list[Tree], list[Predicted]]:
    gold_trees = reading.trees(gold)
    reading.tell()
    items = read_predicted(predicted, len(gold_trees), has_phrases=has_phrases)
    if len(items) != len(gold_trees):
        msg = f"{predicted} has {count(len(items), 'tree')}, but {gold} has {len(gold_trees):,}"
        raise SapwoodError(msg, hint="there must be one tree, or an empty line, a gold tree")
    return gold_trees, items


def read_predicted(source: str, n_gold: int, *, has_phrases: bool = False) -> list[Predicted]:
    """The predicted sentences; an empty line, or a null, stands for a missing tree.

    Parameters
    ----------
    source
        File, folder, glob or `-`; brackets or the output of `sapwood parse --json`.
    n_gold
        How many trees there should be. When the trees alone are as many, empty lines are only
        there to look at.
    has_phrases
        Whether every sentence must say how probable its phrases are.
    """
    from sapwood.corpus.formats import treebank_files

    items = [item for file in treebank_files(source) for item in _read_file(file, has_phrases)]
    trees = [item for item in items if item.tree is not None]
    return trees if len(trees) == n_gold else items


def _read_file(source: Source, has_phrases: bool) -> Iterator[Predicted]:
    from sapwood.corpus.files import lines_of, open_text, source_name

    name = source_name(source)  # what error messages show
    with open_text(source) as file:
        first, lines = peek(lines_of(file, name))
        if first.lstrip().startswith("{"):
            yield from (
                _JsonLine(name, number, has_phrases).read(line)
                for number, line in enumerate(lines, 1)
                if line.strip()
            )
            return
        if has_phrases and first:
            msg = "trees without the probabilities that --reliability is about"
            raise CorpusError(msg, file=name, hint=WITH_JSON)
        yield from map(Predicted, _read_trees(lines, name))


def _read_trees(lines: Iterator[str], name: str) -> Iterator[Tree | None]:
    from sapwood.corpus.formats import read_lines
    from sapwood.corpus.penn import is_comment

    kinds: list[str] = []

    def watched() -> Iterator[str]:
        for line in lines:
            blank = not line.strip()
            kinds.append("comment" if is_comment(line) and not blank else _kind(line))
            yield line

    trees = list(read_lines(watched(), name))
    if "part" in kinds:
        yield from trees
        return
    place = iter(trees)
    for kind in kinds:
        if kind == "tree":
            yield next(place)
        elif kind == "empty":
            yield None


def _kind(line: str) -> str:
    """Whether a line is one whole tree, empty, or part of something else."""
    line = line.strip()
    if not line:
        return "empty"
    depth = 0
    for place, char in enumerate(line):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return "tree" if place == len(line) - 1 and place else "part"
    return "part"


class _JsonLine(NamedTuple):
    """Where a JSON object stands, and whether the probabilities of its phrases are wanted."""

    file: str
    number: int
    has_phrases: bool

    def read(self, line: str) -> Predicted:
        """The tree and, where wanted, its phrases."""
        from sapwood.corpus.tree import Tree

        item = self._object(line)
        if "tree" not in item or not isinstance(item["tree"], str | None):
            self._fail('expected an object with a "tree" in brackets, or null')
        if item["tree"] is None:
            return Predicted(None, [])
        try:
            tree = Tree.parse(item["tree"])
        except CorpusError as error:
            self._fail(f"in its tree: {error.message}")
        return Predicted(tree, self._phrases(tree, item) if self.has_phrases else None)

    def _object(self, line: str) -> dict[str, Any]:
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            self._fail("expected a JSON object, found other text")
        if not isinstance(item, dict):
            self._fail(f"expected a JSON object, found {line.strip()[:20]!r}")
        return item

    def _phrases(
        self, tree: Tree, item: dict[str, Any]
    ) -> list[tuple[str, int, int, float | None]]:
        """The phrases below the root; the constituents must be those of the tree, in order."""
        if not isinstance(item.get("constituents"), list):
            self._fail('no "constituents", so no probabilities')
        listed = [self._constituent(one) for one in item["constituents"]]
        if [one[:3] for one in listed] != tree.spans()[1:]:
            self._fail("the constituents are not those of the tree")
        nodes = list(tree.nodes())[1:]
        return [one for one, node in zip(listed, nodes, strict=True) if not node.is_preterminal]

    def _constituent(self, one: Any) -> tuple[str, int, int, float | None]:
        try:
            label, start, end, p = (one[key] for key in ("label", "start", "end", "probability"))
        except (TypeError, KeyError):
            self._fail("a constituent without label, start, end or probability")
        is_number = isinstance(p, int | float) and not isinstance(p, bool)
        if p is not None and not (is_number and 0 <= p <= 1):
            self._fail(f"expected a probability from 0 to 1, or null, found {p!r}")
        return label, start, end, p

    def _fail(self, message: str) -> NoReturn:
        raise CorpusError(message, file=self.file, line=self.number, hint=WITH_JSON)


# -- reports --------------------------------------------------------------------------------------


def _reliability(gold: list[Tree], items: list[Predicted], name: str, *, raw: bool) -> Reliability:
    """Grade the phrases of all sentences that have the words of their gold trees."""
    from sapwood.corpus.clean import clean
    from sapwood.evaluate.reliability import calibration, graded

    grades: list[tuple[float, bool]] = []
    n_other = n_unknown = 0
    for right, item in zip(gold, items, strict=True):
        tree = right if raw else clean(right)
        if tree is None or item.tree is None or tree.words() != item.tree.words():
            n_other += 1
            continue
        known = [(a, i, j, p) for a, i, j, p in item.phrases or () if p is not None]
        n_unknown += len(item.phrases or ()) - len(known)
        grades += graded(right, known, raw=raw)
    if n_other:
        echo(f"reliability: without {count(n_other, 'sentence')} whose words differ or are missing")
    if n_unknown:
        echo(f"reliability: without {count(n_unknown, 'phrase')} of no known probability")
    if not grades:
        msg = "no phrase with a probability in the sentences of the gold trees"
        raise CorpusError(msg, file=name, hint="are both files of the same sentences?")
    return calibration([p for p, _ in grades], [y for _, y in grades])


def _warn(report: BracketingReport) -> None:
    dropped = [row for row in report.sentences if row.status]
    if dropped:
        first = dropped[0]
        echo(
            f"EVALB drops {count(len(dropped), 'sentence')}; "
            f"the first is number {first.number}: {first.problem}"
        )


def _as_dict(report: BracketingReport, *, per_sentence: bool) -> dict[str, Any]:
    out: dict[str, Any] = dict(report.as_dict())
    if per_sentence:
        out["sentences"] = [_row(row) for row in report.sentences]
    return out


def _row(row: SentenceScore) -> dict[str, Any]:
    figures = ("recall", "precision", "tag_accuracy")
    return asdict(row) | {name: getattr(row, name) for name in figures}
