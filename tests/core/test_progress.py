"""Steps and their events: who hears what, from where."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest
from tests import arc_toys

import sapwood as sw
from sapwood.core.learner import FORMER_CALLBACKS
from sapwood.core.training_loops import REPORTED_SENTENCES, AdaGradPlan, run_adagrad
from sapwood.execute.engine import ordered_map
from sapwood.progress import Event, also_listening, counted, listening, note, step, tell


def shares_of(events: list[Event]) -> list[float]:
    return [x.share for x in events if x.share is not None and not x.is_over]


def test_steps_inside_each_other_add_up() -> None:
    seen: list[Event] = []
    with listening(seen.append), step("all", total=10) as advance:
        advance(0, size=4)
        for _ in counted(range(2), "first", unit="pass"):
            pass
        advance(4, size=6)
        with step("second", total=3) as inner:
            inner(2)
    assert shares_of(seen)[:4] == [0.0, 0.0, 0.0, 0.2]
    assert [event.share for event in seen if event.what == "second"] == [
        pytest.approx(0.4), pytest.approx(0.8), pytest.approx(0.8)
    ]  # fmt: skip
    assert [event.is_over for event in seen if event.what == "all"][-1]


def test_a_share_never_falls() -> None:
    """Where several steps follow each other inside one, each has its own part of it."""
    bank, seen = sw.bundled_treebank("dev")[:60], list[Event]()
    plan = [sw.Candidate("spectral", 2), sw.Candidate("em", 2), sw.Candidate("crf")]
    with listening(seen.append):
        sw.EnsembleLPCFG(None, plan=plan).fit(bank)
    shares = shares_of(seen)
    assert shares == sorted(shares)
    assert len(set(shares)) > 20
    said = {event.what for event in seen}
    assert {"em 2", "crf", "charts", "features of spans", "EM", "choosing members"} <= said


def test_a_network_is_told_by_its_passes() -> None:
    bank, seen = sw.bundled_treebank("dev")[:40], list[Event]()
    with listening(seen.append):
        sw.SpanEncoder(passes=3, width=4, hidden=4).fit(bank)
    passes = [event for event in seen if event.what == "network"]
    assert {(event.total, event.unit) for event in passes} == {(3, "pass")}
    assert sorted({event.done for event in passes}) == [0, 1, 2, 3]
    shares = shares_of(seen)
    assert shares == sorted(shares)
    assert len(set(shares)) > 10  # batches count too


def test_nobody_listens() -> None:
    with step("alone", total=2) as advance:
        advance(1)
        note(1, 2, "shard")
    assert list(counted("ab", "letters")) == ["a", "b"]


def test_a_note_needs_a_step_around_it() -> None:
    """Whoever reads a file outside of any step has announced nothing, and shows nothing."""
    seen: list[Event] = []
    with listening(seen.append):
        note(1, 2, "shard")
    assert seen == []


def test_parts_of_a_step_without_total_say_nothing_of_the_step() -> None:
    seen: list[Event] = []
    with listening(seen.append), step("moments"):
        note(3, 4, "shard")
        note(3, 4, "")
    assert [event.share for event in seen if event.total] == [None, 0.75]


def test_threads_of_the_engine_are_heard_and_others_are_not() -> None:
    seen: list[Event] = []

    def work(k: int) -> int:
        with step(f"part {k}"):
            return k

    with listening(seen.append), step("all"):
        assert list(ordered_map(work, range(4), jobs=2)) == [0, 1, 2, 3]
        other = Thread(target=work, args=(9,))
        other.start()
        other.join()
    said = {event.what: event.outer for event in seen}
    assert set(said) == {"all", "part 0", "part 1", "part 2", "part 3"}
    assert said["part 3"] is not None
    assert said["part 3"].what == "all"


def test_threads_hear_how_far_the_step_around_them_is() -> None:
    """A thread that starts with the first part does not stay in the first part."""
    seen: list[Event] = []

    def work(k: int) -> int:
        with step("pass", total=1):
            return k

    with listening(seen.append):
        for _ in counted(ordered_map(work, range(9), jobs=2, ahead=1), "folds", total=9):
            pass
    outer = [event.outer.done for event in seen if event.what == "pass" and event.outer]
    assert outer[0] == 0
    assert outer[-1] > 0


def test_a_step_that_fails_is_over() -> None:
    seen: list[Event] = []
    with listening(seen.append), step("all"):
        with pytest.raises(ValueError, match="no"), step("inner", total=2):
            raise ValueError("no")
        note(1, 2, "shard")
    assert [event.what for event in seen if event.is_over] == ["inner", "all"]


def test_listeners_inside_each_other() -> None:
    outer: list[Event] = []
    inner: list[Event] = []
    with listening(outer.append):
        with listening(inner.append), step("mine"):
            pass
        with step("yours"):
            pass
    assert [event.what for event in inner] == ["mine", "mine"]
    assert [event.what for event in outer] == ["yours", "yours"]


# -- facts of a training ------------------------------------------------------------------------


def former_callbacks() -> list[tuple[sw.EMLPCFG, str, tuple[str, ...]]]:
    bank = sw.bundled_treebank("dev")
    arcs = arc_toys.bank(20)
    few = {"folds": 2, "passes": 2}
    plan = [sw.Candidate("spectral", 2)]
    return [
        (sw.EMLPCFG(2, iterations=2), "on_iteration", (bank[:20],)),
        (sw.EMLPCFG(2, iterations=2), "on_grade", (bank[:20], bank[20:30])),
        (sw.SpanCRF(passes=2), "on_iteration", (bank[:10],)),
        (sw.SpanEncoder(passes=2, width=4, hidden=4), "on_iteration", (bank[:10],)),
        (sw.EMDependency(2, iterations=2), "on_iteration", (arcs,)),
        (sw.ArcCRF(1, **few), "on_pass", (arcs,)),
        (sw.LatentArcCRF(2, iterations=1, **few), "on_pass", (arcs,)),
        (sw.ArcEnsemble(members=2, encoder_passes=1, **few), "on_pass", (arcs,)),
        (sw.EnsembleLPCFG(plan=plan), "on_trial", (bank[:20],)),
    ]


@pytest.mark.parametrize("number", range(9))
def test_former_callbacks_are_called_with_the_facts_of_events(number: int) -> None:
    learner, name, data = former_callbacks()[number]
    called: list[tuple[Any, ...]] = []
    seen: list[Event] = []
    outer: list[Event] = []
    learner.set_params(**{name: lambda *given: called.append(given)}, listen=seen.append)
    with listening(outer.append), pytest.warns(DeprecationWarning, match=f"{name}= is now listen="):
        learner.fit(*data)
    assert seen == outer  # whoever listens already goes on hearing
    facts = [event.facts for event in seen]
    names = FORMER_CALLBACKS[name]
    found = [tuple(x[fact] for fact in names) for x in facts if set(names) <= set(x)]
    assert called == found
    assert len(called) >= (1 if name == "on_trial" else 2)
    if name == "on_pass":
        assert {type(x) for x in called[0]} == {str, int, float}


def test_the_first_answer_is_that_of_all() -> None:
    asked: list[str] = []

    def answer(name: str, value: int | None) -> Callable[[Event], int | None]:
        return lambda event: asked.append(name) or value if event.facts else None

    with listening(answer("a", None)), step("all"), also_listening(answer("b", 3), answer("c", 4)):
        assert tell(iteration=1) == 3
    assert asked == ["a", "b", "c"]
    assert tell(iteration=1) is None
    with listening(answer("d", 0)):  # outside of all steps
        assert tell(iteration=1) == 0


def test_learners_report_sentences_in_blocks_and_learn_from_each_once_in_a_pass() -> None:
    seen: list[Event] = []
    learnt: list[int] = []

    def learn(sentence: int, table: object, rate: float) -> float:
        learnt.append(sentence)
        return 0.0

    plan = AdaGradPlan("weights", 2, 0.1, 0)
    with listening(seen.append):
        run_adagrad(plan, np.zeros(3), range(1003), learn)
    assert sorted(learnt) == sorted(2 * list(range(1003)))
    assert 2 * 1003 / REPORTED_SENTENCES < len(seen) < 4 * 1003 / REPORTED_SENTENCES
    assert shares_of(seen) == sorted(shares_of(seen))
