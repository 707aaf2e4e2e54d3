"""`sapwood depend rerank` and `score`, and parsing with a reranker."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.arc_toys import bank
from tests.conftest import Run

import sapwood as sw
from sapwood.dependency.data.lists import read_lists

SETTINGS = {"passes": 2, "folds": 2, "list_folds": 2, "n_best": 6, "list_passes": 2,
            "latent": "both"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reranking")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    path = folder / "reranker.sapwood"
    sw.ArcReranker(2, **SETTINGS).fit(bank()).model_.save(path)
    return path


@pytest.fixture(scope="module")
def dev(folder: Path) -> Path:
    path = folder / "dev.conllu"
    sw.write_arcs(bank(20, 1), path)
    return path


def test_parsing_is_reranking_its_own_lists(cli: Run, model: Path, dev: Path, folder: Path) -> None:
    learnt = sw.load(model)
    learnt.parser.save(folder / "parser.sapwood", force=True)
    parsed = cli("depend", "parse", model, dev, "--jobs", 1)
    lists = cli("depend", "parse", folder / "parser.sapwood", dev, "--n-best", 6, "--jobs", 1).out
    reranked = cli("depend", "rerank", model, "-", stdin=lists)
    assert reranked.status == 0
    assert "20 sentences" in reranked.err
    ours, theirs = (sw.read_arcs(io.StringIO(r.out)) for r in (parsed, reranked))
    assert [a.heads for a in ours] == [b.heads for b in theirs]
    assert "# score" not in reranked.out
    scores = sw.evaluate.attachment(bank(20, 1), theirs)
    assert scores.uas > 90


def test_lists_of_a_reranker_are_ranked_by_it(cli: Run, model: Path, dev: Path) -> None:
    text = cli("depend", "parse", model, dev, "--n-best", 3, "--jobs", 1).out
    lists = read_lists(io.StringIO(text))
    assert len(lists) == 20
    for first, end in zip(lists.starts[:-1], lists.starts[1:], strict=True):
        assert sorted(lists.score[first:end], reverse=True) == lists.score[first:end].tolist()
    best = cli("depend", "parse", model, dev, "--jobs", 1).out
    tops = [lists.bank[int(first)].heads for first in lists.starts[:-1]]
    assert [arcs.heads for arcs in sw.read_arcs(io.StringIO(best))] == tops
    assert "Posterior=" in cli("depend", "parse", model, dev, "--scores", "--jobs", 1).out


def test_rerank_refuses_other_models_and_files(fails: Run, model: Path, dev: Path, folder: Path
                                               ) -> None:  # fmt: skip
    assert "tree 1 has no comments" in fails("depend", "rerank", model, dev).err
    sw.load(model).parser.save(folder / "parser.sapwood", force=True)
    told = fails("depend", "rerank", folder / "parser.sapwood", dev).err
    assert "holds a dependency parser with its tagger, expected a reranker" in told


def test_score(cli: Run, fails: Run, model: Path, dev: Path, folder: Path) -> None:
    spectral, em = sw.load(model).latent
    for latent, columns in ((spectral, 2), (em, 1)):
        latent.save(folder / "latent.sapwood", force=True)
        result = cli("depend", "score", folder / "latent.sapwood", dev)
        lines = [line.split("\t") for line in result.out.splitlines()]
        assert [len(line) for line in lines] == [columns] * 20
        expected = latent.log_probs(dev)
        assert [float(line[0]) for line in lines] == pytest.approx(expected.tolist(), abs=1e-5)
        report = json.loads(cli("depend", "score", folder / "latent.sapwood", dev, "--json").out)
        assert report["log_prob"] == pytest.approx(expected.sum())
        assert report["is_probabilistic"] == (columns == 1)
    assert "expected a latent model" in fails("depend", "score", model, dev).err
