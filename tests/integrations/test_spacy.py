"""A component of spaCy that adds constituents to documents."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of packages that spaCy imports
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")

from spacy.tokens import Doc, DocBin

from sapwood.integrations.spacy_pipe import SpacyPipe

TEXT = 'The king\'s dog sleeps.  A girl saw a dog (in the garden).\n\nThey sleep "."\n'


@pytest.fixture(scope="module")
def nlp() -> Any:
    nlp = spacy.blank("en")
    nlp.add_pipe("sapwood", config={"model": "bundled"})
    return nlp


@pytest.fixture(scope="module")
def doc(nlp: Any) -> Any:
    return nlp(TEXT)


def test_sentences_are_found_where_no_component_marks_them(doc: Any) -> None:
    assert [sentence.text.strip() for sentence in doc.sents] == [
        "The king's dog sleeps.", "A girl saw a dog (in the garden).", 'They sleep "."',
    ]  # fmt: skip


def test_sentences_of_another_component_stay() -> None:
    nlp = spacy.blank("en")

    @spacy.Language.component("every_third")
    def every_third(doc: Any) -> Any:
        for token in doc:
            token.is_sent_start = token.i % 3 == 0
        return doc

    nlp.add_pipe("every_third")
    nlp.add_pipe("sapwood", config={"model": "bundled"})
    doc = nlp("they sleep . the dog sleeps")
    assert [sentence.text for sentence in doc.sents] == ["they sleep .", "the dog sleeps"]
    assert all(sentence._.labels for sentence in doc.sents)


def test_trees_are_those_of_the_parser(doc: Any) -> None:
    parser = sw.Parser(sw.bundled_grammar())
    for sentence in doc.sents:
        words = [token.text for token in sentence if not token.is_space]
        parse = parser.parse(parser.tokenizer.respell(words))
        (below,) = parse.tree
        assert sentence._.parse_string == str(below)
        spans = [node for node in parse.tree.spans()[1:] if node[2] - node[1] > 1]
        ours = {
            (label, span.start - sentence.start, span.end - sentence.start)
            for span in sentence._.constituents
            for label in span._.labels
            if len(span) > 1
        }
        assert ours == set(spans)


def test_extensions_as_users_of_benepar_know_them(doc: Any) -> None:
    sentence = next(doc.sents)
    assert sentence._.labels == ("S",)
    assert [child.text for child in sentence._.children] == ["The king's dog", "sleeps", "."]
    subject = next(sentence._.children)
    assert subject._.labels == ("NP",)
    assert subject._.parse_string == "(NP (NP (DT The) (NN king) (POS 's)) (NN dog))"
    assert subject._.parent.text == "The king's dog sleeps."
    assert sentence._.parent is None
    verb = doc[4]
    assert (verb._.labels, verb._.parse_string) == (("VP",), "(VP (VBZ sleeps))")
    assert (doc[0]._.labels, doc[0]._.parse_string) == ((), "(DT The)")
    assert doc[0]._.parent.text == "The king's"
    assert list(doc[0]._.children) == []
    assert [span.text for span in subject._.constituents] == [
        "The king's dog", "The king's", "The", "king", "'s", "dog",
    ]  # fmt: skip


def test_probabilities_are_posteriors(doc: Any) -> None:
    sentence = next(doc.sents)
    parse = sw.Parser(sw.bundled_grammar()).parse(["The", "king", "'s", "dog", "sleeps", "."])
    posterior = {c[:3]: c.probability for c in parse.marginals}
    for span in sentence._.constituents:
        found = [posterior[(label, span.start, span.end)] for label in span._.labels]
        if found:
            assert span._.probability == pytest.approx(min(found), rel=1e-12)
        else:
            assert 0.0 < span._.probability <= 1.0
    joined = list(doc.sents)[2]
    assert joined._.probability is None or joined._.probability <= 1.0


def test_a_span_that_is_no_constituent_is_refused(nlp: Any, doc: Any) -> None:
    with pytest.raises(sw.SapwoodError, match="is no constituent"):
        _ = doc[1:4]._.labels
    with pytest.raises(sw.SapwoodError, match="the document has no constituents"):
        _ = nlp.make_doc("They sleep.")[:]._.labels


def test_pipe_gives_what_single_calls_give(nlp: Any) -> None:
    texts = [TEXT, "", "  \n ", "They sleep.", "the the the"] * 3
    together = [doc.user_data for doc in nlp.pipe(texts, batch_size=4)]
    assert together == [nlp(text).user_data for text in texts]
    pipe = SpacyPipe("bundled", jobs=2)
    docs = [nlp.make_doc(text) for text in texts]
    assert [doc.user_data for doc in pipe.pipe(iter(docs), batch_size=7)] == together


PIECES = st.sampled_from([
    "They sleep", ".", " ", "\n", "\n\n", "\t", '"', "(", ")", "U.S.", "don't", "\u00a0", "\u200b",
    "e\u0301", "😀", "a/b", "the dog", "?!", "\r\n", "''", "—", "Mr. Lee",
])  # fmt: skip


@given(st.lists(PIECES, max_size=10).map("".join))
def test_every_token_of_any_text_is_in_the_tree_of_its_sentence(nlp: Any, text: str) -> None:
    doc = nlp(text)
    assert doc.text == text
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        if not words:
            continue
        spans = list(sentence._.constituents)
        assert [(s.start, s.end) for s in spans if len(s) == 1] or len(words) > 1
        leaves = {span.start for span in spans if len(span) == 1}
        assert leaves >= {token.i for token in words}
        assert sw.Tree.parse(sentence._.parse_string).words()
        for span in spans[1:]:
            assert span._.parent.start <= span.start < span.end <= span._.parent.end


# -- files ----------------------------------------------------------------------------------------


def test_a_pipeline_keeps_the_path_and_checksum_of_its_model(tmp_path: Path) -> None:
    model = tmp_path / "m.sapwood"
    sw.bundled_grammar().save(model)
    nlp = spacy.blank("en")
    nlp.add_pipe("sapwood", config={"model": str(model)})
    expected = nlp(TEXT).user_data
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert again.get_pipe("sapwood").model == str(model)
    assert again(TEXT).user_data == expected
    other = spacy.blank("en")
    other.add_pipe("sapwood", config={"model": str(model)})
    other.from_bytes(nlp.to_bytes())
    bank = sw.bundled_treebank("dev")
    sw.PCFG().fit(bank).model_.save(model, force=True)
    with pytest.raises(sw.SapwoodError, match="not the model that the pipeline was saved with"):
        spacy.load(tmp_path / "pipeline")


def test_documents_can_be_written_and_read(doc: Any, nlp: Any) -> None:
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert next(again.sents)._.parse_string == next(doc.sents)._.parse_string
    (stored,) = DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab)
    assert [s._.labels for s in stored.sents] == [s._.labels for s in doc.sents]


def test_the_component_can_be_pickled(nlp: Any) -> None:
    again = pickle.loads(pickle.dumps(nlp.get_pipe("sapwood")))
    assert again(nlp.make_doc(TEXT)).user_data == nlp(TEXT).user_data
