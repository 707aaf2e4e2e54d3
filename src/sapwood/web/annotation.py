"""The routes of the annotation desk: one project, which this server holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response

from sapwood.annotation.state import STATUSES, ConflictError
from sapwood.web import schemas_annotation as forms
from sapwood.web.guard import BYTES, JSON, Refusal, error_body
from sapwood.web.projects import OpenProject

if TYPE_CHECKING:
    from sapwood.annotation.desk import Desk
    from sapwood.web.app import ServerState

Errors = dict[int | str, dict[str, Any]]
Number = Annotated[int, Query(ge=0, le=10_000_000)]
Limit = Annotated[int, Query(ge=1, le=1_000)]
ADDRESS = "/api/project"


class Answer(Protocol):
    """Answers a request by work in a pool of threads."""

    async def __call__(
        self, request: Request, work: Callable[[], Any], *, is_heavy: bool = False
    ) -> Response:
        """The answer with what the work returns."""


def add_annotation(app: FastAPI, server: ServerState, errors: Errors) -> None:
    """Add the routes of the project to an application."""
    project = server.project
    errors = {**errors, 409: {"model": forms.ConflictAnswer, "description": "A conflict."}}

    async def answer(
        request: Request, work: Callable[[], Any], *, is_heavy: bool = False
    ) -> Response:
        return await server.answer(request, lambda _: work(), is_heavy=is_heavy)

    @app.exception_handler(ConflictError)
    async def explain_conflict(request: Request, error: ConflictError) -> Response:
        def work() -> Any:
            view = project.desk.view(error.sentence)
            return error_body(error) | {"sentence": view}

        found = await answer(request, work)
        found.status_code = 409
        return found

    _about_project(app, project, answer, errors)
    _about_sentences(app, project, answer, errors)
    _about_learning(app, project, answer, errors)


def _about_project(app: FastAPI, project: OpenProject, answer: Answer, errors: Errors) -> None:
    @app.get(ADDRESS, tags=["project"])
    async def about_project(request: Request, window: str = "") -> Response:
        """The project of this server: counts, model, undo and redo."""
        return await answer(request, lambda: project.summary(window[:100]))

    @app.post(f"{ADDRESS}/create", responses=errors, tags=["project"])
    async def create_project(request: Request, asked: forms.CreateProjectRequest) -> Response:
        """Make a project in the folder of this server, which is new or empty."""
        return await answer(request, lambda: project.create(asked), is_heavy=True)

    @app.post(
        f"{ADDRESS}/import", responses=errors, tags=["project"],
        openapi_extra={"requestBody": {"content": {
            JSON: {"schema": forms.ImportRequest.model_json_schema()}, BYTES: {},
        }}},
    )  # fmt: skip
    async def import_sentences(
        request: Request,
        format: Annotated[str, Query(max_length=40)] = "",
        document: Annotated[str, Query(max_length=200)] = "text",
        as_accepted: bool = False,
    ) -> Response:
        """Add sentences: JSON, or a file's bytes, with the other fields in the address."""
        asked = await _import_request(request, format, document, as_accepted)
        return await answer(request, lambda: project.add(asked), is_heavy=True)

    @app.get(f"{ADDRESS}/export", responses=errors, tags=["project"])
    async def export_trees(
        request: Request, format: Annotated[str, Query(max_length=40)] = ""
    ) -> Response:
        """The accepted trees as a file."""
        text, name = await asyncio.to_thread(project.export, format)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(text, media_type="text/plain; charset=utf-8", headers=headers)

    @app.post(f"{ADDRESS}/settings", responses=errors, tags=["project"])
    async def change_settings(request: Request, asked: forms.ProjectSettingsRequest) -> Response:
        """Change title, order, direction, or how often the model is learnt."""
        changes = asked.model_dump(exclude_none=True)
        return await answer(request, lambda: project.change_settings(changes))


async def _import_request(
    request: Request, format: str, document: str, as_accepted: bool
) -> forms.ImportRequest:
    from fastapi.exceptions import RequestValidationError
    from pydantic import ValidationError

    body = await request.body()
    try:
        if request.headers.get("content-type", "").startswith(JSON):
            return forms.ImportRequest.model_validate_json(body)
        content = body.decode("utf-8-sig")
        return forms.ImportRequest(
            format=format, content=content, document=document, as_accepted=as_accepted
        )
    except UnicodeDecodeError as error:
        raise Refusal(422, f"the file is not UTF-8 text ({error})", "save it as UTF-8") from None
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


def _about_sentences(app: FastAPI, project: OpenProject, answer: Answer, errors: Errors) -> None:
    def desk() -> Desk:
        return project.desk

    @app.get(f"{ADDRESS}/sentences", responses=errors, tags=["project"])
    async def list_sentences(
        request: Request,
        offset: Number = 0,
        limit: Limit = 50,
        status: Annotated[str, Query(max_length=20)] = "",
        query: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        """Sentences by status and words, in the order of the document."""
        if status and status not in STATUSES:
            raise Refusal(422, f"no status is called {status!r}", f"give {', '.join(STATUSES)}")
        return await answer(request, lambda: desk().rows(offset, limit, status, query))

    @app.get(f"{ADDRESS}/next", responses=errors, tags=["project"])
    async def next_sentence(request: Request, after: str = "", window: str = "") -> Response:
        """The sentence that should be annotated next, and why."""
        return await answer(request, lambda: desk().next_sentence(after or None))

    @app.get(
        f"{ADDRESS}/sentence", responses=errors, response_model=forms.SentenceView, tags=["project"]
    )
    async def show_sentence(request: Request, id: str, window: str = "") -> Response:
        """A sentence with its tree, alternatives and warnings."""
        return await answer(request, lambda: desk().view(id[:100], window[:100]))

    @app.post(
        f"{ADDRESS}/edit", responses=errors, response_model=forms.SentenceView, tags=["project"]
    )
    async def edit_sentence(request: Request, asked: forms.EditRequest) -> Response:
        """Change a sentence; 409 where another window has changed it meanwhile."""
        parts = (asked.id, asked.revision, asked.action, asked.window)
        return await answer(request, lambda: desk().edit(*parts))

    @app.post(
        f"{ADDRESS}/undo", responses=errors, response_model=forms.SentenceView, tags=["project"]
    )
    async def undo(request: Request, asked: forms.HistoryRequest) -> Response:
        """Undo the last action of a window."""
        return await answer(request, lambda: desk().undo(asked.window))

    @app.post(
        f"{ADDRESS}/redo", responses=errors, response_model=forms.SentenceView, tags=["project"]
    )
    async def redo(request: Request, asked: forms.HistoryRequest) -> Response:
        """Do the last undone action again."""
        return await answer(request, lambda: desk().redo(asked.window))

    @app.post(f"{ADDRESS}/labels", responses=errors, tags=["project"])
    async def complete(request: Request, asked: forms.CompleteRequest) -> Response:
        """Names for a place of a tree, the most probable first."""
        place = asked.model_dump(exclude={"id"}, exclude_none=True)
        return await answer(request, lambda: {"labels": desk().complete(asked.id, place)})


def _about_learning(app: FastAPI, project: OpenProject, answer: Answer, errors: Errors) -> None:
    @app.get(f"{ADDRESS}/guideline", responses=errors, tags=["project"])
    async def guideline(
        request: Request, label: str, id: str = "", is_tag: bool = False
    ) -> Response:
        """What a label, relation or tag looked like in the accepted trees."""
        return await answer(
            request, lambda: project.desk.guideline(label[:100], is_tag=is_tag), is_heavy=True
        )

    @app.get(f"{ADDRESS}/learning", responses=errors, tags=["project"])
    async def learning(request: Request) -> Response:
        """The model that is learnt as one goes: its state, and accuracy by number of trees."""
        return await answer(request, project.learning)

    @app.post(f"{ADDRESS}/learn", responses=errors, tags=["project"])
    async def learn(request: Request, asked: forms.LearnRequest) -> Response:
        """Learn the model again now, or begin or end the training of a network."""
        return await answer(request, lambda: project.learn(with_network=asked.network))
