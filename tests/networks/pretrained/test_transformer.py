"""The forward pass against the states of the reference implementation, for every family."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import read_safetensors
from sapwood.networks.pretrained.folder import ENCODER_FAMILIES, build_transformer, read_folder
from sapwood.networks.pretrained.transformer import gelu, rotate

ENCODERS = Path(__file__).parents[2] / "data" / "encoders"
NAMES = sorted(path.name for path in ENCODERS.iterdir())


def states_of(name: str) -> dict[str, np.ndarray]:
    return read_safetensors(ENCODERS / name / "states.safetensors")


def test_there_is_a_tiny_model_of_every_family() -> None:
    kinds = {
        json.loads((ENCODERS / name / "config.json").read_text())["model_type"] for name in NAMES
    }
    assert kinds == set(ENCODER_FAMILIES)


@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_equal_the_reference(name: str) -> None:
    """To 1e-5 in every layer; the reference was computed in double precision."""
    parts, expected = read_folder(ENCODERS / name), states_of(name)
    transformer, _ = build_transformer(parts.config, parts.tensors)
    ids = expected.pop("ids")
    assert len(expected) == len(transformer.blocks) + 1
    layers = range(len(expected))
    joined = transformer.hidden_states(ids, layers)
    for k in layers:
        wanted = expected[f"layer{k}"]
        assert wanted.std() > 0.3  # nothing that any forward pass would give
        found = transformer.hidden_states(ids, [k])
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        np.testing.assert_array_equal(joined[:, k * 8 : k * 8 + 8], found)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spoil", ["heads", "order", "position", "norm"])
def test_the_comparison_notices_a_wrong_forward_pass(name: str, spoil: str) -> None:
    parts, expected = read_folder(ENCODERS / name), states_of(name)
    config, tensors, ids = dict(parts.config), dict(parts.tensors), expected["ids"]
    if spoil == "heads":
        config["n_heads" if name == "distilbert" else "num_attention_heads"] = 4
    elif spoil == "norm":
        key = next(k for k in sorted(tensors) if "orm" in k and k.endswith("weight"))
        tensors[key] = tensors[key] + np.float32(0.01)
    transformer, _ = build_transformer(config, tensors)
    last = len(transformer.blocks)
    read = ids[::-1] if spoil == "order" else np.roll(ids, 1) if spoil == "position" else ids
    found = transformer.hidden_states(read, [last])
    found = (
        found[::-1] if spoil == "order" else np.roll(found, -1, 0) if spoil == "position" else found
    )
    assert np.abs(found - expected[f"layer{last}"]).max() > 1e-3


def test_a_head_saved_beside_the_encoder_and_old_names_do_no_harm() -> None:
    parts = read_folder(ENCODERS / "bert")
    renamed = {
        "bert."
        + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array.astype(np.float16)
        for name, array in parts.tensors.items()
    }
    found, taken = build_transformer(parts.config, renamed | {"cls.bias": np.zeros(3, np.float32)})
    plain, _ = build_transformer(parts.config, parts.tensors)
    ids = states_of("bert")["ids"]
    assert "cls.bias" not in taken
    both = [one.hidden_states(ids, [2]) for one in (found, plain)]
    np.testing.assert_allclose(*both, atol=0.02)  # half precision


def test_numbers_of_16_bits_of_either_kind_are_read(tmp_path: Path) -> None:
    """A bfloat16 number is the upper half of one of 32 bits."""
    numbers = np.array([1.5, -2.25, 1e30, 3e-5], np.float32)
    head = {"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}
    text = json.dumps(head).encode()
    data = (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    found = read_safetensors(tmp_path / "x.safetensors")["x"]
    np.testing.assert_allclose(found, numbers, rtol=2**-7)
    assert found.dtype == np.float32


def test_gelu_equals_its_definition() -> None:
    from scipy.special import erf

    x = np.linspace(-9, 9, 10_001)
    expected = x * 0.5 * (1 + erf(x / 2**0.5))
    np.testing.assert_allclose(gelu(x.astype(np.float32)), expected, atol=1e-6)


def test_rotated_products_depend_on_the_distance_alone() -> None:
    rng = np.random.default_rng(0)
    q, k = (np.tile(rng.normal(size=(1, 1, 6)), (1, 9, 1)) for _ in "qk")
    products = (rotate(q, 100.0) @ rotate(k, 100.0).transpose(0, 2, 1))[0]
    for distance in range(-8, 9):
        assert np.ptp(np.diagonal(products, distance)) < 1e-12
    assert np.ptp(products) > 0.1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model_type": "gpt2"}, "of the type 'gpt2', which Sapwood does not read"),
        ({"model_type": None}, "which Sapwood does not read"),
        ({"hidden_size": 9}, "embeddings.position_embeddings.weight|query.weight"),
        ({"num_attention_heads": 3}, "8 numbers cannot be divided among 3 heads"),
        ({"num_hidden_layers": 3}, "no weights encoder.layer.2"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers, expected a whole number"),
        ({"hidden_act": "swish"}, "'swish' as hidden_act, expected one of gelu"),
        ({"position_embedding_type": "relative_key"}, "expected absolute ones"),
    ],
)
def test_other_models_and_settings_are_refused_by_name(change: dict, expected: str) -> None:
    parts = read_folder(ENCODERS / "bert")
    with pytest.raises(ModelFormatError, match=expected):
        build_transformer(parts.config | change, parts.tensors)
