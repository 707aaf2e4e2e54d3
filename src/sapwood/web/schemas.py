"""Schemas of the JSON API: bodies of requests, answers, and messages for invalid requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from sapwood.constituency.learn.registry import METHODS

# Generous bounds, checked before the contents; the server's own limits are narrower.
Text = Annotated[str, Field(max_length=1_000_000)]
Name = Annotated[str, Field(max_length=200)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Member = Annotated[int, Field(ge=1, le=10_000)]
Place = Annotated[int, Field(ge=0, le=100_000)]
# A list in JSON is read as a tuple only where types need not be exact.
Span = Annotated[tuple[Place, Place, Name | None], Field(strict=False)]
Probability = Annotated[float, Field(ge=0, strict=False)]
Tag = Name | Annotated[dict[Name, Probability], Field(max_length=1_000)] | None
TagPair = Annotated[tuple[Name, Name], Field(strict=False)]
Decoder = Literal["f1", "goodman", "max-rule", "viterbi"]


def exactly_one(first: str, second: str) -> Any:
    """A validator of requests that must have exactly one of two fields."""

    def check(request: Any) -> Any:
        if (getattr(request, first) is None) == (getattr(request, second) is None):
            raise ValueError(f'give either "{first}" or "{second}"')
        return request

    return model_validator(mode="after")(check)


class RequestBody(BaseModel):
    """Base of all request bodies; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ModelRequest(RequestBody):
    """A request to a model."""

    model: Name | None = Field(None, description="Its name; the first one of the kind if absent.")


class SentenceRequest(ModelRequest):
    """A request about one sentence, given as text or as words."""

    sentence: Text | None = Field(None, description="As people write it; it is tokenised.")
    words: list[Text] | None = Field(None, description="Or its words.", max_length=100_000)

    _check_one = exactly_one("sentence", "words")


def sentence_request(text: str) -> SentenceRequest:
    """The request for a sentence in another field of a request."""
    return SentenceRequest(model=None, sentence=text, words=None)


class ConstrainedRequest(ModelRequest):
    """A request about trees, with constraints on them."""

    tags: list[Tag] | None = Field(
        None,
        description="For each word null (free), a tag, or an object of tags with probabilities.",
        max_length=100_000,
    )
    spans: list[Span] = Field(
        [],
        description="Phrases that the tree must have: first word, counted from 0, the position "
        "after the last, and a label, or null for any phrase.",
        max_length=10_000,
    )
    forbidden: list[Span] = Field(
        [], description="Phrases that the tree must not have, likewise.", max_length=10_000
    )


class ConstrainedSentenceRequest(SentenceRequest, ConstrainedRequest):
    """A sentence, with constraints on its tree."""


class ParseRequest(ConstrainedSentenceRequest):
    """Parse a sentence into phrases."""

    k: Count = Field(1, description="How many of the best trees to list.")
    decoder: Decoder = Field("f1", description="The decoder: the score that the tree maximises.")


class SplitRequest(RequestBody):
    """Find the sentences of a text."""

    text: Text = Field(description="As people write it.")


class TextRequest(ModelRequest):
    """Parse the sentences of a text into phrases."""

    text: Text = Field(description="As people write it: its sentences and words are found.")
    decoder: Decoder = Field("f1", description="The decoder: the score that each tree maximises.")


class TreeRequest(ConstrainedRequest):
    """Draw and score a given tree in brackets."""

    tree: Text
    decoder: Decoder = "f1"


class ScoreRequest(ModelRequest):
    """Log-probabilities of trees or of sentences."""

    trees: Text | None = Field(None, description="In brackets, any number of them.")
    sentences: list[Text] | None = Field(
        None, description="As people write them.", max_length=100_000
    )

    _check_one = exactly_one("trees", "sentences")


class SampleRequest(ModelRequest):
    """Draw trees, or sentences from a language model."""

    n: Count = 5
    seed: Seed = 0


class InspectRequest(ModelRequest):
    """The contents of a model."""

    label: Name | None = None
    member: Member | None = None
    top: Annotated[int, Field(ge=1, le=100)] = 10


class StatesRequest(ModelRequest):
    """The states of a label."""

    label: Name
    member: Member | None = None


class StateRequest(ModelRequest):
    """One state of a symbol."""

    symbol: Name
    nearest: bool = Field(False, description="Whether to look for similar states too.")
    state: Annotated[int, Field(ge=0, le=100_000)] | None = None
    member: Member | None = None


class WordRequest(ModelRequest):
    """Which states a word is in."""

    word: Name
    member: Member | None = None


class CompareRequest(RequestBody):
    """Two models on one sentence, or on the sentences of gold trees."""

    models: Annotated[list[Name], Field(min_length=2, max_length=2)]
    sentence: Text | None = None
    gold: Text | None = Field(None, description="Trees in brackets.")

    _check_one = exactly_one("sentence", "gold")


class DifferenceRequest(RequestBody):
    """The differences of two trees of a sentence."""

    trees: Annotated[list[Text], Field(min_length=2, max_length=2)]


class IdentifyRequest(RequestBody):
    """Whether a family can be learnt from moments."""

    family: Name
    # Larger sizes take longer than users wait for a page.
    words: Annotated[int, Field(ge=1, le=6)]
    length: Annotated[int, Field(ge=1, le=6)]
    states: Annotated[int, Field(ge=1, le=5)] | None = None
    moments: Name = "pairs"


class TableRequest(RequestBody):
    """All families and moments at one size."""

    words: Annotated[int, Field(ge=2, le=6)]
    states: Annotated[int, Field(ge=2, le=5)]
    length: Annotated[int, Field(ge=2, le=6)]


class DependRequest(SentenceRequest):
    """Parse a sentence into dependencies, with constraints on its tree."""

    k: Count = 1
    tags: list[Tag | TagPair] | None = Field(
        None,
        description="For each word null (free), a tag, a pair of universal tag and tag of the "
        "treebank, or an object of tags with probabilities.",
        max_length=100_000,
    )
    heads: list[Place | None] | None = Field(
        None,
        description="For each word null (free) or the place of its head, from 1 on; 0 is the root.",
        max_length=100_000,
    )
    relations: list[Name | None] | None = Field(
        None, description="For each word null (free) or its relation.", max_length=100_000
    )


class ArcsRequest(RequestBody):
    """Draw a dependency tree."""

    conllu: Text


class NextRequest(ModelRequest):
    """The likeliest next words."""

    context: Text = ""
    top: Annotated[int, Field(ge=1, le=1000)] = 10


class ClassesRequest(ModelRequest):
    """The states of a language model as classes of words."""

    top: Annotated[int, Field(ge=1, le=100)] = 8
    word: Name | None = None


class SurprisalRequest(SentenceRequest):
    """The surprisal of each word of a sentence."""

    unit: Literal["bits", "nats"] = "bits"
    restart: Annotated[float, Field(ge=0, le=0.5, strict=False)] = Field(
        0.0,
        description="For grammars: the probability, at each word, that a new fragment begins; a "
        "small one such as 1e-4 makes no word impossible.",
    )


class SurpriseRequest(SentenceRequest):
    """A sentence word by word."""


def check_method(name: str) -> str:
    """The name of a method, refused where there is none of that name."""
    if name not in METHODS:
        expected = {"expected": ", ".join(map(repr, METHODS))}
        raise PydanticCustomError("literal_error", "Input should be {expected}", expected)
    return name


def list_methods(schema: dict[str, Any]) -> None:
    """Add the names of all methods to the schema of a field."""
    schema["enum"] = list(METHODS)


class TrainRequest(RequestBody):
    """Train a model on a treebank."""

    treebank: Name = Field("bundled", description="`bundled`, or one that was uploaded.")
    dev: Name = Field(
        "bundled", description="`bundled`, `hold-out`, `none`, or a treebank that was uploaded."
    )
    method: Annotated[str, AfterValidator(check_method), Field(json_schema_extra=list_methods)] = (
        "spectral"
    )
    states: Annotated[int, Field(ge=1, le=64)] = 8
    budget: Annotated[float, Field(gt=0, le=86_400, strict=False)] = 60.0
    iterations: Annotated[int, Field(ge=1, le=1000)] | None = None
    seed: Seed = 0


# -- answers --------------------------------------------------------------------------------------


class ConstituentAnswer(BaseModel):
    """A phrase or tag of a tree."""

    label: str
    start: int
    end: int
    probability: float | None


class WordAnswer(BaseModel):
    """A word of a tree, with its offsets in the text."""

    word: str
    char_start: int
    char_end: int


class RankedTree(BaseModel):
    """A tree of a list."""

    rank: int
    score: float | None
    log_prob: float | None
    tree: str


class ParseAnswer(BaseModel):
    """The tree of a sentence with its constituents."""

    tree: str
    log_prob: float | None = Field(description="null for a fallback, which has none")
    is_fallback: bool
    constituents: list[ConstituentAnswer]
    k_best: list[RankedTree]
    constraint_probability: float = Field(
        description="that a tree of the sentence satisfies tags, spans and forbidden"
    )


class TextConstituent(ConstituentAnswer):
    """A phrase or tag of a tree, with its offsets in the text."""

    char_start: int = Field(description="in characters of the text, from 0")
    char_end: int


class TextSentenceAnswer(ParseAnswer):
    """The tree of a sentence of a text, with the offsets of the sentence."""

    constituents: list[TextConstituent]  # type: ignore[assignment]
    text: str = Field(description="the sentence as it was written")
    char_start: int
    char_end: int
    words: list[WordAnswer]


class TextAnswer(BaseModel):
    """The trees of the sentences of a text."""

    sentences: list[TextSentenceAnswer]


class WordSurprisal(BaseModel):
    """A word of a sentence, or its end, with the expectations of the model."""

    number: int
    word: str
    surprisal: float | None = Field(description="null where infinite, and after such a word")
    syntactic: float | None
    lexical: float | None
    tag_entropy: float | None
    word_entropy: float | None


class SurprisalAnswer(BaseModel):
    """The surprisal of each word of a sentence."""

    unit: str
    total: float | None
    impossible: int | None = Field(
        description="number of the first word that the model cannot have here, null without one"
    )
    words: list[WordSurprisal]


class ErrorAnswer(BaseModel):
    """What was wrong, and what to do about it."""

    error: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


# -- messages for invalid requests ----------------------------------------------------------------

VALUE_CHARACTERS = 60  # characters of a wrong value that are repeated
# The validator's names of the types of a union, which stand between the parts of a field's name.
_UNION_MEMBER = re.compile(r"(constrained-)?(str|int|(dict|tuple)(\[.*)?)")
_KINDS = {
    "string": "a text", "int": "a whole number", "float": "a number", "list": "a list",
    "bool": "true or false", "model": "an object", "model_attributes": "an object",
    "dict": "an object",
}  # fmt: skip


def _bound(words: str, key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda context: f"{words} {context[key]:,}"


# The part of a message after "{field} is {value}, expected", by the validator's type of error.
_EXPECTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than_equal": _bound("a number of at least", "ge"),
    "greater_than": _bound("a number above", "gt"),
    "less_than_equal": _bound("a number of at most", "le"),
    "less_than": _bound("a number below", "lt"),
    "too_short": _bound("a list of at least", "min_length"),
    "too_long": _bound("a list of at most", "max_length"),
    "string_too_long": _bound("a text whose length in characters is at most", "max_length"),
    "literal_error": lambda context: f"one of {context['expected'].replace(' or ', ', ')}",
    "int_from_float": lambda _: "a whole number",
    "finite_number": lambda _: "a finite number",
    "string_unicode": lambda _: "a text that can be written as UTF-8",
}


def explain_invalid(errors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Message and hint for the first error that a validator found in a request.

    Parameters
    ----------
    errors
        The result of `RequestValidationError.errors`.

    Returns
    -------
    dict
        `error` and `hint`.

    Examples
    --------
    >>> found = {"type": "less_than_equal", "loc": ("body", "words"), "input": 9, "ctx": {"le": 6}}
    >>> explain_invalid([found])["error"]
    '"words" is 9, expected a number of at most 6'
    """
    # Of the errors of a union's types, the one that validated furthest is the most informative.
    item = errors[0]["loc"][:3]
    first = max((e for e in errors if e["loc"][:3] == item), key=lambda e: len(e["loc"]))
    kind, context = str(first["type"]), first.get("ctx") or {}
    parts = (str(part) for part in first["loc"] if part != "body")
    field = ".".join(part for part in parts if not _UNION_MEMBER.fullmatch(part))[:80]
    name = f'"{field}"' if field else "the request"
    hint = "/docs on this server lists the fields of every request"
    if kind == "missing":
        return {"error": f"{name} is missing{_of_span(first['loc'])}", "hint": hint}
    if kind == "extra_forbidden":
        return {"error": f"{name} is not a field of this request", "hint": hint}
    if kind == "json_invalid":
        return {"error": "the body of the request is not JSON", "hint": hint}
    if kind == "value_error":  # raised by our own checks, in our own words
        return {"error": str(first["msg"]).removeprefix("Value error, ")[:300], "hint": hint}
    return {
        "error": f"{name} is {_shown(first.get('input'))}, expected {_expected(kind, context)}",
        "hint": hint,
    }


_SPAN_FIELDS = (
    "the first field of a phrase is its first word, counted from 0",
    "the second field of a phrase is the position after its last word",
    "the third field of a phrase is its label, or null for any phrase",
)


def _of_span(position: Sequence[Any]) -> str:
    """The expected value at a position of a request inside a required phrase."""
    if len(position) < 3 or position[-3] not in {"spans", "forbidden"}:
        return ""
    return f": {_SPAN_FIELDS[position[-1]]}"


def _expected(kind: str, context: Mapping[str, Any]) -> str:
    if kind in _EXPECTED:
        return _EXPECTED[kind](context)
    for suffix in ("_type", "_parsing", "_parsing_size"):
        if kind.removesuffix(suffix) in _KINDS:
            return _KINDS[kind.removesuffix(suffix)]
    return "something else"


def _shown(value: Any) -> str:
    """A wrong value, shortened for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return "an object"
    text = repr(value)
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"
