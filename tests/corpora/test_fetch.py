from __future__ import annotations

import errno
import hashlib
import io
import os
import socket
import threading
import warnings
import zipfile
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sapwood.cli import corpora as cli_data
from sapwood.core.errors import CorpusError, SapwoodError, SapwoodWarning
from sapwood.corpora import fetch as fetching
from sapwood.corpora.fetch import (
    RAW,
    CorpusEntry,
    RemoteFile,
    SplitRange,
    convert_dp,
    convert_tagged,
    convert_trees,
    default_folder,
    fetch,
)
from sapwood.corpora.formats import read_trees
from sapwood.corpora.formats.brackets import psd_form
from sapwood.corpora.tree import clean

# Everything below is made up in the formats of the originals; no corpus is quoted.

EN_DASH = "\N{EN DASH}"

CRAFT = {
    "penn/1.tree": "( (TITLE (NP (NN Iron) (NNS things))) )\n( (S (NP-SBJ-1 (NN salt))\n"
    "    (VP (VBZ is) (VP (VBN kept) (NP-1 (-NONE- *)))) (. .)) )\n",
    "penn/2.tree": "( (HEADING (NP (CD 1 000) (NNS cups))) )\n",
    "penn/3.tree": "( (S (VP (VB Stir)) (. .)) )\n",
}
CRAFT_SPLIT = {"penn/1.tree": "train", "penn/2.tree": "dev", "penn/3.tree": "test"}


class Server:
    """Files by path on 127.0.0.1, with a count of requests and answers that can be broken."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.status: dict[str, int] = {}
        self.requests: Counter[str] = Counter()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.lstrip("/")
                outer.requests[path] += 1
                status = outer.status.get(path, 200 if path in outer.files else 404)
                body = outer.files.get(path, b"") if status == 200 else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = Server()
    yield running
    running.close()


def entry_of(server: Server, name: str, files: dict[str, bytes | str], **facts: object):
    """Put files on the server and describe them as a corpus, with their true checksums."""
    splits = facts.pop("splits", {})
    remote = []
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        server.files[path] = data
        digest = hashlib.sha256(data).hexdigest()
        remote.append(RemoteFile(path, digest, len(data), splits.get(path, "all")))
    given = {"title": name, "kind": "trees", "format": "joined", "base_url": server.url} | facts
    return CorpusEntry(name=name, files=tuple(remote), **given)


def craft(server: Server) -> CorpusEntry:
    return entry_of(server, "crafty", CRAFT, splits=CRAFT_SPLIT)


def zipped(members: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def left_over(folder: Path) -> list[Path]:
    return list(folder.rglob("*.part"))


# -- success --------------------------------------------------------------------------------------


def test_files_are_written_by_split(server, tmp_path):
    files = fetch(craft(server), tmp_path)
    assert files == {s: tmp_path / "crafty" / f"{s}.mrg" for s in ("train", "dev", "test")}
    assert files["train"].read_text() == (
        "( (TITLE (NP (NN Iron) (NNS things))))\n"
        "( (S (NP-SBJ-1 (NN salt)) (VP (VBZ is) (VP (VBN kept) (NP-1 (-NONE- *)))) (. .)))\n"
    )
    assert files["dev"].read_text() == "( (HEADING (NP (CD 1_000) (NNS cups))))\n"
    assert not left_over(tmp_path)


def test_the_output_can_be_read_and_cleaned(server, tmp_path):
    files = fetch(craft(server), tmp_path)
    trees = list(read_trees(files["train"]))
    assert [tree.words() for tree in trees] == [
        ["Iron", "things"],
        ["salt", "is", "kept", "*", "."],
    ]
    assert str(clean(trees[1])) == "(TOP (S (NP (NN salt)) (VP (VBZ is) (VP (VBN kept))) (. .)))"


def test_progress_counts_every_file(server, tmp_path):
    seen: list[tuple[int, int, str]] = []
    fetch(craft(server), tmp_path, progress=lambda *event: seen.append(event))
    assert [(n, of) for n, of, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert {path for *_, path in seen} == set(CRAFT)


def test_a_mirror_replaces_the_base_address(server, tmp_path):
    entry = craft(server)
    server.files = {f"mirror/{path}": data for path, data in server.files.items()}
    files = fetch(entry, tmp_path, base_url=f"{server.url}/mirror/")
    assert files["test"].exists()
    assert set(server.requests) == {f"mirror/{path}" for path in CRAFT}


def test_the_folder_comes_from_the_environment(server, tmp_path, monkeypatch):
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "home"))
    assert fetch(craft(server))["dev"] == tmp_path / "home" / "crafty" / "dev.mrg"
    monkeypatch.delenv("SAPWOOD_HOME")
    assert "sapwood" in str(default_folder())


# -- what is there already ------------------------------------------------------------------------


def test_a_complete_corpus_is_not_fetched_again(server, tmp_path):
    entry = craft(server)
    first = fetch(entry, tmp_path)
    times = {path: path.stat().st_mtime_ns for path in first.values()}
    server.requests.clear()
    assert fetch(entry, tmp_path) == first
    assert not server.requests
    assert times == {path: path.stat().st_mtime_ns for path in first.values()}


@pytest.mark.parametrize("damage", ["truncate", "delete", "stamp", "deep stamp", "long name"])
def test_damaged_output_is_written_again_without_network(server, tmp_path, damage):
    entry = craft(server)
    files = fetch(entry, tmp_path)
    before = files["train"].read_text()
    server.requests.clear()
    if damage == "truncate":
        files["train"].write_text("(S (X")
    elif damage == "delete":
        files["train"].unlink()
    else:
        stamp = tmp_path / "crafty" / fetching.STAMP
        long = stamp.read_text().replace("train.mrg", "train.mrg" * 1000)
        damaged = {"stamp": "{", "deep stamp": "[" * 100_000, "long name": long}
        stamp.write_text(damaged[damage])
        files["train"].write_text("")
    assert fetch(entry, tmp_path)["train"].read_text() == before
    assert not server.requests


def test_another_split_is_written_again(server, tmp_path):
    entry = craft(server)
    fetch(entry, tmp_path)
    server.requests.clear()
    swapped = CRAFT_SPLIT | {"penn/2.tree": "test", "penn/3.tree": "dev"}
    files = fetch(entry_of(server, "crafty", CRAFT, splits=swapped), tmp_path)
    assert "Stir" in files["dev"].read_text()
    assert not server.requests  # the originals are the same


def test_a_changed_download_is_replaced(server, tmp_path):
    entry = craft(server)
    files = fetch(entry, tmp_path)
    (tmp_path / "downloads" / "crafty" / "penn" / "1.tree").write_text("( (S (X spoilt)) )")
    files["train"].unlink()
    server.requests.clear()
    assert "salt" in fetch(entry, tmp_path)["train"].read_text()
    assert server.requests == {"penn/1.tree": 1}


# -- failure --------------------------------------------------------------------------------------


def test_a_wrong_checksum_is_told_and_the_file_deleted(server, tmp_path):
    entry = craft(server)
    expected = hashlib.sha256(server.files["penn/2.tree"]).hexdigest()
    server.files["penn/2.tree"] = b"( (S (X changed)) )\n"
    found = hashlib.sha256(server.files["penn/2.tree"]).hexdigest()
    with pytest.raises(CorpusError, match="checksum") as caught:
        fetch(entry, tmp_path)
    assert expected in str(caught.value)
    assert found in str(caught.value)
    assert caught.value.hint
    assert not (tmp_path / "downloads" / "crafty" / "penn" / "2.tree").exists()
    assert not (tmp_path / "crafty").exists()
    assert not left_over(tmp_path)


@pytest.mark.parametrize(
    ("status", "answer", "n_requests", "hint"),
    [(404, "404 Not Found", 1, "mirror"), (503, "503 Service Unavailable", 2, "later")],
)
def test_an_error_of_the_server_is_told(server, tmp_path, status, answer, n_requests, hint):
    """A server that is overloaded is asked twice; asking again for a lost file would not help."""
    entry = craft(server)
    server.status["penn/3.tree"] = status
    with pytest.raises(
        CorpusError, match=rf"127\.0\.0\.1:\d+ answered {answer}.*3\.tree"
    ) as caught:
        fetch(entry, tmp_path)
    assert server.requests["penn/3.tree"] == n_requests
    assert hint in caught.value.hint


def test_a_dead_server_is_one_line(tmp_path, server):
    entry = craft(server)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(CorpusError) as caught:
        fetch(entry, tmp_path, base_url=f"http://127.0.0.1:{port}")
    assert str(caught.value) == f"cannot reach 127.0.0.1:{port}: Connection refused"
    assert "kept" in caught.value.hint
    assert not left_over(tmp_path)


def test_a_failure_stops_the_files_still_waiting(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "N_WORKERS", 1)
    files = {f"{n:03}.tree": f"( (S (X w{n})) )" for n in range(400)}
    entry = entry_of(server, "many", files)
    del server.files["000.tree"]
    with pytest.raises(CorpusError, match="404"):
        fetch(entry, tmp_path)
    assert sum(server.requests.values()) < 200  # a handful, unless the machine is very busy


def test_a_second_attempt_asks_only_for_what_is_missing(server, tmp_path):
    entry = craft(server)
    server.status["penn/3.tree"] = 500
    with pytest.raises(CorpusError, match="500"):
        fetch(entry, tmp_path)
    kept = {path for path in CRAFT if (tmp_path / "downloads" / "crafty" / path).exists()}
    assert kept == {"penn/1.tree", "penn/2.tree"}  # four at once: the others arrived
    server.status.clear()
    server.requests.clear()
    files = fetch(entry, tmp_path)
    assert server.requests == {"penn/3.tree": 1}
    assert [len(list(read_trees(path))) for path in files.values()] == [2, 1, 1]


def test_a_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CorpusError, match="cannot write") as caught:
        fetch(craft(server), tmp_path / "file")
    assert "SAPWOOD_HOME" in caught.value.hint


def test_files_of_somebody_else_are_not_replaced(server, tmp_path):
    own = tmp_path / "crafty" / "dev.mrg"
    own.parent.mkdir()
    own.write_text("(S (X mine))")
    with pytest.raises(SapwoodError, match="did not write it"):
        fetch(craft(server), tmp_path)
    assert not server.requests  # refused before anything is downloaded
    assert own.read_text() == "(S (X mine))"
    assert fetch(craft(server), tmp_path, force=True)["dev"].read_text().startswith("( (HEADING")
    entry = entry_of(server, "raw", {"a.zip": zipped({"x.txt": "x"})}, members="*", format=RAW)
    own = tmp_path / "raw" / RAW / "mine"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(CorpusError, match="is there"):
        fetch(entry, tmp_path)
    assert own.read_text() == "mine"
    assert (fetch(entry, tmp_path, force=True)[RAW] / "x.txt").read_text() == "x"


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_full_disk_is_one_line_and_leaves_no_debris(server, tmp_path, call, monkeypatch):
    entry = craft(server)
    fetch(entry, tmp_path)
    kept = tmp_path / "crafty" / "dev.mrg"
    before = kept.read_text()
    (tmp_path / "crafty" / "train.mrg").unlink()  # so that all is written again
    real, n_calls = getattr(os, call), 0

    def fail(*args, **options):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(CorpusError, match="cannot write: No space left on device"):
        fetch(entry, tmp_path)
    assert kept.read_text() == before
    assert not left_over(tmp_path)
    monkeypatch.setattr(os, call, real)
    assert fetch(entry, tmp_path)["train"].exists()


def test_a_broken_tree_is_left_out_with_a_warning(server, tmp_path):
    text = "( (S (X b) lost) )\n( (S (X a)) )\n( (S (X c)) )\n"
    entry = entry_of(server, "holes", {"a.tree": text})
    with pytest.warns(
        SapwoodWarning, match=r"holes: 1 tree left out because of errors.*a\.tree:1:3"
    ):
        files = fetch(entry, tmp_path)
    assert [tree.words() for tree in read_trees(files["all"])] == [["a"], ["c"]]


@pytest.mark.parametrize("text", ["", "#only a comment\n", "(S lost (X a))\n(S (X a)) x\n(S x (Y"])
def test_an_unreadable_corpus_is_refused(server, tmp_path, text):
    with pytest.raises(CorpusError, match="not as expected"):
        fetch(entry_of(server, "bad", {"a.tree": text}), tmp_path)
    assert not list((tmp_path / "bad").iterdir())


@pytest.mark.parametrize(
    ("file", "content", "members", "message"),
    [
        ("a.zip", b"no archive", "*.mrg", "cannot be unpacked"),
        ("a.zip", zipped({"x/README": "hello"}), "*.mrg", "nothing was found for all"),
        ("a.tree", "( (S (X é)) )".encode("latin-1"), "", r"a\.tree: not utf-8 text \(byte 0xe9"),
    ],
)
def test_originals_that_cannot_be_used(server, tmp_path, file, content, members, message):
    entry = entry_of(server, "bad", {file: content}, members=members)
    with pytest.raises(CorpusError, match=message):
        fetch(entry, tmp_path)


# -- archives -------------------------------------------------------------------------------------

RANGES = (
    SplitRange("train", "wsj_0001", "wsj_0002"),
    SplitRange("dev", "wsj_0003", "wsj_0003"),
    SplitRange("test", "wsj_0004", "wsj_0005"),
)


def test_a_treebank_archive_is_split_by_member(server, tmp_path):
    members = {
        "treebank/README": "(not a tree",
        "treebank/combined/wsj_0002.mrg": "\n( (S \n    (NP-SBJ (NNS Two) )\n    (. .) ))\n",
        "treebank/combined/wsj_0001.mrg": "\n( (S (NP-SBJ (-NONE- *) )\n (VP (VB Go) )))\n",
        "treebank/combined/wsj_0003.mrg": "( (NP (NN three)))\n",
        "treebank/combined/wsj_0004.mrg": "( (NP (NN four)))\n",
        "treebank/combined/wsj_0009.mrg": "( (NP (NN outside)))\n",
        "treebank/parsed/wsj_0001.prd": "( (NP wrong folder))\n",
    }
    archive, wanted = {"treebank.zip": zipped(members)}, "*/combined/wsj_*.mrg"
    files = fetch(entry_of(server, "sample", archive, members=wanted, ranges=RANGES), tmp_path)
    assert files["train"].read_text() == (
        "( (S (NP-SBJ (-NONE- *)) (VP (VB Go))))\n( (S (NP-SBJ (NNS Two)) (. .)))\n"
    )
    assert files["dev"].read_text() == "( (NP (NN three)))\n"
    assert files["test"].read_text() == "( (NP (NN four)))\n"


def test_dependencies_become_conllu(server, tmp_path):
    members = {f"d/wsj_000{n}.dp": f"Word{n}\tNN\t0\n" for n in (1, 3, 4)}
    facts = {"kind": "dependencies", "format": "dp", "members": "*.dp", "ranges": RANGES}
    files = fetch(entry_of(server, "dep", {"d.zip": zipped(members)}, **facts), tmp_path)
    assert files["dev"] == tmp_path / "dep" / "dev.conllu"
    assert files["dev"].read_text() == "1\tWord3\t_\tNN\tNN\t_\t0\troot\t_\t_\n\n"


def test_tagged_text_is_in_corpus_order(server, tmp_path):
    members = {
        "brown/cb01": "\n\n\tThird/jj line/nn ./.\n",
        "brown/ca01": "\n\n\tFirst/jj  one/nn ./.\n\n\n\tAnd/or/cc second/jj\n",
        "brown/cats.txt": "ca01 news\n",
        "brown/CONTENTS": "none\n",
    }
    facts = {"kind": "text", "format": "tagged", "members": "*/c[a-r][0-9][0-9]"}
    entry = entry_of(server, "b", {"b.zip": zipped(members)}, **facts)
    assert fetch(entry, tmp_path)["all"].read_text().splitlines() == [
        "First/jj one/nn ./.",
        "And/or/cc second/jj",
        "Third/jj line/nn ./.",
    ]


def test_a_raw_corpus_is_unpacked_as_it_is(server, tmp_path):
    members = {"s/parsed": "#1:1.[0] S(agent:NP(x))#\n", "s/README": "read me\n"}
    entry = entry_of(server, "s", {"s.zip": zipped(members)}, format="raw", members="*")
    files = fetch(entry, tmp_path)
    assert list(files) == ["raw"]
    assert (files["raw"] / "s" / "parsed").read_text() == members["s/parsed"]
    server.requests.clear()
    (files["raw"] / "s" / "parsed").unlink()
    assert (fetch(entry, tmp_path)["raw"] / "s" / "parsed").exists()
    assert not server.requests
    assert not left_over(tmp_path)


def test_conllu_stays_byte_by_byte(server, tmp_path):
    data = "# text = \xe9t\xe9\r\n1\tété\t_\tNOUN\t_\t_\t0\troot\t_\t_\r\n\r\n".encode()
    name = "x-ud-train.conllu"
    facts = {"splits": {name: "train"}, "kind": "dependencies", "format": "conllu"}
    entry = entry_of(server, "ud", {name: data}, **facts)
    assert fetch(entry, tmp_path)["train"].read_bytes() == data


def unchecked(server: Server, facts: dict[str, Any], trees: str, written: str) -> CorpusEntry:
    """An entry without checksums of its original, but with one of what is written."""
    entry = entry_of(server, "open", {"a.mrg": trees}, splits={"a.mrg": "train"}, **facts)
    digest = hashlib.sha256(written.encode()).hexdigest()
    return replace(
        entry,
        files=tuple(replace(file, sha256="", size=0) for file in entry.files),
        written=(RemoteFile("=", digest, len(written), "train"),),
    )


def test_where_checksums_of_originals_are_not_known_the_trees_have_one(server, tmp_path):
    entry = unchecked(server, {}, "( (S\n  (NN salt)))\n", "( (S (NN salt)))\n")
    assert fetch(entry, tmp_path)["train"].read_text() == "( (S (NN salt)))\n"
    assert entry.size == len("( (S (NN salt)))\n")


def test_other_trees_are_refused_and_not_written(server, tmp_path):
    entry = unchecked(server, {}, "( (S (NN sand)))\n", "( (S (NN salt)))\n")
    with pytest.raises(CorpusError, match="wrong checksum of open, train") as caught:
        fetch(entry, tmp_path)
    assert "delete" in str(caught.value.hint)
    assert not (tmp_path / "open" / "train.mrg").exists()
    assert not left_over(tmp_path)


def test_of_dependencies_only_what_is_learnt_from_is_checked(server, tmp_path):
    row = "1\tSalt\tsalt\tNOUN\tNN\tX=Y\t0\troot\t0:root\tSpaceAfter=No\n\n"
    basic = "1\tSalt\t_\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
    facts = {"kind": "dependencies", "format": "conllu"}
    entry = unchecked(server, facts, f"# text = Salt\n{row}", basic)
    assert fetch(entry, tmp_path)["train"].read_text() == f"# text = Salt\n{row}"
    wrong = unchecked(server, facts, row.replace("root", "dep"), basic)
    with pytest.raises(CorpusError, match="wrong checksum"):
        fetch(wrong, tmp_path / "other")


# -- converters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leaf", "form"),
    [
        ("hestur-hestur", "hestur"),
        ("hestar-hestur", "hestar"),
        ("hest$-hestur", "hest$"),
        ("$inn-hinn", "$inn"),
        ("gul<dash/>grár-gulgrár", "gul<dash/>grár"),
        ("gul-grár-gulgrár", "gul-grár"),
        ("gul-grár-gul-grár", "gul-grár"),
        (",-,", ","),
        (".-.", "."),
        (f"{EN_DASH}-{EN_DASH}", EN_DASH),
        ("---", "-"),
        ("-----", "--"),
        ("-", "-"),
        ('"-"', '"'),
        ('"-"-"', '"'),
        ("0", "0"),
        ("0-0", "0"),
        ("5-fimm", "5"),
        ("*T*-1", "*T*-1"),
        ("*ICH*-12", "*ICH*-12"),
        ("*con*", "*con*"),
        ("*con*-D", "*con*-D"),
        ("*-1", "*-1"),
        ("*", "*"),
        ("unlemmatised", "unlemmatised"),
        ("x-", "x"),
    ],
)
def test_psd_form(leaf, form):
    assert psd_form(leaf) == form


PSD = f"""\
/*
PREFACE: (a stray ( bracket
*/
( (META (CODE <heading>)
\t(NUMP (NUM-N 1-einn))
\t(CODE </heading>)))

( (IP-MAT (CONJ og-og)
\t  (CODE {{COM:a remark}})
\t  (NP-SBJ (N-N hest$-hestur) (D-N $inn-hinn)
\t\t  (CP-REL (WNP-1 0) (C sem-sem) (IP-SUB (NP-SBJ *T*-1) (VBDI kom-koma))))
\t  (, {EN_DASH}-{EN_DASH}) (VBDI svaf-sofa)
\t  (. .-.))
  (ID 1150.X.NAR-SAG,.2))

/~*
quoted text (with brackets
(1150.X,.2)
*~/
( (CODE <P_2>) (QTP (INTJ Já-já)) (" "-") (ID 1150.X.NAR-SAG,.3))

( (CODE <P_3>) (ID 1150.X.NAR-SAG,.4))
(FRAG (ADV hér-hér))
"""


def test_psd_trees():
    skipped: list[CorpusError] = []
    assert list(convert_trees("psd-lemmas")(PSD, "x.psd", skipped)) == [
        "(IP-MAT (CONJ og) (NP-SBJ (N-N hest$) (D-N $inn) (CP-REL (WNP-1 0) (C sem)"
        f" (IP-SUB (NP-SBJ *T*-1) (VBDI kom)))) (, {EN_DASH}) (VBDI svaf) (. .))\n",
        '( (QTP (INTJ Já)) (" "))\n',
        "(FRAG (ADV hér))\n",
    ]
    assert skipped == []


def test_psd_errors_name_the_line_of_the_original():
    skipped: list[CorpusError] = []
    text = "/*\nnote\n*/\n( (IP-MAT (A a-a) b) (ID 1))\n"
    assert list(convert_trees("psd-lemmas")(text, "x.psd", skipped)) == []
    assert (skipped[0].file, skipped[0].line) == ("x.psd", 4)


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("psd-lemmas", "\ufeff( (X a-b) (ID 1))", "(X a)"),
        ("joined", "( (NP (CD 1 000)\n (NN x)) )", "( (NP (CD 1_000) (NN x)))"),
        (
            "cess",
            "#comment (\n(S\n  (sn-SUJ\n    (da0ms0 El el)\n    (ncms000 gato gato))\n"
            "  (sn.e-SUJ *0*)\n  (grup.verb (vmip3s0 duerme\n dormir))\n  (,)\n  (Fp . .))\n",
            "(S (sn-SUJ (da0ms0 El) (ncms000 gato)) (sn.e-SUJ *0*) (grup.verb (vmip3s0 duerme))"
            " (, ,) (Fp .))",
        ),
    ],
)
def test_trees_are_written_one_a_line(format, text, expected):
    assert list(convert_trees(format)(text, "x", [])) == [f"{expected}\n"]


def test_dp_sentences_are_numbered_and_separated():
    text = "\nA\tDT\t2\ncat\tNN\t3\nsleeps\tVBZ\t0\n\n\nYes\tUH\t0\n"
    blocks = "".join(convert_dp(text, "x.dp", [])).split("\n\n")
    assert blocks[-1] == ""
    rows = [[line.split("\t") for line in block.splitlines()] for block in blocks[:-1]]
    assert [[row[0] for row in block] for block in rows] == [["1", "2", "3"], ["1"]]
    assert [row[6:8] for row in rows[0]] == [["2", "dep"], ["3", "dep"], ["0", "root"]]
    assert rows[0][1] == ["2", "cat", "_", "NN", "NN", "_", "3", "dep", "_", "_"]


@pytest.mark.parametrize(
    "line", ["word\tNN\t" + "9" * 5000, "word\tNN", "word\tNN\thead", "a\tb\t1\t2"]
)
def test_dp_says_where_it_stopped(line):
    with pytest.raises(CorpusError, match=r"x\.dp:2: expected word, tag and head"):
        list(convert_dp(f"ok\tNN\t0\n{line}\n", "x.dp", []))


def test_tagged_lines_keep_their_tokens():
    assert list(convert_tagged("\t a/b/c  d/e \n\n\u00a0\n", "x", [])) == ["a/b/c d/e\n"]


# -- the command ----------------------------------------------------------------------------------


def test_run_fetch_says_what_it_does(server, tmp_path, monkeypatch):
    entry = entry_of(server, "crafty", CRAFT, splits=CRAFT_SPLIT, licence="CC", note="a note")
    monkeypatch.setattr("sapwood.corpora.fetch._registry", lambda: (entry,))
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = cli_data.run_fetch("crafty", tmp_path, said.append)
    assert set(files) == {"train", "dev", "test"}
    assert said[0].startswith("crafty: ")
    assert "CC" in said[0]
    assert "note: a note" in said
    assert "1/2 download  3/3 files" in said
    assert f"train: {files['train']}" in said
    assert all("\n" not in line for line in said)


def test_run_fetch_of_many_files_is_brief(server, tmp_path, monkeypatch):
    files = {f"{n:03}.tree": f"( (S (X w{n})) )" for n in range(60)}
    entry = entry_of(server, "many", files)
    monkeypatch.setattr("sapwood.corpora.fetch._registry", lambda: (entry,))
    said: list[str] = []
    cli_data.run_fetch("many", tmp_path, said.append)
    assert sum("download" in line for line in said) == 10
