"""A worker that dies while n-grams are counted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.constituency.learn.texts import TEXT, write

from sapwood.execute import Cluster, Threads
from sapwood.lm.data import plain_text
from sapwood.lm.data.ngram_files import save_counts
from sapwood.lm.data.ngrams import CountSettings, count_runs


@pytest.mark.dask
@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_byte(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    cluster._client.wait_for_workers(2, timeout=60)
    monkeypatch.setattr(plain_text, "SHARD_BYTES", 60)
    path, files = write(tmp_path, TEXT * 20), []
    killed: list[int] = []

    def kill_after_the_first(n_done: int, n: int) -> None:
        """Once while words are counted, and once while n-grams are."""
        if len(killed) < 2 and n_done < n and (not killed or cluster.traffic.common > 0):
            # the first may still be dying
            found = cluster._client.run(os.getpid, on_error="ignore")
            killed.append(min(found.values()))
            os.kill(killed[-1], signal.SIGKILL)

    for engine in (Threads(1), cluster):
        out = tmp_path / f"{len(files)}.parquet"
        folder = tmp_path / f"work-{len(files)}"
        folder.mkdir()
        if engine is cluster:
            cluster.report = kill_after_the_first
        runs = count_runs(path, folder, CountSettings(3), engine)
        assert len(runs.runs) > 20
        save_counts(runs, out)
        files.append(out.read_bytes())
    cluster.report = None
    assert killed
    assert files[0] == files[1]
