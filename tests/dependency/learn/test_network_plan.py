"""`plan_networks`: how many networks, how many passes, by words or by a budget."""

from dataclasses import replace
from math import inf

import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.dependency.learn import network_plan
from sapwood.dependency.learn.network_plan import (
    ArcNetworkSettings,
    arc_pass_seconds,
    passes_in_time,
    plan_networks,
)

SETTINGS = ArcNetworkSettings()


def passes_of(n_words, **options):
    found = plan_networks(n_words, **{"most": 2} | options)
    return [] if found is None else [plan.passes for plan in found.plans]


@pytest.mark.parametrize(
    ("n_words", "expected"), [(5_000, 1), (20_000, 2), (60_000, 1), (200_000, 1), (10**8, 1)]
)
def test_only_where_one_has_had_enough_there_are_two(n_words, expected):
    each = passes_of(n_words)
    assert len(each) == expected
    assert len(set(each)) == 1
    assert SETTINGS.fewest_passes <= each[0] <= SETTINGS.most_passes
    assert len(each) == 1 or each[0] >= SETTINGS.passes_of_two


def test_words_that_are_read_grow_with_the_treebank_and_passes_fall():
    sizes = [30_000, 100_000, 300_000, 10**6, 10**7]
    passes = [sum(passes_of(n)) for n in sizes]
    assert passes == sorted(passes, reverse=True)
    read = [n * k for n, k in zip(sizes, passes, strict=True)]
    assert read == sorted(read)


def test_networks_with_an_encoder_make_fewer_passes():
    own, given = (passes_of(200_000, n_given=n)[0] for n in (0, 1536))
    assert given == pytest.approx(SETTINGS.pretrained_fraction * own, abs=1)


def test_networks_differ_in_their_seeds_and_not_in_their_plans():
    first, second = plan_networks(20_000, most=2, seed=7).plans
    assert first.seed == 7
    assert second.seed != 7
    assert replace(first, seed=0) == replace(second, seed=0)


def test_short_trainings_have_less_dropout():
    few, many = (plan_networks(50_000, most=1, passes=k).plans[0] for k in (4, 50))
    assert few.dropout < many.dropout


def test_a_budget_allows_what_it_pays_for():
    pace = arc_pass_seconds(30_000, 300, 0, SETTINGS)
    assert passes_of(30_000, seconds=2.5 * pace) == []  # fewer than the least passes
    assert passes_of(30_000, seconds=5.5 * pace) == [5]
    assert passes_of(30_000, seconds=29.5 * pace) == [29]  # not two of 14
    assert passes_of(30_000, seconds=54.5 * pace) == [27, 27]
    assert passes_of(30_000, seconds=inf) == passes_of(30_000, seconds=1e9)


def test_a_number_of_passes_is_kept_where_there_is_time():
    assert passes_of(100_000, passes=2) == [2, 2]
    assert passes_of(100_000, passes=60, most=3) == [60, 60, 60]
    pace = arc_pass_seconds(100_000, 400, 0, SETTINGS)
    assert passes_of(100_000, passes=10, seconds=25.5 * pace) == [10, 10]
    assert passes_of(100_000, passes=10, seconds=15.5 * pace) == [10]
    assert passes_of(100_000, passes=10, seconds=7.5 * pace) == [7]


def test_networks_that_read_an_encoder_weigh_no_less_and_take_longer():
    own, given = (plan_networks(100_000, most=2, n_given=n) for n in (0, 1536))
    assert given.weight >= own.weight
    assert arc_pass_seconds(10_000, 400, 1536, SETTINGS) > arc_pass_seconds(
        10_000, 400, 0, SETTINGS
    )


def test_passes_follow_the_pace_of_the_clock():
    clock = [100.0]
    count = passes_in_time(20, 150.0, lambda: clock[0])
    clock[0] = 110.0  # the first pass took 10 seconds: four more end by 150
    assert count(1) == 5
    clock[0] = 149.0
    assert count(4) == 4
    assert passes_in_time(20, inf, lambda: clock[0])(1) is None
    assert passes_in_time(3, 1e9, lambda: clock[0])(1) == 3


def test_a_network_that_is_slower_than_planned_makes_fewer_passes(monkeypatch):
    clock = [0.0]

    def time():
        clock[0] += 1.0
        return clock[0]

    monkeypatch.setattr("sapwood.dependency.learn.crf.process_time", time)
    monkeypatch.setattr(network_plan, "arc_pass_seconds", lambda *_: 0.1)
    learner = sw.ArcEnsemble(40.0, passes=1, folds=2, networks=1, encoder_passes=100)
    events = []
    learner.set_params(listen=events.append)
    model = learner.fit(bank(30)).model_
    done = [e.facts["iteration"] for e in events if e.facts.get("member") == "network 1"]
    assert model.encoder is not None
    assert 0 < len(done) < 100
