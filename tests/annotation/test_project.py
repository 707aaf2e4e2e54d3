"""Projects: the journal, undo and redo across restarts, conflicts, and what a kill leaves."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.annotation.journal import Journal
from sapwood.annotation.project import JOURNAL, SENTENCES, Project
from sapwood.annotation.settings import ABOUT, ProjectSettings
from sapwood.annotation.state import ConflictError, ProjectSentence, SentenceState
from sapwood.core.errors import CorpusError, SapwoodError

WORDS = (("dogs", "bark"), ("«été»", "😀"), ("שלום", "עולם", "."))
TREES = (None, "(TOP (X a) (X b))", "(TOP (S (NP (N a)) (VP (V b))))", "(TOP (X 😀) (X é))")
WINDOWS = ("one", "two")


def make(folder: Path, *, n: int = 3, kind: str = "trees") -> Project:
    project = Project.create(folder / "project", ProjectSettings("A title", kind))
    project.add(ProjectSentence("", "text", words) for words in (WORDS * n)[:n])
    return project


def decide(tree: str | None) -> SentenceState:
    """A change to a tree; also one of what was set by hand."""
    status = "accepted" if tree else "started"

    def change(state: SentenceState) -> SentenceState:
        return replace(state, status=status, tree=tree, constraints={"spans": [[0, 1, str(tree)]]})

    return change  # type: ignore[return-value]


def contents(project: Project) -> dict[str, SentenceState]:
    return {one.id: state for one, state in project.states()}


def without_revisions(project: Project) -> dict[str, SentenceState]:
    return {key: state.with_revision(0) for key, state in contents(project).items()}


# An action on a sentence by a window, an undo or redo of a window, or a restart.
STEPS = st.one_of(
    st.tuples(st.just("do"), st.integers(0, 2), st.sampled_from(TREES), st.sampled_from(WINDOWS)),
    st.tuples(st.sampled_from(["undo", "redo"]), st.sampled_from([*WINDOWS, "three"])),
    st.just(("restart",)),
)


def take(project: Project, step: tuple[object, ...]) -> Project:
    kind = step[0]
    if kind == "restart":
        folder = project.folder
        before, history = contents(project), [project.history(w) for w in WINDOWS]
        project.close()
        project = Project.open(folder)
        assert contents(project) == before
        assert [project.history(w) for w in WINDOWS] == history
        return project
    if kind == "do":
        _, place, tree, window = step
        name = f"s{int(str(place)) + 1}"
        action = {"type": "set", "label": tree}
        revision = project.state(name).revision
        project.apply(name, revision, action, decide(tree), window=str(window))  # type: ignore[arg-type]
        return project
    before = contents(project)
    try:
        (project.undo if kind == "undo" else project.redo)(str(step[1]))
    except SapwoodError:
        assert contents(project) == before
    return project


@settings(max_examples=25)
@given(st.lists(STEPS, max_size=10))
def test_the_states_follow_from_any_beginning_of_the_journal(
    steps: list[tuple[object, ...]],
) -> None:
    """What was answered is there again, wherever the file was cut behind it."""
    with TemporaryDirectory() as name:
        project = make(Path(name))
        answered = [(project.revision, contents(project))]
        for step in steps:
            project = take(project, step)
            if project.revision > answered[-1][0]:
                answered.append((project.revision, contents(project)))
        project.close()
        journal = project.folder / JOURNAL
        data = journal.read_bytes()
        ends = [0, *(k + 1 for k, byte in enumerate(data) if byte == ord("\n"))]
        assert len(ends) == len(answered)
        for (n, states), end, following in zip(
            answered, ends, [*ends[1:], len(data) + 1], strict=True
        ):
            for cut in {end, (end + following) // 2}:
                journal.write_bytes(data[:cut])
                project.trees_file.unlink()
                with Project.open(project.folder) as opened:
                    assert opened.revision == n
                    assert contents(opened) == states
                    lines = opened.trees_file.read_text(encoding="utf-8").split("\n")[:-1]
                    assert lines == [s.tree for s in states.values() if s.tree is not None]
                    assert bool(opened.messages) == (cut > end)
                assert journal.read_bytes() == data[:end]


@settings(max_examples=25)
@given(st.lists(STEPS, max_size=10), st.integers(0, 2), st.sampled_from(TREES))
def test_undo_takes_an_action_back_and_redo_does_it_again(
    steps: list[tuple[object, ...]], place: int, tree: str | None
) -> None:
    with TemporaryDirectory() as name:
        project = make(Path(name))
        for step in steps:
            project = take(project, step)
        before = without_revisions(project)
        project = take(project, ("do", place, tree, "one"))
        after = without_revisions(project)
        assert project.undo("one")[0] == f"s{place + 1}"
        assert without_revisions(project) == before
        project.close()
        project = Project.open(project.folder)
        project.redo("one")
        assert without_revisions(project) == after
        while project.history("three")["undo"]["can"]:
            project.undo("three")  # a window without actions undoes the last one of all
        assert all(state.status == "new" for state in contents(project).values())
        assert project.trees_file.read_bytes() == b""
        project.close()


def test_two_windows_never_lose_a_tree(tmp_path: Path) -> None:
    project = make(tmp_path)
    project.apply("s1", 0, {"type": "set"}, decide(TREES[1]), window="one")
    with pytest.raises(ConflictError) as caught:
        project.apply("s1", 0, {"type": "set"}, decide(TREES[2]), window="two")
    assert caught.value.state.tree == TREES[1]
    assert caught.value.hint
    assert project.state("s1").tree == TREES[1]
    project.apply("s1", 1, {"type": "set"}, decide(TREES[2]), window="two")
    with pytest.raises(ConflictError, match="another window has changed the sentence since"):
        project.undo("one")
    assert project.state("s1").tree == TREES[2]
    project.undo("two")
    project.undo("one")
    assert project.state("s1").tree is None
    lines = (project.folder / JOURNAL).read_text(encoding="utf-8").split("\n")[:-1]
    journal = [json.loads(line) for line in lines]
    assert [row["action"]["type"] for row in journal] == ["set", "set", "undo", "undo"]
    assert {str(TREES[1]), str(TREES[2])} <= {row["after"]["tree"] for row in journal}


def test_a_window_undoes_its_own_action_first(tmp_path: Path) -> None:
    project = make(tmp_path)
    project.apply("s1", 0, {"type": "set"}, decide(TREES[1]), window="one")
    project.apply("s2", 0, {"type": "set"}, decide(TREES[2]), window="two")
    assert project.undo("one")[0] == "s1"
    assert project.undo("one")[0] == "s2"  # it has none of its own left
    assert project.redo("two")[0] == "s2"
    with pytest.raises(SapwoodError, match="nothing to undo"):
        [project.undo("one") for _ in range(3)]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    project = make(tmp_path)
    child = os.fork()
    if not child:
        try:
            Project.open(project.folder)
        except SapwoodError as error:
            os._exit(17 if "another process holds" in str(error) and error.hint else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    project.close()
    Project.open(project.folder).close()


def test_a_folder_with_files_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(SapwoodError, match="other files"):
        Project.create(tmp_path, ProjectSettings("A title"))
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(SapwoodError, match="no project"):
        Project.open(tmp_path)
    with pytest.raises(SapwoodError, match="does not exist"):
        Project.create(tmp_path / "a" / "b", ProjectSettings("A title"))
    make(tmp_path).close()
    with pytest.raises(SapwoodError, match="a project"):
        Project.create(tmp_path / "project", ProjectSettings("A title"))


@pytest.mark.parametrize(
    "wrong",
    [
        ProjectSettings(" "), ProjectSettings("x" * 300), ProjectSettings("A", "words"),
        ProjectSettings("A", direction="up"), ProjectSettings("A", order="by magic"),
        ProjectSettings("A", format=99),
    ],
)  # fmt: skip
def test_settings_without_a_meaning_are_refused(tmp_path: Path, wrong: ProjectSettings) -> None:
    with pytest.raises(SapwoodError) as caught:
        Project.create(tmp_path / "new", wrong)
    assert caught.value.hint
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("file", [ABOUT, SENTENCES, JOURNAL])
@pytest.mark.parametrize("damage", [b"[]\n", b"{}\n", b"no JSON\n", b'{"n": 7}\n'])
def test_a_damaged_file_is_named_and_stays(tmp_path: Path, file: str, damage: bytes) -> None:
    project = make(tmp_path)
    project.apply("s1", 0, {"type": "set"}, decide(TREES[1]))
    project.close()
    path = project.folder / file
    data = damage + path.read_bytes()
    path.write_bytes(data)
    with pytest.raises(CorpusError) as caught:
        Project.open(project.folder)
    assert caught.value.file is not None
    assert file in caught.value.file
    assert path.read_bytes() == data


def test_trees_that_another_program_wrote_are_kept_beside(tmp_path: Path) -> None:
    project = make(tmp_path)
    project.apply("s1", 0, {"type": "set"}, decide(TREES[1]))
    project.apply("s2", 0, {"type": "set"}, decide(TREES[2]))
    project.close()
    whole = project.trees_file.read_bytes()
    project.trees_file.write_bytes(b"(S (X mine))\n")
    with Project.open(project.folder) as opened:
        assert "changed by another program" in opened.messages[0]
        assert opened.trees_file.read_bytes() == whole
        assert (project.folder / "trees-edited-1.mrg").read_bytes() == b"(S (X mine))\n"
    project.trees_file.write_bytes(whole.split(b"\n")[0] + b"\n")  # killed before it was written
    with Project.open(project.folder) as opened:
        assert not opened.messages
        assert opened.trees_file.read_bytes() == whole


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(tmp_path)
    project.apply("s1", 0, {"type": "set"}, decide(TREES[1]))
    before = (project.folder / JOURNAL).read_bytes()
    real = os.write

    def fail(handle: int, data: bytes) -> int:
        real(handle, data[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(SapwoodError, match="No space left"):
            project.apply("s2", 0, {"type": "set"}, decide(TREES[2]))
    assert (project.folder / JOURNAL).read_bytes() == before
    assert project.state("s2").revision == 0
    project.apply("s2", 0, {"type": "set"}, decide(TREES[2]))
    project.close()
    with Project.open(project.folder) as opened:
        assert [one.id for one in opened.accepted()] == ["s1", "s2"]


def test_where_the_trees_cannot_be_written_the_journal_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sapwood.annotation import project as module

    project = make(tmp_path)

    def fail(*_: object) -> None:
        raise SapwoodError("cannot write trees.mrg: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_file", fail)
        project.apply("s1", 0, {"type": "set"}, decide(TREES[1]))
    assert "the next action tries again" in project.summary()["messages"][0]
    project.apply("s2", 0, {"type": "set"}, decide(None))
    assert project.trees_file.read_text(encoding="utf-8") == f"{TREES[1]}\n"
    assert not project.summary()["messages"]


def test_sentences_are_added_behind_the_others(tmp_path: Path) -> None:
    project = make(tmp_path, n=2)
    assert project.add(
        [ProjectSentence("", "more", ("a", "b"), tree=TREES[1], is_accepted=True)]
    ) == ["s3"]
    assert project.add([]) == []
    assert project.summary()["counts"] == {
        "sentences": 3, "new": 2, "started": 0, "accepted": 1, "skipped": 0, "words_accepted": 2,
    }  # fmt: skip
    before = contents(project)
    project.close()
    with Project.open(project.folder) as opened:
        assert contents(opened) == before
        assert opened.sentence("s3").document == "more"
        assert opened.trees_file.read_text(encoding="utf-8") == f"{TREES[1]}\n"
        with pytest.raises(SapwoodError, match="no sentence 's9'"):
            opened.state("s9")


def test_the_trees_of_dependencies_are_conllu(tmp_path: Path) -> None:
    project = make(tmp_path, kind="dependencies")
    tree = "1\tdogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\t_\t_\t_\t0\troot\t_\t_"
    project.apply("s1", 0, {"type": "accept"}, decide(tree))
    text = project.trees_file.read_text(encoding="utf-8")
    assert text == f"# sent_id = s1\n{tree}\n\n"


def test_a_check_that_forgets_the_cut_line_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: a journal that answers before it writes loses what was answered."""
    monkeypatch.setattr(Journal, "append", lambda self, entry: setattr(self, "n", entry.n))
    project = make(tmp_path)
    project.apply("s1", 0, {"type": "set"}, decide(TREES[1]))
    project.close()
    with Project.open(project.folder) as opened:
        assert opened.state("s1").tree is None
