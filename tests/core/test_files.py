"""Model files come back as they were, or say in one line why not; no save leaves half a file."""

from __future__ import annotations

import inspect
import json
import os
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.constituency.grammar.file_checks import (
    arrays,
    assert_refused,
    assert_same,
    resigned,
    rewritten,
)
from tests.toys import factored_toy, random_toy

import sapwood as sw
from sapwood.constituency.grammar.from_text import grammar_from_text
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn import em
from sapwood.core import model_files as kinds
from sapwood.core.errors import ModelFormatError, SapwoodError

WORDS = ["w0", "w1", "w2", "w0"]


@pytest.fixture(scope="module")
def latent() -> LatentGrammar:
    return random_toy(np.random.default_rng(0), n_states=3).grammar()


@pytest.fixture
def saved(latent: LatentGrammar, tmp_path: Path) -> Path:
    path = tmp_path / "model.sapwood"
    latent.save(path)
    return path


# -- round trips ------------------------------------------------------------------------------


def test_a_latent_model_comes_back_the_same(latent: LatentGrammar, saved: Path) -> None:
    again = sw.load(saved)
    assert_same(latent, again)
    assert again.log_prob(WORDS) == latent.log_prob(WORDS)


def test_factored_rules_come_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.sapwood"
    _, factored = factored_toy(np.random.default_rng(0), 2, (2, 3, 4, 5))
    factored.save(path)
    again = sw.load(path)
    assert_same(factored, again)
    np.testing.assert_array_equal(again.rule_rank, factored.rule_rank)
    assert again.log_prob(WORDS) == factored.log_prob(WORDS)


def test_a_plain_model_parses_the_same(plain: LatentGrammar, tmp_path: Path) -> None:
    plain.save(tmp_path / "plain.sapwood")
    again = sw.load(str(tmp_path / "plain.sapwood"))
    assert_same(plain, again)
    bank = sw.bundled_treebank("test")
    for index in range(10):
        words = bank.words(index)
        one, other = (sw.Parser(model).parse(words) for model in (plain, again))
        assert (one.tree, one.sentence_log_prob) == (other.tree, other.sentence_log_prob)


def test_arrays_are_a_private_copy_of_the_file(latent: LatentGrammar, saved: Path) -> None:
    """And are such as kernels are compiled for; whoever writes to one changes no file."""
    again, before = sw.load(saved), saved.read_bytes()
    for array in arrays(again):
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.flags.writeable
        assert type(array) is np.ndarray
    again.rule_weights[:] = 0.0
    assert saved.read_bytes() == before
    again = sw.load(saved)
    saved.write_bytes(b"")  # as `cp` over it begins: a mapped file would end the process here
    assert_same(latent, again)
    saved.write_bytes(before)


def test_numbers_that_lie_askew_are_put_right(latent: LatentGrammar, saved: Path) -> None:
    data = saved.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    text = data[8 : 8 + size].rstrip(b" ")
    text += b" " * (-len(text) % 8 + 1)
    saved.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    again = sw.load(saved)
    assert_same(latent, again)
    assert all(array.flags.aligned for array in arrays(again))


def test_a_saved_file_replaces_one_in_use(
    plain: LatentGrammar, latent: LatentGrammar, saved: Path
) -> None:
    loaded = sw.load(saved)
    plain.save(saved)
    assert_same(latent, loaded)
    assert sw.load(saved).is_plain
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_nothing_in_a_model_file_can_run_code() -> None:
    assert "pickle" not in inspect.getsource(kinds).replace("never a pickle.", "")


# -- files that are not models ----------------------------------------------------------------


def test_a_truncated_file_is_refused_wherever_it_is_cut(saved: Path) -> None:
    data = saved.read_bytes()
    header = struct.unpack("<Q", data[:8])[0]
    for size in (1, 7, 8, 9, 8 + header // 2, 8 + header, 8 + header + 9, len(data) - 1):
        saved.write_bytes(data[:size])
        assert_refused(saved, "not a complete Sapwood model")


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", "x")


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "random": lambda path: path.write_bytes(np.random.default_rng(0).bytes(4096)),
    "text": lambda path: path.write_text("(S (NP (DT the) (NN dog)))\n" * 100),
    "zip": _zip,
    "safetensors": lambda path: save_file({"x": np.ones(3)}, path),
    "other metadata": lambda path: save_file({"x": np.ones(3)}, path, metadata={"format": "pt"}),
    "not JSON": lambda path: save_file({"x": np.ones(3)}, path, metadata={"sapwood": "{"}),
    "JSON, no object": lambda path: save_file({"x": np.ones(3)}, path, metadata={"sapwood": "[1]"}),
    "no model": lambda path: save_file({"x": np.ones(3)}, path, metadata={"sapwood": "{}"}),
    "folder": lambda path: path.mkdir(),
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.sapwood"
    FOREIGN[kind](path)
    assert_refused(path, "no such model file" if kind == "nothing" else "model")


# -- files that claim too much ----------------------------------------------------------------


def claim(path: Path, n_bytes: int, *, size: int | None = None, ours: str = "{}") -> None:
    """A file whose header speaks of so many bytes; all of them a hole, unless a size is given."""
    tensor = {"dtype": "F64", "shape": [n_bytes // 8], "data_offsets": [0, n_bytes]}
    header = json.dumps({"__metadata__": {"sapwood": ours}, "root": tensor}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + (n_bytes if size is None else size))


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="the system does not tell its memory")
def test_a_file_larger_than_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.sapwood"
    claim(path, 2 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    assert_refused(path, r"bytes do not fit into the [\d,]+ bytes of memory")
    with pytest.raises(SapwoodError, match=r"not an EM checkpoint .*do not fit into"):
        em._read_checkpoint(path)


@pytest.mark.parametrize("size", [1 << 20, 1 << 40, 1 << 62])
def test_a_header_that_claims_more_than_the_file_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "lie.sapwood"
    claim(path, size, size=64)
    assert_refused(path, "not a complete Sapwood model")
    path.write_bytes(struct.pack("<Q", 4 * size - 1) + b"{}" * 100)  # the length of the header
    assert_refused(path, "not a complete Sapwood model")


def test_a_header_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.sapwood"
    claim(path, 64, ours="[" * 1_000_000)
    assert_refused(path, "not a complete Sapwood model")


# -- files that were changed ------------------------------------------------------------------


def test_the_rewriting_itself_harms_nothing(latent: LatentGrammar, saved: Path) -> None:
    rewritten(saved, lambda header: None)
    resigned(saved, lambda model: None)
    assert_same(latent, sw.load(saved))


def test_a_newer_format_asks_for_an_upgrade(saved: Path) -> None:
    rewritten(saved, lambda header: header.update(format=kinds.FORMAT + 1))
    with pytest.raises(ModelFormatError, match="model format 2; this version") as caught:
        sw.load(saved)
    assert "upgrade" in str(caught.value.hint)


def test_another_kind_of_model_is_refused(saved: Path) -> None:
    for kind in ("Perceptron", None, ["LatentGrammar"], "latent_grammar"):
        rewritten(saved, lambda header, kind=kind: header.update(kind=kind))
        assert_refused(saved, rf"holds a {re.escape(repr(kind))}, which this version")
    with pytest.raises(ModelFormatError) as caught:
        sw.load(saved)
    assert "upgrade Sapwood" in str(caught.value.hint)
    assert "train the model again" in str(caught.value.hint)


def test_without_its_checksum_only_weights_may_change(saved: Path) -> None:
    """Places and structure are checked whatever is asked for: kernels trust them."""
    tensors, header = kinds._read(saved)
    for name, change, is_taken in (
        ("root", lambda array: array * 0.5, True),
        ("root", lambda array: array * np.nan, False),
        ("rules", lambda array: array + 1000, False),
        ("lexicon_entry_tag", lambda array: array + np.uint32(1000), False),
        ("lexicon_row_start", lambda array: array[::-1], False),
    ):
        kinds.write_atomically(saved, tensors | {name: change(tensors[name])}, header)
        assert_refused(saved, "do not match its checksum")
        if is_taken:
            assert sw.load(saved, verify=False).root.sum() == pytest.approx(
                0.5 * tensors["root"].sum()
            )
        else:
            with pytest.raises(ModelFormatError, match="not a valid model"):
                sw.load(saved, verify=False)


def test_a_flag_is_0_or_1(tmp_path: Path) -> None:
    """NumPy counts flags by adding their bytes."""
    path = tmp_path / "flags.sapwood"
    kinds.write_atomically(path, {"flags": np.array([0, 1, 0, 1], bool)}, {"kind": "a test"})
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([200]))
    flags = kinds.read_tensors(path)[0]["flags"]
    assert flags.view(np.uint8).tolist() == [0, 1, 0, 1]


def test_an_edited_header_is_noticed(saved: Path) -> None:
    rewritten(saved, lambda header: header["model"]["words"].reverse())
    assert_refused(saved, "do not match its checksum")


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no words": lambda model: model.pop("words"),
    "words of the wrong number": lambda model: model.update(words=["a"]),
    "phrases no list": lambda model: model.update(phrases=3),
    "symbol too short": lambda model: model["tags"].__setitem__(0, [["X"]]),
    "unknown setting": lambda model: model["transform"].update(colour="green"),
    "bad setting": lambda model: model["transform"].update(binarise="sideways"),
    "probabilities": lambda model: model.update(is_probabilistic=True),
    "no phrases": lambda model: model.update(phrases=[]),
    "label no string": lambda model: model["tags"][0].__setitem__(0, [3]),
    "symbol without a label": lambda model: model["tags"][0].__setitem__(0, []),
    "symbol no list": lambda model: model["tags"].__setitem__(0, 3),
    "word no string": lambda model: model["words"].__setitem__(0, None),
    "unknown style": lambda model: model.update(style="klingon"),
    "transform no object": lambda model: model.update(transform=[1]),
    "setting of another type": lambda model: model["transform"].update(tag_parents=[]),
    "probabilistic no flag": lambda model: model.update(is_probabilistic=0),
    "record no object": lambda model: model.update(record=[]),
    "method no string": lambda model: model["record"].update(method=3),
    "pivots no table": lambda model: model["record"].update(pivots={"NP": [3]}),
    "spectrum no table": lambda model: model["record"].update(spectrum={"NP": 1.0}),
    "iterations no number": lambda model: model["record"].update(iterations="many"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_model_that_breaks_an_invariant_is_refused(change: str, saved: Path) -> None:
    resigned(saved, CHANGES[change])
    assert_refused(saved, "not a valid model")


def test_what_is_missing_is_named(saved: Path) -> None:
    resigned(saved, lambda model: model.pop("words"))
    assert_refused(saved, "it lacks 'words'")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2"])
def test_numbers_that_numpy_does_not_have_are_refused(dtype: str, saved: Path) -> None:
    data = saved.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header["odd"] = {"dtype": dtype, "shape": [0], "data_offsets": [len(data) - 8 - size] * 2}
    text = json.dumps(header).encode()
    saved.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    assert_refused(saved, "not a complete Sapwood model")


OTHER_TYPES = {
    "n_states": "i4", "root": "f4", "rules": "i8", "rule_weights": "f4", "lexicon_row_start": "i8",
    "lexicon_entry_tag": "i8", "lexicon_weights": "f4", "coarse_root": "f4", "coarse_rules": "f4",
    "coarse_lexical": "f4",
}  # fmt: skip


def refused_with(saved: Path, name: str, array: np.ndarray | None, message: str) -> None:
    """A file with another array, or without it, is refused."""
    tensors, header = kinds._read(saved)
    tensors.pop(name, None)
    tensors |= {} if array is None else {name: np.ascontiguousarray(array)}
    header["sha256"] = kinds.digest_of(tensors, header["model"])
    path = saved.with_name("spoilt.sapwood")
    kinds.write_atomically(path, tensors, header)
    assert_refused(path, message)


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_numbers_of_another_type_or_shape_are_refused(name: str, saved: Path) -> None:
    """Kernels are compiled for one type, and trust unsigned numbers not to be negative."""
    array = kinds._read(saved)[0][name]
    refused_with(saved, name, array.astype(OTHER_TYPES[name]), "is of type")
    refused_with(saved, name, array.reshape(*array.shape, 1), "axes, not")


@pytest.mark.parametrize("name", ["n_states", "rules", "root", "lexicon_entry_tag"])
def test_missing_or_misshapen_tensors_are_refused(name: str, saved: Path) -> None:
    array = kinds._read(saved)[0][name]
    for spoilt in (None, array[:0], array.astype("f4")[None]):
        refused_with(saved, name, spoilt, "not a valid model")


def test_numbers_out_of_range_are_refused(saved: Path) -> None:
    tensors, _ = kinds._read(saved)
    tags = tensors["lexicon_entry_tag"].astype(np.int64)
    tags[0] -= 1 << 20
    # 2^62 factors of 4 numbers take 2^64 of them, which is 0 in 64 bits
    ranks = np.full(len(tensors["rules"]), 1 << 62)
    refused_with(saved, "lexicon_entry_tag", tags, "not a valid model")
    refused_with(saved, "rule_rank", ranks, "higher rank")
    states = tensors["n_states"] + (1 << 40)
    refused_with(saved, "n_states", states, "states, more than")


def test_states_that_overflow_are_refused(tmp_path: Path) -> None:
    """2^22 states in three places make 2^66 numbers, which is 4 in 64 bits."""
    saved = tmp_path / "model.sapwood"
    grammar_from_text("root S 1\nS -> A A 1\nA : a").save(saved)
    tensors, header = kinds._read(saved)
    tensors["n_states"] = np.full_like(tensors["n_states"], 1 << 22)
    for name, size in (("root", 2 << 22), ("rule_weights", 4), ("lexicon_weights", 2 << 22)):
        tensors[name] = np.zeros(size)
    header["model"]["is_probabilistic"] = False
    header["sha256"] = kinds.digest_of(tensors, header["model"])
    kinds.write_atomically(saved, tensors, header)
    assert_refused(saved, "not a valid model")


# -- saving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file(
    failure: BaseException, plain: LatentGrammar, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((SapwoodError, KeyboardInterrupt)):
        plain.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]
