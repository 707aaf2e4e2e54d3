"""`sapwood surprisal`: how unexpected each word of a text is, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import data_on_stdout, echo
from sapwood.cli.inputs import (
    LM_TRAIN,
    STDIN,
    TRAIN,
    as_kind,
    load_any,
    stream_lines,
)
from sapwood.cli.texts import RawText, Text
from sapwood.core.errors import CorpusError, SapwoodError, count, join_words
from sapwood.core.progress import step

if TYPE_CHECKING:
    from sapwood.corpora.tokenize import PennTokenizer

SURPRISAL_EPILOG = """\b
Examples:
  sapwood surprisal model.sapwood sentences.txt > table.tsv
  echo 'The dog sleeps.' | sapwood surprisal bundled - --raw
  sapwood surprisal model.sapwood items.txt --join --restart 1e-4 > items.tsv
"""


LARGEST_RESTART = 0.5
_HINTS = {"tokens": "--raw tokenises; words stand without their tags (dog, not dog/NN)"}


class _Sentence(NamedTuple):
    """A line of the input: its tokens, and the units that get a row each."""

    words: list[str]
    sizes: list[int]  # number of tokens of each unit; empty where every token is a unit
    units: list[str]


def print_surprisal(  # noqa: PLR0913 - every option of the command is an argument
    model: opt.Model,
    file: str = typer.Argument(
        STDIN, metavar="FILE", help="A sentence per line; - for stdin.", show_default="stdin"
    ),
    *,
    unit: str = typer.Option("bits", "--unit", metavar="UNIT", help="bits or nats."),
    restart: float = typer.Option(
        0.0,
        "--restart",
        metavar="P",
        help="For grammars: the probability, at each word, that the derivation is broken off and a "
        "new fragment begins, from 0 to 0.5. 1e-4 gives every word a finite surprisal and changes "
        "the others little; 0 is the grammar itself. Not for language models, which give every "
        "word a probability.",
    ),
    raw: opt.Raw = False,
    tokenizer: opt.Tokenizer = None,
    splitter: opt.Splitter = None,
    one_per_line: opt.OnePerLine = False,
    tokens: opt.Tokens = None,
    join: bool = typer.Option(
        False,
        "--join",
        help="Lines are text as an experiment shows it, or its tokens: tokenise as --raw does, and "
        "print a row for each word with the marks and endings beside it (`owners.` and `owners .` "
        "are two tokens and one row, `do n't` too) or, in lines with tabs, for each region between "
        "tabs (NA where it is empty). Surprisals of the tokens of a row are added up.",
    ),
    jobs: opt.Jobs = 0,
    engine: opt.EngineOption = None,
    scheduler: opt.SchedulerOption = None,
    as_json: opt.Json = False,
) -> None:
    """Print the surprisal of each word: -log P(word | words before it), one row per word.

    Columns, separated by tabs, with a header: sentence, number (both from 1), word, surprisal, its
    syntactic and lexical part, and the entropy of the next tag and of the next word before the word
    was read. The end of a sentence is the row </s>. Numbers that a model does not have are NA.

    MODEL is a grammar with probabilities (--method pcfg, em, cluster, pivot, pivot-em), a mix with
    one of them, or a language model of `sapwood lm train`. Sums over trees are exact, without
    pruning. An unknown word counts as its class. If the grammar cannot derive a word after the
    words before it, the word has the surprisal Inf and the rest of the sentence NA: see --restart.
    """
    from sapwood.incremental import MEASURES, UNITS
    from sapwood.lm.model.language_model import LanguageModel
    from sapwood.report import to_json

    if unit not in UNITS:
        raise typer.BadParameter(f"{unit!r} is not bits or nats", param_hint="--unit")
    if join and tokenizer:
        raise typer.BadParameter("not together with --tokenizer", param_hint="--join")
    text = Text(None, raw, RawText(tokenizer, splitter, one_per_line, tokens))
    if not 0.0 <= restart <= LARGEST_RESTART:
        msg = f"{restart:g} is not a probability from 0 to {LARGEST_RESTART}"
        raise typer.BadParameter(msg, param_hint="--restart")
    loaded = _load(model)
    if restart and isinstance(loaded, LanguageModel):
        msg = f"{model} is a language model, which has no derivation to break off: leave it out"
        raise typer.BadParameter(msg, param_hint="--restart")
    header = "\t".join(("sentence", "number", "word", *MEASURES))
    rows, n_sentences, n_words, n_dead = [], 0, 0, 0
    with ExitStack() as stack:
        if not as_json:
            stack.enter_context(data_on_stdout(None, file))
        advance = stack.enter_context(step("reading words", unit="sentence"))
        where = stack.enter_context(opt.open_engine(engine, scheduler, jobs))
        sentences = _sentences(file, loaded, text, join=join)
        ask = partial(_rows_of, unit=unit, restart=restart)
        is_begun = as_json  # the header comes with the first row: a refused text leaves no table
        for number, found in enumerate(where.stream(ask, sentences, loaded), 1):
            advance(number)
            n_sentences, n_words = n_sentences + bool(found), n_words + len(found)
            n_dead += any(row["surprisal"] is not None and isinf(row["surprisal"]) for row in found)
            if as_json:
                rows += [{"sentence": number} | row for row in found]
                continue
            if found and not is_begun:
                print(header)
                is_begun = True
            for row in found:
                cells = (_number(row[name]) for name in MEASURES)
                print("\t".join((str(number), str(row["number"]), row["word"], *cells)))
        if not is_begun:  # a text without words is a table without rows
            print(header)
    if as_json:
        print(to_json({"unit": unit, "words": rows}, indent=2))
    echo(f"{count(n_sentences, 'sentence')}  {count(n_words, 'row')}  surprisal in {unit}")
    if n_dead:
        echo(
            f"{n_dead:,} of {count(n_sentences, 'sentence')} with a word that the grammar cannot "
            "derive there (Inf); --restart 1e-4 gives every word a finite surprisal"
        )


def _load(name: str) -> Any:
    """The model, reduced to the members that have probabilities of prefixes."""
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.parse.prefixes import NO_PREFIXES
    from sapwood.incremental import members_with_prefixes
    from sapwood.lm.model.language_model import LanguageModel

    loaded = load_any(name, TRAIN, LM_TRAIN)
    as_kind(loaded, (Model, LanguageModel), name, "a grammar or a language model", NO_PREFIXES)
    if isinstance(loaded, LanguageModel):
        return loaded
    try:
        usable = members_with_prefixes(loaded)
    except SapwoodError as error:
        raise SapwoodError(f"{name}: {error}", hint=error.hint) from error
    if usable is not loaded:
        weighted = zip(usable.members, usable.weights.tolist(), strict=True)
        parts = join_words(f"{member.method} ({weight:.0%})" for member, weight in weighted)
        echo(f"{name}: surprisal by {parts}, the members with probabilities of prefixes")
    return usable


def _sentences(file: str, model: Any, text: Text, *, join: bool) -> Iterator[_Sentence]:
    """The sentence of each line, refused where a mark of its start or end is among the words."""
    from sapwood.corpora.files import source_name
    from sapwood.lm.data.ngrams import RESERVED, RESERVED_HINT

    name = source_name(file)
    for number, sentence in enumerate(_lines(file, name, model, text, join=join), 1):
        if marks := RESERVED.intersection((*sentence.words, *sentence.units)):
            msg = f"found {min(marks)} as a word: it stands for the start or end of a sentence"
            raise CorpusError(msg, file=name, line=number, hint=RESERVED_HINT)
        yield sentence


def _lines(file: str, name: str, model: Any, text: Text, *, join: bool) -> Iterator[_Sentence]:
    from sapwood.corpora.conventions import PENN
    from sapwood.corpora.sentences import refuse_other_kinds, split_words
    from sapwood.corpora.tokenize import PennTokenizer
    from sapwood.lm.model.language_model import LanguageModel

    is_text = isinstance(model, LanguageModel)
    known = model.words if is_text else model.grammars[0].lexicon.words
    lines = stream_lines(file)
    if join:
        tokenise = PennTokenizer(known)
        for line in refuse_other_kinds(lines, file):
            yield _split_line(line, tokenise)
        return
    if not is_text:
        found: Iterable[list[str]] = text.words_of(lines, file, model, _HINTS)
    elif text.is_raw:
        some = text.how.sentences(lines, name, PENN, known)
        found = (sentence.words for sentence in some)
    else:
        found = map(split_words, refuse_other_kinds(lines, file))
    for words in found:
        yield _Sentence(words, [], [])


def _split_line(line: str, tokenise: PennTokenizer) -> _Sentence:
    """The tokens of a line, and its units: regions between tabs, or words with their marks.

    An empty region keeps its number, unless it is at the end of the line.
    """
    from sapwood.corpora.tokenize import with_their_marks

    chunks = tokenise.by_chunk(line)
    texts, ends = line.split(), iter(map(len, chunks))
    if "\t" in line.strip("\r\n"):
        units = [region.strip() for region in line.rstrip().split("\t")]
        n_chunks = [len(region.split()) for region in units]
    else:
        n_chunks, parts = with_their_marks(chunks), iter(texts)
        units = ["".join(islice(parts, n)) for n in n_chunks]
    sizes = [sum(islice(ends, n)) for n in n_chunks]
    return _Sentence([word for chunk in chunks for word in chunk], sizes, units)


def _rows_of(sentence: _Sentence, model: Any, *, unit: str, restart: float) -> list[dict[str, Any]]:
    from sapwood.incremental import join_tokens, surprisal

    if not sentence.words:
        return []
    found = surprisal(model, sentence.words, unit=unit, restart=restart)
    if sentence.sizes:
        found = join_tokens(found, sentence.sizes, sentence.units)
    return list(found.rows())


def _number(value: float | None) -> str:
    """A number as R and pandas read it."""
    if value is None:
        return "NA"
    return "Inf" if isinf(value) else f"{round(value, 6) + 0.0:.6f}"  # never -0
