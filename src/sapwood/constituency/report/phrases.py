"""Phrases of running text as rows of a table: a row for each constituent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sapwood.constituency.parse.parser import Parse, Parser
from sapwood.constituency.report.parses import constituents
from sapwood.core.errors import SapwoodError, nearest_names
from sapwood.corpora.running_text import TextSentence, sentences_of

if TYPE_CHECKING:
    import pyarrow

    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.execute import Engine

# start and end count the words of the sentence, char_start and char_end the characters of the text
TABLE_COLUMNS = (
    "text_id", "sentence", "label", "start", "end", "char_start", "char_end", "probability", "text",
)  # fmt: skip
PHRASE_COLUMNS = TABLE_COLUMNS[2:]
Texts = str | Iterable[str] | Mapping[Any, str]


def check_labels(parser: Parser, labels: Collection[str]) -> None:
    """Refuse labels that the model does not have."""
    known = parser.known_labels
    for label in labels:
        if label not in known.phrases and label not in known.tags:
            names = nearest_names(label, known.phrases | known.tags)
            raise SapwoodError(f"the model has no label {label!r}", hint=f"it has {names}")


def phrase_rows(
    parse: Parse, labels: Collection[str] | None = None, least: float = 0.0
) -> Iterator[dict[str, Any]]:
    """The constituents of a sentence of running text, parents before children.

    Parameters
    ----------
    labels
        The phrases and tags to list; None for all phrases, without tags.
    least
        The lowest posterior to list. Phrases of a joined or flat tree have none: they are
        left out where this is above 0.

    Examples
    --------
    >>> import sapwood as sw
    >>> parse = sw.Parser(sw.bundled_grammar()).parse_text("The king's dog sleeps.")
    >>> [row["text"] for row in phrase_rows(parse, ["NP"])]
    ["The king's dog", "The king's"]
    """
    source = parse.source
    if source is None:
        msg = "the sentence was given as words, and has no text"
        raise SapwoodError(msg, hint="parse it with parse_text or parse_document")
    tags = [node.is_preterminal for node in parse.tree.nodes()][1:]
    for is_tag, (label, start, end, p) in zip(tags, constituents(parse), strict=True):
        is_wanted = not is_tag if labels is None else label in labels
        if not is_wanted or (least > 0.0 and (p is None or p < least)):
            continue
        row = (label, start, end, *source.place(start, end), p, source.words_text(start, end))
        yield dict(zip(PHRASE_COLUMNS, row, strict=True))


def parse_columns(
    model: Model | Parser,
    texts: Texts,
    *,
    labels: Collection[str] | None = None,
    least: float = 0.0,
    jobs: Engine | int | None = 1,
) -> dict[str, list[Any]]:
    """The constituents of texts as columns of equal length, which pandas and Polars read.

    Parameters
    ----------
    model
        A model of phrase trees, or a parser.
    texts
        One text, several, or texts by name; without names they are numbered from 0.
    labels, least
        As in `phrase_rows`.
    jobs
        As in `Parser.parse_many`.

    Examples
    --------
    >>> import sapwood as sw
    >>> found = sw.parse_columns(sw.bundled_grammar(), ["The dog sleeps."], labels=["NP", "VP"])
    >>> found["label"], found["text"], found["char_start"]
    (['NP', 'VP'], ['The dog', 'sleeps'], [0, 8])
    """
    parser = model if isinstance(model, Parser) else Parser(model)
    check_labels(parser, labels or ())
    named = _named(texts)
    places: list[tuple[Any, int, TextSentence]] = [
        (name, number, sentence)
        for name, text in named
        for number, sentence in enumerate(sentences_of(text, parser.tokenizer), 1)
    ]
    columns: dict[str, list[Any]] = {name: [] for name in TABLE_COLUMNS}
    parses = parser.parse_many((sentence.words for *_, sentence in places), jobs=jobs)
    for (name, number, sentence), parse in zip(places, parses, strict=True):
        for row in phrase_rows(parse.located(sentence), labels, least):
            for column, value in (row | {"text_id": name, "sentence": number}).items():
                columns[column].append(value)
    return columns


def parse_table(
    model: Model | Parser,
    texts: Texts,
    *,
    labels: Collection[str] | None = None,
    least: float = 0.0,
    jobs: Engine | int | None = 1,
) -> pyarrow.Table:
    """The constituents of texts as an Arrow table, which Polars, DuckDB, pandas and R read.

    A row is a constituent: `text_id`, `sentence` (from 1), `label`, `start` and `end` in words of
    the sentence, `char_start` and `char_end` in characters of the text, `probability`, `text`.
    Parameters are those of `parse_columns`, which needs no pyarrow.

    Examples
    --------
    >>> import sapwood as sw
    >>> table = sw.parse_table(sw.bundled_grammar(), {"a": "The dog sleeps. They sleep."})
    >>> table.num_rows, table.column("text")[0].as_py()
    (6, 'The dog sleeps.')
    """
    try:
        import pyarrow
    except ImportError as error:
        msg = "a table needs pyarrow, which is not installed"
        hint = "pip install 'sapwood[arrow]', or take sapwood.parse_columns"
        raise SapwoodError(msg, hint=hint) from error
    columns = parse_columns(model, texts, labels=labels, least=least, jobs=jobs)
    types = dict.fromkeys(TABLE_COLUMNS[1:], pyarrow.int64())
    types |= {"label": pyarrow.string(), "text": pyarrow.string()}
    types["probability"] = pyarrow.float64()
    return pyarrow.table(
        {name: pyarrow.array(values, types.get(name)) for name, values in columns.items()}
    )


def _named(texts: Texts) -> list[tuple[Any, str]]:
    if isinstance(texts, str):
        return [(0, texts)]
    named = list(texts.items() if isinstance(texts, Mapping) else enumerate(texts))
    for name, text in named:
        if not isinstance(text, str):
            msg = f"text {name!r} is {type(text).__name__}, expected a string"
            raise SapwoodError(msg, hint="give strings, or a dictionary of them by name")
    return named
