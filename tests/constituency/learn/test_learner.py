"""The contract of learners: `fit(data, held=None)`, one `Info`, one listener, engines obeyed."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from tests.contract.subjects import ESTIMATORS, data_for, fitted, make

import sapwood as sw
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import Info
from sapwood.execute import Threads
from sapwood.progress import Event


class Elsewhere:
    """An engine that is not of this process."""

    total = jobs_here = None


@pytest.mark.parametrize("name", ESTIMATORS)
def test_held_out_data_is_declared_and_refused_elsewhere(name: str) -> None:
    kind = ESTIMATORS[name]
    if kind.uses_held:
        assert "held" in signature(kind.fit).parameters  # type: ignore[attr-defined]
    else:  # also where `fit` is that of a family whose other learners use them
        with pytest.raises(SapwoodError, match="does not use held-out data"):
            make(name).fit(None, [1])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_fitted_learner_has_an_info(name: str) -> None:
    assert type(fitted(name).info_) is Info


def test_old_names_of_held_out_data_go_on_working() -> None:
    bank = sw.bundled_treebank("dev")
    with pytest.warns(DeprecationWarning, match=r"fit\(dev=...\) is now fit\(held=...\)"):
        old = sw.EMLPCFG(1, iterations=1).fit(bank[:40], dev=list(bank)[40:45])
    assert (
        old.info_.dev_f1
        == sw.EMLPCFG(1, iterations=1).fit(bank[:40], list(bank)[40:45]).info_.dev_f1
    )
    text = data_for("EMBigram")
    with pytest.warns(DeprecationWarning, match="held_out"):
        sw.EMBigram(1, iterations=1).fit(text, held_out=None)


def test_a_number_of_strings_has_a_name() -> None:
    strings = {("a",): 3, ("a", "b"): 2}
    with pytest.warns(DeprecationWarning, match=r"fit\(strings, n=...\)"):
        old: Any = sw.EMWCFG(1, iterations=3, starts=1).fit(strings, 9)
    assert old.info_.n_strings == 9
    assert old.model_.record["strings"] == 9


@pytest.mark.filterwarnings("ignore::sapwood.core.errors.SapwoodWarning")
def test_engines_are_obeyed_or_refused() -> None:
    with pytest.raises(SapwoodError, match="SpectralWFA has no work for the engine Elsewhere"):
        sw.SpectralWFA(1, engine=Elsewhere()).fit([["a", "b"]] * 9)  # type: ignore[arg-type]
    with pytest.raises(SapwoodError, match="KneserNey has no work") as caught:
        sw.KneserNey(2, engine=Elsewhere()).fit([["a", "b"]] * 9)  # type: ignore[arg-type]
    assert "path of a text" in str(caught.value.hint)
    assert sw.SpectralWFA(1, basis=1.0, engine=Threads(2)).fit([["a"], ["a", "a"]] * 9).model_

    class Counted(Threads):
        n_maps = 0

        def map(self, *given: Any) -> Any:
            self.n_maps += 1
            return super().map(*given)

    with Counted(2) as engine:
        data = data_for("UnmixPCFGIE")
        there = sw.UnmixPCFGIE(2, refine="em", iterations=5, engine=engine).fit(data)
        assert engine.n_maps == there.info_.iterations
    here = sw.UnmixPCFGIE(2, refine="em", iterations=5).fit(data)
    assert all((here.model_.tables[x] == there.model_.tables[x]).all() for x in here.model_.tables)


def test_a_listener_hears_the_training_alone() -> None:
    seen: list[Event] = []
    bank = sw.bundled_treebank("dev")[:40]
    sw.EMLPCFG(1, iterations=3, listen=seen.append).fit(bank)
    assert {event.what for event in seen} >= {"EM"}
    assert max(event.done for event in seen if event.what == "EM") == 3
    n = len(seen)
    sw.EMLPCFG(1, iterations=3).fit(bank)
    assert len(seen) == n
