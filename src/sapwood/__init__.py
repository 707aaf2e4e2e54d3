"""Sapwood learns the hidden states inside trees.

    import sapwood as sw
    bank = sw.read_treebank("train.mrg")
    model = sw.PCFG().fit(bank).model_
    print(sw.Parser(model).parse("The dog barks .".split()).tree.draw())

Names are loaded when first used, so that `import sapwood` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sapwood import errors as errors
    from sapwood import evaluate as evaluate
    from sapwood import identify as identify
    from sapwood.constituency.data.transform import Transform as Transform
    from sapwood.constituency.data.treebank import Treebank as Treebank
    from sapwood.constituency.data.treebank import bundled_treebank as bundled_treebank
    from sapwood.constituency.data.treebank import read_treebank as read_treebank
    from sapwood.constituency.grammar.ensemble import Ensemble as Ensemble
    from sapwood.constituency.grammar.from_text import bundled_grammar as bundled_grammar
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar as LatentGrammar
    from sapwood.constituency.learn.cluster import ClusterLPCFG as ClusterLPCFG
    from sapwood.constituency.learn.crf import SpanCRF as SpanCRF
    from sapwood.constituency.learn.em import EMLPCFG as EMLPCFG
    from sapwood.constituency.learn.encoder import SpanEncoder as SpanEncoder
    from sapwood.constituency.learn.ensemble import EnsembleLPCFG as EnsembleLPCFG
    from sapwood.constituency.learn.ensemble_budget import Candidate as Candidate
    from sapwood.constituency.learn.pcfg import PCFG as PCFG
    from sapwood.constituency.learn.pivot import PivotLPCFG as PivotLPCFG
    from sapwood.constituency.learn.settings_search import choose_settings as choose_settings
    from sapwood.constituency.learn.spectral import SpectralLPCFG as SpectralLPCFG
    from sapwood.constituency.parse.parser import Parser as Parser
    from sapwood.constituency.report.phrases import parse_columns as parse_columns
    from sapwood.constituency.report.phrases import parse_table as parse_table
    from sapwood.core.errors import CorpusError as CorpusError
    from sapwood.core.errors import ModelFormatError as ModelFormatError
    from sapwood.core.errors import NotIdentifiableError as NotIdentifiableError
    from sapwood.core.errors import SapwoodError as SapwoodError
    from sapwood.core.model_files import load as load
    from sapwood.core.model_names import list_models as list_models
    from sapwood.corpora.eigenwords import Eigenwords as Eigenwords
    from sapwood.corpora.formats import read_trees as read_trees
    from sapwood.corpora.formats import write_trees as write_trees
    from sapwood.corpora.tree import Tree as Tree
    from sapwood.corpora.tree import clean as clean
    from sapwood.dependency.data.bank import ArcBank as ArcBank
    from sapwood.dependency.data.bank import Arcs as Arcs
    from sapwood.dependency.data.reader import read_arcs as read_arcs
    from sapwood.dependency.data.reader import write_arcs as write_arcs
    from sapwood.dependency.learn.crf import ArcCRF as ArcCRF
    from sapwood.dependency.learn.crf import ArcEnsemble as ArcEnsemble
    from sapwood.dependency.learn.crf import LatentArcCRF as LatentArcCRF
    from sapwood.dependency.learn.em import EMHMM as EMHMM
    from sapwood.dependency.learn.em import EMDependency as EMDependency
    from sapwood.dependency.learn.reranker import ArcReranker as ArcReranker
    from sapwood.dependency.learn.spectral import SpectralDependency as SpectralDependency
    from sapwood.dependency.learn.spectral import SpectralHMM as SpectralHMM
    from sapwood.dependency.model.arc_model import ArcModel as ArcModel
    from sapwood.dependency.model.dependency import DependencyModel as DependencyModel
    from sapwood.dependency.model.dependency import HiddenMarkovModel as HiddenMarkovModel
    from sapwood.dependency.parse.parser import ArcParser as ArcParser
    from sapwood.dependency.parse.reranking import RerankingParser as RerankingParser
    from sapwood.hankel.learn.em_wcfg import EMWCFG as EMWCFG
    from sapwood.hankel.learn.spectral import SpectralWCFG as SpectralWCFG
    from sapwood.hankel.learn.spectral import SpectralWFA as SpectralWFA
    from sapwood.hankel.learn.unsupervised_wcfg import UnsupervisedWCFG as UnsupervisedWCFG
    from sapwood.hankel.model.string_model import SequenceModel as SequenceModel
    from sapwood.hankel.model.weighted_grammar import WeightedGrammar as WeightedGrammar
    from sapwood.identify.learn.unmix import UnmixDEPIES as UnmixDEPIES
    from sapwood.identify.learn.unmix import UnmixPCFGIE as UnmixPCFGIE
    from sapwood.incremental import surprisal as surprisal
    from sapwood.integrations import nltk_parser as nltk_parser
    from sapwood.lm.data.counting import count_text as count_text
    from sapwood.lm.learn.eigenwords import WordEmbedding as WordEmbedding
    from sapwood.lm.learn.kneser_ney import KneserNey as KneserNey
    from sapwood.lm.learn.kneser_ney import LatentKneserNey as LatentKneserNey
    from sapwood.lm.learn.latent import EMBigram as EMBigram
    from sapwood.lm.learn.latent import LanguageMixture as LanguageMixture
    from sapwood.lm.learn.latent import LatentTrigram as LatentTrigram
    from sapwood.lm.learn.pivot import PivotBigram as PivotBigram
    from sapwood.networks.pretrained.source import PretrainedEncoder as PretrainedEncoder
    from sapwood.networks.pretrained.source import use_encoder as use_encoder
    from sapwood.networks.pretrained.static import StaticVectors as StaticVectors
    from sapwood.treebank_audit import audit as audit
    from sapwood.treebank_audit import audit_arcs as audit_arcs

__version__ = "0.2.0"

# public names by their modules; errors, evaluate and identify are modules themselves
_NAMES = {
    "constituency.data.transform": "Transform",
    "constituency.data.treebank": "Treebank bundled_treebank read_treebank",
    "constituency.grammar.ensemble": "Ensemble",
    "constituency.grammar.from_text": "bundled_grammar",
    "constituency.grammar.latent_grammar": "LatentGrammar",
    "constituency.learn.settings_search": "choose_settings",
    "constituency.learn.cluster": "ClusterLPCFG",
    "constituency.learn.crf": "SpanCRF",
    "constituency.learn.em": "EMLPCFG",
    "constituency.learn.encoder": "SpanEncoder",
    "constituency.learn.ensemble": "EnsembleLPCFG",
    "constituency.learn.ensemble_budget": "Candidate",
    "constituency.learn.pcfg": "PCFG",
    "constituency.learn.pivot": "PivotLPCFG",
    "constituency.learn.spectral": "SpectralLPCFG",
    "constituency.parse.parser": "Parser",
    "constituency.report.phrases": "parse_columns parse_table",
    "core.errors": "CorpusError ModelFormatError NotIdentifiableError SapwoodError",
    "core.model_files": "load",
    "core.model_names": "list_models",
    "corpora.eigenwords": "Eigenwords",
    "corpora.formats": "read_trees write_trees",
    "corpora.tree": "Tree clean",
    "dependency.data.bank": "ArcBank Arcs",
    "dependency.data.reader": "read_arcs write_arcs",
    "dependency.learn.crf": "ArcCRF ArcEnsemble LatentArcCRF",
    "dependency.learn.em": "EMDependency EMHMM",
    "dependency.learn.reranker": "ArcReranker",
    "dependency.learn.spectral": "SpectralDependency SpectralHMM",
    "dependency.model.arc_model": "ArcModel",
    "dependency.model.dependency": "DependencyModel HiddenMarkovModel",
    "dependency.parse.parser": "ArcParser",
    "dependency.parse.reranking": "RerankingParser",
    "hankel.learn.em_wcfg": "EMWCFG",
    "hankel.learn.spectral": "SpectralWCFG SpectralWFA",
    "hankel.learn.unsupervised_wcfg": "UnsupervisedWCFG",
    "hankel.model.string_model": "SequenceModel",
    "hankel.model.weighted_grammar": "WeightedGrammar",
    "identify.learn.unmix": "UnmixDEPIES UnmixPCFGIE",
    "incremental": "surprisal",
    "integrations": "nltk_parser",
    "lm.data.counting": "count_text",
    "lm.learn.eigenwords": "WordEmbedding",
    "lm.learn.kneser_ney": "KneserNey LatentKneserNey",
    "lm.learn.latent": "EMBigram LanguageMixture LatentTrigram",
    "lm.learn.pivot": "PivotBigram",
    "networks.pretrained.source": "PretrainedEncoder use_encoder",
    "networks.pretrained.static": "StaticVectors",
    "treebank_audit": "audit audit_arcs",
}
_HOMES = {name: f"sapwood.{home}" for home, names in _NAMES.items() for name in names.split()}
_HOMES |= {"errors": "", "evaluate": "", "identify": ""}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sapwood' has no attribute {name!r}")
    value = getattr(import_module(home), name) if home else import_module(f"sapwood.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
