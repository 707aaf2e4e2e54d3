"""Writes the tiny encoders of `tests/data/encoders`, with the hidden states of their reference.

One random model for each family, with a tokenizer of its kind. Needs `torch`, `transformers` and
`tokenizers`, which the tests do not; run it again where a family is added:

    python tests/reference/tiny_encoders.py tests/data/encoders
"""

from __future__ import annotations

import string
import sys
from pathlib import Path
from typing import Any

N_IDS = 19  # of the sentence whose states are stored
MARKS = ["(", ")", "[", "]", '"', "'", "/", ".", ",", "-"]


def word_piece(unknown: str = "[UNK]") -> Any:
    """A tokenizer as BERT has it: lower case, accents cut off, letters and a few words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = [*string.ascii_lowercase, *string.digits]
    pieces = ["[PAD]", unknown, "[CLS]", "[SEP]", *letters, *(f"##{x}" for x in letters), *MARKS]
    pieces += ["the", "dog", "##ing"]
    model = models.WordPiece({x: k for k, x in enumerate(pieces)}, unk_token=unknown)
    found = Tokenizer(model)
    found.normalizer = normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    found.enable_truncation(8)  # as some folders have it: to be switched off
    found.enable_padding(length=8)
    return found


def byte_level() -> Any:
    """A tokenizer as RoBERTa has it: pairs of bytes, with another piece behind a blank."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *alphabet, "Ġd", "Ġt", "og", "Ġdog"]
    merges = [("Ġ", "d"), ("Ġ", "t"), ("o", "g"), ("Ġd", "og")]
    found = Tokenizer(models.BPE({x: k for k, x in enumerate(pieces)}, merges))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return found


def sentence_piece() -> Any:
    """A tokenizer as XLM-RoBERTa has it: the likeliest pieces, with a mark for the blank."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(x, -3.0) for x in [*string.ascii_letters, *string.digits, *MARKS]]
    pieces += [("▁dog", -2.5), ("▁the", -2.5), ("ing", -3.5)]
    found = Tokenizer(models.Unigram(pieces, unk_id=3))
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    found.pre_tokenizer = pre_tokenizers.Sequence(parts)
    found.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return found


def families() -> dict[str, tuple[Any, Any]]:
    """Models, not yet random, and their tokenizers, by family."""
    import transformers as hub

    size = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 24}  # fmt: skip
    made = {"bert": word_piece(), "roberta": byte_level(), "xlm-roberta": sentence_piece(),
            "distilbert": word_piece(), "modernbert": byte_level()}  # fmt: skip
    n = {name: tokenizer.get_vocab_size() for name, tokenizer in made.items()}
    first = {"add_pooling_layer": False}
    marks = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0,
             "sep_token_id": 2}  # fmt: skip
    models = {
        "bert": hub.BertModel(hub.BertConfig(vocab_size=n["bert"], **size), **first),
        "roberta": hub.RobertaModel(
            hub.RobertaConfig(vocab_size=n["roberta"], type_vocab_size=1, **size), **first
        ),
        "xlm-roberta": hub.XLMRobertaModel(
            hub.XLMRobertaConfig(
                vocab_size=n["xlm-roberta"], type_vocab_size=1, hidden_act="gelu_new", **size
            ),
            **first,
        ),
        "distilbert": hub.DistilBertModel(
            hub.DistilBertConfig(
                vocab_size=n["distilbert"], dim=8, hidden_dim=12, n_layers=2, n_heads=2,
                max_position_embeddings=24,
            )
        ),
        "modernbert": hub.ModernBertModel(
            hub.ModernBertConfig(
                vocab_size=n["modernbert"], local_attention=6, **marks,
                **(size | {"num_hidden_layers": 3}),
            )
        ),
    }  # fmt: skip
    return {name: (model, made[name]) for name, model in models.items()}


def write(folder: Path) -> None:
    """Write all of them."""
    import numpy as np
    import torch
    from safetensors.numpy import save_file

    for name, (model, tokenizer) in families().items():
        generator = torch.Generator().manual_seed(1)
        for key, weights in model.named_parameters():
            is_gain = "orm" in key and key.endswith("weight")
            weights.data = 0.4 * torch.randn(weights.shape, generator=generator) + is_gain
        own = folder / name
        model.eval().save_pretrained(own)
        tokenizer.save(str(own / "tokenizer.json"), pretty=False)
        (own / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# Tiny\n")
        ids = torch.randint(4, tokenizer.get_vocab_size(), (1, N_IDS), generator=generator)
        with torch.no_grad():  # in double precision, which Sapwood's single one is compared with
            states = model.double()(input_ids=ids, output_hidden_states=True).hidden_states
        found = {f"layer{k}": x[0].numpy().astype(np.float32) for k, x in enumerate(states)}
        save_file(found | {"ids": ids[0].numpy()}, own / "states.safetensors")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
