"""`sapwood lm evaluate`, `score`, `next`, `sample`, `classes` and `convert`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from sapwood.cli import options as opt
from sapwood.cli.console import echo
from sapwood.cli.inputs import LM_TRAIN, STDIN, check_files, load_kind, stream_lines
from sapwood.cli.reports import fact_lines, show
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import open_output
from sapwood.core.progress import step
from sapwood.corpora.files import TEXT_SUFFIXES

if TYPE_CHECKING:
    from sapwood.lm.model.language_model import LanguageModel

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A file that `sapwood lm train` wrote."),
]
Texts = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT",
        help="Tokens separated by blanks, one sentence per line: files (also .gz, .xz, .bz2, "
        ".zst), quoted globs, folders, or - for stdin.",
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="The text is one stream of tokens: lines do not end sentences. Not for text with one "
        "sentence per line.",
    ),
]


def load_language_model(name: str) -> LanguageModel:
    """The language model that a user names."""
    from sapwood.lm.model.language_model import LanguageModel

    found = load_kind(name, LanguageModel, "a language model", room="lm", writer=LM_TRAIN)
    return cast("LanguageModel", found)


EVALUATE_LM_EPILOG = """\b
Examples:
  sapwood lm evaluate model.lm test.txt
  sapwood lm evaluate model.lm - --json < test.txt
"""


def evaluate_text(
    model: Model,
    texts: Texts,
    *,
    stream: Stream = False,
    unknown: Literal["skip", "count"] = typer.Option(
        "skip",
        help="What to do with words that the model does not know: leave them out of the "
        "perplexity, or predict them as the unknown word.",
    ),
    as_json: opt.Json = False,
) -> None:
    """Print the perplexity of a text, word by word, and with ends of sentences.

    Unknown words are always part of the contexts. For a model of a stream, the text is read as one
    stream.
    """
    check_files(*texts)
    loaded = load_language_model(model)
    if stream and not loaded.is_stream:
        msg = f"{model}: learnt from sentences with ends, not from a stream"
        raise SapwoodError(msg, hint="leave --stream out, or train with --stream")
    from sapwood.lm.data.counting import CountSettings, count_text
    from sapwood.lm.evaluate import perplexity

    with step("reading"):
        settings = CountSettings(loaded.order, loaded.is_stream)
        found = count_text(list(texts), settings, words=loaded.words)
    with step("scoring"):
        scored = perplexity(loaded, found.rows, found.counts, count_unknown=unknown == "count")
    report = {
        "perplexity": scored.perplexity, "tokens": scored.tokens, "unknown": scored.unknown,
        "log2_prob": scored.log2_prob, "sentences": scored.ends,
        "perplexity_with_ends": scored.perplexity_with_ends,
    }  # fmt: skip
    show(report, _perplexity_lines, as_json=as_json)


def _perplexity_lines(report: dict[str, Any]) -> Iterator[str]:
    rows = {
        "Perplexity": f"{report['perplexity']:.2f}",
        "Tokens": f"{report['tokens']:,}",
        "Unknown words": f"{report['unknown']:,}",
        "Log2-probability": f"{report['log2_prob']:,.1f}",
    }
    if report["sentences"]:
        rows |= {
            "Sentences": f"{report['sentences']:,}",
            "With their ends": f"{report['perplexity_with_ends']:.2f}",
        }
    return fact_lines({title: f"{value:>12}" for title, value in rows.items()}, 18)


SCORE_LM_EPILOG = """\b
Examples:
  sapwood lm score model.lm sentences.txt
  echo "the dog barks" | sapwood lm score model.lm --by-word
  sapwood lm score model.lm candidates.txt --best
"""
NEXT_EPILOG = """\b
Example:
  sapwood lm next model.lm "the president of the"
"""
SAMPLE_LM_EPILOG = """\b
Example:
  sapwood lm sample model.lm -n 5 --seed 7
"""
CLASSES_EPILOG = """\b
Examples:
  sapwood lm classes em.lm --top 8
  sapwood lm classes em.lm --word London
"""


def score_lines(
    model: Model,
    file: str = typer.Argument(
        STDIN,
        metavar="FILE",
        help="A tokenised sentence a line; - for stdin.",
        show_default="stdin",
    ),
    *,
    by_word: bool = typer.Option(
        False, "--by-word", help="A line for each word: log2-probability, a tab, the word."
    ),
    best: bool = typer.Option(
        False,
        "--best",
        help="The file has lists of sentences, separated by blank lines: print the most probable "
        "of each.",
    ),
) -> None:
    """Print the log2-probability of each sentence, its end included, line by line.

    A tab separates the log2-probability and the sentence. Words that the model does not know count
    as <unk>.
    """
    import numpy as np

    from sapwood.corpora.files import source_name
    from sapwood.corpora.sentences import refuse_other_kinds, split_words
    from sapwood.lm.data.ngrams import END

    if by_word and best:
        raise typer.BadParameter("not together with --by-word", param_hint="--best")
    loaded = load_language_model(model)
    rival: tuple[float, str] | None = None
    lines = refuse_other_kinds(stream_lines(file), file)
    for number, line in enumerate(lines, 1):
        words = split_words(line)
        if not words:
            if rival:
                print(rival[1], flush=True)
            rival = None
            if not best:
                print()
            continue
        try:
            rows = loaded.rows_of(words)
        except SapwoodError as error:
            name = source_name(file)
            raise CorpusError(str(error), file=name, line=number, hint=error.hint) from error
        bits = loaded.log_probs(rows) / np.log(2.0)
        text, total = " ".join(words), float(bits.sum())
        if best:
            rival = max(rival, (total, text), key=lambda x: x[0]) if rival else (total, text)
        elif by_word:
            names = [*words, "</s>"] if rows[-1, 0] == END else words
            print("\n".join(f"{x:.4f}\t{word}" for x, word in zip(bits, names, strict=True)))
        else:
            print(f"{total:.4f}\t{text}", flush=True)
    if rival:
        print(rival[1])


def next_words(
    model: Model,
    context: str = typer.Argument(
        "", metavar="WORDS", help="The preceding words, separated by blanks.", show_default="none"
    ),
    *,
    top: int = typer.Option(10, min=1, metavar="N", help="How many."),
    as_json: opt.Json = False,
) -> None:
    """Print the likeliest next words with their probabilities."""
    from sapwood.lm.report import next_report

    report = next_report(load_language_model(model), context.split(), top)
    show(report, lambda rows: (f"{x['p']:.4f}  {x['word']}" for x in rows), as_json=as_json)


def sample_text(
    model: Model,
    n: int = typer.Option(10, "--n", "-n", min=0, metavar="N", help="How many sentences."),
    seed: int = typer.Option(0, min=0, metavar="N", help="Seed of the random numbers."),
    max_length: int = typer.Option(
        200,
        min=1,
        metavar="N",
        help="Maximum number of words; for a model of a stream, the length of every sample.",
    ),
) -> None:
    """Draw sentences from a model, one per line."""
    import numpy as np

    loaded = load_language_model(model)
    for words in loaded.sample(n, np.random.default_rng(seed), max_length=max_length):
        print(" ".join(words), flush=True)


def show_classes(
    model: Model,
    *,
    top: int = typer.Option(8, min=1, metavar="N", help="Words shown for each state."),
    word: str | None = typer.Option(
        None, "--word", metavar="WORD", help="Only the states after this word, likeliest first."
    ),
    as_json: opt.Json = False,
) -> None:
    """Show what each hidden state means: the words it follows, and the words that follow it.

    Not for Kneser-Ney models, which have no states; for a mixture, the states of its latent bigram
    model are shown.
    """
    from sapwood.lm.report import class_report, latent_member

    loaded = latent_member(load_language_model(model))
    if loaded is None:
        msg = f"{model}: has no hidden states"
        raise SapwoodError(msg, hint="train with --method em, pivot, pivot-em, kn-latent or mix")
    show(class_report(loaded, top, word), _class_lines, as_json=as_json)


def _class_lines(states: list[dict[str, Any]]) -> Iterator[str]:
    for state in states:
        yield f"state {state['state']}  {state['share']:.1%}"
        yield f"    after  {'  '.join(state['after'])}"
        yield f"    then   {'  '.join(state['then'])}"


CONVERT_LM_EPILOG = """\b
Examples:
  sapwood lm convert kn.lm -o kn.arpa
  sapwood lm convert lm.arpa.gz -o lm.lm
"""
_START = 1 << 12


def convert_arpa(
    source: str = typer.Argument(
        ...,
        metavar="MODEL|ARPA",
        help="A Kneser-Ney model of Sapwood, or an ARPA file (also compressed).",
    ),
    *,
    out: Path = typer.Option(
        ...,
        "--out",
        "-o",
        metavar="FILE",
        help="An ARPA file (- for stdout) for a model, a model for an ARPA file.",
    ),
    force: opt.Force = False,
) -> None:
    """Write a Kneser-Ney model as an ARPA file, or an ARPA file as a model.

    KenLM and most other tools read ARPA files. Models with hidden states have no such form.
    """
    from sapwood.core.model_card import PURPOSES, describe_model
    from sapwood.corpora.files import open_text, source_name
    from sapwood.lm.model.ngram_model import NgramModel, arpa_lines, read_arpa

    if _is_arpa(source):
        check_files(source, out=out, suffixes=TEXT_SUFFIXES, force=force, is_model=True)
        with open_text(source) as file:
            model = read_arpa(file, source_name(source))
        model.save(out, force=force)
        echo(f"{out}: {describe_model(model)}")
        return
    check_files(source, out=out, suffixes=TEXT_SUFFIXES, force=force, may_stream=True)
    loaded = load_language_model(source)
    if not isinstance(loaded, NgramModel):
        what = PURPOSES[type(loaded).__name__].what
        msg = f"{source}: {what}, which is more than n-grams"
        raise SapwoodError(msg, hint="ARPA files are for --method kn and kn-mod")
    with open_output(out, force=force) as target:
        for line in arpa_lines(loaded):
            print(line, file=target)


def _is_arpa(source: str) -> bool:
    """Whether a file is text, rather than a model."""
    path = Path(source)
    if source == "-" or path.suffix.lower() in {".gz", ".xz", ".bz2"} or not path.is_file():
        return source == "-" or path.is_file()
    with path.open("rb") as file:
        start = file.read(_START)
    return b"\0" not in start
