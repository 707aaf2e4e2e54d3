"""The models and uploaded treebanks of a server: loaded or learnt at first use, found by name.

A server starts with models that are named, or with those that come with Sapwood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from shutil import rmtree
from threading import RLock
from typing import TYPE_CHECKING, Any

from sapwood.core.model_names import BUNDLED, ENGLISH, ENGLISH_UD, list_models
from sapwood.web.guard import Refusal
from sapwood.web.processes import LEAST_UPLOAD_TREES

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.parser import Parser
    from sapwood.constituency.report.states import StateAtlas
    from sapwood.corpora.tree import Tree
    from sapwood.dependency.parse.parser import ArcParser
    from sapwood.dependency.parse.reranking import RerankingParser
    from sapwood.lm.model.language_model import LanguageModel

TREES, ARCS, TEXT, OTHER = "trees", "arcs", "text", "other"
_NOUNS = {TREES: "trees", ARCS: "dependencies", TEXT: "text", OTHER: "another kind"}
N_KEPT = 8  # uploaded treebanks that are kept, and as many trained models
_BRACKETS = {"-LRB-": "(", "-RRB-": ")"}


def model_kind(model: object) -> str:
    """The kind of a model: trees, arcs (dependencies), text (a language model) or other."""
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.dependency.model.arc_model import ArcModel, ArcRerankModel
    from sapwood.lm.model.language_model import LanguageModel

    if isinstance(model, Model):
        return TREES
    if isinstance(model, ArcModel | ArcRerankModel):
        return ARCS
    return TEXT if isinstance(model, LanguageModel) else OTHER


class LoadedModel:
    """A named model with its parsers and state reports, all made at first use.

    Parameters
    ----------
    make
        Loads or learns the model; called once.
    kind
        The kind of the model; None to ask the model, which loads it.
    about
        One line about the model, which the page shows.
    trees
        Returns the trees from which examples of states are taken; None where there are none.
    file
        The model file that users can download; None where there is none.
    traits
        The result of `traits_of`, where it is known before the model is loaded.
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
        self._make, self._kind, self._trees, self._traits = make, kind, trees, traits
        self._lock = RLock()
        self._parsers: dict[tuple[int | None, str], Parser] = {}
        self._atlases: dict[int | None, StateAtlas] = {}

    @cached_property
    def _model(self) -> Any:
        return self._make()

    @property
    def model(self) -> Any:
        """The model itself, loaded at first use by one thread while the others wait."""
        with self._lock:
            return self._model

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return "_model" in self.__dict__

    @property
    def kind(self) -> str:
        """The kind of the model, see `model_kind`."""
        if self._kind is None:
            self._kind = model_kind(self.model)
        return self._kind

    @property
    def has_trees(self) -> bool:
        """Whether there are trees from which examples of states can be taken."""
        return self._trees is not None

    @cached_property
    def trees(self) -> Sequence[Tree]:
        """The trees from which examples of states are taken."""
        with self._lock:
            return () if self._trees is None else self._trees()

    def as_dict(self) -> dict[str, Any]:
        """The model's row in the answer of `/api/models`."""
        return {
            "name": self.name,
            "kind": self.kind,
            "about": self.about,
            "has_trees": self.has_trees,
            "can_download": self.file is not None,
            # the dependency model of the same language, whose arcs the page shows too
            "beside": ENGLISH_UD if self.name == ENGLISH else None,
            "is_hand_written": self.traits["method"] == "hand-written",
        } | self.traits

    @property
    def traits(self) -> dict[str, Any]:
        """Method, number of members, and whether trees can be drawn from the model."""
        if self._traits is None:
            self._traits = traits_of(self.model)
        return self._traits

    @cached_property
    def tokenise(self) -> Callable[[str], list[str]]:
        """The function that splits a sentence into words, spelt as the model knows them."""
        if self.kind == TREES:
            return self.parser().tokenizer
        if self.kind == TEXT:
            return text_tokenizer(self.model)
        from sapwood.corpora.conventions import UD, convention_of, make_tokenizer

        return make_tokenizer(convention_of(self.model, UD))

    # -- for grammars -----------------------------------------------------------------------------

    def parser(self, decoder: str = "f1", member: int | None = None) -> Parser:
        """The parser of a grammar, or of one member of an ensemble (counted from 0)."""
        from sapwood.constituency.parse.parser import Parser

        model: Model = self.model
        with self._lock:
            key = (member, decoder)
            if key not in self._parsers:
                chosen = model if member is None else model.members[member]
                self._parsers[key] = Parser(chosen, decoder=decoder)
            return self._parsers[key]

    def atlas(self, member: int | None = None) -> StateAtlas:
        """The state reports of a grammar, or of one member of an ensemble (counted from 1).

        Without a member, the member with the most informative states is taken.

        Raises
        ------
        SapwoodError
            Where the ensemble has no such member.
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

    # -- for dependency models --------------------------------------------------------------------

    @cached_property
    def arc_parser(self) -> ArcParser | RerankingParser:
        """The parser of a dependency model."""
        from sapwood.dependency.parse.reranking import arc_parser

        with self._lock:
            return arc_parser(self.model)


def traits_of(model: Any) -> dict[str, Any]:
    """Method, number of members and abilities of a model, which the page shows.

    Returns
    -------
    dict
        `method`, None where the model does not record it; `n_members` of an ensemble, 0 for a
        single model; `can_sample`, whether trees can be drawn at random from it.
    """
    from sapwood.constituency.grammar.ensemble import Model

    is_of_trees = isinstance(model, Model)
    is_mix = is_of_trees and model.is_ensemble
    return {
        "method": getattr(model, "record", {}).get("method") or ("mix" if is_mix else None),
        "n_members": len(model.members) if is_mix else 0,
        "can_sample": is_of_trees and model.can.sample,
    }


def describe_loaded(model: Any) -> str:
    """One line about a model: its method and sizes, without the name of its class."""
    _, _, rest = repr(model).strip("<>").replace(":", " :", 1).partition(" ")
    text = rest.replace(" :", ":", 1).lstrip(": ")
    if text.startswith("("):
        text = text[1:].replace(")", "", 1)
    return f"A mix {text}" if text.startswith("of ") else text


def text_tokenizer(model: LanguageModel) -> Callable[[str], list[str]]:
    """A function that splits text into the words of a language model.

    Words that the model knows are never split. The first word of the text is put into lower case
    where the model knows only that spelling.
    """
    from sapwood.corpora.tokenize import PennTokenizer

    penn, known = PennTokenizer(model.words), frozenset(model.words)
    spelling = _BRACKETS if "(" in known else {}

    def tokenise(text: str) -> list[str]:
        words = [spelling.get(word, word) for word in penn(text)]
        if words and words[0][:1].isupper() and words[0] not in known:
            words[0] = words[0].lower() if words[0].lower() in known else words[0]
        return words

    return tokenise


@dataclass
class ModelStore:
    """All models and uploaded treebanks of a server, by name.

    Attributes
    ----------
    folder
        Holds uploads and trained models; the server makes it and removes it when it stops.
    treebanks
        Files of the good trees of uploaded treebanks.
    """

    folder: Path
    models: dict[str, LoadedModel] = field(default_factory=dict)
    treebanks: dict[str, Path] = field(default_factory=dict)
    n_named: int = 0
    _lock: RLock = field(default_factory=RLock)

    def add(self, loaded: LoadedModel) -> LoadedModel:
        """Add a model, and remove the oldest trained ones beyond `N_KEPT`."""
        with self._lock:
            self.models[loaded.name] = loaded
            made = [name for name, one in self.models.items() if one.file is not None]
            for name in made[:-N_KEPT]:
                old = self.models.pop(name)
                assert old.file is not None
                old.file.unlink(missing_ok=True)  # loaded models were read into memory
        return loaded

    def get(self, name: str | None, *kinds: str) -> LoadedModel:
        """The model of this name, or without a name the first model of one of the kinds.

        Raises
        ------
        Refusal
            404 where there is no such model, 422 where it is of another kind.
        """
        with self._lock:
            found = list(self.models.values())
        nouns = " or ".join(_NOUNS[kind] for kind in kinds)
        if name is None:
            wanted = next((loaded for loaded in found if loaded.kind in kinds), None)
            if wanted is None:
                msg = f"this server has no model of {nouns}"
                raise Refusal(404, msg, "start it with one: sapwood serve MODEL")
            return wanted
        wanted = self.models.get(name)
        if wanted is None:
            known = ", ".join(loaded.name for loaded in found)
            raise Refusal(404, f"there is no model {name[:80]!r} here", f"there are {known}")
        if wanted.kind not in kinds:
            msg = f"{name} is a model of {_NOUNS[wanted.kind]}, one of {nouns} was expected"
            known = ", ".join(loaded.name for loaded in found if loaded.kind in kinds)
            raise Refusal(422, msg, f"there are {known}" if known else None)
        return wanted

    def fresh_name(self, stem: str) -> str:
        """A name that no model or treebank of this server has."""
        with self._lock:
            self.n_named += 1
            return f"{stem}-{self.n_named}"

    # -- treebanks --------------------------------------------------------------------------------

    def upload(
        self, title: str, data: bytes, ask: Callable[[str, dict[str, str]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Check an uploaded treebank, and keep its good trees.

        Parameters
        ----------
        ask
            Runs the check in a process of its own, see `sapwood.web.processes`.
        """
        name = self.fresh_name("treebank")
        file = self.folder / f"{name}.mrg"
        apart = self.folder / f"{name}-upload"  # the process may be killed while it writes here
        apart.mkdir()
        try:
            sent, good = apart / "sent", apart / "good.mrg"
            sent.write_bytes(data)
            report = ask("upload", {"data": str(sent), "trees": str(good)})
            if report["trees"] < LEAST_UPLOAD_TREES:
                return report | {"treebank": None}
            good.replace(file)
        finally:
            rmtree(apart, ignore_errors=True)
        with self._lock:
            self.treebanks[name] = file
            for old in list(self.treebanks)[:-N_KEPT]:
                self.treebanks.pop(old).unlink(missing_ok=True)
        return report | {"treebank": name, "title": title[:80] or name}

    def find_treebank(self, name: str) -> Path:
        """The file of the uploaded treebank of this name; refused with 404 where there is none."""
        with self._lock:
            if name not in self.treebanks:
                msg = f"there is no treebank {name[:80]!r} here"
                raise Refusal(404, msg, "upload it again, or take `bundled`")
            return self.treebanks[name]


_READING = RLock()


def models_from_files(
    names: Sequence[str],
    load: Callable[[str], Any],
    trees: Callable[[], Sequence[Tree]] | None,
) -> Iterator[LoadedModel]:
    """Named models, loaded at once so that a wrong file is reported when the server starts."""
    taken: set[str] = set()
    titles = {card["name"]: card["title"] for card in list_models()}
    for name in names:
        model, is_bundled = load(name), name == BUNDLED
        stem = Path(name).name.removesuffix(".sapwood") or name
        short = stem if stem not in taken else f"{stem}-{len(taken) + 1}"
        taken.add(short)
        kind = model_kind(model)
        yield LoadedModel(
            short, partial(_same, model), kind=kind,
            about=titles.get(name) or describe_loaded(model),
            trees=None if kind != TREES else bundled_trees if is_bundled else trees,
        )  # fmt: skip


def _same(model: Any) -> Any:
    return model


def own_models(load: Callable[[str], Any]) -> Iterator[LoadedModel]:
    """The default models of a server: those of real language first, then the small ones.

    Parameters
    ----------
    load
        Loads the model of a name.
    """
    yield from models_from_files([card["name"] for card in list_models()], load, None)
    yield from bundled_models()


def bundled_models() -> Iterator[LoadedModel]:
    """The hand-written grammar, and models that are learnt from the bundled trees at first use."""

    def trees_model(name: str, make: Callable[[], Any], about: str, *traits: Any) -> LoadedModel:
        names = ("method", "n_members", "can_sample")
        known = dict(zip(names, traits, strict=True)) if traits else None
        return LoadedModel(name, make, kind=TREES, trees=bundled_trees, traits=known, about=about)

    yield trees_model(
        "bundled", _grammar, "The hand-written grammar that the bundled trees were drawn from",
        "hand-written", 0, True,
    )  # fmt: skip
    yield trees_model(
        "bundled-cluster", _cluster,
        "Eight states a label, learnt as clusters of the nodes of the bundled trees",
    )  # fmt: skip
    yield trees_model(
        "bundled-spectral", _spectral,
        "Learnt from the bundled trees by the spectral method, eight states a label",
        "spectral", 0, False,
    )  # fmt: skip
    yield trees_model(
        "bundled-mix", _mix,
        "A mix of three grammars learnt from the bundled trees: pcfg, spectral, cluster",
        "mix", 3, True,
    )  # fmt: skip
    yield LoadedModel(
        "bundled-arcs", _arcs, kind=ARCS,
        traits={"method": "first", "n_members": 0, "can_sample": False},
        about="A dependency parser learnt from the heads of the bundled trees",
    )  # fmt: skip
    yield LoadedModel(
        "bundled-text", _text, kind=TEXT,
        traits={"method": "em", "n_members": 0, "can_sample": False},
        about="A language model learnt from the bundled sentences by EM, eight states",
    )  # fmt: skip


@cache
def _bank_and_trees() -> tuple[Treebank, list[Tree]]:
    from sapwood.constituency.data.treebank import bundled_treebank

    bank = bundled_treebank("train")
    return bank, list(bank)


def bundled_bank() -> Treebank:
    """The bundled training trees, read once by one thread while the others wait."""
    with _READING:
        return _bank_and_trees()[0]


def bundled_trees() -> Sequence[Tree]:
    """The bundled training trees as objects."""
    with _READING:
        return _bank_and_trees()[1]


def _grammar() -> Model:
    from sapwood.constituency.grammar.from_text import bundled_grammar

    return bundled_grammar()


def _spectral() -> LatentGrammar:
    from sapwood.constituency.learn.spectral import SpectralLPCFG

    return SpectralLPCFG(8).fit(bundled_bank()).model_


def _cluster() -> LatentGrammar:
    from sapwood.constituency.learn.cluster import ClusterLPCFG

    return ClusterLPCFG(8).fit(bundled_bank()).model_


def _mix() -> Model:
    from sapwood.constituency.grammar.ensemble import Ensemble
    from sapwood.constituency.learn.pcfg import PCFG

    plain = PCFG().fit(bundled_bank()).model_
    return Ensemble.of([plain, _spectral(), _cluster()], [1, 2, 2])


def _arcs() -> Any:
    from sapwood.corpora.tree import HEAD_RULES
    from sapwood.dependency.data.transform import tree_arcs
    from sapwood.dependency.learn.crf import ArcCRF

    rule = HEAD_RULES["penn"]
    arcs = [tree_arcs(tree, rule) for tree in bundled_trees()[:1000]]
    return ArcCRF(passes=2, folds=2, order=1).fit(arcs).model_


def _text() -> Any:
    from sapwood.lm.data.counting import count_sentence_ngrams
    from sapwood.lm.learn.latent import EMBigram

    counts = count_sentence_ngrams([tree.words() for tree in bundled_trees()], order=3)
    return EMBigram(8, iterations=30).fit(counts).model_
