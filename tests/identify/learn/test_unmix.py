"""`UnmixPCFGIE` and `UnmixDEPIES` at the border: sentences in, a model and its doubts out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sapwood as sw
from sapwood.core.errors import NotIdentifiableError, SapwoodError, SapwoodWarning
from sapwood.core.learner import Info
from sapwood.identify.learn.uniform import fit_moments
from sapwood.identify.learn.unmix import (
    LARGEST_REPORT,
    NEAR_ROOTS,
    _noise_gain,
    check_conditioning,
    clip_columns,
    refuse_family,
)
from sapwood.identify.model.uniform_trees import SentenceCounts, UniformTreeModel
from sapwood.linalg.diagonalise import Roots

STATES = UniformTreeModel(
    "pcfg-ie",
    ("the", "a", "dog", "runs"),
    {
        "root": np.array([0.55, 0.45]),
        "child": np.array([[0.9, 0.2], [0.1, 0.8]]),
        "words": np.array([[0.55, 0.0], [0.4, 0.05], [0.05, 0.45], [0.0, 0.5]]),
    },
)
ARCS = UniformTreeModel(
    "dep-ies",
    ("a", "b"),
    {"root": np.array([0.25, 0.75]), "argument": np.array([[0.7, 0.1], [0.3, 0.9]])},
)


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    return STATES.sample([3] * 40_000 + [4] * 2_000, seed=1)


@pytest.fixture(scope="module")
def pairs() -> list[list[str]]:
    return ARCS.sample([2] * 20_000 + [3] * 20_000 + [5] * 500, seed=1)


def test_sentences_give_the_states_back(sentences) -> None:
    learner = sw.UnmixPCFGIE(2).fit(sentences)
    found, info = learner.model_, learner.info_
    assert found.family == "pcfg-ie"
    assert info.n_sentences == {3: 40_000, 4: 2_000}
    assert (np.diff(found.tables["root"]) <= 0).all()
    order = [found.number[word] for word in STATES.vocabulary]
    np.testing.assert_allclose(found.tables["words"][order], STATES.tables["words"], atol=0.08)
    np.testing.assert_allclose(found.tables["child"], STATES.tables["child"], atol=0.15)
    assert 0.2 * info.moment_noise < info.moment_error < 2 * info.moment_noise
    assert info.warnings == []


def test_sentences_give_the_arguments_back(pairs) -> None:
    learner = sw.UnmixDEPIES().fit(pairs)
    assert learner.model_.vocabulary == ("b", "a")
    found = learner.model_.tables["argument"][::-1, ::-1]
    np.testing.assert_allclose(found, ARCS.tables["argument"], atol=0.05)
    assert learner.roots_.n_ambiguous >= 0
    assert learner.info_.warnings == []


@pytest.mark.parametrize("refine", ["moments", "em"])
def test_refined_estimates_say_how(sentences, pairs, refine: str) -> None:
    for learner, corpus in ((sw.UnmixPCFGIE(2), sentences), (sw.UnmixDEPIES(), pairs)):
        learner.set_params(refine=refine).fit(corpus)
        assert learner.info_.refined == refine
        assert learner.info_.iterations >= 1
        assert (learner.info_.log_likelihood is None) == (refine == "moments")


def test_the_likelihood_is_that_of_the_model(pairs) -> None:
    learner = sw.UnmixDEPIES(refine="em").fit(pairs)
    total = learner.model_.log_probs(pairs).sum()
    assert learner.info_.log_likelihood == pytest.approx(total, rel=1e-9)


@pytest.mark.filterwarnings("ignore::sapwood.core.errors.SapwoodWarning")
def test_the_likelihood_is_that_of_the_last_iteration() -> None:
    """Of few sentences the start is poor, and EM climbs for long."""
    some = STATES.sample([3] * 300 + [4] * 300, seed=4)
    learner = sw.UnmixPCFGIE(2, refine="em", iterations=40).fit(some)
    assert learner.info_.iterations > 10
    total = learner.model_.log_probs(some).sum()
    assert learner.info_.log_likelihood == pytest.approx(total, rel=1e-9)


def test_threads_do_not_change_the_estimate(pairs) -> None:
    one, two = (sw.UnmixDEPIES(refine="em", n_jobs=jobs).fit(pairs).model_ for jobs in (1, 2))
    np.testing.assert_allclose(one.tables["argument"], two.tables["argument"], atol=1e-9)


def test_counts_and_exact_moments_are_the_same_thing() -> None:
    tensor = np.random.default_rng(0).dirichlet(np.ones(27)).reshape(3, 3, 3)
    rows = np.indices((3, 3, 3)).reshape(3, -1).T
    counts = SentenceCounts.of_rows(rows, 3, tensor.ravel())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        one, two = sw.UnmixPCFGIE(2).fit_moments(tensor), sw.UnmixPCFGIE(2).fit_counts(counts)
    np.testing.assert_allclose(one.model_.tables["child"], two.model_.tables["child"], atol=1e-9)


def test_few_sentences_are_doubted() -> None:
    with pytest.warns(SapwoodWarning) as caught:
        learner = sw.UnmixPCFGIE(2).fit(STATES.sample([3] * 40, seed=3))
    assert learner.info_.warnings == [str(one.message) for one in caught]
    assert any("too few short sentences" in text for text in learner.info_.warnings)


def test_sentences_of_another_family_are_doubted() -> None:
    """First and last word always agree, the middle one never does: no PCFG-IE makes that."""
    corpus = [["a", "b", "a"]] * 500 + [["b", "a", "b"]] * 500
    with pytest.warns(SapwoodWarning):
        learner = sw.UnmixPCFGIE(2).fit(corpus)
    assert any("family" in text for text in learner.info_.warnings)


def test_conditioning_is_judged_by_noise_and_sentences() -> None:
    info = Info(extra={"noise_gain": 100.0, "clipped": 0.0})
    check_conditioning(info, 1e6)
    check_conditioning(info, np.inf)
    assert info.warnings == []
    with pytest.warns(SapwoodWarning, match="about 110,000 would do"):
        check_conditioning(info, 1e4)
    with pytest.warns(SapwoodWarning, match="25% of a table was negative"):
        check_conditioning(Info(extra={"noise_gain": 1.0, "clipped": 0.25}), np.inf)


def test_noise_grows_with_rare_words_and_near_roots() -> None:
    """lam^2 + lam has the slope 2 lam + 1, and 7 trees of three words divide each moment."""
    pi = np.array([0.25, 0.75])
    for lam, slope in (([1.0, -0.25], 0.5), ([1.0, 0.5], 2.0), ([1.0, -0.5], NEAR_ROOTS)):
        roots = Roots(np.eye(2), np.array(lam, complex), 0, 0, 1.0, 0.0, np.inf)
        assert _noise_gain(roots, pi) == pytest.approx(7 * 2**0.5 / (0.5 * slope))


def test_proper_columns() -> None:
    table, removed = clip_columns(np.array([[0.5, -1.0], [0.5, 3.0], [0.0, 0.0]]))
    assert table.tolist() == [[0.5, 0.0], [0.5, 1.0], [0.0, 0.0]]
    assert removed == pytest.approx(0.25)
    hopeless, removed = clip_columns(np.full((2, 1), -1.0))
    assert hopeless.tolist() == [[0.5], [0.5]]
    assert removed == 1


@pytest.mark.parametrize(
    ("learner", "corpus", "message"),
    [
        (sw.UnmixPCFGIE(2), [], "no sentences"),
        (sw.UnmixPCFGIE(2), [[]], "no sentences"),
        (sw.UnmixPCFGIE(2), [["a", "b"]], "no sentence of 3 words; found lengths 2"),
        (sw.UnmixPCFGIE(4), [["a", "b", "c"]], "4 states, but only 3 types"),
        (sw.UnmixPCFGIE(2), [["a", "a", "a"]], "all words are 'a'"),
        (sw.UnmixPCFGIE(2), ["abc"], "not a string"),
        (sw.UnmixPCFGIE(0), [["a", "b", "c"]], "n_states must be"),
        (sw.UnmixPCFGIE(2, refine="more"), [["a", "b", "c"]], "refine must be one of none"),
        (sw.UnmixDEPIES(max_length=2), [["a", "b", "c"]], "max_length must be"),
        (sw.UnmixDEPIES(), [["a", "b", "c"]], "no sentence of 2 words"),
        (sw.UnmixDEPIES(), [["a", "b"]], "no sentence of 3 words"),
        (sw.UnmixDEPIES(), [[str(n), "x"] for n in range(400)], "401 types of words"),
    ],
)
def test_what_cannot_be_learnt_is_refused(learner, corpus, message: str) -> None:
    with pytest.raises(SapwoodError, match=message) as caught:
        learner.fit(corpus)
    assert "must be" in message or caught.value.hint


def test_three_states_of_two_are_refused() -> None:
    exact = np.einsum("xa,ya,za,a->xyz", *[STATES.tables["words"]] * 3, STATES.tables["root"])
    with pytest.raises(NotIdentifiableError, match="rank 2"):
        sw.UnmixPCFGIE(3).fit_moments(exact)


@pytest.mark.parametrize(
    ("family", "kind", "message"),
    [
        ("pcfg", NotIdentifiableError, "moves its parameters in 6 dimensions"),
        ("pcfg-i", SapwoodError, "no closed form is known"),
        ("dep-i", SapwoodError, "no closed form is known"),
        ("hmm", SapwoodError, "unknown model family"),
    ],
)
def test_other_families_are_refused_with_a_reason(family, kind, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        refuse_family(family, 3)
    assert caught.value.hint
    if kind is NotIdentifiableError:
        report = caught.value.report
        assert (report.states, report.deficit, report.identifiable) == (3, 6, False)
        assert "pcfg-ie" in report.hint


def test_the_size_of_a_pcfg_that_is_refused() -> None:
    """The report on many states is one on fewer; one state is a pcfg-ie."""
    with pytest.raises(NotIdentifiableError, match="a pcfg with 500 states") as caught:
        refuse_family("pcfg", 500)
    assert caught.value.report.states == LARGEST_REPORT
    with pytest.raises(SapwoodError, match="a pcfg with 1 state") as one:
        refuse_family("pcfg", 1)
    assert not isinstance(one.value, NotIdentifiableError)


def test_moments_of_too_many_words_are_not_fitted() -> None:
    d = 60
    tables = {
        "root": np.full(2, 0.5), "child": np.full((2, 2), 0.5), "words": np.full((d, 2), 1 / d),
    }  # fmt: skip
    model = UniformTreeModel("pcfg-ie", tuple(map(str, range(d))), tables)
    with pytest.raises(SapwoodError, match="too many to fit"):
        fit_moments(model, SentenceCounts.of([[0, 1, 2]], d), 10)
