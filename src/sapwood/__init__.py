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
    from sapwood import evaluate as evaluate
    from sapwood import identify as identify
    from sapwood.corpus.arcs.bank import ArcBank as ArcBank
    from sapwood.corpus.arcs.bank import Arcs as Arcs
    from sapwood.corpus.arcs.reader import read_arcs as read_arcs
    from sapwood.corpus.arcs.reader import write_arcs as write_arcs
    from sapwood.corpus.formats import read_trees as read_trees
    from sapwood.corpus.formats import write_trees as write_trees
    from sapwood.corpus.transform import Transform as Transform
    from sapwood.corpus.tree import Tree as Tree
    from sapwood.corpus.tree import clean as clean
    from sapwood.corpus.treebank import Treebank as Treebank
    from sapwood.corpus.treebank import bundled_treebank as bundled_treebank
    from sapwood.corpus.treebank import read_treebank as read_treebank
    from sapwood.errors import CorpusError as CorpusError
    from sapwood.errors import ModelFormatError as ModelFormatError
    from sapwood.errors import NotIdentifiableError as NotIdentifiableError
    from sapwood.errors import SapwoodError as SapwoodError
    from sapwood.estimators.arcs.crf import ArcCRF as ArcCRF
    from sapwood.estimators.arcs.em import EMHMM as EMHMM
    from sapwood.estimators.arcs.em import EMDependency as EMDependency
    from sapwood.estimators.arcs.ensemble import ArcEnsemble as ArcEnsemble
    from sapwood.estimators.arcs.latent import LatentArcCRF as LatentArcCRF
    from sapwood.estimators.arcs.reranker import ArcReranker as ArcReranker
    from sapwood.estimators.arcs.spectral import SpectralDependency as SpectralDependency
    from sapwood.estimators.arcs.spectral import SpectralHMM as SpectralHMM
    from sapwood.estimators.choice import choose_settings as choose_settings
    from sapwood.estimators.cluster import ClusterLPCFG as ClusterLPCFG
    from sapwood.estimators.crf import SpanCRF as SpanCRF
    from sapwood.estimators.eigenwords import WordEmbedding as WordEmbedding
    from sapwood.estimators.em import EMLPCFG as EMLPCFG
    from sapwood.estimators.encoder import SpanEncoder as SpanEncoder
    from sapwood.estimators.ensemble import Candidate as Candidate
    from sapwood.estimators.ensemble import EnsembleLPCFG as EnsembleLPCFG
    from sapwood.estimators.lm.kneser_ney import KneserNey as KneserNey
    from sapwood.estimators.lm.latent import EMBigram as EMBigram
    from sapwood.estimators.lm.latent import LatentTrigram as LatentTrigram
    from sapwood.estimators.lm.latent import PivotBigram as PivotBigram
    from sapwood.estimators.lm.latent_kneser_ney import LatentKneserNey as LatentKneserNey
    from sapwood.estimators.lm.mixture import LanguageMixture as LanguageMixture
    from sapwood.estimators.pcfg import PCFG as PCFG
    from sapwood.estimators.pivot import PivotLPCFG as PivotLPCFG
    from sapwood.estimators.spectral import SpectralLPCFG as SpectralLPCFG
    from sapwood.estimators.strings.em_wcfg import EMWCFG as EMWCFG
    from sapwood.estimators.strings.spectral_wcfg import SpectralWCFG as SpectralWCFG
    from sapwood.estimators.strings.spectral_wfa import SpectralWFA as SpectralWFA
    from sapwood.estimators.strings.unsupervised_wcfg import UnsupervisedWCFG as UnsupervisedWCFG
    from sapwood.estimators.unmix import UnmixDEPIES as UnmixDEPIES
    from sapwood.estimators.unmix import UnmixPCFGIE as UnmixPCFGIE
    from sapwood.inference.arcs.parser import ArcParser as ArcParser
    from sapwood.inference.arcs.reranking import RerankingParser as RerankingParser
    from sapwood.inference.parser import Parser as Parser
    from sapwood.models.arcs.arc_model import ArcModel as ArcModel
    from sapwood.models.arcs.dependency import DependencyModel as DependencyModel
    from sapwood.models.arcs.dependency import HiddenMarkovModel as HiddenMarkovModel
    from sapwood.models.eigenwords import Eigenwords as Eigenwords
    from sapwood.models.ensemble import Ensemble as Ensemble
    from sapwood.models.from_text import bundled_grammar as bundled_grammar
    from sapwood.models.kinds import load as load
    from sapwood.models.latent_grammar import LatentGrammar as LatentGrammar
    from sapwood.models.strings.sequence_model import SequenceModel as SequenceModel
    from sapwood.models.strings.weighted_grammar import WeightedGrammar as WeightedGrammar
    from sapwood.moments.ngrams import count_text as count_text

__version__ = "0.2.0"

# public names by their modules; evaluate and identify are modules themselves
_NAMES = {
    "corpus.arcs.bank": "ArcBank Arcs",
    "corpus.arcs.reader": "read_arcs write_arcs",
    "corpus.formats": "read_trees write_trees",
    "corpus.transform": "Transform",
    "corpus.tree": "Tree clean",
    "corpus.treebank": "Treebank bundled_treebank read_treebank",
    "errors": "CorpusError ModelFormatError NotIdentifiableError SapwoodError",
    "estimators.arcs.crf": "ArcCRF",
    "estimators.arcs.em": "EMDependency EMHMM",
    "estimators.arcs.ensemble": "ArcEnsemble",
    "estimators.arcs.latent": "LatentArcCRF",
    "estimators.arcs.reranker": "ArcReranker",
    "estimators.arcs.spectral": "SpectralDependency SpectralHMM",
    "estimators.choice": "choose_settings",
    "estimators.cluster": "ClusterLPCFG",
    "estimators.crf": "SpanCRF",
    "estimators.eigenwords": "WordEmbedding",
    "estimators.em": "EMLPCFG",
    "estimators.encoder": "SpanEncoder",
    "estimators.ensemble": "Candidate EnsembleLPCFG",
    "estimators.lm.kneser_ney": "KneserNey",
    "estimators.lm.latent": "EMBigram LatentTrigram PivotBigram",
    "estimators.lm.latent_kneser_ney": "LatentKneserNey",
    "estimators.lm.mixture": "LanguageMixture",
    "estimators.pcfg": "PCFG",
    "estimators.pivot": "PivotLPCFG",
    "estimators.spectral": "SpectralLPCFG",
    "estimators.strings.em_wcfg": "EMWCFG",
    "estimators.strings.spectral_wcfg": "SpectralWCFG",
    "estimators.strings.spectral_wfa": "SpectralWFA",
    "estimators.strings.unsupervised_wcfg": "UnsupervisedWCFG",
    "estimators.unmix": "UnmixDEPIES UnmixPCFGIE",
    "inference.arcs.parser": "ArcParser",
    "inference.arcs.reranking": "RerankingParser",
    "inference.parser": "Parser",
    "models.arcs.arc_model": "ArcModel",
    "models.arcs.dependency": "DependencyModel HiddenMarkovModel",
    "models.eigenwords": "Eigenwords",
    "models.ensemble": "Ensemble",
    "models.from_text": "bundled_grammar",
    "models.kinds": "load",
    "models.latent_grammar": "LatentGrammar",
    "models.strings.sequence_model": "SequenceModel",
    "models.strings.weighted_grammar": "WeightedGrammar",
    "moments.ngrams": "count_text",
}
_HOMES = {name: f"sapwood.{home}" for home, names in _NAMES.items() for name in names.split()}
_HOMES |= {"evaluate": "", "identify": ""}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module 'sapwood' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(home), name) if home else import_module(f"sapwood.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
