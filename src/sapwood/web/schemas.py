"""What can be asked: the bodies of requests, and the fixed answer of `/api/parse`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Generous bounds for what is refused before it is looked at; the server's own limits are narrower.
Text = Annotated[str, Field(max_length=1_000_000)]
Name = Annotated[str, Field(max_length=200)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Decoder = Literal["f1", "goodman", "max-rule", "viterbi"]


class Question(BaseModel):
    """Of any kind: what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class OfModel(Question):
    """About a model."""

    model: Name | None = Field(None, description="Its name; the first one of the kind if absent.")


class OfSentence(OfModel):
    """About one sentence: text, or words."""

    sentence: Text | None = Field(None, description="As people write it; it is tokenised.")
    words: list[Text] | None = Field(None, description="Or its words.", max_length=100_000)

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.sentence is None) == (self.words is None):
            msg = 'give either "sentence" or "words"'
            raise ValueError(msg)
        return self


def of_text(text: str) -> OfSentence:
    """A question about a sentence that came another way."""
    return OfSentence(model=None, sentence=text, words=None)


class ParseQuestion(OfSentence):
    """Parse a sentence."""

    k: Count = Field(1, description="How many of the best trees to list.")
    decoder: Decoder = Field("f1", description="What the tree is best at.")


class TreeQuestion(OfModel):
    """About a given tree, in brackets."""

    tree: Text
    decoder: Decoder = "f1"


class ScoreQuestion(OfModel):
    """Log-probabilities of trees or of sentences."""

    trees: Text | None = Field(None, description="In brackets, any number of them.")
    sentences: list[Text] | None = Field(
        None, description="As people write them.", max_length=100_000
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.trees is None) == (self.sentences is None):
            msg = 'give either "trees" or "sentences"'
            raise ValueError(msg)
        return self


class SampleQuestion(OfModel):
    """Draw trees, or sentences from a language model."""

    n: Count = 5
    seed: Seed = 0


class InspectQuestion(OfModel):
    """What is in a model."""

    label: Name | None = None
    member: Annotated[int, Field(ge=1, le=10_000)] | None = None
    top: Annotated[int, Field(ge=1, le=100)] = 10


class StatesQuestion(OfModel):
    """The states of a label."""

    label: Name
    member: Annotated[int, Field(ge=1, le=10_000)] | None = None


class StateQuestion(OfModel):
    """One state of a symbol."""

    symbol: Name
    nearest: bool = Field(False, description="Whether to look for similar states too.")
    state: Annotated[int, Field(ge=0, le=100_000)] | None = None
    member: Annotated[int, Field(ge=1, le=10_000)] | None = None


class WordQuestion(OfModel):
    """Which states a word is in."""

    word: Name
    member: Annotated[int, Field(ge=1, le=10_000)] | None = None


class CompareQuestion(Question):
    """Two models on one sentence, or on the sentences of gold trees."""

    models: Annotated[list[Name], Field(min_length=2, max_length=2)]
    sentence: Text | None = None
    gold: Text | None = Field(None, description="Trees in brackets.")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.sentence is None) == (self.gold is None):
            msg = 'give either "sentence" or "gold"'
            raise ValueError(msg)
        return self


class DifferenceQuestion(Question):
    """What differs between two trees of a sentence."""

    trees: Annotated[list[Text], Field(min_length=2, max_length=2)]


class IdentifyQuestion(Question):
    """Whether a family can be learnt from moments."""

    family: Name
    # larger ones take longer than anybody waits for a page
    words: Annotated[int, Field(ge=1, le=6)]
    length: Annotated[int, Field(ge=1, le=6)]
    states: Annotated[int, Field(ge=1, le=5)] | None = None
    moments: Name = "pairs"


class TableQuestion(Question):
    """All families and moments at one size."""

    words: Annotated[int, Field(ge=2, le=6)]
    states: Annotated[int, Field(ge=2, le=5)]
    length: Annotated[int, Field(ge=2, le=6)]


class DependQuestion(OfSentence):
    """Parse a sentence into dependencies."""

    k: Count = 1


class ArcsQuestion(Question):
    """Draw a dependency tree."""

    conllu: Text


class NextQuestion(OfModel):
    """The likeliest next words."""

    context: Text = ""
    top: Annotated[int, Field(ge=1, le=1000)] = 10


class ClassesQuestion(OfModel):
    """The states of a language model as classes of words."""

    top: Annotated[int, Field(ge=1, le=100)] = 8
    word: Name | None = None


class SurpriseQuestion(OfSentence):
    """A sentence word by word."""


class TrainQuestion(Question):
    """Train a model."""

    treebank: Name = Field("bundled", description="`bundled`, or one that was uploaded.")
    dev: Name = Field(
        "bundled", description="`bundled`, `hold-out`, `none`, or a treebank that was uploaded."
    )
    method: Literal["best", "pcfg", "spectral", "em", "cluster", "pivot", "pivot-em", "crf"] = (
        "spectral"
    )
    states: Annotated[int, Field(ge=1, le=64)] = 8
    budget: Annotated[float, Field(gt=0, le=86_400, strict=False)] = 60.0
    iterations: Annotated[int, Field(ge=1, le=1000)] | None = None
    seed: Seed = 0


# -- answers --------------------------------------------------------------------------------------


class Constituent(BaseModel):
    """A phrase or tag of a tree."""

    label: str
    start: int
    end: int
    probability: float | None


class RankedTree(BaseModel):
    """A tree of a list."""

    rank: int
    score: float | None
    log_prob: float | None
    tree: str


class ParseAnswer(BaseModel):
    """A parsed sentence."""

    tree: str
    log_prob: float | None = Field(description="null for a fallback, which has none")
    is_fallback: bool
    constituents: list[Constituent]
    k_best: list[RankedTree]


class ErrorAnswer(BaseModel):
    """What was wrong, and what to do about it."""

    error: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None
