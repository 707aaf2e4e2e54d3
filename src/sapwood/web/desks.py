"""Desks for the two kinds of trees: which start model, annotator and teacher a project has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.annotation.desk import Desk
from sapwood.annotation.project import MODEL, NETWORK, Accepted, Project
from sapwood.annotation.settings import NO_START, START_MODEL, START_TREES, ProjectSettings
from sapwood.annotation.state import TREES as PHRASES
from sapwood.core.errors import SapwoodError
from sapwood.web.models import ARCS, TREES, ModelStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sapwood.annotation.kinds import Annotator


def kind_of_model(settings: ProjectSettings) -> str:
    """The kind of model that a project of these settings starts from."""
    return TREES if settings.kind == PHRASES else ARCS


def plain_annotator(settings: ProjectSettings) -> Annotator:
    """The annotator of a kind of trees without a model, which reads and writes."""
    from sapwood.constituency.annotation.annotator import TreeAnnotator
    from sapwood.dependency.annotation.annotator import ArcAnnotator

    return TreeAnnotator() if settings.kind == PHRASES else ArcAnnotator()


def open_desk(project: Project, store: ModelStore) -> Desk:
    """The desk of a project, with the model that was learnt last or the one it starts from."""
    return (
        _tree_desk(project, store)
        if project.settings.kind == PHRASES
        else _arc_desk(project, store)
    )


def _tree_desk(project: Project, store: ModelStore) -> Desk:
    from sapwood.constituency.annotation.annotator import TreeAnnotator
    from sapwood.constituency.annotation.suggest import Suggester
    from sapwood.constituency.annotation.teacher import TreeTeacher
    from sapwood.constituency.parse.parser import Parser

    start = _start(project, store)
    name = None if start is None else start_name(project.settings)
    model = _kept_model(project.folder / MODEL, TREES) or start
    annotator = TreeAnnotator(None if model is None else Suggester(Parser(model)))
    teacher = TreeTeacher(start, name, project.folder / NETWORK)
    return Desk(project, annotator, teacher, name=name)


def _arc_desk(project: Project, store: ModelStore) -> Desk:
    from sapwood.dependency.annotation.annotator import ArcAnnotator
    from sapwood.dependency.annotation.suggest import ArcSuggester
    from sapwood.dependency.annotation.teacher import ArcTeacher

    start, settings = _start(project, store), project.settings
    names = {old: new for old, new in settings.label_map.items() if new}
    first = None if start is None else ArcSuggester(start, names)
    name = None if start is None else start_name(settings)
    kept = _kept_model(project.folder / MODEL, ARCS)
    annotator = ArcAnnotator(first if kept is None else ArcSuggester(kept, {}))
    return Desk(project, annotator, ArcTeacher(first, name), name=name)


def start_name(settings: ProjectSettings) -> str:
    """What the page calls the start model."""
    return "a treebank" if settings.start == START_TREES else settings.start


def _kept_model(file: Path, kind: str) -> Any:
    """The model that was learnt last; None where there is none that can be read."""
    from sapwood.core.model_files import load
    from sapwood.web.models import model_kind

    try:
        model = load(file) if file.exists() else None
    except SapwoodError:  # it is learnt again
        return None
    return model if model is not None and model_kind(model) == kind else None


def _start(project: Project, store: ModelStore) -> Any:
    """The start model of a project; None where it starts from nothing."""
    from sapwood.core.model_files import load

    settings, made = project.settings, project.folder / START_MODEL
    if settings.start == NO_START:
        return None
    if made.exists():
        return load(made)
    if settings.start != START_TREES and settings.start not in store.models:
        try:
            return load(settings.start)
        except SapwoodError as error:
            project.messages.append(f"there is no start model: {error}; {error.hint}")
            return None
    if settings.start == START_TREES:
        model = _from_treebank(project)
    else:
        model = store.get(settings.start, kind_of_model(settings)).model
        if settings.kind != PHRASES or not settings.label_map:
            return model
        from sapwood.constituency.annotation.teacher import make_start

        words = [state.words for _, state in project.states()]
        model = make_start(model, settings.label_map, words)
    model.save(made, force=True)
    return model


def _from_treebank(project: Project) -> Any:
    """A model that is learnt from the treebank which the project starts from."""
    settings, file = project.settings, project.folder / START_TREES
    if settings.kind == PHRASES:
        from sapwood.constituency.annotation.teacher import make_start
        from sapwood.corpora.formats import read_trees

        words: Sequence[Any] = [state.words for _, state in project.states()]
        with file.open(encoding="utf-8") as lines:
            return make_start(list(read_trees(lines)), settings.label_map, words)
    from sapwood.dependency.data.reader import stream_arcs
    from sapwood.dependency.learn.crf import ArcCRF

    with file.open(encoding="utf-8") as lines:
        return ArcCRF(1, passes=2, folds=2).fit(list(stream_arcs(lines))).model_


def arcs_of_trees(accepted: Sequence[Accepted]) -> str:
    """Phrase trees as dependencies in CoNLL-U, their heads found by rules."""
    from sapwood.corpora.tree import HEAD_RULES, Tree, choose_head_rule
    from sapwood.dependency.data.transform import tree_arcs

    trees = [Tree.parse(one.tree) for one in accepted]
    rule = HEAD_RULES[choose_head_rule(trees)]
    rows = zip(accepted, trees, strict=True)
    return "".join(f"# sent_id = {one.id}\n{tree_arcs(tree, rule)}\n\n" for one, tree in rows)
