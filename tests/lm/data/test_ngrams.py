"""Counts of n-grams: against a slow count, in any shards, memory and files; word numbers."""

from __future__ import annotations

import gzip
import lzma
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lm.learn.texts import TEXT, write
from tests.reference.ngrams import count_grams

from sapwood.core.errors import CorpusError, ModelFormatError, SapwoodError
from sapwood.execute import Cluster, Threads
from sapwood.lm.data import counting, ngrams
from sapwood.lm.data.counting import (
    CountSettings,
    as_counts,
    count_runs,
    count_sentence_ngrams,
    count_text,
)
from sapwood.lm.data.ngrams import (
    NOTHING,
    SPECIAL,
    NgramCounts,
    load_counts,
    merge_keys,
    pack_rows,
    save_counts,
    share_seen,
    unpack_rows,
)

words = st.sampled_from("abcde")
texts = st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=8)


def as_dict(counts: NgramCounts) -> dict[tuple[str, ...], int]:
    found = {}
    for row, n in zip(counts.rows, counts.counts, strict=True):
        found[tuple(counts.words[x] for x in row[::-1] if x != NOTHING)] = int(n)
    return found


@given(texts, st.integers(1, 5), st.booleans(), st.sampled_from([3, 11, 1000]))
def test_counts_are_those_of_a_naive_count(
    tmp_path_factory: pytest.TempPathFactory,
    sentences: list[list[str]],
    order: int,
    is_stream: bool,
    shard_bytes: int,
) -> None:
    path = write(tmp_path_factory.mktemp("text"), sentences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "SHARD_BYTES", shard_bytes)
        counts = count_text(path, CountSettings(order, is_stream), engine=Threads(2))
    assert as_dict(counts) == count_grams(sentences, order, is_stream=is_stream)
    assert counts.n_tokens == sum(map(len, sentences)) == counts.word_counts.sum()


@pytest.mark.parametrize("is_stream", [False, True])
def test_shards_memory_and_threads_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_stream: bool
) -> None:
    path = write(tmp_path, TEXT)
    whole = count_text(path, CountSettings(3, is_stream))
    monkeypatch.setattr(counting, "SHARD_BYTES", 10)
    for memory in (1, 2000, 1 << 30):
        settings = CountSettings(3, is_stream, memory)
        found = count_text(path, settings, engine=Threads(3))
        assert found.words == whole.words
        assert np.array_equal(found.rows, whole.rows)
        assert np.array_equal(found.counts, whole.counts)


def test_several_files_are_one_text(tmp_path: Path) -> None:
    whole = count_text(write(tmp_path, TEXT), CountSettings(3, is_stream=True))
    first, second = write(tmp_path, TEXT[:2], "a.txt"), write(tmp_path, TEXT[2:], "b.txt")
    both = count_text([first, second], CountSettings(3, is_stream=True))
    assert as_dict(both) == as_dict(whole)


def test_compressed_text_is_text(tmp_path: Path) -> None:
    path = write(tmp_path, TEXT)
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    also = tmp_path / "text.txt.xz"
    also.write_bytes(lzma.compress(path.read_bytes()))
    assert as_dict(count_text(packed)) == as_dict(count_text(also)) == as_dict(count_text(path))


def test_zstandard_is_text(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path, packed = write(tmp_path, TEXT), tmp_path / "text.zst"
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    assert as_dict(count_text(packed)) == as_dict(count_text(path))


def test_blank_lines_are_no_sentences(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n a  b\t\n\n\nb\n\n")
    assert as_dict(count_text(path)) == count_grams([["a", "b"], ["b"]], 3, is_stream=False)


def test_runs_that_are_there_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stop, only what is missing is counted; another text starts anew."""
    monkeypatch.setattr(counting, "SHARD_BYTES", 20)
    path, folder = write(tmp_path, TEXT), tmp_path / "work"
    folder.mkdir()
    settings = CountSettings(3)
    whole = count_runs(path, folder, settings, Threads(1)).whole()
    runs = sorted(folder.glob("run-*"))
    assert len(runs) > 2
    runs[1].unlink()
    times = {run: run.stat().st_mtime_ns for run in runs if run.exists()}
    again = count_runs(path, folder, settings, Threads(1)).whole()
    assert as_dict(again) == as_dict(whole)
    assert all(run.stat().st_mtime_ns == at for run, at in times.items())
    write(tmp_path, [["other", "words"], *TEXT[1:]])
    other = count_runs(path, folder, settings, Threads(1)).whole()
    assert ("other", "words") in {gram[-2:] for gram in as_dict(other)}
    assert as_dict(other) == count_grams([["other", "words"], *TEXT[1:]], 3, is_stream=False)


def test_runs_of_a_text_that_changed_but_kept_its_size_and_words_are_not_used(
    tmp_path: Path,
) -> None:
    path, folder = tmp_path / "text.txt", tmp_path / "work"
    folder.mkdir()
    for text in ("a b\nb a\n", "a a\nb b\n"):
        path.write_text(text)
        found = count_runs(path, folder, CountSettings(2), Threads(1)).whole()
        expected = [line.split() for line in text.splitlines()]
        assert as_dict(found) == count_grams(expected, 2, is_stream=False)


def test_files_do_not_depend_on_memory_and_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte: rows are written in portions that do not depend on the ranges merged."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(counting, "SHARD_BYTES", 25)  # no two alike
    monkeypatch.setattr(ngrams, "MAX_GROUP", 8)
    monkeypatch.setattr(counting, "_FENCE", 2)
    path, found = write(tmp_path, TEXT), set()
    for k, (memory, jobs) in enumerate([(1, 1), (4 * 120 * 7, 2), (1 << 30, 3)]):
        folder, out = tmp_path / f"work-{k}", tmp_path / f"{k}.parquet"
        folder.mkdir()
        runs = count_runs(path, folder, CountSettings(3, memory=memory), Threads(jobs))
        assert (len(runs._cuts()) > 1) == (memory < 1 << 30)
        assert runs.jobs == (jobs if memory == 1 << 30 else 1)  # little memory, few threads
        save_counts(runs, out)
        found.add(out.read_bytes())
    assert len(found) == 1


def test_ranges_get_smaller_with_what_the_process_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_BASE", 0), ("_WRITING", 0), ("_FENCE", 1)):
        monkeypatch.setattr(counting, name, value)
    memory = 2 * counting._BYTES_A_ROW * 800  # so many rows, where nothing else is held
    path, n_ranges = write(tmp_path, [[str(i), str(i + 1), str(i + 2)] for i in range(400)]), []
    folder = tmp_path / "work"
    folder.mkdir()
    for held in (0, memory - 2 * counting._BYTES_A_ROW * 200, 2 * memory):
        monkeypatch.setattr(counting, "peak_memory", lambda held=held: held)
        runs = count_runs(path, folder, CountSettings(3, memory=memory), Threads(1))
        n_ranges.append(len(runs._cuts()))
    assert n_ranges == [2, 8, 16]  # of 1,600 rows; an eighth of the memory is always used


@pytest.mark.dask
def test_a_cluster_counts_alike(tmp_path: Path, cluster: Cluster) -> None:
    path = write(tmp_path, TEXT)
    assert as_dict(count_text(path, engine=cluster)) == as_dict(count_text(path))


# -- tables ---------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=20),
    st.sampled_from([4, 16, 20]),
)
def test_keys_sort_as_rows_and_come_back(rows: list[list[int]], bits: int) -> None:
    table = np.array(rows, np.uint32)
    keys = pack_rows(table, bits)
    assert np.array_equal(unpack_rows(keys, 4, bits), table)
    merged, counts = merge_keys([(keys, np.ones(len(keys), np.int64))])
    assert [tuple(row) for row in unpack_rows(merged, 4, bits)] == sorted(set(map(tuple, rows)))
    assert counts.sum() == len(rows)


def test_rare_words_become_the_unknown_one() -> None:
    counts = count_sentence_ngrams(TEXT, 3)
    few = counts.cut_words(6)
    kept = {word for word in counts.words[4:] if sum(s.count(word) for s in TEXT) >= 6}
    assert set(few.words) == {*SPECIAL, *kept}
    replaced = [[w if w in kept else "<unk>" for w in words] for words in TEXT]
    assert as_dict(few) == count_grams(replaced, 3, is_stream=False)


def test_lower_orders_are_endings() -> None:
    assert as_dict(count_sentence_ngrams(TEXT, 4).shorten(2)) == as_dict(
        count_sentence_ngrams(TEXT, 2)
    )
    with pytest.raises(SapwoodError, match="order 2, expected at least 3"):
        count_sentence_ngrams(TEXT, 2).shorten(3)


def test_words_of_another_text(tmp_path: Path) -> None:
    counts = count_sentence_ngrams(TEXT, 2)
    held = count_text(write(tmp_path, [["the", "horse"]]), CountSettings(2), words=counts.words)
    assert as_dict(held) == {("<s>", "the"): 1, ("the", "<unk>"): 1, ("<unk>", "</s>"): 1}
    assert share_seen(counts, counts) == 1.0
    assert share_seen(held, counts) == pytest.approx(1 / 3)


# -- files ----------------------------------------------------------------------------------------


def test_files_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(ngrams, "MAX_GROUP", 5)
    counts, path = count_sentence_ngrams(TEXT, 3), tmp_path / "counts.parquet"
    save_counts(counts, path)
    again = load_counts(path)
    assert again.words == counts.words
    assert np.array_equal(again.rows, counts.rows)
    assert np.array_equal(again.counts, counts.counts)
    assert np.array_equal(again.word_counts, counts.word_counts)
    assert not again.is_stream
    assert as_dict(as_counts(path, 2)) == as_dict(counts.shorten(2))


def test_files_whose_names_are_not_utf_8(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    counts, path = (
        count_sentence_ngrams(TEXT, 2),
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")),
    )
    save_counts(counts, path)
    assert as_dict(load_counts(path)) == as_dict(counts)


def test_other_programs_read_the_words(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    save_counts(count_sentence_ngrams([["the", "dog"]], 2), tmp_path / "counts.parquet")
    rows = pq.read_table(tmp_path / "counts.parquet").to_pylist()
    assert {"w1": "the", "w2": "dog", "count": 1} in rows


def test_files_that_are_not_counts_are_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "counts.parquet"
    save_counts(count_sentence_ngrams(TEXT, 2), path)
    data = path.read_bytes()
    for size in (5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(ModelFormatError, match="not a complete file of counts"):
            load_counts(path)
    table = pa.table({"w1": ["a"], "count": [1]})
    pq.write_table(table, path)
    with pytest.raises(ModelFormatError, match="no counts of Sapwood"):
        load_counts(path)
    said = {b"sapwood_counts": b'{"format": 9, "order": 1, "is_stream": false}'}
    pq.write_table(table.replace_schema_metadata(said), path)
    with pytest.raises(ModelFormatError, match="format 9"):
        load_counts(path)


# -- bad text -------------------------------------------------------------------------------------


def test_bad_text_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.txt"
    monkeypatch.setattr(counting, "MAX_CHARACTERS", 100)
    monkeypatch.setattr(counting, "SHARD_BYTES", 10)
    for data, line, match in (
        (b"a b\nc\xff d\n", 2, "not UTF-8 text"),
        (b"a b\nc\nd\0 d\n", 3, "not UTF-8 text"),
        (b"a b\nc <s> d\n", 2, "found <s> as a word"),
        (b"a b\n" * 5 + b"c" * 200, 6, "a line of more than 100"),
    ):
        path.write_bytes(data)
        with pytest.raises(CorpusError, match=match) as caught:
            count_text(path)
        assert caught.value.line == line
    for blank in (b"", b"\n \n\t\n"):
        path.write_bytes(blank)
        with pytest.raises(CorpusError, match="no words"):
            count_text(path)


def test_orders_beyond_five_are_refused() -> None:
    with pytest.raises(SapwoodError, match="order 6"):
        count_sentence_ngrams(TEXT, 6)
    assert ngrams.MAX_ORDER == 5


@pytest.mark.dask
@pytest.mark.slow
def test_a_worker_that_is_killed_changes_no_byte(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    cluster._client.wait_for_workers(2, timeout=60)
    monkeypatch.setattr(counting, "SHARD_BYTES", 60)
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
