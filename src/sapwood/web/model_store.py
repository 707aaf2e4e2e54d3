"""The models and treebanks that the page can use."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from shutil import rmtree
from threading import RLock
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.web.limits import Refusal
from sapwood.web.model_facts import arc_tokenizer, describe, text_tokenizer, traits_of

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.parser import Parser
    from sapwood.constituency.report.states import StateAtlas
    from sapwood.corpora.tree import Tree
    from sapwood.dependency.parse.parser import ArcParser
    from sapwood.dependency.parse.reranking import RerankingParser
    from sapwood.lm.model.language_model import LanguageModel

TREES, ARCS, TEXT, OTHER = "trees", "arcs", "text", "other"
N_KEPT = 8  # treebanks and trained models that are kept, each
N_ERRORS = 20  # of a treebank that are shown
EXCERPT = 160  # characters of a broken line that are shown
LEAST_TREES = 2
HELD_OUT = 10  # one tree of so many is held out


def kind_of(model: object) -> str:
    """What a model is good for."""
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.dependency.model.arc_model import ArcModel
    from sapwood.dependency.model.reranker import ArcRerankModel
    from sapwood.lm.model.language_model import LanguageModel

    if isinstance(model, Model):
        return TREES
    if isinstance(model, ArcModel | ArcRerankModel):
        return ARCS
    return TEXT if isinstance(model, LanguageModel) else OTHER


class Served:
    """A model by name, and what was prepared of it.

    Parameters
    ----------
    make
        Loads or learns it when it is first used.
    kind
        None where only the model tells.
    about
        A line for people.
    trees
        The trees that its states are shown in, if any.
    file
        Where it can be downloaded from.
    traits
        As `traits_of` gives them, where they are known before the model is made.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        *,
        kind: str | None = None,
        about: str = "",
        trees: Callable[[], Sequence[Tree]] | None = None,
        file: Path | None = None,
        traits: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.about, self.file = name, about, file
        self._make, self._kind, self._trees = make, kind, trees
        self._traits = traits
        self._lock = RLock()
        self._parsers: dict[tuple[int | None, str], Parser] = {}
        self._atlases: dict[int | None, StateAtlas] = {}

    @cached_property
    def _model(self) -> Any:
        return self._make()

    @property
    def model(self) -> Any:
        """The model itself; one thread makes it, the others wait."""
        with self._lock:
            return self._model

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return "_model" in self.__dict__

    @property
    def kind(self) -> str:
        """What it is good for."""
        if self._kind is None:
            self._kind = kind_of(self.model)
        return self._kind

    @property
    def has_trees(self) -> bool:
        """Whether there are trees to show its states in."""
        return self._trees is not None

    @cached_property
    def trees(self) -> Sequence[Tree]:
        """The trees that its states are shown in."""
        with self._lock:
            return () if self._trees is None else self._trees()

    def as_dict(self) -> dict[str, Any]:
        """A row of the list of models."""
        return {
            "name": self.name,
            "kind": self.kind,
            "about": self.about,
            "has_trees": self.has_trees,
            "can_download": self.file is not None,
            "is_hand_written": self.is_hand_written,
        } | self.traits

    @property
    def is_hand_written(self) -> bool:
        """Whether a person wrote the model, so that nothing in it was learnt."""
        return bool(self.traits["method"] == "hand-written")

    @property
    def traits(self) -> dict[str, Any]:
        """Method, number of members, and whether trees can be drawn from the model."""
        if self._traits is None:
            self._traits = traits_of(self.model)
        return self._traits

    def tokenise(self, text: str) -> list[str]:
        """The words of a sentence as people write it, in the spelling that the model knows."""
        return self._tokenizer(text)

    @cached_property
    def _tokenizer(self) -> Callable[[str], list[str]]:
        if self.kind == TREES:
            return self.parser()._tokenizer
        return text_tokenizer(self.model) if self.kind == TEXT else arc_tokenizer()

    # -- for grammars -----------------------------------------------------------------------------

    def parser(self, decoder: str = "f1", member: int | None = None) -> Parser:
        """The parser of a grammar, or of one member of an ensemble alone, from 0 on."""
        from sapwood.constituency.parse.parser import Parser

        model: Model = self.model
        with self._lock:
            key = (member, decoder)
            if key not in self._parsers:
                chosen = model if member is None else model.members[member]
                self._parsers[key] = Parser(chosen, decoder=decoder)
            return self._parsers[key]

    def atlas(self, member: int | None = None) -> StateAtlas:
        """The states of a grammar, or of a member, from 1 on; None takes the one that tells most.

        Raises
        ------
        SapwoodError
            For a member that there is not.
        """
        from sapwood.constituency.report.inspect import member_of, telling_member
        from sapwood.constituency.report.states import StateAtlas

        with self._lock:
            if member is None:
                member = telling_member(self.model)
            if member not in self._atlases:
                found = member_of(self.model, member, self.name)
                assert found is not None  # an ensemble always has a telling member
                self._atlases[member] = StateAtlas(found)
            return self._atlases[member]

    # -- for others -------------------------------------------------------------------------------

    @cached_property
    def arc_parser(self) -> ArcParser | RerankingParser:
        """The parser of a dependency model."""
        from sapwood.dependency.parse.reranking import arc_parser

        with self._lock:
            return arc_parser(self.model)


# -- what comes with Sapwood ----------------------------------------------------------------------


def bundled_models() -> Iterator[Served]:
    """The hand-written grammar, and models of the bundled trees, learnt when first used."""
    yield Served(
        "bundled", _grammar, kind=TREES, trees=bundled_trees,
        traits={"method": "hand-written", "n_members": 0, "can_sample": True},
        about="The hand-written grammar that the bundled trees were drawn from",
    )  # fmt: skip
    yield Served(
        "bundled-cluster", _cluster, kind=TREES, trees=bundled_trees,
        about="Eight states a label, learnt as clusters of the nodes of the bundled trees",
    )  # fmt: skip
    yield Served(
        "bundled-spectral", _spectral, kind=TREES, trees=bundled_trees,
        traits={"method": "spectral", "n_members": 0, "can_sample": False},
        about="Learnt from the bundled trees by the spectral method, eight states a label",
    )  # fmt: skip
    yield Served(
        "bundled-mix", _mix, kind=TREES, trees=bundled_trees,
        traits={"method": "mix", "n_members": 3, "can_sample": True},
        about="A mix of three grammars learnt from the bundled trees: pcfg, spectral, cluster",
    )  # fmt: skip
    yield Served(
        "bundled-arcs", _arcs, kind=ARCS,
        traits={"method": "first", "n_members": 0, "can_sample": False},
        about="A dependency parser learnt from the heads of the bundled trees",
    )  # fmt: skip
    yield Served(
        "bundled-text", _text, kind=TEXT,
        traits={"method": "em", "n_members": 0, "can_sample": False},
        about="A language model learnt from the bundled sentences by EM, eight states",
    )  # fmt: skip


def bundled_trees() -> Sequence[Tree]:
    """The bundled training trees."""
    return _bundled_bank().trees


class _Bank:
    """The bundled training trees, read once."""

    @cached_property
    def bank(self) -> Any:
        from sapwood.constituency.data.treebank import bundled_treebank

        return bundled_treebank("train")

    @cached_property
    def trees(self) -> Sequence[Tree]:
        return list(self.bank)


_BANK = _Bank()
_READING = RLock()


def _bundled_bank() -> _Bank:
    with _READING:
        _BANK.bank  # noqa: B018 - read by one thread, the others wait
        return _BANK


def _grammar() -> Model:
    from sapwood.constituency.grammar.from_text import bundled_grammar

    return bundled_grammar()


def _spectral() -> LatentGrammar:
    from sapwood.constituency.learn.spectral import SpectralLPCFG

    return SpectralLPCFG(8).fit(_bundled_bank().bank).model_


def _cluster() -> LatentGrammar:
    from sapwood.constituency.learn.cluster import ClusterLPCFG

    return ClusterLPCFG(8).fit(_bundled_bank().bank).model_


def _mix() -> Model:
    from sapwood.constituency.grammar.ensemble import Ensemble
    from sapwood.constituency.learn.pcfg import PCFG

    plain = PCFG().fit(_bundled_bank().bank).model_
    return Ensemble.of([plain, _spectral(), _cluster()], [1, 2, 2])


def _arcs() -> Any:
    from sapwood.corpora.heads import head_rule
    from sapwood.dependency.data.from_trees import tree_arcs
    from sapwood.dependency.learn.crf import ArcCRF

    rule = head_rule("penn")
    arcs = [tree_arcs(tree, rule) for tree in _bundled_bank().trees[:1000]]
    return ArcCRF(passes=2, folds=2, order=1).fit(arcs).model_


def _text() -> LanguageModel:
    from sapwood.lm.data.ngrams import count_sentences
    from sapwood.lm.learn.latent import EMBigram

    counts = count_sentences([tree.words() for tree in _bundled_bank().trees], order=3)
    return EMBigram(8, iterations=30).fit(counts).model_


# -- files, uploads -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Upload:
    """A treebank that somebody sent, checked; kept in a file of ours."""

    name: str
    file: Path
    report: dict[str, Any]


@dataclass
class Shelf:
    """All models and treebanks, by name.

    Attributes
    ----------
    folder
        Ours alone, for uploads and trained models; gone when the server stops.
    """

    folder: Path
    models: dict[str, Served] = field(default_factory=dict)
    treebanks: dict[str, Upload] = field(default_factory=dict)
    n_named: int = 0
    _lock: RLock = field(default_factory=RLock)

    def add(self, served: Served) -> Served:
        """A model more; of those that were trained here the oldest goes where there are many."""
        with self._lock:
            self.models[served.name] = served
            made = [name for name, one in self.models.items() if one.file is not None]
            for name in made[:-N_KEPT]:
                old = self.models.pop(name)
                assert old.file is not None
                old.file.unlink(missing_ok=True)  # loaded models were read into memory
        return served

    def get(self, name: str | None, kind: str) -> Served:
        """The model of a name, or the first of a kind; refused where it is of another kind."""
        with self._lock:
            found = list(self.models.values())
        if name is None:
            wanted = next((served for served in found if served.kind == kind), None)
            if wanted is None:
                msg = f"this server has no model of {_NOUNS[kind]}"
                raise Refusal(404, msg, "start it with one: sapwood serve MODEL")
            return wanted
        wanted = self.models.get(name)
        if wanted is None:
            known = ", ".join(served.name for served in found)
            raise Refusal(404, f"there is no model {name[:80]!r} here", f"there are {known}")
        if wanted.kind != kind:
            msg = f"{name} is a model of {_NOUNS[wanted.kind]}, one of {_NOUNS[kind]} was expected"
            known = ", ".join(served.name for served in found if served.kind == kind)
            raise Refusal(422, msg, f"there are {known}" if known else None)
        return wanted

    def fresh_name(self, stem: str) -> str:
        """A name that nothing here has."""
        with self._lock:
            self.n_named += 1
            return f"{stem}-{self.n_named}"

    # -- treebanks --------------------------------------------------------------------------------

    def upload(
        self, title: str, data: bytes, ask: Callable[[str, dict[str, str]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Check a treebank that somebody sent, and keep its good trees.

        Parameters
        ----------
        ask
            Asks a process of its own, see `sapwood.web.apart`.
        """
        name = self.fresh_name("treebank")
        file = self.folder / f"{name}.mrg"
        apart = self.folder / f"{name}-upload"  # the process may be killed while it writes here
        apart.mkdir()
        try:
            sent, good = apart / "sent", apart / "good.mrg"
            sent.write_bytes(data)
            report = ask("upload", {"data": str(sent), "trees": str(good)})
            if report["trees"] < LEAST_TREES:
                return report | {"treebank": None}
            good.replace(file)
        finally:
            rmtree(apart, ignore_errors=True)
        shown = title[:80] or name
        with self._lock:
            self.treebanks[name] = Upload(name, file, report | {"title": shown})
            for old in list(self.treebanks)[:-N_KEPT]:
                self.treebanks.pop(old).file.unlink(missing_ok=True)
        return report | {"treebank": name, "title": shown}

    def find_treebank(self, name: str) -> Upload:
        """A treebank that was sent."""
        with self._lock:
            if name not in self.treebanks:
                msg = f"there is no treebank {name[:80]!r} here"
                raise Refusal(404, msg, "upload it again, or take `bundled`")
            return self.treebanks[name]


_NOUNS = {TREES: "trees", ARCS: "dependencies", TEXT: "text", OTHER: "another kind"}


def check_treebank(data: bytes) -> tuple[dict[str, Any], list[Tree]]:
    r"""Read a treebank as far as it goes.

    Returns
    -------
    tuple
        What was found (`trees`, `words`, `labels`, the first of the `errors`, each with `line`,
        `column` and an `excerpt` of the line with the place in it, and how many there are in all as
        `n_errors`), and the good trees, clean.

    Examples
    --------
    >>> report, trees = check_treebank(b"(S (NP (NN dogs)) (VP (VB bark)))\n(S (NP oops\n")
    >>> report["trees"], report["errors"][0]["line"]
    (1, 2)
    """
    from sapwood.corpora.formats import read_lines
    from sapwood.corpora.tree import clean

    if data[:2] == b"\x1f\x8b":
        msg = "a compressed file, expected text"
        raise SapwoodError(msg, hint="unpack it first; only the server's own files are unpacked")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = f"not UTF-8: byte {data[error.start]:#x}"
        raise CorpusError(msg, line=line, hint="save the file as UTF-8 text") from None
    skipped: list[CorpusError] = []
    trees: list[Tree] = []
    for tree in read_lines(io.StringIO(text), "treebank", skipped=skipped):
        kept = clean(tree)
        if kept is not None:
            trees.append(kept)
    lines = text.split("\n")
    labels = {node.label for tree in trees for node in tree.nodes() if not node.is_preterminal}
    report = {
        "trees": len(trees),
        "words": sum(len(tree.words()) for tree in trees),
        "labels": len(labels),
        "n_errors": len(skipped),
        "errors": [_place(error, lines) for error in skipped[:N_ERRORS]],
    }
    if not trees and not skipped:
        msg = "no tree found"
        raise CorpusError(msg, hint="trees are written in brackets: (S (NP (NN dogs)) (VP ...))")
    return report, trees


def _place(error: CorpusError, lines: list[str]) -> dict[str, Any]:
    """An error with the part of the line where it is, and the place in that part."""
    line = lines[error.line - 1].rstrip("\r") if error.line and error.line <= len(lines) else ""
    at = max((error.column or 1) - 1, 0)
    first = max(0, at - EXCERPT // 2)
    return {
        "error": error.message, "hint": error.hint, "line": error.line, "column": error.column,
        "excerpt": line[first : first + EXCERPT], "at": min(at - first, EXCERPT),
    }  # fmt: skip


def served_files(
    names: Sequence[str],
    load: Callable[[str], Any],
    trees: Callable[[], Sequence[Tree]] | None,
) -> Iterator[Served]:
    """Models of files, loaded now so that a wrong file shows at once."""
    taken: set[str] = set()
    for name in names:
        model, is_ours = load(name), name == "bundled"
        stem = Path(name).name.removesuffix(".sapwood") or name
        short = stem if stem not in taken else f"{stem}-{len(taken) + 1}"
        taken.add(short)
        served = Served(
            short, partial(_same, model), kind=kind_of(model), about=describe(model),
            trees=None if kind_of(model) != TREES else bundled_trees if is_ours else trees,
        )  # fmt: skip
        yield served


def _same(model: Any) -> Any:
    return model
