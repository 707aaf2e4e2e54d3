"""The experiments of the paper on weighted grammars run, and refuse what they cannot use."""

from __future__ import annotations

from math import inf

import pytest
from benchmarks.papers import hankel_corpora
from benchmarks.papers.hankel_corpora import study_rna, study_tags
from benchmarks.papers.hankel_study import study_dyck, study_random

import sapwood as sw
from sapwood.hankel.data import Structure


def test_strings_of_tags(bank: sw.Treebank) -> None:
    trees = list(bank.trees())[:60]
    rows = study_tags(trees, trees)
    assert {row["model"] for row in rows["brackets"]} >= {"left-branching", "right-branching"}
    assert {row["solver"] for row in rows["runs"]} == {"admm", "factored"}


def test_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    stems = [f"{'GC' * k}AAAA{'GC' * k}" for k in range(2, 6)]
    known = [Structure("x", x, "(" * (n := len(x) // 2 - 2) + "...." + ")" * n) for x in stems]
    monkeypatch.setattr(hankel_corpora, "rnafold", lambda: lambda bases: "." * len(bases))
    wanted = {"methods": (("pcfg", 1),), "wcfg": (("em", 3), ("spectral", 200))}
    rows = list(study_rna(known * 20, known, **wanted))
    assert [row["model"] for row in rows] == ["RNAfold", "pcfg", "wcfg, em", "wcfg, spectral"]
    assert (rows[0]["f1"], rows[1]["f1"]) == (0, 100)  # G pairs with C: a rule says so
    assert "rank" in rows[3]["error"]


def test_no_data() -> None:
    with pytest.raises(sw.SapwoodError, match="no string of at most 10 tags"):
        study_tags([])
    with pytest.raises(sw.SapwoodError, match="no structures to learn from"):
        list(study_rna([], []))


def test_studies_that_make_their_own_data() -> None:
    rows = study_random(2, 2, targets=1, sizes=(10**8,), methods=("supervised", "direct"))
    assert [row["method"] for row in rows] == ["supervised", "direct"]
    assert all(row["kl"] < 1e-3 for row in rows)
    exact = study_random(
        3, 6, targets=1, sizes=(inf,), methods=("supervised", "admm", "em"), em_iterations=3
    )
    assert exact[0]["kl"] < 1e-12
    assert exact[1]["worst_gap"] < 1e-4
    assert exact[2]["kl"] > exact[1]["kl"]
    few = {"samples": 1500, "repeats": 1, "unsupervised_factors": (1e-9,)}
    (supervised,) = (row for row in study_dyck(factors=(0.02,), **few) if row["method"] != "wfa")
    assert (supervised["method"], supervised["samples"]) == ("supervised", 1)
    assert supervised["l1_7"] < 0.1


def test_targets_with_own_seeds_do_not_depend_on_the_sizes() -> None:
    def kl(sizes: tuple[float, ...]) -> float:
        rows = study_random(2, 2, targets=2, sizes=sizes, methods=("supervised",), own_seeds=True)
        return next(row["kl"] for row in rows if row["samples"] == 10**6)

    assert kl((10**6,)) == kl((10**4, 10**6))
