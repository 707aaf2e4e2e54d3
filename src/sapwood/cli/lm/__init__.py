"""`sapwood lm`: count text, learn language models, and use them."""

from __future__ import annotations

import typer

from sapwood.cli.lm import convert, count, evaluate, train, use

app = typer.Typer(
    help="Language models with hidden states, and Kneser-Ney models, from text of any size.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_COMMANDS = (
    (count.count, count.EPILOG, "Count the n-grams of text of any size."),
    (train.train, train.EPILOG, "Learn a language model from counts or text."),
    (evaluate.evaluate, evaluate.EPILOG, "Print the perplexity of a text."),
    (use.score, use.SCORE_EPILOG, "Print the log-probability of each sentence, or word by word."),
    (use.next_words, use.NEXT_EPILOG, "Print the likeliest next words."),
    (use.sample, use.SAMPLE_EPILOG, "Draw sentences from a model."),
    (use.classes, use.CLASSES_EPILOG, "Show what the hidden states mean."),
    (convert.convert, convert.EPILOG, "Write a model as ARPA, or read one."),
)
for _run, _epilog, _summary in _COMMANDS:
    _name = _run.__name__.partition("_")[0]
    app.command(_name, epilog=_epilog, short_help=_summary)(_run)
