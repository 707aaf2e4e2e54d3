"""The network beside the parsers by features: learnt, saved, refused, mixed."""

from dataclasses import replace

import numpy as np
import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.core.model_files import FileContents
from sapwood.corpora.vocabulary import COLUMN
from sapwood.dependency.learn.trainer import train_arc_network
from sapwood.dependency.parse.scoring import Tagger
from sapwood.networks import training as network_training
from sapwood.networks.network import UNKNOWN_ROW, EncoderSizes, VectorRows, look_up
from sapwood.networks.scores import ArcEncoder, ArcSizes
from sapwood.networks.training import NetworkPlan, _sum_rows

SMALL = (EncoderSizes(16, 16, 8, 24), ArcSizes(20, 10))


def tasks(arcs):
    return (len(arcs.upos_names), arcs.upos), (len(arcs.relations), arcs.relation)


@pytest.fixture(scope="module")
def network():
    arcs = bank(200)
    return train_arc_network(
        arcs, *tasks(arcs), NetworkPlan(passes=12, rate=0.01, words=200), 2, sizes=SMALL
    )


def test_heads_relations_and_tags_are_learnt(network):
    reader, held, train = ArcEncoder(network), bank(40, 1), bank(200)
    right = n = 0
    for arcs in held:
        read = reader.read(arcs.words)
        assert read.heads.shape == (len(arcs), len(arcs) + 1)
        np.testing.assert_allclose(read.heads.sum(axis=1), 1, rtol=1e-5)
        word = np.arange(len(arcs))
        assert not read.heads[word, word + 1].any()  # nobody is their own head
        assert read.heads[word, word].all()
        relations = read.relations(np.array(arcs.heads))
        names = [train.relations[k] for k in relations.argmax(axis=1)]
        tags = [train.upos_names[k] for k in read.tags.argmax(axis=1)]
        right += (read.heads.argmax(axis=1) == arcs.heads).sum()
        right += sum(map(str.__eq__, names, arcs.relations))
        right += sum(map(str.__eq__, tags, arcs.upos))
        n += 3 * len(arcs)
    assert right / n > 0.95


def test_gradients_of_the_same_row_are_added():
    parts = [(np.array([5, 2]), np.eye(2)), (np.array([2, 9]), 3 * np.eye(2))]
    rows, total = _sum_rows(parts)
    assert rows.tolist() == [2, 5, 9]
    np.testing.assert_array_equal(total, [[3, 1], [1, 0], [0, 3]])


def test_threads_change_nothing():
    arcs = bank(30)
    made = [
        train_arc_network(arcs, *tasks(arcs), NetworkPlan(passes=2, words=100), jobs, sizes=SMALL)
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(made[0].weights.flat, made[1].weights.flat)
    np.testing.assert_array_equal(made[0].form_vectors, made[1].form_vectors)
    other = NetworkPlan(passes=2, words=100, seed=1)
    again = train_arc_network(arcs, *tasks(arcs), other, 1, sizes=SMALL)
    assert (again.weights.flat != made[0].weights.flat).any()


@pytest.fixture(scope="module")
def model():
    return sw.ArcEnsemble(passes=1, folds=2, encoder_passes=2).fit(bank(40)).model_


def test_a_model_with_a_network_is_saved_and_read(model, tmp_path):
    model.save(tmp_path / "m.sapwood")
    again = sw.load(tmp_path / "m.sapwood")
    assert again.encoder.weight == model.encoder.weight
    np.testing.assert_array_equal(
        again.encoder.network.weights.flat, model.encoder.network.weights.flat
    )
    for arcs in bank(5, 1):
        found, expected = (sw.ArcParser(m).parse(arcs.words) for m in (again, model))
        assert found.arcs == expected.arcs
        np.testing.assert_array_equal(found.posteriors, expected.posteriors)


@pytest.mark.parametrize(
    "name", ["arc.U", "relation.U", "tag.W", "words", "forms", "first.forwards.U"]
)
def test_a_network_that_does_not_fit_is_refused(model, name):
    arrays, header = model.to_file()
    damaged = arrays | {f"encoder.{name}": arrays[f"encoder.{name}"][:-1]}
    with pytest.raises(sw.SapwoodError, match="shape"):
        type(model).from_file(FileContents(damaged, header))
    broken = arrays[f"encoder.{name}"].copy()
    broken.flat[0] = np.inf
    with pytest.raises(sw.SapwoodError, match="finite"):
        type(model).from_file(FileContents(arrays | {f"encoder.{name}": broken}, header))


def test_words_of_a_network_are_sorted(model):
    arrays, header = model.to_file()
    damaged = arrays | {"encoder.familiar": arrays["encoder.familiar"][::-1]}
    with pytest.raises(sw.SapwoodError, match="sorted"):
        type(model).from_file(FileContents(damaged, header))


def test_a_network_of_other_affixes_is_refused(model):
    arrays, header = model.to_file()
    damaged = arrays | {"encoder.properties": arrays["encoder.properties"][:-2]}
    with pytest.raises(sw.SapwoodError, match="affixes"):
        type(model).from_file(FileContents(damaged, header))


def test_weights_of_networks_are_shares(model):
    with pytest.raises(sw.SapwoodError, match="weight"):
        replace(model, encoder=model.encoder._replace(weight=1.5))


def test_posteriors_are_means(model):
    words = bank(1, 2)[0].words
    parse = sw.ArcParser(model).parse(words)
    heads = ArcEncoder(*model.encoder.networks).read(words).heads
    low = sw.ArcParser(replace(model, encoder=model.encoder._replace(weight=1e-9))).parse(words)
    kept = parse.posteriors > 0
    w = model.encoder.weight
    expected = w * heads + (1 - w) * low.posteriors
    np.testing.assert_allclose(parse.posteriors[kept], expected[kept], atol=1e-6)
    best = parse.k_best(3)
    assert best[0].arcs == parse.arcs


def test_tags_are_those_of_the_highest_mean(model):
    parser, n_differing = sw.ArcParser(model), 0
    reader = ArcEncoder(*model.encoder.networks)
    for arcs in bank(10, 3):
        rows = parser._word_rows.of_sentence(arcs.words)
        types = model.lexicon.types(rows[2:-2, COLUMN["L"]])
        sizes = np.diff(model.lexicon.starts)[types]
        tagger = Tagger(model.lexicon, model.tagger)
        share = tagger.posteriors(rows, types, len(model.tags))
        np.testing.assert_allclose(share.sum(axis=1), 1)
        assert ((share > 0).sum(axis=1) <= sizes).all()
        found, w = reader.read(arcs.words).tags, model.encoder.weight
        expected = (w * found + (1 - w) * share).argmax(axis=1)
        n_differing += (found.argmax(axis=1) != expected).sum()
        assert parser.parse(arcs.words).arcs.upos == tuple(model.tags[k][0] for k in expected)
    assert n_differing


def test_rows_that_no_word_takes_count_nothing():
    table = np.arange(8.0).reshape(4, 2)
    looked, rows = look_up(table, np.array([[3, -1], [0, 3], [-1, -1]]))
    np.testing.assert_array_equal(looked.words @ looked.vectors, [[6, 7], [6, 8], [0, 0]])
    assert set(rows.tolist()) == {0, 3}


def test_words_have_places_by_their_letters():
    rows = VectorRows(np.zeros(0, np.uint32), 1 << 10)
    words, forms = rows.rows(["Walked", "talked", "Walked"])
    assert words.tolist() == [UNKNOWN_ROW] * 3
    assert forms.max() < 1 << 10
    np.testing.assert_array_equal(forms[0], forms[2])
    assert 0 < (forms[0] == forms[1]).sum() < forms.shape[1]


def test_what_was_never_seen_says_nothing(monkeypatch):
    monkeypatch.setattr(network_training, "MOST_FORM_BITS", 12)
    arcs = bank(20)
    network = train_arc_network(arcs, *tasks(arcs), NetworkPlan(passes=1), 1, sizes=SMALL)
    seen = VectorRows(network.familiar, len(network.form_vectors)).rows(arcs.words)[1]
    unseen = np.setdiff1d(np.arange(len(network.form_vectors)), seen)
    assert len(unseen)
    assert not network.form_vectors[unseen].any()
