"""`sapwood lm score`, `next`, `sample` and `classes`: what a language model is good for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from sapwood.cli import options as opt
from sapwood.cli.inputs import STDIN, read_lines
from sapwood.cli.lm import options as lm_opt
from sapwood.cli.tables import show
from sapwood.core.errors import CorpusError, SapwoodError

SCORE_EPILOG = """\b
Examples:
  sapwood lm score model.lm sentences.txt
  echo "the dog barks" | sapwood lm score model.lm --by-word
  sapwood lm score model.lm candidates.txt --best
"""
NEXT_EPILOG = """\b
Example:
  sapwood lm next model.lm "the president of the"
"""
SAMPLE_EPILOG = """\b
Example:
  sapwood lm sample model.lm -n 5 --seed 7
"""
CLASSES_EPILOG = """\b
Examples:
  sapwood lm classes em.lm --top 8
  sapwood lm classes em.lm --word London
"""


def score(
    model: lm_opt.Model,
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
        help="The file has lists of sentences, apart by blank lines: print the likeliest of each.",
    ),
) -> None:
    """Print the log2-probability of each sentence, its end included, as it comes.

    The log2-probability and the sentence are apart by a tab. Unknown words count as the unknown
    word.
    """
    import numpy as np

    from sapwood.corpora.files import source_name
    from sapwood.corpora.sentences import refuse_other_kinds, split_words
    from sapwood.lm.data.plain_text import END

    if by_word and best:
        msg = "not together with --by-word"
        raise typer.BadParameter(msg, param_hint="--best")
    loaded = lm_opt.load_language_model(model)
    rival: tuple[float, str] | None = None
    lines = refuse_other_kinds(read_lines(file), file, source_name(file))
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
    model: lm_opt.Model,
    context: str = typer.Argument(
        "", metavar="WORDS", help="The words before, apart by blanks.", show_default="none"
    ),
    *,
    top: int = typer.Option(10, min=1, metavar="N", help="How many."),
    as_json: opt.Json = False,
) -> None:
    """Print the likeliest next words with their probabilities."""
    from sapwood.lm.report import next_report

    report = next_report(lm_opt.load_language_model(model), context.split(), top)
    show(report, lambda rows: (f"{x['p']:.4f}  {x['word']}" for x in rows), as_json=as_json)


def sample(
    model: lm_opt.Model,
    n: int = typer.Option(10, "--n", "-n", min=0, metavar="N", help="How many sentences."),
    seed: int = typer.Option(0, min=0, metavar="N", help="Another number draws others."),
    max_length: int = typer.Option(
        200, min=1, metavar="N", help="Words of the longest; of a stream, of every one."
    ),
) -> None:
    """Draw sentences from a model, one a line."""
    import numpy as np

    loaded = lm_opt.load_language_model(model)
    for words in loaded.sample(n, np.random.default_rng(seed), max_length=max_length):
        print(" ".join(words), flush=True)


def classes(
    model: lm_opt.Model,
    *,
    top: int = typer.Option(8, min=1, metavar="N", help="Words shown for each state."),
    word: str | None = typer.Option(
        None, "--word", metavar="WORD", help="Only the states after this word, likeliest first."
    ),
    as_json: opt.Json = False,
) -> None:
    """Show what each hidden state means: the words it follows, and the words that follow it.

    Not for Kneser-Ney models, which have no states; of a mixture, the latent bigram's are shown.
    """
    from sapwood.lm.report import class_report, latent_member

    loaded = latent_member(lm_opt.load_language_model(model))
    if loaded is None:
        msg = f"{model}: has no hidden states"
        raise SapwoodError(msg, hint="train with --method em, pivot, pivot-em, kn-latent or mix")
    show(class_report(loaded, top, word), _class_lines, as_json=as_json)


def _class_lines(states: list[dict[str, Any]]) -> Iterator[str]:
    for state in states:
        yield f"state {state['state']}  {state['share']:.1%}"
        yield f"    after  {'  '.join(state['after'])}"
        yield f"    then   {'  '.join(state['then'])}"
