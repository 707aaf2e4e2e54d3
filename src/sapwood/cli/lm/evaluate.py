"""`sapwood lm evaluate`: perplexity of a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import typer

from sapwood.cli import options as opt
from sapwood.cli.inputs import claim_stdin
from sapwood.cli.lm import options as lm_opt
from sapwood.cli.tables import fact_lines, show
from sapwood.core.errors import SapwoodError
from sapwood.progress import step

EPILOG = """\b
Examples:
  sapwood lm evaluate model.lm test.txt
  sapwood lm evaluate model.lm - --json < test.txt
"""


def evaluate(
    model: lm_opt.Model,
    texts: lm_opt.Texts,
    *,
    stream: lm_opt.Stream = False,
    unknown: Literal["skip", "count"] = typer.Option(
        "skip",
        help="What to do with words that the model does not know: leave them out of the "
        "perplexity, or predict them as the unknown word.",
    ),
    as_json: opt.Json = False,
) -> None:
    """Print the perplexity of a text, word by word, and with ends of sentences.

    The unknown word stands in contexts in any case. Of models of a stream, the text is read as one.
    """
    claim_stdin(*texts)
    loaded = lm_opt.load_language_model(model)
    if stream and not loaded.is_stream:
        msg = f"{model}: learnt from sentences with ends, not from a stream"
        raise SapwoodError(msg, hint="leave --stream out, or train with --stream")
    from sapwood.lm.data.ngrams import CountSettings, count_text
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
    show(report, _text, as_json=as_json)


def _text(report: dict[str, Any]) -> Iterator[str]:
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
