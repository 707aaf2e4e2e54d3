"""`sapwood score` and `sample`: log-probabilities of trees or sentences, and trees drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import data_on_stdout, echo
from sapwood.cli.hankel import score_strings
from sapwood.cli.identify import score_unmixed
from sapwood.cli.inputs import (
    HANKEL_LEARN,
    STDIN,
    TRAIN,
    TreeReading,
    as_grammar,
    load_any,
    stream_lines,
)
from sapwood.cli.reports import score_text
from sapwood.cli.texts import RawText, Text
from sapwood.core.errors import SapwoodError, count
from sapwood.core.progress import step
from sapwood.report import ScoreReport, score_sentences, score_trees, to_json

SCORE_EPILOG = """\b
Examples:
  sapwood score model.sapwood trees.mrg > log-probs.txt
  echo 'the dog sleeps .' | sapwood score bundled -
"""


def score_file(  # noqa: PLR0913 - every option of the command is an argument
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
    splitter: opt.Splitter = None,
    one_per_line: opt.OnePerLine = False,
    tokens: opt.Tokens = None,
    format: opt.Format = None,
    encoding: opt.Encoding = "utf-8",
    keep_functions: opt.KeepFunctions = False,
    skip_bad: opt.SkipBad = False,
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Print the natural logarithm of the probability of each tree or sentence, one per line.

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

    text = Text(trees, raw, RawText(tokenizer, splitter, one_per_line, tokens))
    named = load_any(model, TRAIN, HANKEL_LEARN, "`sapwood unmix`")
    if isinstance(named, StringModel):
        score_strings(named, file, as_json=as_json)
        return
    if isinstance(named, UniformTreeModel):
        score_unmixed(named, file, as_json=as_json)
        return
    loaded = as_grammar(named, model)
    reading = TreeReading(format, encoding, keep_functions, skip_bad)
    first, lines = peek_line(stream_lines(file, encoding))
    if trees is None:
        trees = bool(format or recognise(first)) and not text.is_raw
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
            where = stack.enter_context(opt.open_engine(engine, scheduler, jobs))
            items = score_sentences(loaded, text.words_of(lines, file, loaded), where)
        for n_done, (weight, n_words) in enumerate(items, 1):
            report.add(weight, n_words)
            advance(n_done)
            if not as_json:
                line = score_text(weight, is_probabilistic=report.is_probabilistic)
                print(line if n_words else "")
    if as_json:
        print(to_json(report.as_dict(), indent=2))
    reading.echo_skipped()
    for line in _score_summary(report.as_dict()):
        echo(line)


def _score_summary(report: dict[str, Any]) -> Iterator[str]:
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


SAMPLE_CHUNK = 1000  # trees drawn before they are written: a large draw starts at once

SAMPLE_EPILOG = """\b
Examples:
  sapwood sample bundled -n 3
  sapwood sample model.sapwood -n 1000 --words --seed 7 > sentences.txt
"""


def draw_trees(
    model: opt.Model,
    n: int = typer.Option(10, "--n", "-n", min=0, metavar="N", help="How many trees."),
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the random numbers."),
    words: bool = typer.Option(
        False, "--words", help="Only the sentences, one per line, without their trees."
    ),
) -> None:
    """Draw trees from a model, one per line.

    The same seed and N draw the same trees. An ensemble draws each tree from a member picked by its
    weight, among the members that have probabilities (pcfg, em, pivot, cluster); a line on stderr
    says which. Unknown words are not drawn. Spectral models have weights instead of probabilities,
    and crf and encoder give probabilities of trees only given the sentence, so none of them can
    draw alone.
    """
    from sapwood.constituency.grammar.ensemble import describe_draw, generative_part
    from sapwood.hankel.model.string_model import StringModel

    loaded = load_any(model, TRAIN, HANKEL_LEARN)
    if not isinstance(loaded, StringModel):
        whole = as_grammar(loaded, model)
        try:
            loaded = generative_part(whole)
        except SapwoodError as error:
            raise SapwoodError(f"{model}: {error}", hint=error.hint) from error
        if loaded is not whole:
            echo(f"{model}: {describe_draw(whole, loaded)}")
    import numpy as np

    rng = np.random.default_rng(seed)
    for first in range(0, n, SAMPLE_CHUNK):
        for tree in loaded.sample(min(SAMPLE_CHUNK, n - first), seed=rng):
            print(" ".join(tree.words()) if words else tree)
