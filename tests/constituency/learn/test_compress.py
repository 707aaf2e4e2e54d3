"""Mixes in compact files: the same probabilities nearly, smaller files, damage refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.compact import plain_part
from sapwood.constituency.grammar.latent_grammar import state_sums
from sapwood.constituency.learn.compress import Compression, compress_mix
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import digest_of, read_tensors, write_atomically
from sapwood.execute import Threads

SETTINGS = Compression(least_words=3, least_word_vectors=3, least_forms=3, least_ratio=0.01)


@pytest.fixture(scope="module")
def bank() -> sw.Treebank:
    return sw.Treebank.from_trees(list(sw.bundled_treebank("train")[:300]))


@pytest.fixture(scope="module")
def sentences(bank: sw.Treebank) -> list[list[str]]:
    return [tree.words() for tree in bank]


@pytest.fixture(scope="module")
def mix(bank: sw.Treebank) -> sw.Ensemble:
    plain = PCFG()
    data = plain.prepare(bank, Threads(1))
    network = sw.SpanEncoder(width=5, hidden=4, passes=1, plain=plain).fit(data).model_
    grammar = sw.ClusterLPCFG(2, plain=plain).fit(data).model_
    assert not grammar.is_plain
    return sw.Ensemble.of([network, grammar], [0.75, 0.25])


@pytest.fixture(scope="module")
def small(mix: sw.Ensemble, sentences: list[list[str]]) -> sw.Ensemble:
    return compress_mix(mix, sentences, SETTINGS)


def test_a_file_holds_the_compressed_mix(small: sw.Ensemble, tmp_path: Path) -> None:
    small.save(tmp_path / "small.sapwood")
    loaded = sw.load(tmp_path / "small.sapwood")
    assert loaded.is_compact
    for one, other in zip(small.grammars, loaded.grammars, strict=True):
        assert one.lexicon.words == other.lexicon.words
        for name in ("rule_weights", "root", "rules", "n_states"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
        assert one.lexicon.weights.tobytes() == other.lexicon.weights.tobytes()
        assert one.coarse.lexical.tobytes() == other.coarse.lexical.tobytes()
        assert one.coarse.rules.tobytes() == other.coarse.rules.tobytes()
    loaded.save(tmp_path / "again.sapwood")
    first, again = ((tmp_path / f"{name}.sapwood").read_bytes() for name in ("small", "again"))
    assert first == again


def test_it_is_smaller_than_the_mix_and_than_a_plain_file_of_itself(
    mix: sw.Ensemble, small: sw.Ensemble, tmp_path: Path
) -> None:
    sizes = []
    for name, model in (("mix", mix), ("wide", replace(small, is_compact=False)), ("small", small)):
        model.save(tmp_path / name)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[2] < 0.9 * sizes[1] < 0.9 * sizes[0]


@pytest.mark.parametrize("kept", [[1], [1, 0], [0], [1, 1]])
def test_members_in_any_order_come_back(
    small: sw.Ensemble, kept: list[int], tmp_path: Path
) -> None:
    model = replace(
        small, members=tuple(small.members[k] for k in kept), weights=np.ones(len(kept)) / len(kept)
    )
    model.save(tmp_path / "m.sapwood")
    loaded = sw.load(tmp_path / "m.sapwood")
    for one, other in zip(model.grammars, loaded.grammars, strict=True):
        assert one.coarse.lexical.tobytes() == other.coarse.lexical.tobytes()
        assert one.lexicon.weights.tobytes() == other.lexicon.weights.tobytes()


def test_a_plain_grammar_and_a_spectral_one_come_back(
    bank: sw.Treebank, sentences: list[list[str]], tmp_path: Path
) -> None:
    data = PCFG().prepare(bank, Threads(1))
    for states in (1, 3):
        spectral = sw.SpectralLPCFG(states).fit(data).model_
        model = compress_mix(spectral, sentences, Compression(least_words=0, least_ratio=0.0))
        model.save(tmp_path / f"{states}.sapwood")
        loaded = sw.load(tmp_path / f"{states}.sapwood")
        for name in ("rule_weights", "root"):
            found = getattr(loaded.grammars[0], name)
            assert found.tobytes() == getattr(model.grammars[0], name).tobytes()
        assert loaded.grammars[0].coarse.rules.tobytes() == model.grammars[0].coarse.rules.tobytes()


def test_probabilities_still_sum_to_one(small: sw.Ensemble) -> None:
    for grammar in (*small.grammars, *map(plain_part, small.grammars)):
        sums = state_sums(grammar)
        np.testing.assert_allclose(sums[sums > 0], 1.0, atol=1e-9)  # sums of doubles


def test_rare_words_are_unknown_and_their_class_has_their_weight(
    mix: sw.Ensemble, sentences: list[list[str]]
) -> None:
    counts = Counter(word for words in sentences for word in words)
    model = compress_mix(mix.members[1], sentences, Compression(least_words=3, least_ratio=0.0))
    before, after = mix.grammars[1], model.grammars[0]
    assert set(after.lexicon.words) == {x for x in before.lexicon.words if counts[x] >= 3}

    def of_classes(grammar: sw.LatentGrammar) -> float:
        rows = grammar.lexicon.entry_row >= len(grammar.lexicon.words)
        return float(grammar.coarse.lexical[rows].sum())

    def of_words(grammar: sw.LatentGrammar, rare: bool) -> float:
        words = grammar.lexicon.words
        is_asked = np.array([(counts[word] < 3) == rare for word in words])
        rows = grammar.lexicon.entry_row
        inside = rows < len(words)
        return float(grammar.coarse.lexical[inside][is_asked[rows[inside]]].sum())

    moved = of_words(before, rare=True)
    assert moved > 0
    # some tags of rare words are not among those of their class, which then has less
    assert of_classes(before) < of_classes(after)
    assert of_classes(after) == pytest.approx(of_classes(before) + moved, rel=0.1)
    assert of_words(after, rare=False) == pytest.approx(of_words(before, rare=False), rel=0.1)


def test_every_tag_keeps_a_word(mix: sw.Ensemble, sentences: list[list[str]]) -> None:
    """Else trees that are drawn would come to a tag without words."""
    model = compress_mix(mix, sentences, Compression(least_words=1000, least_ratio=1.0))
    grammar = model.grammars[1]
    assert set(grammar.lexicon.entry_tag.tolist()) == set(range(len(grammar.tags)))
    assert len(model.members[1].sample(20, seed=1)) == 20


def test_it_parses_scores_and_draws(small: sw.Ensemble, mix: sw.Ensemble, bank: Any) -> None:
    trees = list(bank)[:30]
    parses = [
        [parse.tree for parse in sw.Parser(model).parse_many([tree.words() for tree in trees])]
        for model in (mix, small)
    ]
    whole, compact = (sw.evaluate.bracketing(trees, found).f1 for found in parses)
    assert compact > whole - 8  # of 30 trees; a wrong scale loses half of the brackets
    logs = [model.log_probs(trees) for model in (mix, small)]
    known = np.isfinite(logs[0]) & np.isfinite(logs[1])
    assert known.mean() > 0.6
    assert np.median(np.abs(logs[0] - logs[1])[known]) < 8  # rare words have become unknown ones
    assert sw.surprisal(small, trees[0].words()).total > 0


def test_members_without_a_common_grammar_are_refused(
    mix: sw.Ensemble, sentences: list[list[str]], bank: sw.Treebank
) -> None:
    other = sw.PCFG(binarise="left").fit(bank).model_
    with pytest.raises(SapwoodError, match="different plain grammars"):
        compress_mix(sw.Ensemble.of([*mix.members, other]), sentences)
    crf = sw.SpanCRF(passes=1).fit(bank).model_
    with pytest.raises(SapwoodError, match="crf cannot be compressed"):
        compress_mix(crf, sentences)


def _changed(path: Path, change: Any) -> Path:
    arrays, header = read_tensors(path)
    arrays, model = dict(arrays), header["model"]
    change(arrays, model)
    out = path.with_name("changed.sapwood")
    whole = header | {"sha256": digest_of(arrays, model)}
    write_atomically(out, arrays, whole, force=True)
    return out


def _with(name: str, change: Any) -> Any:
    def spoil(arrays: dict[str, Any], model: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name])

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_with("0.rules", lambda x: x.astype(np.int8)), "of type int8"),
        (_with("0.rules", lambda x: x.astype(np.uint32) + np.uint32(2**31)), "too large"),
        (_with("0.lexicon_codes", lambda x: x[1:]), "packed weights"),
        (_with("1.rule_codes", lambda x: x[1:]), "packed weights"),
        (_with("0.network.words.codes", lambda x: x[1:]), "scales for"),
        (lambda arrays, model: arrays.pop("0.rule_codes"), "no weights of rules"),
        (lambda arrays, model: model.update(compact="yes"), "expected true or false"),
        (lambda arrays, model: model["members"][0].update(like=1), "comes later"),
    ],
)
def test_damaged_files_are_refused(
    small: sw.Ensemble, spoil: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "small.sapwood"
    small.save(path)
    with pytest.raises(ModelFormatError, match=message):
        sw.load(_changed(path, spoil))
