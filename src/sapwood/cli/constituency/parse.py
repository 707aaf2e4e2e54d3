"""`sapwood parse`: one sentence per line in, one tree per line out, as a stream."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial as partial_function
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import typer

from sapwood import __version__
from sapwood.cli import options as opt
from sapwood.cli.console import data_on_stdout, echo
from sapwood.cli.inputs import (
    STDIN,
    TRAIN,
    as_grammar,
    count_lines,
    input_files,
    know_encoder,
    load_any,
    stream_lines,
)
from sapwood.cli.texts import RawText, Text
from sapwood.constituency.report.parses import constituents
from sapwood.core.compiling import only_work
from sapwood.core.errors import count
from sapwood.core.model_names import BUNDLED, find_model
from sapwood.core.outputs import (
    check_output,
    is_stdout,
    open_output,
    open_part,
    part_and_note,
    sha256,
    skip_done,
)
from sapwood.core.progress import step
from sapwood.execute.engine import Meter
from sapwood.report import parse_report, to_json

if TYPE_CHECKING:
    from sapwood.constituency.grammar.constraints import KnownLabels, PartialSentence
    from sapwood.constituency.parse.parser import Parse, Parser, ParserStats
    from sapwood.corpora.running_text import TextSentence
    from sapwood.execute import Engine

    Sentence = list[str] | PartialSentence | TextSentence


Decoder = Literal["f1", "goodman", "max-rule", "viterbi"]

PARSE_EPILOG = """\b
Layouts (TAB between columns):
  (default)     TREE
  --scores      TREE  LOGPROB  SENTENCE_LOGPROB  CONSTITUENTS
                and with --tagged or --partial CONSTRAINT_LOGPROB
  --k-best K    RANK  SCORE  LOGPROB  TREE
                best first, and a blank line after each sentence
  --json        one object per line: tree, log_prob, sign, sentence_log_prob,
                fallback, kind (parsed, joined or flat), constituents with
                their posterior probability, k_best where asked for, and
                constraint_log_prob with --tagged or --partial; with --raw
                text, words, and char_start and char_end of the sentence,
                its words and its constituents

\b
CONSTITUENTS are the phrases of the tree as LABEL:START:END:PROBABILITY,
separated by blanks. START and END count words from 0; END is exclusive. A
label may contain colons: split at the last three. PROBABILITY is the
posterior of the phrase; it is - (null in JSON) in joined and flat trees and
for phrases that pruning dropped.

\b
Constraints: with --tagged and --partial every tree has the given tags and
brackets, and all probabilities are conditional on them. CONSTRAINT_LOGPROB is
their log-probability: 0 without constraints, -inf (null in JSON) where no tree
of the model satisfies them. Such a tree is joined from the constraints and
compatible pieces.

\b
--tagged takes word/TAG; the last slash separates, and word/ leaves a word free:
  the/DT dog/NN runs/ ./.
--partial takes brackets, of which any may be missing:
  ( (NP the girl) saw (a dog) )   an NP, and some phrase; saw is free
  the (NN dog) (VP runs)          a tag, and a phrase over one word
A token directly behind a bracket is a label if the model knows it. An unknown
one in capitals is refused; any other token is a word. ( a dog) with a blank is
a phrase without label. Brackets over the same words are labels, outermost
first. Brackets around the whole line without label, or with TOP or ROOT, are
ignored. Function tags are cut.

\b
Logarithms are natural. SENTENCE_LOGPROB sums over the trees that survive
pruning; `sapwood score` sums over all. An empty line gives an empty line (with
--json, an object whose tree is null), so that lines stay aligned; --raw writes
one line for each sentence instead. CHAR_START and CHAR_END count characters of
the whole input from 0, with line ends and without a byte-order mark. Spectral
models have weights instead of probabilities: logarithms are of absolute
values, and sign is -1 for negative weights.

\b
Examples:
  sapwood parse model.sapwood sentences.txt > trees.mrg
  echo 'the dog sleeps .' | sapwood parse bundled
  echo "The dog isn't here." | sapwood parse model.sapwood --raw
  sapwood parse model.sapwood gold.mrg --trees > predicted.mrg
  sapwood parse model.sapwood sentences.txt --k-best 5 -o five-best.tsv
  sapwood parse model.sapwood corpus.txt -o corpus.mrg --resume
  echo 'the/DT dog/ sleeps/VBZ ./.' | sapwood parse bundled --tagged
  sapwood parse model.sapwood gold.mrg --trees --tagged > predicted.mrg
  echo '(NP the dog) sleeps .' | sapwood parse bundled --partial --scores
"""


def parse_sentences(  # noqa: PLR0913 - every option of the command is an argument
    model: opt.Model,
    file: str = typer.Argument(
        STDIN, metavar="FILE", help="Sentences; - for stdin.", show_default="stdin"
    ),
    *,
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        metavar="OUT",
        help="Write here instead of to stdout (-); the file appears when it is complete. Not "
        "when the next program should start at once.",
    ),
    force: opt.Force = False,
    resume: bool = typer.Option(
        False,
        "--resume",
        help="Write OUT.part line by line, so that the same command continues an interrupted run. "
        "Needs FILE and -o.",
    ),
    trees: bool | None = typer.Option(
        None,
        "--trees/--sentences",
        help="FILE is a treebank whose words are parsed, one tree for each tree; or it has one "
        "tokenised sentence a line, whatever it looks like.",
        show_default="sentences; the first lines are checked",
    ),
    raw: opt.Raw = False,
    tokenizer: opt.Tokenizer = None,
    splitter: opt.Splitter = None,
    one_per_line: opt.OnePerLine = False,
    tokens: opt.Tokens = None,
    tagged: bool = typer.Option(
        False,
        "--tagged",
        help="Tokens are word/TAG, and the trees get these tags; word/ leaves a word free. With "
        "--trees, the trees' own tags. Not with --raw.",
    ),
    partial: bool = typer.Option(
        False,
        "--partial",
        help="Lines are partial bracketings, such as ( (NP the girl) saw (a dog) ), and the trees "
        "have all of their phrases and tags. Not with --raw or --trees.",
    ),
    k_best: int | None = typer.Option(
        None, min=1, metavar="K", help="The K best trees of each sentence, with scores."
    ),
    scores: bool = typer.Option(
        False,
        "--scores",
        help="Add the log-probabilities of the tree and of the sentence, and the posterior of "
        "each phrase.",
    ),
    decoder: Decoder = typer.Option(
        "f1",
        help="f1: highest expected F1; goodman: most expected correct nodes of the binary "
        "tree; max-rule: largest product of rule posteriors; viterbi: the likeliest "
        "derivation. Not viterbi for F1 with hidden states, nor for an ensemble.",
    ),
    fast: bool = typer.Option(
        False,
        "--fast",
        help="Prune more, and use only the first members of an ensemble that have half of its "
        "weight. It may cost up to one F1.",
    ),
    threshold: float | None = typer.Option(
        None,
        min=0.0,
        max=1.0,
        metavar="T",
        help="Prune spans with a lower posterior under the plain grammar. Not above 0.001: it "
        "costs accuracy.",
        show_default="0.001; 0.003 with --fast",
    ),
    encoder: opt.ParsingEncoder = None,
    jobs: opt.Jobs = 0,
    engine: opt.StreamEngineOption = None,
    scheduler: opt.SchedulerOption = None,
    memory_limit: float = typer.Option(
        2000.0,
        min=0.0,
        metavar="MB",
        help="A sentence whose chart needs more memory gets a flat tree. The limit is for each "
        "job.",
    ),
    as_json: opt.Json = False,
) -> None:
    """Parse sentences: one per line in, one bracketed tree per line out, in order.

    Every sentence gets a tree: where the grammar has no parse, its best pieces are joined under
    one root, and stderr counts such trees. By default a line is one sentence, tokenised as in the
    treebank, with blanks between words; --raw takes ordinary text and finds its sentences and
    words.
    """
    text = Text(trees, raw, RawText(tokenizer, splitter, one_per_line, tokens))
    given = _Given(tagged, partial)
    given.check(text)
    layout = _Layout(k_best, scores, as_json, tagged or partial)
    settings = ParserSettings(decoder, fast, threshold, memory_limit, encoder)
    if out is not None and is_stdout(out):
        out = None
    if threshold is not None and threshold >= 1:
        msg = f"{threshold:g} would drop every span; it must be below 1"
        raise typer.BadParameter(msg, param_hint="--threshold")
    if resume and (out is None or not Path(file).is_file()):
        msg = "needs -o OUT and an ordinary input FILE, which can be read again"
        raise typer.BadParameter(msg, param_hint="--resume")
    model_path = find_model(model, (TRAIN,))
    if out is not None:
        inputs = list(input_files(file, *([] if model_path is None else [str(model_path)])))
        check_output(out, inputs=inputs, force=force, may_stream=not resume)
        for kept in part_and_note(out) if resume else ():
            check_output(kept, inputs=inputs, force=True)
    parser = settings.parser(model)
    origin: dict[str, Any] | None = None
    if resume:  # all that the output depends on; not on the number of threads
        origin = {
            "Sapwood": __version__,
            "model": BUNDLED if model_path is None else sha256(model_path),
            "input": sha256(Path(file)),
        }
        origin |= asdict(layout) | asdict(settings) | asdict(text) | asdict(given)
    n_lines = 0
    with (
        data_on_stdout(out, file),
        opt.open_engine(engine or ("dask" if scheduler else "processes"), scheduler, jobs) as where,
        _open(out, origin, layout, force) as (write, n_done),
    ):
        meter = Meter()
        sentences = skip_done(given.sentences(text, file, parser), n_done)
        total = count_lines(file) if text.has_lines else None
        with (
            closing(stream_answers(parser, layout, sentences, where)) as answers,
            step("parsing", total=total, unit="line" if text.has_lines else "sentence") as advance,
        ):
            for n_lines, answer in enumerate(answers, 1):
                write(answer)
                advance(n_done + n_lines)
    for line in _summary(parser.stats, n_lines, memory_limit, meter.seconds, given.joining_reason):
        echo(line)
    if not (layout.is_bare or parser.model.can.probabilities):
        echo(
            "this model holds weights, not probabilities: log-probabilities are of absolute weights"
        )


@dataclass(frozen=True)
class _Given:
    """What lines say of the trees beside their words: tags, or partial bracketings."""

    tagged: bool
    partial: bool

    def check(self, text: Text) -> None:
        """Refuse options that contradict each other."""
        option = "--tagged" if self.tagged else "--partial"
        message = None
        if self.tagged and self.partial:
            message = "not with --partial, whose brackets give tags too: (NN dog)"
        elif (self.tagged or self.partial) and text.is_raw:
            message = "the words are tokenised already; leave --raw and --tokenizer out"
        elif self.partial and text.trees:
            message = "reads the brackets itself, one sentence per line; leave --trees out"
        if message:
            raise typer.BadParameter(message, param_hint=option)

    @property
    def joining_reason(self) -> str:
        """Why a tree was joined from pieces."""
        if self.tagged or self.partial:
            return "no tree satisfies the constraints; they are joined with the best pieces"
        return "the grammar has no parse for the sentence; its best pieces, side by side"

    def sentences(self, text: Text, file: str, parser: Parser) -> Iterator[Sentence]:
        """The sentences of a file, with what it says of their trees."""
        from sapwood.constituency.grammar.partial_text import read_bracketing, read_tagged

        if not (self.tagged or self.partial):
            yield from text.sentences(file, parser.model)
            return
        known = parser.known_labels
        if self.tagged and text.trees:
            yield from _tree_tags(file, known)
            return
        read = read_tagged if self.tagged else read_bracketing
        is_any = self.partial or text.trees is False
        yield from _given_lines(file, partial_function(read, known=known), is_any=is_any)


def _tree_tags(file: str, known: KnownLabels) -> Iterator[PartialSentence]:
    """The words of trees with the trees' own tags."""
    from sapwood.constituency.grammar.constraints import PartialSentence
    from sapwood.constituency.grammar.partial_text import tags_of_tree
    from sapwood.corpora.files import source_name
    from sapwood.corpora.formats import read_trees
    from sapwood.corpora.tree import clean

    for number, tree in enumerate(read_trees(file), 1):
        kept = clean(tree)
        empty = PartialSentence([])
        yield empty if kept is None else tags_of_tree(kept, known, source_name(file), number)


def _given_lines(
    file: str, read: Callable[..., PartialSentence], *, is_any: bool
) -> Iterator[PartialSentence]:
    """Read the lines of a file; where not any may come, trees and other kinds are refused."""
    from sapwood.constituency.grammar.partial_text import LinePlace
    from sapwood.corpora.files import source_name
    from sapwood.corpora.sentences import refuse_other_kinds

    name = source_name(file)
    with closing(stream_lines(file)) as lines:  # at once, also where a line is refused
        hints = {"trees": "--trees takes the words of the trees and their tags"}
        some = lines if is_any else refuse_other_kinds(lines, file, hints)
        for number, line in enumerate(some, 1):
            yield read(line, place=LinePlace(name, number))


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switch garbage collection off, and exempt the objects loaded meanwhile, which all stay."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


@dataclass(frozen=True)
class ParserSettings:
    """The settings of the parser."""

    decoder: str
    fast: bool
    threshold: float | None = None
    memory_limit: float = 2000.0
    encoder: Path | None = None

    def parser(self, model: str) -> Parser:
        """The parser of the model that a user names."""
        with without_garbage_collection():
            from sapwood.constituency.parse.parser import Parser

            make = Parser.fast if self.fast else Parser
            given = {} if self.threshold is None else {"threshold": self.threshold}
            if self.encoder is not None:
                know_encoder(self.encoder)
            loaded = as_grammar(load_any(model, TRAIN), model)
            return make(loaded, decoder=self.decoder, memory_limit_mb=self.memory_limit, **given)


@contextmanager
def _open(
    out: Path | None, origin: dict[str, Any] | None, layout: _Layout, force: bool
) -> Iterator[tuple[Callable[[str], object], int]]:
    """A function that writes the next answer, and how many are there already."""
    if origin is not None and out is not None:
        with open_part(out, origin, is_block=layout.is_block, tell=echo, force=force) as part:
            yield part.write, part.n_done
        return
    with open_output(out, force=force) as target:

        def write(answer: str) -> None:
            target.write(answer)
            if out is None:
                target.flush()  # whoever reads a pipe may be waiting for this very line

        yield write, 0


class Layout(Protocol):
    """Writes a parsed sentence; it is sent to workers."""

    def text(self, parse: Parse | None) -> str:
        """The text to write for a parse; None stands for a sentence without words."""


@dataclass(frozen=True)
class _Layout:
    """The layout in which a parsed sentence is written."""

    k_best: int | None
    scores: bool
    as_json: bool
    has_constraints: bool  # whether the probability of the constraints is printed

    @property
    def is_block(self) -> bool:
        """Whether several lines, ended by an empty one, are written for a sentence."""
        return bool(self.k_best) and not self.as_json

    @property
    def is_bare(self) -> bool:
        """Whether trees are all there is."""
        return not (self.k_best or self.scores or self.as_json)

    def text(self, parse: Parse | None) -> str:
        """The text to write for a parse; None stands for an empty line."""
        if self.as_json:
            report = parse_report(parse, self.k_best)
            if self.has_constraints:
                report["constraint_log_prob"] = parse.constraint_log_prob if parse else None
            return to_json(report) + "\n"
        if parse is None:
            return "\n"
        if self.k_best:
            rows = (
                f"{rank}\t{best.score:.6f}\t{best.log_prob:.6f}\t{best.tree}\n"
                for rank, best in enumerate(parse.k_best(self.k_best), 1)
            )
            return "".join(rows) + "\n"
        if self.scores:
            logs = f"{parse.log_prob:.6f}\t{parse.sentence_log_prob:.6f}"
            more = f"\t{parse.constraint_log_prob:.6f}" if self.has_constraints else ""
            return f"{parse.tree}\t{logs}\t{_phrases(parse)}{more}\n"
        return f"{parse.tree}\n"


def _phrases(parse: Parse) -> str:
    """The phrases alone, for one column."""
    below = islice(parse.tree.nodes(), 1, None)
    return " ".join(
        f"{label}:{start}:{end}:" + ("-" if p is None else f"{p:.4f}")
        for node, (label, start, end, p) in zip(below, constituents(parse), strict=True)
        if not node.is_preterminal
    )


def stream_answers(
    parser: Parser,
    layout: Layout,
    sentences: Iterator[Sentence] | Iterator[list[str] | TextSentence],
    engine: Engine,
) -> Generator[str, None, None]:
    """The text to write for each sentence, parsed by the engine."""
    from sapwood.execute import Windows

    parser.parse_many(())  # arranges the rules once, before threads start
    if not parser.reads_together:
        for text, stats in engine.stream(_answer, sentences, parser, layout):
            parser.stats.merge(stats)
            yield text
        return
    with closing(Windows(sentences)) as some:
        for texts, stats, failure in engine.stream(_answer_window, some, parser, layout, ahead=2):
            parser.stats.merge(stats)
            yield from texts
            if failure is not None:
                raise failure


def _answer(sentence: Sentence, parser: Parser, layout: Layout) -> tuple[str, ParserStats]:
    # Written out here, in the worker: k-best lists and posteriors cost as much as the parse.
    alone = parser.recount()
    given = _given(sentence)
    if given is None:
        return layout.text(None), alone.stats
    if isinstance(given, list):
        parse = alone.parse(given)
    else:
        words, tags, spans, forbidden = given
        parse = alone.parse(words, tags=tags, spans=spans, forbidden=forbidden)
    return layout.text(_locate(parse, sentence)), alone.stats


def _given(sentence: Sentence) -> list[str] | PartialSentence | None:
    """The input of a parser for a sentence; None for a sentence without words."""
    from sapwood.corpora.running_text import TextSentence

    if isinstance(sentence, list):
        return sentence or None
    if not sentence.words:
        return None
    return sentence.words if isinstance(sentence, TextSentence) else sentence


def _locate(parse: Parse, sentence: Sentence) -> Parse:
    """Add the offsets of its words to a parse of running text."""
    from sapwood.corpora.running_text import TextSentence

    return parse.located(sentence) if isinstance(sentence, TextSentence) else parse


def _answer_window(
    window: list[Sentence], parser: Parser, layout: Layout
) -> tuple[list[str], ParserStats, Exception | None]:
    """The texts of sentences that are there together, up to the first that fails, and its error."""
    alone = parser.recount()
    texts: list[str] = []
    if len(window) == 1:  # a person may wait for it: `Parser.parse` may interpret it
        with nullcontext() if parser.needs_charts else only_work():
            text, stats = _answer(window[0], parser, layout)
        return [text], stats, None
    given = [_given(sentence) for sentence in window]
    parses = alone.parse_together([one for one in given if one is not None])
    try:
        for sentence, one in zip(window, given, strict=True):
            parse = None if one is None else _locate(next(parses), sentence)
            texts.append(layout.text(parse))
    except Exception as error:  # raised again after the texts before it
        return texts, alone.stats, error
    return texts, alone.stats, None


def _summary(
    stats: ParserStats, n_lines: int, limit: float, seconds: float, joined: str
) -> Iterator[str]:
    n_empty = n_lines - stats.sentences
    n_long = min(stats.too_long, stats.fallbacks)  # a single word needs no chart
    rate = stats.sentences / seconds if seconds else 0.0
    parts = [count(stats.sentences, "sentence")]
    parts += [count(n_empty, "empty line")] if n_empty else []
    parts += [count(stats.fallbacks, "fallback"), f"{n_long:,} too long"]
    parts += [f"{seconds:.1f} s", f"{rate:,.1f} sentences/s"]
    yield "  ".join(parts)
    if stats.joined:
        yield f"{count(stats.joined, 'joined tree')}: {joined}"
    if n_long:
        yield (
            f"{count(n_long, 'flat tree')}: the chart would need more than "
            f"--memory-limit {limit:g} MB"
        )
