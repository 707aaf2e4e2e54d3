"""`sapwood score`: log-probabilities of trees or sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.display import data_on_stdout
from sapwood.cli.engines import EngineOption, SchedulerOption, open_engine
from sapwood.cli.hankel.models import score_strings
from sapwood.cli.identify.unmix import score_unmixed
from sapwood.cli.inputs import STDIN, Reading, Text, as_grammar, load_any, read_lines
from sapwood.core.errors import count
from sapwood.progress import step
from sapwood.report import ScoreReport, score_sentences, score_trees, to_json

SIGNS = {1: "+", -1: "-", 0: "0"}

EPILOG = """\b
Examples:
  sapwood score model.sapwood trees.mrg > log-probs.txt
  echo 'the dog sleeps .' | sapwood score bundled -
"""


def score(  # noqa: PLR0913 - every option of the command is an argument
    model: opt.Model,
    file: str = typer.Argument(
        STDIN, metavar="FILE", help="Trees or sentences; - for stdin.", show_default="stdin"
    ),
    *,
    trees: bool | None = typer.Option(
        None,
        "--trees/--sentences",
        help="What FILE holds: trees, or one tokenised sentence a line. Only needed for "
        "sentences that start with a bracket.",
        show_default="trees where the text starts like some",
    ),
    raw: opt.Raw = False,
    tokenizer: opt.Tokenizer = None,
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    jobs: opt.Jobs = 0,
    engine: EngineOption = None,
    scheduler: SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Print the natural logarithm of the probability of each tree or sentence, one a line.

    A tree's probability includes its words and is summed over all its derivations; a sentence's is
    summed over all its trees, without pruning. -inf says that the model cannot build it. For an
    ensemble, probabilities are weighted means over its members. Totals and the perplexity per word
    go to stderr and leave -inf out.

    A spectral model has weights instead of probabilities, and some are negative: each line is then
    the logarithm of the absolute weight, TAB, and its sign (+, - or 0); there is no perplexity.
    """
    from sapwood.corpora.files import peek_line
    from sapwood.corpora.formats import recognise
    from sapwood.corpora.tree import clean
    from sapwood.hankel.model.string_model import StringModel
    from sapwood.identify.model.uniform_trees import UniformTreeModel

    text = Text(trees, raw, tokenizer)
    named = load_any(model)
    if isinstance(named, StringModel):
        score_strings(named, file, as_json=as_json)
        return
    if isinstance(named, UniformTreeModel):
        score_unmixed(named, file, as_json=as_json)
        return
    loaded = as_grammar(named, model)
    reading = Reading(format, encoding, keep_functions, skip_bad)
    first, lines = peek_line(read_lines(file, encoding))
    if trees is None:
        trees = bool(format or recognise(first)) and not (raw or tokenizer)
    report = ScoreReport("trees" if trees else "sentences", loaded.can.probabilities)
    with ExitStack() as stack:
        if not as_json:
            stack.enter_context(data_on_stdout(None, file))
        advance = stack.enter_context(step("scoring", unit=report.kind.removesuffix("s")))
        if trees:
            found = reading.trees_of(lines, file)
            whole = (clean(tree, keep_functions=keep_functions) or tree for tree in found)
            items = score_trees(loaded, whole)
        else:
            where = stack.enter_context(open_engine(engine, scheduler, jobs))
            items = score_sentences(loaded, text.words_of(lines, file, loaded), where)
        for n_done, (weight, n_words) in enumerate(items, 1):
            report.add(weight, n_words)
            advance(n_done)
            if not as_json:
                sign = "" if report.is_probabilistic else f"\t{SIGNS[weight.sign]}"
                print(f"{weight.log:.6f}{sign}" if n_words else "")
    if as_json:
        print(to_json(report.as_dict(), indent=2))
    reading.tell()
    for line in _summary(report.as_dict()):
        echo(line)


def _summary(report: dict[str, Any]) -> Iterator[str]:
    name = "log-probability" if report["is_probabilistic"] else "log |weight|"
    parts = [f"{report['scored']:,} {report['kind']}", count(report["words"], "word")]
    parts.append(f"{name} {report['log_prob']:,.2f}")
    if report["perplexity"] is not None:
        parts.append(f"perplexity {report['perplexity']:,.2f} per word")
    if report["impossible"]:
        parts.append(f"{report['impossible']:,} impossible, left out")
    if report["empty"]:
        parts.append(count(report["empty"], "empty line"))
    yield "  ".join(parts)
    if not report["is_probabilistic"]:
        yield (
            f"this model holds weights, not probabilities: {report['negative']:,} of "
            f"{report['scored']:,} are negative (see the sign); no perplexity"
        )
