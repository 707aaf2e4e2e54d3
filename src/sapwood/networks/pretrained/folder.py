"""Folders of pretrained encoders as the Hugging Face hub has them: checks, weights, licence.

    config.json         sizes and the family of the model
    tokenizer.json      how words become pieces
    model.safetensors   weights

Nothing is downloaded, and no pickle is ever opened.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError, describe
from sapwood.core.model_files import read_safetensors
from sapwood.networks.pretrained.transformer import (
    ACTIVATIONS,
    Block,
    Float32Array,
    LayerNorm,
    Linear,
    Transformer,
)

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
MOST_PIECES = 512  # of a window, where a model would take more: attention costs their square
_MOST_LAYERS, _MOST_WIDTH = 200, 1 << 16  # beyond, a config.json is damaged
_HUB_FOLDER = re.compile(r"models--(.+?)--(.+)")  # how the hub's cache names the folder of a model
_CONVERT_WEIGHTS = (
    'python -c "from transformers import AutoModel; AutoModel.from_pretrained({0!r})'
    '.save_pretrained({0!r})"'
)
_CONVERT_TOKENIZER = (
    'python -c "from transformers import AutoTokenizer; AutoTokenizer.from_pretrained({0!r})'
    '.save_pretrained({0!r})"'
)
_ELSEWHERE = "run this once where transformers and torch are installed: "


class EncoderParts(NamedTuple):
    """The contents of a folder.

    Attributes
    ----------
    name, licence
        As the folder and its README say; the licence may be empty.
    sha256
        Of the three files.
    """

    name: str
    licence: str
    sha256: str
    config: dict[str, Any]
    tokenizer: str
    tensors: dict[str, npt.NDArray[Any]]


def read_folder(folder: Path) -> EncoderParts:
    """Read the folder of an encoder, after a check of what it has."""
    _require_files(folder)
    try:
        texts = [(folder / name).read_bytes() for name in (CONFIG, TOKENIZER)]
        digest = hashlib.sha256()
        for text in texts:
            digest.update(hashlib.sha256(text).digest())
        with (folder / WEIGHTS).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
        tensors = read_safetensors(folder / WEIGHTS)
    except (OSError, ValueError) as error:
        msg = f"{folder}: the encoder cannot be read ({error})"
        raise ModelFormatError(msg, hint="copy its files again from where they came") from error
    config = read_config(texts[0], str(folder / CONFIG))
    tokenizer = texts[1].decode("utf-8", "replace")
    return EncoderParts(
        _name_of(folder),
        _licence_of(folder),
        digest.hexdigest(),
        config,
        tokenizer,
        tensors,
    )


def _require_files(folder: Path) -> None:
    """Refuse a folder that lacks a file, and name the command that makes it."""
    if not folder.is_dir():
        msg = f"{folder}: no such folder"
        raise ModelFormatError(msg, hint=f"an encoder is a folder with {CONFIG}, {TOKENIZER} and "
                               f"{WEIGHTS}, as the Hugging Face hub has it")  # fmt: skip
    here = {path.name for path in folder.iterdir()}
    if CONFIG not in here:
        msg = f"{folder}: no {CONFIG}, so this is no folder of an encoder"
        raise ModelFormatError(
            msg, hint=f"give the folder with {CONFIG}, {TOKENIZER} and {WEIGHTS}"
        )
    encoder_family(read_config((folder / CONFIG).read_bytes(), str(folder / CONFIG)))
    if WEIGHTS not in here:
        has_pickle = any(name.endswith((".bin", ".pt", ".pth")) for name in here)
        found = "weights in a pickle, which can run code when it is opened" if has_pickle else (
            "weights in ONNX, which give the last layer only"
            if any(name.endswith(".onnx") for name in here) else "no weights"
        )  # fmt: skip
        if f"{WEIGHTS}.index.json" in here:
            found = "weights in several files"
        msg = f"{folder}: {found}; expected {WEIGHTS}"
        command = _CONVERT_WEIGHTS.format(str(folder))
        raise ModelFormatError(msg, hint=f"{_ELSEWHERE}{command}")
    if TOKENIZER not in here:
        msg = f"{folder}: no {TOKENIZER}, which says how words become pieces"
        raise ModelFormatError(msg, hint=_ELSEWHERE + _CONVERT_TOKENIZER.format(str(folder)))


def read_config(text: bytes, name: str) -> dict[str, Any]:
    """The settings of an encoder from the text of its config.json."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{name}: not JSON ({error})"
        raise ModelFormatError(msg, hint="copy the file again from where it came") from error
    if not isinstance(config, dict):
        raise ModelFormatError(f"{name}: {describe(config)}, expected an object of settings")
    return config


def _name_of(folder: Path) -> str:
    """The hub's name of a model in its cache, else the name of the folder."""
    for part in folder.absolute().parts[::-1]:
        if found := _HUB_FOLDER.fullmatch(part):
            return f"{found[1]}/{found[2]}"
    return folder.absolute().name or "unnamed"


def _licence_of(folder: Path) -> str:
    """The licence that the front matter of the README names; empty where it names none."""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            head = file.read(20_000)
    except OSError:
        return ""
    matter = head.split("\n---", 1)[0] if head.startswith("---") else ""
    names = dict(re.findall(r"^(license(?:_name)?):[ \t]*([^\n]{1,80})", matter, re.MULTILINE))
    licence = str(names.get("license", "")).strip()
    return str(names.get("license_name", licence)).strip() if licence == "other" else licence


class EncoderFamily(NamedTuple):
    """How the weights of a family of encoders make a Transformer."""

    prefix: str  # of the names of arrays, where a head was saved too
    build: Callable[[Weights, ConfigReader], Transformer]


def encoder_family(config: Mapping[str, Any]) -> EncoderFamily:
    """The family of a model, by its config.json; others are refused by name."""
    name = config.get("model_type")
    if not isinstance(name, str) or name not in ENCODER_FAMILIES:
        kind = repr(name) if isinstance(name, str) else describe(name)
        msg = f"the encoder is of the type {kind}, which Sapwood does not read"
        hint = "models of these types are read: " + ", ".join(ENCODER_FAMILIES)
        raise ModelFormatError(msg, hint=f"{hint} (MiniLM is a bert)")
    return ENCODER_FAMILIES[name]


def build_transformer(
    config: dict[str, Any], tensors: Mapping[str, npt.NDArray[Any]]
) -> tuple[Transformer, dict[str, npt.NDArray[Any]]]:
    """The Transformer of a config.json and arrays, which may be damaged; and the arrays it takes.

    Other arrays of a checkpoint, such as those of a head, are ignored.
    """
    family = encoder_family(config)
    weights = Weights(tensors, family.prefix)
    transformer = family.build(weights, ConfigReader(config))
    return transformer, {name: weights.tensors[name] for name in sorted(weights.taken)}


class ConfigReader:
    """Reads settings of a config.json and refuses impossible ones."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def size(self, name: str, most: int = _MOST_WIDTH) -> int:
        """A whole number from 1 to a bound."""
        value = self.config.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            msg = f"{CONFIG} has {describe(value)} as {name}, expected a whole number up to {most}"
            raise ModelFormatError(msg)
        return value

    def number(self, name: str, default: float) -> float:
        """A setting that is a positive number."""
        value = self.config.get(name, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e12:
            raise ModelFormatError(f"{CONFIG} has {describe(value)} as {name}, expected a number")
        return float(value)

    def activation(self, name: str) -> Callable[[Float32Array], Float32Array]:
        """The activation function that a setting names."""
        value = self.config.get(name, "gelu")
        if not isinstance(value, str) or value not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            msg = f"{CONFIG} has {value!r} as {name}, expected one of {known}"
            raise ModelFormatError(msg)
        return ACTIVATIONS[value]

    def heads(self, name: str, width: int) -> int:
        """The number of heads, by which the width can be divided."""
        n = self.size(name)
        if width % n:
            raise ModelFormatError(f"{width} numbers cannot be divided among {n} heads")
        return n


class Weights:
    """Takes arrays of a file by name, in single precision, and refuses those of a wrong shape."""

    def __init__(self, tensors: Mapping[str, npt.NDArray[Any]], prefix: str) -> None:
        old = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
        self.tensors = {}
        for name, array in tensors.items():
            key = name.removeprefix(prefix)
            for before, after in old:  # the first BERT has these names
                key = key.replace(before, after)
            self.tensors[key] = array
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int | None) -> Float32Array:
        """An array of some shape; None stands for any size."""
        if name not in self.tensors:
            raise ModelFormatError(f"the encoder has no weights {name}, which its family has")
        array = self.tensors[name]
        fits = array.ndim == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind != "f" or not fits:
            wanted = " x ".join("any" if size is None else str(size) for size in shape)
            msg = f"the encoder's {name} is {array.dtype} {array.shape}, expected numbers {wanted}"
            raise ModelFormatError(msg)
        self.taken.add(name)
        numbers = np.ascontiguousarray(array, np.float32)
        if not np.isfinite(numbers).all():
            raise ModelFormatError(f"the encoder's {name} has numbers that are not finite")
        return numbers

    def linear(self, name: str, n_outputs: int, n_inputs: int) -> Linear:
        """A matrix with its bias, where it has one."""
        W, bias = self.take(f"{name}.weight", n_outputs, n_inputs), f"{name}.bias"
        return Linear(W, self.take(bias, n_outputs) if bias in self else None)

    def joined(self, names: list[str], n_outputs: int, n_inputs: int) -> Linear:
        """Several matrices, one below the other, as one."""
        parts = [self.linear(name, n_outputs, n_inputs) for name in names]
        W, biases = np.concatenate([part.W for part in parts]), [part.b for part in parts]
        b = [np.zeros(n_outputs, np.float32) if one is None else one for one in biases]
        return Linear(W, np.concatenate(b))

    def norm(self, name: str, width: int, epsilon: float) -> LayerNorm:
        """A layer normalisation with its offset, where it has one."""
        offset = f"{name}.bias"
        gain = self.take(f"{name}.weight", width)
        return LayerNorm(gain, self.take(offset, width) if offset in self else None, epsilon)


def _bert(weights: Weights, settings: ConfigReader, first: int = 0) -> Transformer:
    """BERT and MiniLM; `first` is the first row of the table of positions that text has."""
    kind = settings.config.get("position_embedding_type", "absolute")
    if kind not in ("absolute", None):
        msg = f"the encoder has positions of the type {describe(kind)}, expected absolute ones"
        raise ModelFormatError(msg)
    d, epsilon = settings.size("hidden_size"), settings.number("layer_norm_eps", 1e-12)
    inner = settings.size("intermediate_size")
    blocks = []
    for k in range(settings.size("num_hidden_layers", _MOST_LAYERS)):
        layer = f"encoder.layer.{k}"
        own = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        blocks.append(
            Block(
                weights.joined(own, d, d),
                weights.linear(f"{layer}.attention.output.dense", d, d),
                weights.norm(f"{layer}.attention.output.LayerNorm", d, epsilon),
                weights.linear(f"{layer}.intermediate.dense", inner, d),
                weights.linear(f"{layer}.output.dense", d, inner),
                weights.norm(f"{layer}.output.LayerNorm", d, epsilon),
            )
        )
    of_type = weights.take("embeddings.token_type_embeddings.weight", None, d)
    positions = weights.take("embeddings.position_embeddings.weight", None, d)[first:]
    if not len(of_type):
        raise ModelFormatError("the encoder has no vector of a type of text")
    return Transformer(
        weights.take("embeddings.word_embeddings.weight", None, d), positions + of_type[0],
        weights.norm("embeddings.LayerNorm", d, epsilon), tuple(blocks),
        settings.heads("num_attention_heads", d), settings.activation("hidden_act"),
        min(len(positions), MOST_PIECES),
    )  # fmt: skip


def _roberta(weights: Weights, settings: ConfigReader) -> Transformer:
    """RoBERTa and XLM-RoBERTa: BERT whose positions are numbered after that of padding."""
    padding = settings.config.get("pad_token_id", 1)
    if not isinstance(padding, int) or not 0 <= padding < MOST_PIECES:
        raise ModelFormatError(f"{CONFIG} has {describe(padding)} as pad_token_id")
    return _bert(weights, settings, padding + 1)


def _distilbert(weights: Weights, settings: ConfigReader) -> Transformer:
    """DistilBERT: BERT with other names and without types of text."""
    d, inner, epsilon = settings.size("dim"), settings.size("hidden_dim"), 1e-12
    blocks = []
    for k in range(settings.size("n_layers", _MOST_LAYERS)):
        layer = f"transformer.layer.{k}"
        own = [f"{layer}.attention.{part}_lin" for part in "qkv"]
        blocks.append(
            Block(
                weights.joined(own, d, d),
                weights.linear(f"{layer}.attention.out_lin", d, d),
                weights.norm(f"{layer}.sa_layer_norm", d, epsilon),
                weights.linear(f"{layer}.ffn.lin1", inner, d),
                weights.linear(f"{layer}.ffn.lin2", d, inner),
                weights.norm(f"{layer}.output_layer_norm", d, epsilon),
            )
        )
    positions = weights.take("embeddings.position_embeddings.weight", None, d)
    return Transformer(
        weights.take("embeddings.word_embeddings.weight", None, d), positions,
        weights.norm("embeddings.LayerNorm", d, epsilon), tuple(blocks),
        settings.heads("n_heads", d), settings.activation("activation"),
        min(len(positions), MOST_PIECES),
    )  # fmt: skip


def _modernbert(weights: Weights, settings: ConfigReader) -> Transformer:
    """ModernBERT: rotary positions, gated layers, and attention that is local in most layers."""
    d, epsilon = settings.size("hidden_size"), settings.number("norm_eps", 1e-5)
    inner, n_heads = settings.size("intermediate_size"), settings.heads("num_attention_heads", d)
    if d // n_heads % 2:
        raise ModelFormatError(f"heads of {d // n_heads} numbers cannot be rotated in pairs")
    reach = int(settings.number("local_attention", 128)) // 2
    blocks = []
    for k in range(settings.size("num_hidden_layers", _MOST_LAYERS)):
        layer, (is_global, base) = f"layers.{k}", _modernbert_attention(settings, k)
        before = f"{layer}.attn_norm"
        blocks.append(
            Block(
                weights.linear(f"{layer}.attn.Wqkv", 3 * d, d),
                weights.linear(f"{layer}.attn.Wo", d, d),
                weights.norm(before, d, epsilon) if k else None,
                weights.linear(f"{layer}.mlp.Wi", 2 * inner, d),
                weights.linear(f"{layer}.mlp.Wo", d, inner),
                weights.norm(f"{layer}.mlp_norm", d, epsilon),
                base, None if is_global else reach,
            )
        )  # fmt: skip
    return Transformer(
        weights.take("embeddings.tok_embeddings.weight", None, d), None,
        weights.norm("embeddings.norm", d, epsilon), tuple(blocks), n_heads,
        settings.activation("hidden_activation"),
        min(settings.size("max_position_embeddings", 1 << 24), MOST_PIECES), is_prenorm=True,
        is_gated=True, final_norm=weights.norm("final_norm", d, epsilon),
    )  # fmt: skip


def _modernbert_attention(settings: ConfigReader, k: int) -> tuple[bool, float]:
    """Whether attention of a layer sees all pieces, and the base of its rotary positions."""
    config = settings.config
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and k < len(kinds):
        is_global = kinds[k] == "full_attention"
    else:
        is_global = k % settings.size("global_attn_every_n_layers") == 0
    name, usual = ("global_rope_theta", 160_000.0) if is_global else ("local_rope_theta", 10_000.0)
    newer = config.get("rope_parameters")
    if isinstance(newer, dict):
        own = newer.get("full_attention" if is_global else "sliding_attention")
        if not isinstance(own, dict) or own.get("rope_type", "default") != "default":
            raise ModelFormatError(f"{CONFIG} has {describe(own)} as rope_parameters of a layer")
        return is_global, ConfigReader(own).number("rope_theta", usual)
    value = config.get(name)
    return is_global, usual if value is None else settings.number(name, usual)


ENCODER_FAMILIES = {
    "bert": EncoderFamily("bert.", _bert),
    "roberta": EncoderFamily("roberta.", _roberta),
    "xlm-roberta": EncoderFamily("roberta.", _roberta),
    "distilbert": EncoderFamily("distilbert.", _distilbert),
    "modernbert": EncoderFamily("model.", _modernbert),
}
