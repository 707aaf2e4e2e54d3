"""Ensembles in compact files: every weight in 16 bits or 8, and every number in as few as it needs.

An ordinary file of an ensemble keeps plain grammars in double precision and places in 32 bits. In a
compact one, plain grammars are packed as those with hidden states are (see `ensemble`), and the
plain grammar that prunes for a grammar with hidden states is not stored where another member's own
weights are the same. Networks keep the bits that they were rounded to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.constituency.grammar.ensemble import pack_weights, unpack_weights
from sapwood.constituency.grammar.latent_grammar import CoarseWeights, LatentGrammar
from sapwood.core.errors import ModelFormatError

Arrays = dict[str, npt.NDArray[Any]]
# arrays of whole numbers, and their types in a grammar
_TYPES: dict[str, npt.DTypeLike] = {
    "n_states": np.int64, "rules": np.int32, "lexicon_row_start": np.uint32,
    "lexicon_entry_tag": np.uint32, "rule_rank": np.int64,
}  # fmt: skip
_SMALL: tuple[npt.DTypeLike, ...] = (np.uint8, np.uint16, np.uint32)
_WEIGHTS = ("rule_weights", "lexicon_weights")
_COARSE = ("coarse_root", "coarse_rules", "coarse_lexical")
_PLAIN = "plain."  # before the names of the packed arrays of a plain grammar


def prunes_itself(grammar: LatentGrammar) -> bool:
    """Whether the plain grammar that prunes for a grammar is the grammar itself."""
    return grammar.is_plain and grammar.is_probabilistic


def plain_part(grammar: LatentGrammar) -> LatentGrammar:
    """The plain grammar that prunes for a grammar, as a grammar of its own."""
    if prunes_itself(grammar):
        return grammar
    coarse, n_entries = grammar.coarse, len(grammar.lexicon.entry_tag)
    lexicon = replace(
        grammar.lexicon, weights=coarse.lexical, weight_start=np.arange(n_entries + 1)
    )
    return replace(
        grammar, n_states=np.ones_like(grammar.n_states), root=coarse.root,
        rule_weights=coarse.rules, lexicon=lexicon, is_probabilistic=True,
        rule_rank=np.empty(0, np.int64),
    )  # fmt: skip


def rounded_grammar(grammar: LatentGrammar) -> LatentGrammar:
    """A grammar with all weights rounded to 16 bits, those of its plain grammar too."""
    plain = _rounded(plain_part(grammar))
    coarse = CoarseWeights(plain.root, plain.rule_weights, plain.lexicon.weights)
    whole = plain if prunes_itself(grammar) else _rounded(grammar)
    return replace(whole, coarse=coarse)


def _rounded(grammar: LatentGrammar) -> LatentGrammar:
    arrays = grammar.to_file().arrays | pack_weights(grammar)
    found = unpack_weights(arrays, grammar.n_phrases, is_probabilistic=grammar.is_probabilistic)
    lexicon = replace(grammar.lexicon, weights=found["lexicon_weights"])
    return replace(grammar, rule_weights=found["rule_weights"], lexicon=lexicon)


def pack_compact(own: Arrays, grammar: LatentGrammar, owner: LatentGrammar | None) -> Arrays:
    """The arrays of a member's own file as a compact file has them.

    Parameters
    ----------
    own
        Arrays of the member's own file.
    grammar
        The member's chart grammar.
    owner
        The chart grammar of the earlier member with the same rules, words and plain grammar; None
        without one.
    """
    packed = {name: array for name, array in own.items() if name not in (*_WEIGHTS, *_COARSE)}
    if prunes_itself(grammar) and owner is not None:
        del packed["root"]  # the owner has the weights, as its own or as those that prune
    else:
        packed |= pack_weights(grammar)
        if not prunes_itself(grammar) and owner is None:
            plain = plain_part(grammar)
            packed |= {f"{_PLAIN}{k}": array for k, array in pack_weights(plain).items()}
            packed[f"{_PLAIN}root"] = plain.root
    return {name: _narrow(array) if name in _TYPES else array for name, array in packed.items()}


def unpack_compact(
    own: Mapping[str, npt.NDArray[Any]], header: Mapping[str, Any], owner: LatentGrammar | None
) -> Arrays:
    """The arrays of a member's own file, from those of a compact one, which may be damaged."""
    arrays = {name: _widen(name, array) for name, array in own.items() if name[:6] != _PLAIN}
    if owner is None:
        coarse = _plain_arrays(own, arrays, header)
    else:
        plain = owner.coarse
        coarse = dict(zip(_COARSE, (plain.root, plain.rules, plain.lexical), strict=True))
    if "rule_codes" not in arrays:
        if owner is None:
            raise ModelFormatError("a member has no weights of rules")
        root, rules, lexical = (coarse[name] for name in _COARSE)
        return arrays | {"root": root, "rule_weights": rules, "lexicon_weights": lexical}
    found = unpack_weights(
        arrays, len(header["phrases"]), is_probabilistic=header["is_probabilistic"]
    )
    arrays = {k: v for k, v in arrays.items() if not k.startswith(("rule_codes", "rule_kept",
              "rule_scale", "lexicon_codes", "lexicon_kept", "lexicon_scale"))}  # fmt: skip
    return arrays | coarse | found


def _plain_arrays(
    own: Mapping[str, npt.NDArray[Any]], arrays: Arrays, header: Mapping[str, Any]
) -> Arrays:
    """The weights that prune, from their packed arrays; none of a plain grammar."""
    packed = {name[6:]: array for name, array in own.items() if name[:6] == _PLAIN}
    if not packed:
        return {}
    shape = {name: arrays[name] for name in ("rules", "lexicon_row_start", "lexicon_entry_tag")}
    shape["n_states"] = np.ones_like(arrays["n_states"])
    found = unpack_weights(shape | packed, len(header["phrases"]), is_probabilistic=True)
    return dict(zip(_COARSE, (packed["root"], *(found[name] for name in _WEIGHTS)), strict=True))


def _narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers of at least 0 in the smallest type that holds them."""
    most = int(array.max(initial=0))
    return array.astype(next(kind for kind in _SMALL if most <= np.iinfo(kind).max))


def _widen(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if name not in _TYPES:
        return array
    if array.dtype not in _SMALL:
        raise ModelFormatError(f"{name} is of type {array.dtype}, expected 8, 16 or 32 bits")
    wide = array.astype(_TYPES[name])
    if (wide < 0).any():
        raise ModelFormatError(f"{name} has a number that is too large")
    return wide
