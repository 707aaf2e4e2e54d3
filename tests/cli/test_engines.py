"""`--engine` and `--scheduler`: the same files and figures wherever the work runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sapwood.constituency.data.treebank import sample_path

pytestmark = pytest.mark.dask


@pytest.fixture
def there(cluster) -> tuple[str, str]:
    cluster._client.wait_for_workers(2, timeout=60)
    return "--scheduler", cluster._local.scheduler_address


@pytest.fixture(scope="module")
def sentences(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    path.write_text("the dog sleeps .\n\nthe cat sees a dog .\nblorp\nthe the the\n" * 7)
    return path


@pytest.mark.parametrize("layout", [[], ["--json"], ["--k-best", "3"], ["--scores"]])
def test_parse(cli, there, sentences, layout) -> None:
    here = cli("parse", "bundled", sentences, *layout)
    far = cli("parse", "bundled", sentences, *layout, *there)
    assert far.status == here.status == 0
    assert far.out == here.out
    # all but the seconds: sentences, fallbacks and empty lines are counted there and told here
    told = here.err.splitlines()[0].split("  ")[:4]
    assert told[:2] == ["28 sentences", "7 empty lines"]
    assert told == far.err.splitlines()[1].split("  ")[:4]
    assert far.err.startswith("    dask: 2 threads  sent to all ")


def test_score(cli, there, sentences) -> None:
    here = cli("score", "bundled", sentences, "--sentences")
    far = cli("score", "bundled", sentences, "--sentences", *there)
    assert far.status == 0
    assert far.out == here.out
    assert far.err.splitlines()[1:] == here.err.splitlines()


@pytest.mark.parametrize("method", ["pcfg", "spectral", "em"])
def test_train(cli, there, tmp_path, method) -> None:
    trees, models = sample_path("dev"), [tmp_path / "here", tmp_path / "there"]
    options = ["--method", method, "--dev", sample_path("test")]
    options += ["--states", "2"] if method != "pcfg" else []
    options += ["--iterations", "2"] if method == "em" else []
    results = [
        cli("train", trees, "-o", model, *options, *where, "--json")
        for model, where in zip(models, ([], there), strict=True)
    ]
    assert [result.status for result in results] == [0, 0], results
    assert models[0].read_bytes() == models[1].read_bytes()
    here, far = (json.loads(result.out)["dev"] for result in results)
    assert here["f1"] == far["f1"]
    assert "    dask: 2 threads  placed " in results[1].err


def test_train_on_disk(cli, there, tmp_path) -> None:
    models, folder = [tmp_path / "here", tmp_path / "there"], tmp_path / "shards"
    folder.mkdir()
    options = [sample_path("dev"), "--method", "spectral", "--states", "2"]
    assert cli("train", *options, "-o", models[0]).status == 0
    assert cli("train", *options, "-o", models[1], *there, "--on-disk", folder).status == 0
    assert models[0].read_bytes() == models[1].read_bytes()
    assert list(folder.iterdir()) == []


def test_compare(cli, there) -> None:
    train, dev = sample_path("dev"), sample_path("test")
    options = ["--methods", "pcfg,spectral", "--states", "2", "--limit", "20", "--json"]
    here = json.loads(cli("compare", train, dev, *options).out)
    far = json.loads(cli("compare", train, dev, *options, *there).out)
    assert [row["f1"] for row in far] == [row["f1"] for row in here]


def test_no_scheduler(fails, tmp_path) -> None:
    result = fails("train", sample_path("dev"), "-o", tmp_path / "model", "--scheduler", "nowhere")
    assert result.err.splitlines() == [
        "error: no scheduler answers at nowhere",
        "hint: start one with `dask scheduler`, and give the address that it prints",
    ]


def test_a_scheduler_for_threads(misused) -> None:
    result = misused("parse", "bundled", "--engine", "threads", "--scheduler", "nowhere")
    assert "a scheduler is for --engine dask" in result.err
