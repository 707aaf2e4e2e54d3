"""`sapwood depend parse`, `rerank` and `score`: the uses of models of dependency trees."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import data_on_stdout, echo
from sapwood.cli.inputs import (
    DEPEND_TRAIN,
    ArcReading,
    check_files,
    count_lines,
    know_encoder,
    load_kind,
    stream_lines,
)
from sapwood.cli.texts import RawText
from sapwood.core.errors import SapwoodError, count
from sapwood.core.outputs import is_stdout, open_output
from sapwood.core.progress import step
from sapwood.report import to_json

if TYPE_CHECKING:
    from sapwood.dependency.data.bank import Arcs
    from sapwood.dependency.model.dependency import DependencyModel
    from sapwood.dependency.parse.constraints import PartialArcs
    from sapwood.dependency.parse.parser import ArcParse, ArcParser
    from sapwood.dependency.parse.reranking import RerankedParse, RerankingParser


PARSE_ARCS_EPILOG = """\b
Examples:
  sapwood depend parse parser.sapwood test.conllu -o parsed.conllu
  echo 'dogs bark' | sapwood depend parse parser.sapwood --text
  echo 'Dogs bark. (They do!)' | sapwood depend parse parser.sapwood --raw
  sapwood depend parse parser.sapwood test.conllu --n-best 50 > lists.conllu
  sapwood depend parse parser.sapwood begun.conllu --keep-tags --partial
  sapwood depend parse parser.sapwood begun.conllu --partial --json

\b
--json writes one object per line: words, upos, xpos, heads (0 is the root),
relations, posteriors (of each word's head), constraint_log_prob (natural
logarithm of the probability of the heads and relations that were kept, given
the sentence; 0 without --partial), and k_best where --n-best asks for it;
with --raw also text, char_start and char_end of each word in the whole input.
In CoNLL-U, --raw adds the comment text, and TokenRange=START:END to the last
column.
"""


_HINTS = {
    "conllu": "leave out --text to parse CoNLL-U",
    "trees": "`sapwood depend convert` makes CoNLL-U of trees, which is parsed without --text",
}


def parse_arcs(  # noqa: PLR0913 - every option of the command is an argument
    model: str = typer.Argument(
        ..., metavar="MODEL", help="A file written by `sapwood depend train`, or `english-ud`."
    ),
    file: str = typer.Argument(
        "-",
        metavar="[FILE]",
        help="CoNLL-U, with --text one sentence per line, or with --raw any text; - for stdin.",
    ),
    *,
    out: opt.Out = None,
    force: opt.Force = False,
    text: bool = typer.Option(
        False,
        "--text",
        help="FILE has one sentence per line, words separated by blanks. Not for text that is not "
        "tokenised as the treebank is.",
    ),
    raw: opt.Raw = False,
    tokenizer: opt.Tokenizer = None,
    splitter: opt.Splitter = None,
    one_per_line: opt.OnePerLine = False,
    tokens: opt.Tokens = None,
    gold_tags: bool = typer.Option(
        False,
        "--gold-tags",
        help="Take the tags of FILE instead of predicting them. Not to compare parsers on new "
        "text, which has none.",
    ),
    keep_tags: bool = typer.Option(
        False,
        "--keep-tags",
        help="Keep the tags that are filled in (UPOS, XPOS), for every member of the parser, and "
        "predict the others (_). Tags that the model has never seen are refused. Not to compare "
        "parsers on new text, which has none.",
    ),
    partial: bool = typer.Option(
        False,
        "--partial",
        help="Keep the heads and relations that are filled in, and predict the others (_). Heads "
        "that no projective tree with one root has are refused; the message names two that clash. "
        "Not for gold trees: all of their heads would be kept.",
    ),
    n_best: int | None = typer.Option(
        None,
        "--n-best",
        min=1,
        metavar="K",
        help="The K best trees of each sentence, each with comments for its sentence, rank and "
        "score.",
    ),
    scores: bool = typer.Option(
        False, "--scores", help="Add the posterior of each arc to the last column, as Posterior=P."
    ),
    encoding: opt.ArcEncoding = "utf-8",
    skip_bad: opt.SkipBadArcs = False,
    encoder: opt.ParsingEncoder = None,
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Parse sentences: CoNLL-U in and out. Only the forms are read, unless options keep more.

    Comments, multiword tokens, empty nodes and the columns that a parser does not fill stay as they
    are. Every sentence gets a tree with one root.
    """
    running = RawText(tokenizer, splitter, one_per_line, tokens)
    running.check(raw=raw)
    raw = raw or tokenizer is not None
    kept = {"--gold-tags": gold_tags, "--keep-tags": keep_tags, "--partial": partial}
    _refuse_pairs(kept, text=text, raw=raw)
    if scores and as_json:
        raise typer.BadParameter("--json has the posteriors already", param_hint="--scores")
    if out is not None and is_stdout(out):
        out = None
    check_files(file, model, out=out, force=force, may_stream=True)
    if encoder is not None:
        know_encoder(encoder)
    parser = _parser(model, gold_tags=gold_tags)
    layout = _Layout(n_best, scores, as_json)
    started, n_done = perf_counter(), 0
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    with (
        data_on_stdout(out, file),
        opt.open_engine(engine, scheduler, jobs) as where,
        open_output(out, force=force) as target,
        closing(
            reading.partial(file, parser.constrain, tags=keep_tags, tree=partial)
            if keep_tags or partial
            else _running(file, reading, running, parser)
            if raw
            else _sentences(file, reading, text=text)
        ) as sentences,
        step(
            "parsing", total=None if raw else count_lines(file, blank=not text), unit="sentence"
        ) as advance,
    ):
        numbered = enumerate(sentences, 1)
        for n_done, answer in enumerate(where.stream(_answer, numbered, parser, layout), 1):
            target.write(answer)
            if out is None:
                target.flush()  # the reader of a pipe may be waiting for this sentence
            advance(n_done)
    reading.echo_skipped()
    seconds = perf_counter() - started
    rate = n_done / seconds if seconds else 0.0
    echo(f"{count(n_done, 'sentence')}  {seconds:.1f} s  {rate:,.1f} sentences/s")


def _refuse_pairs(kept: dict[str, bool], *, text: bool, raw: bool) -> None:
    """Refuse options that do not go together; `kept` are those that keep columns of FILE."""
    if text and raw:
        raise typer.BadParameter("not with --raw, which finds the words", param_hint="--text")
    for name, is_asked in kept.items():
        if (text or raw) and is_asked:
            lacking = "heads" if name == "--partial" else "tags"
            raise typer.BadParameter(f"lines of words have no {lacking}", param_hint=name)
    if kept["--gold-tags"] and kept["--keep-tags"]:
        msg = "--gold-tags takes all tags as they are, also those that the model has never seen"
        raise typer.BadParameter(msg, param_hint="--keep-tags")


def _parser(name: str, *, gold_tags: bool) -> ArcParser | RerankingParser:
    from sapwood.dependency.model.arc_model import ArcModel, ArcRerankModel
    from sapwood.dependency.parse.reranking import arc_parser

    found = load_kind(
        name, ArcModel | ArcRerankModel, "a dependency parser", room="dependency",
        writer=DEPEND_TRAIN,
    )  # fmt: skip
    return arc_parser(found, use_tags=gold_tags)


def _sentences(file: str, reading: ArcReading, *, text: bool) -> Generator[Arcs, None, None]:
    from sapwood.corpora.sentences import refuse_other_kinds
    from sapwood.dependency.data.bank import UNPARSED, Arcs

    if not text:
        yield from reading.stream(file)
        return
    with closing(stream_lines(file, reading.encoding)) as lines:
        for line in refuse_other_kinds(lines, file, _HINTS):
            if words := tuple(line.split()):
                yield Arcs(words, (UNPARSED,) * len(words))


def _running(
    file: str, reading: ArcReading, how: RawText, parser: ArcParser | RerankingParser
) -> Generator[Arcs, None, None]:
    """The sentences of running text, with the offsets of their words in the last column."""
    from sapwood.corpora.conventions import UD, convention_of
    from sapwood.corpora.files import source_name
    from sapwood.corpora.sentences import refuse_other_kinds
    from sapwood.dependency.data.reader import arcs_of_text

    hints = {"conllu": "leave out --raw to parse CoNLL-U"}
    convention = convention_of(parser.model, UD)
    with closing(stream_lines(file, reading.encoding, newline="")) as lines:
        some = refuse_other_kinds(lines, file, hints)
        for sentence in how.sentences(some, source_name(file), convention, ()):
            if sentence.words:
                yield arcs_of_text(sentence)


@dataclass(frozen=True)
class _Layout:
    """The layout in which a parsed sentence is written."""

    n_best: int | None
    scores: bool
    as_json: bool

    def text(self, number: int, parse: ArcParse | RerankedParse) -> str:
        if self.as_json:
            from sapwood.dependency.report import parse_record

            return f"{to_json(parse_record(parse, self.n_best or 0))}\n"
        if self.n_best:
            return "".join(self._ranked(number, parse, self.n_best))
        arcs = parse.arcs
        return f"{_with_posteriors(arcs, parse.head_posteriors) if self.scores else arcs}\n\n"

    def _ranked(self, number: int, parse: ArcParse | RerankedParse, k: int) -> Iterator[str]:
        for rank, best in enumerate(parse.k_best(k), 1):
            listed = f"# sentence = {number}", f"# rank = {rank}", f"# score = {best.score:.6f}"
            arcs = replace(best.arcs, comments=(*best.arcs.comments, *listed))
            if self.scores:
                chosen = [float(parse.posteriors[m, h]) for m, h in enumerate(best.arcs.heads)]
                arcs = _with_posteriors(arcs, chosen)
            yield f"{arcs}\n\n"


def _with_posteriors(arcs: Arcs, posteriors: Iterable[float]) -> Arcs:
    """Append the posterior of each word's arc to the last column."""
    from sapwood.dependency.data.bank import EMPTY, ID, MISC

    rows, remaining = arcs.all_rows(), iter(posteriors)
    for row in rows:
        if row[ID].isdecimal():
            entry = f"Posterior={next(remaining):.4f}"
            row[MISC] = entry if row[MISC] == EMPTY else f"{row[MISC]}|{entry}"
    return replace(arcs, rows=tuple(map(tuple, rows)))


def _answer(
    numbered: tuple[int, Arcs | PartialArcs], parser: ArcParser | RerankingParser, layout: _Layout
) -> str:
    # The text is made in the worker: k-best lists of trees cost more than the parse.
    number, arcs = numbered
    return layout.text(number, parser.parse(arcs))


RERANK_TRAIN = "`sapwood depend train --method rerank`"
RERANK_EPILOG = """\b
Examples:
  sapwood depend train train.conllu -o reranker.sapwood --method rerank
  sapwood depend parse reranker.sapwood dev.conllu > reranked.conllu
  sapwood depend parse parser.sapwood dev.conllu --n-best 50 > lists.conllu
  sapwood depend rerank reranker.sapwood lists.conllu > reranked.conllu
"""


def rerank_lists(
    model: str = typer.Argument(
        ..., metavar="MODEL", help="A file written by `sapwood depend train --method rerank`."
    ),
    file: str = typer.Argument(
        "-", metavar="[LISTS]", help="CoNLL-U with several trees a sentence; - for stdin."
    ),
    *,
    out: opt.Out = None,
    encoding: opt.ArcEncoding = "utf-8",
    skip_bad: opt.SkipBadArcs = False,
    force: opt.Force = False,
) -> None:
    """Choose one tree of each list: CoNLL-U in and out.

    The trees of a sentence stand one after the other, each with the comments `# sentence = N`, the
    same for all of them, and `# score = X`, as `sapwood depend parse --n-best` writes them. Scores
    should be log-probabilities, on which the reranker has learnt.
    """
    from sapwood.dependency.data.lists import without_list_comments
    from sapwood.dependency.data.reader import write_arcs
    from sapwood.dependency.model.arc_model import ArcRerankModel
    from sapwood.dependency.parse.reranking import choose_trees

    check_files(file, model, out=out, force=force, may_stream=True)
    found: ArcRerankModel = load_kind(
        model, ArcRerankModel, "a reranker", room="dependency", writer=RERANK_TRAIN
    )
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    lists = reading.lists([file])
    chosen = choose_trees(found, lists)
    with open_output(out, force=force) as target:
        write_arcs((without_list_comments(lists.bank[tree]) for tree in chosen.tolist()), target)
    reading.echo_skipped()
    n_other = int((chosen != lists.best(lists.score)).sum())
    echo(f"{count(len(lists), 'sentence')}  {n_other:,} with another tree than the parser's best")


SCORE_ARCS_EPILOG = """\b
Examples:
  sapwood depend train train.conllu -o latent.sapwood --method spectral
  sapwood depend score latent.sapwood dev.conllu > log-probs.txt
  sapwood depend score latent.sapwood dev.conllu --json
"""


def score_arcs(
    model: str = typer.Argument(
        ...,
        metavar="MODEL",
        help="A file written by `sapwood depend train --method spectral`, em or latent.",
    ),
    file: str = typer.Argument("-", metavar="[FILE]", help="CoNLL-U; - for stdin."),
    *,
    encoding: opt.ArcEncoding = "utf-8",
    skip_bad: opt.SkipBadArcs = False,
    as_json: opt.Json = False,
) -> None:
    """Print the natural logarithm of the probability of each tree's words, given its arcs.

    A spectral model has weights instead of probabilities, and some are negative: each line is then
    the logarithm of the absolute weight, TAB, and its sign (+, - or 0). Unseen tags have the
    probability of half a training word.
    """
    from sapwood.dependency.report import tree_scores

    found = _load_latent(model)
    reading = ArcReading(None, encoding, skip_bad=skip_bad)
    with step("reading"):
        bank = reading.arcs([file], may_be_empty=True)
    with step("scoring"):
        report = tree_scores(found, bank)
    if as_json:
        print(to_json(report, indent=2))
    else:
        marks = {1: "\t+", -1: "\t-", 0: "\t0"}
        for log, sign in zip(report["log_probs"], report["signs"], strict=True):
            print(f"{log:.6f}{'' if found.is_probabilistic else marks[sign]}")
    reading.echo_skipped()
    name = "log-probability" if found.is_probabilistic else "log-weight of the positive trees"
    parts = [count(len(bank), "tree"), count(bank.n_tokens, "word")]
    echo("  ".join([*parts, f"{name} {report['log_prob']:,.2f}"]))
    if report["unknown_tags"]:
        echo(f"{count(report['unknown_tags'], 'word')} with a tag that the model has never seen")
    if not found.is_probabilistic:
        echo(f"this model holds weights, not probabilities: {report['negative']:,} are negative")


def _load_latent(name: str) -> DependencyModel:
    """The latent model of a file, or the one inside a parser."""
    from sapwood.dependency.model.arc_model import ArcModel
    from sapwood.dependency.model.dependency import DependencyModel

    hint = "train one: `sapwood depend train --method spectral`, em or latent; "
    hint += "parsers score their trees by `depend parse --n-best`"
    found: DependencyModel | ArcModel = load_kind(
        name, DependencyModel | ArcModel, "a latent model of arcs", room="dependency",
        writer=DEPEND_TRAIN, hint=hint,
    )  # fmt: skip
    if isinstance(found, DependencyModel):
        return found
    if found.latent is None:
        msg = f"{name}: this parser has no hidden states, expected a latent model of arcs"
        raise SapwoodError(msg, hint=hint)
    return found.latent.model
