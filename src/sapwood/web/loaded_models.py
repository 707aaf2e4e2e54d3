"""Models of the page, loaded or learnt at first use, with the parsers and reports of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

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
_BRACKETS = {"-LRB-": "(", "-RRB-": ")"}
# A dependency parser keeps no list of words, so its marks are those of Universal Dependencies.
_UNIVERSAL = ("the", "of", '"', "[", "]", "{", "}", "–", "—", "…")  # noqa: RUF001


def kind_of(model: object) -> str:
    """The kind of a model: trees, arcs (dependencies), text (a language model) or other."""
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.dependency.model.arc_model import ArcModel
    from sapwood.dependency.model.reranker import ArcRerankModel
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
        """The model itself, loaded at first use by one thread while the others wait."""
        with self._lock:
            return self._model

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        return "_model" in self.__dict__

    @property
    def kind(self) -> str:
        """The kind of the model, see `kind_of`."""
        if self._kind is None:
            self._kind = kind_of(self.model)
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
        """Split a sentence into words, spelt as the model knows them."""
        return self._tokenizer(text)

    @cached_property
    def _tokenizer(self) -> Callable[[str], list[str]]:
        if self.kind == TREES:
            return self.parser()._tokenizer
        return text_tokenizer(self.model) if self.kind == TEXT else arc_tokenizer()

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


# -- bundled models -------------------------------------------------------------------------------


def bundled_models() -> Iterator[LoadedModel]:
    """The hand-written grammar, and models that are learnt from the bundled trees at first use."""
    yield LoadedModel(
        "bundled", _grammar, kind=TREES, trees=bundled_trees,
        traits={"method": "hand-written", "n_members": 0, "can_sample": True},
        about="The hand-written grammar that the bundled trees were drawn from",
    )  # fmt: skip
    yield LoadedModel(
        "bundled-cluster", _cluster, kind=TREES, trees=bundled_trees,
        about="Eight states a label, learnt as clusters of the nodes of the bundled trees",
    )  # fmt: skip
    yield LoadedModel(
        "bundled-spectral", _spectral, kind=TREES, trees=bundled_trees,
        traits={"method": "spectral", "n_members": 0, "can_sample": False},
        about="Learnt from the bundled trees by the spectral method, eight states a label",
    )  # fmt: skip
    yield LoadedModel(
        "bundled-mix", _mix, kind=TREES, trees=bundled_trees,
        traits={"method": "mix", "n_members": 3, "can_sample": True},
        about="A mix of three grammars learnt from the bundled trees: pcfg, spectral, cluster",
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


def models_from_files(
    names: Sequence[str],
    load: Callable[[str], Any],
    trees: Callable[[], Sequence[Tree]] | None,
) -> Iterator[LoadedModel]:
    """Models from files, loaded at once so that a wrong file is reported when the server starts."""
    taken: set[str] = set()
    for name in names:
        model, is_ours = load(name), name == "bundled"
        stem = Path(name).name.removesuffix(".sapwood") or name
        short = stem if stem not in taken else f"{stem}-{len(taken) + 1}"
        taken.add(short)
        loaded = LoadedModel(
            short, partial(_same, model), kind=kind_of(model), about=describe(model),
            trees=None if kind_of(model) != TREES else bundled_trees if is_ours else trees,
        )  # fmt: skip
        yield loaded


def _same(model: Any) -> Any:
    return model


# -- description and tokenisation -----------------------------------------------------------------


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


def describe(model: Any) -> str:
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


def arc_tokenizer() -> Callable[[str], list[str]]:
    """A function that splits text into words and marks as Universal Dependencies write them."""
    from sapwood.corpora.tokenize import PennTokenizer

    penn = PennTokenizer(_UNIVERSAL)
    return lambda text: [_BRACKETS.get(word, word) for word in penn(text)]
