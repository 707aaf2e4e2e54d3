"""Inputs that are right, made by Sapwood itself: what the fuzzer spoils.

All of them are small: models of a dozen words, checkpoints of a dozen trees.
"""

from __future__ import annotations

import io
import json
import tempfile
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from benchmarks.papers.targets import dyck
from tests.notations import EXAMPLES

import sapwood as sw
from sapwood.constituency.grammar.discriminative import FeatureGrammar, SpanNetwork
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.dependency.learn.crf import LatentArcCRF
from sapwood.dependency.learn.reranker import ArcReranker
from sapwood.dependency.model.arc_model import ArcRerankModel
from sapwood.identify.model.uniform_trees import UniformTreeModel
from sapwood.lm.data.counting import count_sentence_ngrams
from sapwood.lm.data.ngrams import save_counts
from sapwood.lm.model.language_model import LanguageModel
from sapwood.progress import Event

TREES = """\
(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))
(S (NP (DT a) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .))
(S (NP (NNP Kim)) (VP (VBZ sees) (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (DT the) (NN garden))))))
(S (NP (PRP it)) (VP (VBZ sleeps) (PP (IN in) (NP (DT a) (NN garden)))) (. .))
(NP (NNP Kim))
(S (ADVP (RB now)) (NP (DT the) (JJ old) (NN cat)) (VP (MD can) (VP (VB sleep))) (. .))
"""
RARE = """\
(S (NP (NNP Kim)) (VP (VBZ sees) (NP (NNP Kim)) (PP (IN in) (NP (DT the) (NN garden)))) (. .))
(SINV (VP (VBZ sees)) (NP (DT a) (NN cat)) (ADVP (RB now)))
(NP (NP (DT the) (NN dog)) (NP (DT a) (NN cat)))
(NP (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))))
(VP (NP (DT the) (NN dog)) (NP (DT a) (NN cat)))
"""
COPIES = 40  # a label gets hidden states by how often it occurs


@cache
def bank() -> sw.Treebank:
    """The trees above, most of them often enough for hidden states."""
    return sw.read_treebank(io.StringIO(TREES * COPIES + RARE))


@cache
def grammars() -> dict[str, LatentGrammar | SpanNetwork | sw.Ensemble]:
    """One model of each kind of file."""
    plain = sw.PCFG().fit(bank()).model_
    em = sw.EMLPCFG(2, iterations=2).fit(bank()).model_
    spectral = sw.SpectralLPCFG(6).fit(bank()).model_
    crf = _feature_grammar(plain)
    right = sw.PCFG(binarise="right").fit(bank()).model_
    network = sw.SpanEncoder(passes=1, width=3, hidden=3).fit(bank()[:40]).model_
    tiny = Path(__file__).parents[1] / "data" / "encoders" / "bert"
    encoder = sw.PretrainedEncoder.of_folder(tiny, bits=8)
    learner = sw.SpanEncoder(passes=1, width=3, hidden=3, encoder=encoder)
    with tempfile.TemporaryDirectory() as home, patch.dict("os.environ", SAPWOOD_HOME=home):
        reading = learner.fit(bank()[:40]).model_
    return {
        "pretrained": reading,
        "plain": plain,
        "em": em,
        "spectral": spectral,
        "crf": crf,
        "network": network,
        "ensemble": sw.Ensemble.of([spectral, em, crf, right, network], [4, 3, 2, 1, 3]),
    }


def _feature_grammar(plain: LatentGrammar) -> FeatureGrammar:
    """What `SpanCRF` learns, with a table of 64 weights instead of four million."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=64).astype(np.float32)
    familiar = np.ones(len(plain.lexicon.words), bool)
    return FeatureGrammar(plain, weights, familiar, {"method": "crf"})


@cache
def hidden_trees() -> UniformTreeModel:
    """What `unmix` learns from sentences."""
    half, tables = np.full((2, 2), 0.5), {"root": np.full(2, 0.5), "child": np.eye(2)}
    words = ("the", "dog", "Unheard", "sees", "1990-91")
    return UniformTreeModel("pcfg-ie", words, tables | {"words": half[[0] * 5] * 0.4})


def automaton() -> sw.SequenceModel:
    """A weighted automaton."""
    return sw.SpectralWFA(2, basis=1.0).fit({("a",): 4, ("a", "b"): 2, ("a", "b", "b"): 1}).model_


@cache
def arc_models() -> dict[str, sw.ArcModel | ArcRerankModel]:
    """A parser of arcs, with clusters of words and hidden states, and one with a reranker."""
    arcs = list(sw.read_arcs(io.StringIO(ARCS))) * 6
    vectors = sw.WordEmbedding(2, min_count=1).fit([list(each.words) for each in arcs]).model_
    hidden = LatentArcCRF(2, passes=1, folds=2, iterations=1, embeddings=vectors).fit(arcs).model_
    ranked = ArcReranker(2, latent="none", passes=1, folds=2, list_folds=2, n_best=3)
    return {"arcs": hidden, "rerank": ranked.fit(arcs).model_}


@cache
def latent_trees() -> dict[str, sw.DependencyModel | sw.HiddenMarkovModel]:
    """Models with hidden states of dependency trees and of sentences."""
    arcs = list(sw.read_arcs(io.StringIO(ARCS))) * 6
    text = [list(each.words) for each in arcs]
    trees = {
        f"dependency.{name}": learner.fit(arcs).model_
        for name, learner in (("em", sw.EMDependency(2)), ("spectral", sw.SpectralDependency(2)))
    }
    return trees | {"hmm": sw.EMHMM(2).fit(text).model_}


@cache
def vectors() -> sw.Eigenwords:
    """Vectors of words."""
    text = [line.split() for line in TEXT.splitlines() if line]
    return sw.WordEmbedding(2, min_count=1).fit(text).model_


@cache
def model_files() -> dict[str, bytes]:
    """The models as files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sapwood"
        files = {}
        strings = {"wcfg": dyck(), "wfa": automaton()}
        others = {"uniform": hidden_trees()} | language_models() | arc_models() | strings
        others |= latent_trees() | {"eigenwords": vectors()}
        for kind, model in (*grammars().items(), *others.items()):
            model.save(path)
            files[kind] = path.read_bytes()
        return files


def learner(checkpoint: Path) -> sw.EMLPCFG:
    """The training whose checkpoints are spoilt: split, merged, and graded on dev trees."""
    return sw.EMLPCFG(4, iterations=2, merge=0.5, checkpoint=checkpoint)


@cache
def dev() -> list[sw.Tree]:
    """What the training is graded on."""
    return list(bank()[:3].trees())


@cache
def checkpoints() -> tuple[bytes, ...]:
    """Checkpoints after each of the iterations of `learner`."""
    kept: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"

        def note(event: Event) -> None:
            if "log_likelihood" in event.facts and path.exists():
                kept.append(path.read_bytes())

        training = learner(path)
        training.listen = note
        training.fit(bank(), dev())
        return (*kept, path.read_bytes())


STRINGS = "a b\na a b b\na b a b\na b\na a b a b b\na b\n" * 3
STRUCTURES = """\
>one
GGGAAAUCCC
(((....)))
>two with more
GGAAACCAGCAAAGC
((...)).((...)) -1.20
>open
ACGU
....
"""
GRAMMAR = """\
let $n = sg pl
choice ~NP[$n] = NP[$n]*3 N[$n]
root S 2  # what sentences are
S -> ~NP[$n] VP[$n] 1
NP[$n] -> D N[$n] 1
VP[$n] -> V[$n] ~NP[sg] 0.5
VP[$n] -> V[$n] ~NP[pl] 0.5
D : the*3 a
N[sg] : dog cat*2
N[pl] : dogs cats
V[sg] : sees
V[pl] : see
"""

TAGGED = "the/DT dog/NN sleeps/VBZ ./.\n\nKim/NNP sees/VBZ it/PRP\n"
DEPENDENCIES = "the\tDT\t2\ndog\tNN\t3\nsleeps\tVBZ\t0\n\nKim NNP 2\nsleeps VBZ 0\n"
CONLLU = """\
# text = the dog sleeps
1\tthe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tdog\tdog\tNOUN\tNN\tNumber=Sing\t3\tnsubj\t_\t_
3\tsleeps\tsleep\tVERB\tVBZ\t_\t0\troot\t_\tSpaceAfter=No

"""
ARCS = """\
# sent_id = 1
1\tI\tI\tPRON\tPRP\tCase=Nom\t5\tnsubj\t5:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tso\tso\tADV\tRB\t_\t_\t_\t4:x\t_
4\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
5\tnow\tnow\tADV\tRB\t_\t4\tadvmod\t_\t_

1\tdogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_

"""
ORIGINALS = {"dp": DEPENDENCIES, "conllu": CONLLU, "tagged": TAGGED}
NOTATIONS = {name: text for name, (text, _) in EXAMPLES.items()} | {"joined": "(NP (CD 1 000))\n"}
XML_IN = NOTATIONS["tigerxml"].replace("UTF-8", "ENCODING")
RAW = "Mr. Lee's dog can't see \"the cat\" (in the garden), e.g. now... It sleeps.\n$3.50 -- 5%!\n"
JSON_LINES = '{"tree": "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"}\n' * 6
STAMP = json.dumps({"fingerprint": "0" * 64, "files": {"train": ["train.mrg", 3]}})
REGISTRY = (
    "# name\ttitle\tkind\tformat\tencoding\tmembers\tranges\tlicence\tsource\tbase\tnote\n"
    "toy\tA toy\ttrees\tpenn\tutf-8\t*.mrg\ttrain:a..b dev:c..d\tfree\tnowhere\thttp://x.invalid\t-\n"
)
FILES = f"# path\tsha256\tbytes\tsplit\na.zip\t{'0' * 64}\t123\t*\n"


# -- language models ------------------------------------------------------------------------------

TEXT = "the dog sees a cat .\na cat sees the dog .\n\nthe cat sleeps .\n"
ARPA = "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-1.0 <unk>\n-99 <s> -0.3\n-0.5 </s>\n" + (
    "-0.6 a -0.2\n\n\\2-grams:\n-0.1 <s> a\n-0.2 a </s>\n\n\\end\\\n"
)


@cache
def language_models() -> dict[str, LanguageModel]:
    """Every kind of file; a mixture holds all the others."""
    text = [line.split() for line in TEXT.splitlines() if line] * 3
    return {
        "kn": sw.KneserNey(3).fit(text).model_,
        "mixture": sw.LanguageMixture(3, n_blocks=1, iterations=2).fit(text).model_,
        "kn-latent": sw.LatentKneserNey(2, iterations=2).fit(text).model_,
    }


@cache
def counts_file() -> bytes:
    """A file of counts of n-grams."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "counts.parquet")
        save_counts(
            count_sentence_ngrams([line.split() for line in TEXT.splitlines() if line], 2), path
        )
        return path.read_bytes()
