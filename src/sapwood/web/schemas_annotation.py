"""Schemas of the requests and answers about a project of annotation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from sapwood.web.schemas import Name, Place, RequestBody, Text

Id = Annotated[str, Field(max_length=100)]
Window = Annotated[str, Field(max_length=100)]
Kind = Literal["trees", "dependencies"]
Direction = Literal["auto", "ltr", "rtl"]
Order = Name
Format = Annotated[str, Field(max_length=40)]


class StartRequest(RequestBody):
    """The start model of a project."""

    model: Name = Field("nothing", description="A model of this server, or `nothing`.")
    treebank: Text | None = Field(
        None, description="Or a treebank, in brackets or CoNLL-U, that it is learnt from."
    )
    label_map: dict[Name, Name | None] = Field(
        {}, description="Labels of the start model, and their names in the project; null removes.",
        max_length=1_000,
    )  # fmt: skip


class CreateProjectRequest(RequestBody):
    """Make a project in the folder of this server."""

    title: Name
    kind: Kind = "trees"
    direction: Direction = "auto"
    start: StartRequest = Field(
        default_factory=lambda: StartRequest(model="nothing", treebank=None, label_map={})
    )
    text: Text | None = Field(None, description="Running text, to be split and tokenised.")
    sentences: list[Text] | None = Field(
        None, description="Tokenised sentences, words separated by blanks.", max_length=100_000
    )
    treebank: Text | None = Field(None, description="Trees to be checked and edited.")
    format: Format = Field("brackets", description="Of `treebank`.")
    as_accepted: bool = Field(False, description="Whether the trees of `treebank` are accepted.")
    document: Name = "text"


class ImportRequest(RequestBody):
    """Add sentences to the project."""

    format: Format = Field(description="`text`, `raw`, `brackets`, `conllu` or `findings`.")
    content: Annotated[str, Field(max_length=50_000_000)]
    document: Name = "text"
    as_accepted: bool = False


class EditRequest(RequestBody):
    """Change a sentence by an action."""

    id: Id
    revision: Annotated[int, Field(ge=0)] = Field(description="The one that the window has seen.")
    window: Window = ""
    action: dict[str, Any] = Field(
        description="`type` and its fields: add {start, end, label, above}, remove {start, end, "
        "label}, relabel {start, end, label, to}, retag {word, tag}, move {start, end, label, "
        "to_start, to_end, to_label}, head {word, head}, relation {word, relation}, split {word, "
        "at}, join {word}, free {start, end} or {word}, choose {alternative, tree}, replace "
        "{tree}, accept {tree}, reopen, skip, clear.",
        max_length=20,
    )  # fmt: skip


class HistoryRequest(RequestBody):
    """Undo or do again."""

    window: Window = ""


class CompleteRequest(RequestBody):
    """Names for a place of a tree."""

    id: Id
    start: Place | None = None
    end: Place | None = None
    word: Place | None = Field(None, description="For a tag, or the relation of a word.")
    head: Place | None = Field(None, description="The head of the word, from 1 on; 0 is the root.")


class ProjectSettingsRequest(RequestBody):
    """Change the settings of the project."""

    title: Name | None = None
    order: Order | None = None
    direction: Direction | None = None
    learn_every: Annotated[int, Field(ge=1, le=1_000)] | None = None


class LearnRequest(RequestBody):
    """Learn the model again now, or begin or end the training of a network."""

    network: bool = Field(
        False,
        description="Whether a network is trained, in minutes; ends one that is being trained.",
    )


# -- answers --------------------------------------------------------------------------------------


class NodeAnswer(BaseModel):
    """A phrase or tag of the tree that is shown."""

    start: int
    end: int
    label: str
    parent: int = Field(description="place of its parent in the list, -1 at the top")
    level: int = Field(description="number of phrases above it")
    probability: float | None
    is_given: bool = Field(description="set by hand")
    is_tag: bool


class ArcAnswer(BaseModel):
    """A word of a dependency tree that is shown."""

    word: int = Field(description="counted from 0")
    head: int = Field(description="counted from 1; 0 is the root")
    relation: str
    tag: str
    probability: float | None
    is_given: bool = Field(description="head or relation set by hand")
    is_tag_given: bool


class AlternativeAnswer(BaseModel):
    """One of the best trees; the current one is the first."""

    number: int
    tree: str
    probability: float | None = Field(description="among the trees that were listed")
    changes: int


class SentenceView(BaseModel):
    """All that a window shows of a sentence."""

    id: str
    number: int
    revision: int
    window: str | None = Field(description="the window that has changed it last")
    status: str
    words: list[str]
    direction: str
    tree: str
    nodes: list[NodeAnswer] | None = Field(description="of a phrase tree, parents first")
    arcs: list[ArcAnswer] | None = Field(description="of a dependency tree")
    given: dict[str, Any]
    alternatives: list[AlternativeAnswer]
    is_fallback: bool
    seconds: float
    warnings: list[dict[str, Any]]
    note: dict[str, Any] | None
    project: dict[str, Any]


class ConflictAnswer(BaseModel):
    """Another window has changed the sentence: it stays as it is."""

    error: str
    hint: str
    sentence: SentenceView
