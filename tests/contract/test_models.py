"""What every kind of model keeps to."""

from __future__ import annotations

import importlib
import json
import pickle
import pkgutil
import re
from inspect import isabstract
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import arc_toys
from tests.conftest import Run
from tests.contract.subjects import (
    ESTIMATORS,
    KINDS,
    OF_ARCS,
    OF_STRINGS,
    OF_TREES,
    contents,
    fitted,
    model,
    subclasses,
)

import sapwood
import sapwood as sw
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import HOMES, SavedModel
from sapwood.dependency.parse.reranking import arc_parser
from sapwood.hankel.data import PairConstraints, pair_signs
from sapwood.incremental import Surprisal
from sapwood.report import model_card, to_json

ARC_MODELS = "sapwood.dependency.model.arc_model"
STRING_MODELS = "sapwood.hankel.model.weighted_grammar"
ARC_PARSERS = [kind for kind, home in HOMES.items() if home == ARC_MODELS]
STRING_GRAMMARS = [kind for kind, home in HOMES.items() if home == STRING_MODELS]
PARSERS = ["Ensemble", "FeatureGrammar", "LatentGrammar", "SpanNetwork"]  # of trees
WORDS = ["the", "dog", "sleeps", "."]
USUAL = {"record", "sharpness"}  # of the header: a file without has the usual value
# Kinds that had no training record in version 0.1.
WITHOUT_RECORD = (
    "NgramModel", "BigramModel", "LatentTrigramModel", "LatentNgramModel", "MixtureModel",
    "UniformTreeModel",
)  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def saved(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / "model.sapwood"
    model(kind).save(path)
    return path


# -- the lists are complete -----------------------------------------------------------------------


def test_every_model_with_files_is_registered() -> None:
    for module in pkgutil.walk_packages(sapwood.__path__, "sapwood."):
        if {"grammar", "model"} & set(module.name.split(".")):
            importlib.import_module(module.name)
    found = {
        kind
        for kind in subclasses(SavedModel)
        if kind.__module__.startswith("sapwood.") and not isabstract(kind)
    }
    assert {kind.__name__: kind.__module__ for kind in found} == HOMES


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_learnt_can_be_saved(name: str) -> None:
    kind = type(fitted(name).model_).__name__
    assert kind in KINDS
    assert (kind in PARSERS) == (name in OF_TREES)


# -- files ----------------------------------------------------------------------------------------


@every_kind
def test_it_comes_back_and_is_written_alike(kind: str, saved: Path, tmp_path: Path) -> None:
    before = saved.read_bytes()
    for path in (saved, str(saved)):
        again = sw.load(path)
        assert type(again) is type(model(kind))
        assert contents(again, tmp_path) == before
    assert contents(model(kind), tmp_path) == before  # saving changes nothing


@every_kind
def test_it_has_a_card(kind: str, saved: Path, cli: Run) -> None:
    card = model_card(sw.load(saved), str(saved))
    assert json.loads(to_json(card)) == card
    assert card["kind"] == kind
    assert card["sizes"]["weights"] > 0
    assert card["limits"]
    said = cli("inspect", saved, "--card").out
    assert said.startswith(f"# {saved}\n")
    assert card["what"][1:] in said
    assert all(f"- {line}\n" in f"{said}\n" for line in card["limits"])
    shown = re.match(r"sapwood ((?:depend |lm |hankel )?\w+)", card["command"])
    assert shown is not None
    assert cli(*shown[1].split(), "--help").status == 0


@every_kind
def test_a_saved_file_replaces_the_old_one(kind: str, saved: Path) -> None:
    before = saved.read_bytes()
    sw.load(saved).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@every_kind
def test_a_file_of_somebody_else_is_not_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    with pytest.raises(SapwoodError, match=str(path)):
        model(kind).save(path)
    assert path.read_text() == "years of work"
    model(kind).save(path, force=True)
    assert type(sw.load(path)) is type(model(kind))


@every_kind
def test_a_file_that_is_cut_is_refused(kind: str, saved: Path) -> None:
    data = saved.read_bytes()
    for size in (0, 7, 9, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:size])
        assert_refused(saved, "not a complete Sapwood model")


@every_kind
def test_a_flipped_bit_is_noticed(kind: str, saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    first = 8 + int.from_bytes(data[:8], "little")
    for place in (first, (first + len(data)) // 2, len(data) - 1):
        changed = data.copy()
        changed[place] ^= 1
        saved.write_bytes(changed)
        assert_refused(saved, "do not match its checksum")


@every_kind
def test_nothing_is_missed_that_is_taken_away(kind: str, saved: Path) -> None:
    """Under a right checksum: each array, and each word of the header."""
    from sapwood.core import model_files as kinds

    arrays, header = kinds.read_tensors(saved)
    arrays = {name: array.copy() for name, array in arrays.items()}
    wholes: list[tuple[dict[str, Any], str]] = [(arrays, name) for name in arrays]
    wholes += [(header["model"], name) for name in header["model"] if name not in USUAL]
    for whole, name in wholes:
        less = {key: value for key, value in whole.items() if key != name}
        left, said = (less, header["model"]) if whole is arrays else (arrays, less)
        signed = header | {"model": said, "sha256": kinds.digest_of(left, said)}
        kinds.write_atomically(saved, left, signed)
        assert_refused(saved, "model")


@pytest.mark.parametrize("kind", WITHOUT_RECORD)
def test_a_file_from_before_there_were_records_is_read(
    kind: str, saved: Path, tmp_path: Path
) -> None:
    from sapwood.core import model_files as kinds

    arrays, header = kinds.read_tensors(saved)
    said = dict(header["model"])
    said.pop("record")
    for member in said.get("members", ()):  # of a mixture, which have their own
        member.pop("record", None)
    kinds.write_atomically(
        saved, arrays, header | {"model": said, "sha256": kinds.digest_of(arrays, said)}
    )
    again = sw.load(saved)
    assert again.record == {}
    assert model_card(again)["training"] == {}
    again.save(tmp_path / "again.sapwood")
    assert sw.load(tmp_path / "again.sapwood").record == {}


def assert_refused(path: Path, match: str) -> None:
    with pytest.raises(ModelFormatError, match=match) as caught:
        sw.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.hint


# -- in memory ------------------------------------------------------------------------------------


@every_kind
def test_it_can_be_pickled(kind: str, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(model(kind)))
    assert type(again) is type(model(kind))
    assert contents(again, tmp_path) == contents(model(kind), tmp_path)


@every_kind
def test_it_shows_itself_in_a_line_without_its_numbers(kind: str) -> None:
    shown = repr(model(kind))
    assert kind in shown
    assert "array" not in shown
    assert "\n" not in shown
    assert len(shown) < 200


# -- parsing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PARSERS)
def test_it_parses_loaded_as_it_did_before(kind: str, saved: Path) -> None:
    before, after = (sw.Parser(each).parse(WORDS) for each in (model(kind), sw.load(saved)))
    assert before.tree.words() == WORDS
    assert after.tree == before.tree
    # A file of an ensemble holds its members' rules in single precision.
    assert after.log_prob == pytest.approx(before.log_prob, rel=1e-6)
    assert np.isfinite(after.sentence_log_prob)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {*PARSERS}))
def test_what_is_no_parser_says_so(kind: str) -> None:
    with pytest.raises(SapwoodError, match="a parser needs a model"):
        sw.Parser(model(kind))


@pytest.mark.parametrize("name", OF_TREES)
def test_its_trees_have_the_tags_and_phrases_that_are_given(name: str) -> None:
    parser = sw.Parser(fitted(name).model_)
    tag = sorted(parser.known_labels.tags)[-1]
    label = sorted(parser.known_labels.phrases)[0]
    asked = {"tags": [None, tag, None, None], "spans": [(1, 4, label)], "forbidden": [(2, 4, None)]}
    parse = parser.parse(WORDS, **asked)
    for tree in [parse.tree, *(one.tree for one in parse.k_best(3))]:
        assert tree.words() == WORDS
        assert tree.tags()[1] == tag
        assert (label, 1, 4) in tree.spans()
        assert not any(span[1:] == (2, 4) for span in tree.spans())
    assert parse.constraint_log_prob <= 0.0
    with pytest.raises(SapwoodError, match="the label over words 1 to 2 is NOWHERE"):
        parser.parse(WORDS, spans=[(0, 2, "NOWHERE")])


@pytest.mark.parametrize("kind", PARSERS)
def test_a_partial_line_is_parsed_as_the_same_request(kind: str, saved: Path, cli: Run) -> None:
    expected = sw.Parser(sw.load(saved)).parse(WORDS, spans=[(0, 2, None), (2, 4, None)])
    lines = "(the dog) ( sleeps .)\n"
    result = cli("parse", saved, "-", "--partial", "--jobs", 1, stdin=lines)
    assert result.out == f"{expected.tree}\n"


@pytest.mark.parametrize("name", OF_ARCS)
def test_its_arcs_have_the_tags_heads_and_relations_that_are_given(name: str) -> None:
    parser = arc_parser(fitted(name).model_)
    words = list(arc_toys.bank(1, 5)[0].words)
    free = parser.parse(words).arcs
    n, root = len(words), free.heads.index(0) + 1
    other = next(word for word in range(1, n + 1) if word != root)
    heads = [0 if word == other else None for word in range(1, n + 1)]
    relations = [None] * n
    relations[root - 1] = "obl"
    parse = parser.parse(words, tags=["VERB", *[None] * (n - 1)], heads=heads, relations=relations)
    for arcs in [parse.arcs, *(one.arcs for one in parse.k_best(3))]:
        assert arcs.words == tuple(words)
        assert arcs.upos[0] == "VERB"
        assert arcs.heads.index(0) == other - 1
        assert arcs.relations[root - 1] == "obl"
    assert parse.constraint_log_prob < 0.0
    relations[root - 1] = "root"
    with pytest.raises(SapwoodError, match="are both the root"):
        parser.parse(words, heads=heads, relations=relations)


@pytest.mark.parametrize("kind", ARC_PARSERS)
def test_filled_cells_are_parsed_as_the_same_request(kind: str, saved: Path, cli: Run) -> None:
    words = ["the", "dog", "sings"]
    expected = arc_parser(sw.load(saved)).parse(
        words, tags=[None, "VERB", None], heads=[2, None, None], relations=[None, None, "root"]
    )
    cells = {1: ("_", "2", "_"), 2: ("VERB", "_", "_"), 3: ("_", "_", "root")}
    rows = [
        "\t".join([str(place), word, "_", upos, "_", "_", head, relation, "_", "_"])
        for (place, (upos, head, relation)), word in zip(cells.items(), words, strict=True)
    ]
    text = "\n".join(rows) + "\n\n"
    options = ("depend", "parse", saved, "--keep-tags", "--partial", "--json", "--jobs", 1)
    found = json.loads(cli(*options, stdin=text).out)
    assert found["heads"] == list(expected.arcs.heads)
    assert found["relations"] == list(expected.arcs.relations)
    assert (found["upos"][1], found["heads"][::2]) == ("VERB", [2, 0])
    # files hold weights in single precision
    assert found["constraint_log_prob"] == pytest.approx(expected.constraint_log_prob, abs=1e-4)


@pytest.mark.parametrize("name", OF_STRINGS)
def test_its_brackets_have_the_pairs_that_are_given(name: str) -> None:
    grammar = fitted(name).model_
    words = [grammar.symbols[k % len(grammar.symbols)] for k in range(6)]
    for signs in ("(..)..", ".(..).", "((.).)", "x|...x", "<.x..>"):
        pairs = PairConstraints.parse(signs, len(words))
        found = pair_signs(grammar.best_brackets(words, pairs))
        for own, given in zip(found, signs, strict=True):
            allowed = {"x": ".", "|": "()", "<": "(", ">": ")", ".": "().", "(": "(", ")": ")"}
            assert own in allowed[given]
        assert grammar.pair_log_prob(words, pairs).log <= 1e-9 or not grammar.is_probabilistic
    with pytest.raises(SapwoodError, match="no brackets have the pair of symbols 1 and 3 and"):
        grammar.best_brackets(words[:4], PairConstraints.parse("(<).", 4))


@pytest.mark.parametrize("kind", STRING_GRAMMARS)
def test_given_pairs_are_parsed_as_the_same_request(kind: str, saved: Path, cli: Run) -> None:
    grammar = sw.load(saved)
    words = [grammar.symbols[k % len(grammar.symbols)] for k in range(6)]
    expected = grammar.best_brackets(words, PairConstraints.parse(".(..).", 6))
    text = " ".join(words) + "\n.(..).\n"
    assert cli("hankel", "parse", saved, "--partial", stdin=text).out == f"{expected.tree()}\n"


# -- surprisal ------------------------------------------------------------------------------------


def surprisal_or_refusal(one: Any) -> Surprisal | SapwoodError:
    try:
        return sw.surprisal(one, WORDS)
    except SapwoodError as error:
        return error


@every_kind
def test_it_gives_the_surprisal_of_words_or_says_what_does(
    kind: str, saved: Path, cli: Run
) -> None:
    before, after = map(surprisal_or_refusal, (model(kind), sw.load(saved)))
    result = cli("surprisal", saved, "-", stdin=" ".join(WORDS))
    if isinstance(before, SapwoodError):
        assert "a language model" in str(before.hint)
        assert result.status == 1
        assert "a language model" in result.err
        return
    assert result.status == 0
    assert isinstance(after, type(before))
    assert before.words[: len(WORDS)] == tuple(WORDS)
    # Files of ensembles hold rules in single precision, those of latent bigrams in half precision.
    np.testing.assert_allclose(after.surprisal, before.surprisal, rtol=1e-3)
    np.testing.assert_allclose(after.tag_entropy, before.tag_entropy, rtol=1e-3)
