"""Dependency parsers take what plain text says of words that the treebank has not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.arc_toys import NOUNS, VERBS, bank

import sapwood as sw
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.corpora.vocabulary import COLUMN, hash_of
from sapwood.dependency.learn.crf import ArcCRF, LatentArcCRF
from sapwood.dependency.learn.trainer import FEW_CLUSTERS, ArcTrainer, cluster_words
from sapwood.dependency.model.arc_model import WordClusters
from sapwood.execute import as_engine

# nouns and verbs of the treebank become others, which only the plain text has; all look alike
LETTERS = zip("bcdfghjklmnpqr", "pqrstvwxzpqrst", strict=True)
NEW = {word: f"{first}o{last}" for word, (first, last) in zip(NOUNS + VERBS, LETTERS, strict=True)}


def renamed(given: sw.ArcBank) -> list[sw.Arcs]:
    """The same trees with other words."""
    return [replace(arcs, words=tuple(NEW.get(w, w) for w in arcs.words)) for arcs in given]


@pytest.fixture(scope="module")
def vectors() -> sw.Eigenwords:
    rng = np.random.default_rng(0)
    text = [[NEW.get(w, w) if rng.random() < 0.5 else w for w in arcs.words]
            for arcs in bank(800, 3)]  # fmt: skip
    return sw.WordEmbedding(6, min_count=2).fit(text).model_


def trees_to_learn_from() -> list[sw.Arcs]:
    """Few sentences: a word seen ten times has its tags alone, and shows nothing of its cluster."""
    shape = {"heads": [2, 3, 0, 3], "upos": ["DET", "NOUN", "VERB", "PUNCT"]}
    tags = {"xpos": ["DT", "NN", "VBZ", "."], "relations": ["det", "nsubj", "root", "punct"]}
    rare = [sw.Arcs(["the", noun, verb, "."], **shape, **tags)
            for noun, verb in (("kiv", "mur"), ("lef", "daz"), ("sib", "gam"))]  # fmt: skip
    return [*bank(24), *rare]


def right_tags(model: sw.ArcModel, gold: list[sw.Arcs]) -> float:
    parser = sw.ArcParser(model)
    found = [parser.parse(list(arcs.words)).arcs.xpos for arcs in gold]
    same = [x == y for a, arcs in zip(found, gold, strict=True)
            for x, y in zip(a, arcs.xpos, strict=True)]  # fmt: skip
    return float(np.mean(same))


def test_words_of_the_text_are_known_by_their_places(vectors, tmp_path):
    gold = renamed(bank(40, 5))
    alone, helped = (
        ArcCRF(1, passes=2, folds=2, embeddings=given).fit(trees_to_learn_from()).model_
        for given in (None, vectors)
    )
    assert helped.clusters is not None
    assert alone.clusters is None
    by_places, by_looks = right_tags(helped, gold), right_tags(alone, gold)
    assert by_places > 0.95
    assert by_places > by_looks + 0.02
    helped.save(tmp_path / "parser.sapwood")
    again = sw.ArcParser(sw.load(tmp_path / "parser.sapwood"))
    for arcs in gold[:5]:
        assert again.parse(arcs).arcs == sw.ArcParser(helped).parse(arcs).arcs


def test_words_in_the_same_places_share_a_cluster(vectors):
    found = cluster_words(vectors)

    def clusters(words) -> set[int]:
        numbers = np.array([hash_of(word) for word in words])
        return set(found.of(numbers, np.zeros(len(numbers)))[:, 0].tolist())

    nouns, verbs = (clusters([*words, *map(NEW.get, words)]) for words in (NOUNS, VERBS))
    assert not nouns & verbs
    assert 0 not in nouns | verbs
    assert len(nouns) < len(NOUNS)
    assert len(found.cluster) == len(vectors.vocabulary.words)
    assert found.cluster[:, 0].max() < min(FEW_CLUSTERS, len(found.cluster) / 2)


def test_forms_come_before_small_letters():
    known = WordClusters(np.array([4, 6], np.uint32), np.array([[0, 1], [2, 3]], np.int32))
    assert known.of(np.array([6, 9, 9]), np.array([4, 4, 9])).tolist() == [[3, 4], [1, 2], [0, 0]]


@pytest.mark.parametrize(
    ("words", "cluster"),
    [([4, 6], [[0, 1]]), ([6, 4], [[0, 1], [2, 3]]), ([4, 6], [[0, 1], [2, -1]]), ([4], [[0]])],
)
def test_clusters_that_cannot_be(words, cluster):
    with pytest.raises(ModelFormatError, match="clusters of shape"):
        WordClusters(np.array(words, np.uint32), np.array(cluster, np.int32)).check()


def test_some_of_the_sentences_keep_their_tags(vectors):
    trainer = ArcTrainer.prepare(bank(30), as_engine(1), 2, 0, vectors)
    whole, is_in = trainer.data, np.arange(30) % 3 > 0
    part = whole.select(is_in)
    assert [arcs.words for arcs in part.bank] == [arcs.words for arcs in whole.bank.select(is_in)]
    predicted = whole.with_predicted_tags().select(is_in)
    assert [a.xpos for a in part.with_predicted_tags()] == [a.xpos for a in predicted]
    rows = [rows for (rows, _), kept in zip(whole.examples(), is_in, strict=True) if kept]
    same = [COLUMN[name] for name in "FLXPCKJ"]
    np.testing.assert_array_equal(part.rows[:, same], np.concatenate(rows)[:, same])
    assert len(ArcTrainer.of(part, trainer.tagger, 0).arcs) == 20
    assert {part.tags[tag] for tag in part.tag} <= set(whole.tags)


def test_vectors_reach_the_parser_behind_hidden_states(vectors):
    learner = LatentArcCRF(2, passes=1, folds=2, iterations=2, embeddings=vectors).fit(bank(30))
    assert learner.model_.clusters is not None


def test_other_things_are_no_vectors():
    with pytest.raises(SapwoodError, match="embeddings"):
        ArcCRF(embeddings=3).fit(bank(30))
