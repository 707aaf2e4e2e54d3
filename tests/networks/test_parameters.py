"""Weights of networks: their initial values, their vector, and clipping of their gradients."""

from pathlib import Path

import numpy as np
import pytest

from sapwood.networks.network import EncoderSizes, Parameters, glorot_uniform, init_encoder
from sapwood.networks.scores import (
    INITIAL_LABEL_SCORE,
    ArcSizes,
    SpanSizes,
    init_arcs,
    init_spans,
)
from sapwood.networks.training import clip_gradients

SIZES = EncoderSizes(word=7, form=5, tag=3, state=8)
LSTMS = [f"{layer}.{end}" for layer in ("first", "second") for end in ("forwards", "backwards")]


@pytest.fixture(scope="module")
def weights() -> Parameters:
    shapes = SIZES.shapes(n_tags=6) | SpanSizes(9).shapes(16, 4)
    rng = np.random.default_rng(0)
    P = init_encoder(shapes | ArcSizes(5, 4).shapes(16, 3), rng, np.float64)
    init_spans(P, rng)
    init_arcs(P, rng)
    return P


@pytest.mark.parametrize("lstm", LSTMS)
def test_forget_gates_start_open_and_recurrent_matrices_orthogonal(
    weights: Parameters, lstm: str
) -> None:
    inputs, forgets, outputs, offers = weights[f"{lstm}.b"].reshape(4, SIZES.state)
    assert (forgets == 1).all()
    assert not np.concatenate([inputs, outputs, offers]).any()
    for block in np.split(weights[f"{lstm}.U"], 4, axis=1):
        np.testing.assert_allclose(block.T @ block, np.eye(SIZES.state), atol=1e-12)


def test_layers_have_the_sizes_of_what_they_read(weights: Parameters) -> None:
    assert weights["first.forwards.W"].shape == (7 + 5, 32)
    assert weights["second.backwards.W"].shape == (2 * 8 + 3, 32)
    assert weights["tag.W"].shape == (16, 6)
    assert weights["tag.E"].shape == (6, 3)


def test_matrices_fill_the_interval_of_glorot_and_bengio() -> None:
    array = np.empty((300, 100))
    glorot_uniform(array, np.random.default_rng(1))
    most = (6 / 400) ** 0.5
    assert array.max() == pytest.approx(most, rel=0.01)
    assert array.min() == pytest.approx(-most, rel=0.01)
    assert array.mean() == pytest.approx(0, abs=0.01 * most)


def test_every_weight_matrix_starts_somewhere_and_tag_vectors_are_small(
    weights: Parameters,
) -> None:
    zero = {name for name in weights if not weights[name].any()}
    # the bilinear form of relations, and all biases but those of forget gates and of labels
    assert zero == {name for name in weights if name.endswith((".b", ".c", ".offset"))} - {
        *(f"{lstm}.b" for lstm in LSTMS), "label.b",
    } | {name for name in ("relation.U",) if name in zero}  # fmt: skip
    assert 0.02 < weights["tag.E"].std() < 0.2


def test_spans_start_without_labels_and_with_unit_gains(weights: Parameters) -> None:
    assert (weights["label.b"] == INITIAL_LABEL_SCORE).all()
    assert (weights["span.gain"] == 1).all()


def test_default_sizes_are_those_of_the_documentation() -> None:
    import sapwood as sw
    from sapwood.networks.training import NetworkPlan

    page = (Path(__file__).parents[2] / "docs/concepts/encoder.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    sizes, spans, arcs, plan = EncoderSizes(), SpanSizes(), ArcSizes(), NetworkPlan()
    learner = sw.SpanEncoder()
    for text in (
        f"word vector ({sizes.word}) + sum of", f"affixes and shapes ({sizes.form})",
        f"LSTM in both directions ({sizes.state} each)", f"for arcs ({arcs.arc})",
        f"relations ({arcs.relation})", f"A hidden layer ({spans.hidden})",
        f"rate of {plan.rate} that",
        f"batches of {plan.words} words",
    ):  # fmt: skip
        assert text in page
    assert (learner.width, learner.hidden, learner.rate) == (sizes.state, spans.hidden, plan.rate)


def test_gradients_are_clipped_together() -> None:
    a, b = np.array([3.0]), np.array([[0.0, 4.0]])
    assert clip_gradients([a, b], 2.5) == 5
    np.testing.assert_allclose(a, [1.5])
    np.testing.assert_allclose(b, [[0.0, 2.0]])
    assert clip_gradients([a, b], 10) == pytest.approx(2.5)
    np.testing.assert_allclose(a, [1.5])


def test_arrays_share_one_vector() -> None:
    P = Parameters({"W": (2, 2), "b": (2,)}, np.float64)
    P["W"][:] = 1
    assert P.flat.tolist() == [1, 1, 1, 1, 0, 0]
    assert (list(P), len(P)) == (["W", "b"], 2)
    assert P.empty_like().shapes == P.shapes
