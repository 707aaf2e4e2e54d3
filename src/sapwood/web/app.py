"""The routes of the server: each runs a report in a pool of threads and answers with JSON."""

from __future__ import annotations

import asyncio
import io
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from starlette.exceptions import HTTPException

from sapwood import __version__
from sapwood.constituency.learn.registry import METHODS
from sapwood.core.errors import SapwoodError
from sapwood.corpora.sentences import TREEBANK as BRACKETED
from sapwood.corpora.sentences import kind_of
from sapwood.report import inspect_model, to_json
from sapwood.web import schemas
from sapwood.web.annotation import add_annotation
from sapwood.web.audits import Audits
from sapwood.web.guard import BYTES, FAULT, GONE, Check, Limits, Pool, Refusal, error_body
from sapwood.web.models import ARCS, TEXT, TREES, LoadedModel, ModelStore
from sapwood.web.processes import RequestProcesses
from sapwood.web.projects import OpenProject
from sapwood.web.runs import Trainings
from sapwood.web.schemas import explain_invalid

if TYPE_CHECKING:
    from sapwood.constituency.parse.parser import Parse
    from sapwood.corpora.tree import Tree

VIEWS = ("parse", "states", "compare", "train", "annotate", "audit", "identify", "text")
TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}  # fmt: skip
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.ErrorAnswer, "description": "The body is no JSON."},
    404: {"model": schemas.ErrorAnswer, "description": "There is no model of that name."},
    408: {"model": schemas.ErrorAnswer, "description": "It took too long."},
    413: {"model": schemas.ErrorAnswer, "description": "The body is too large."},
    422: {
        "model": schemas.ErrorAnswer,
        "description": "The request cannot be answered.",
    },
    503: {
        "model": schemas.ErrorAnswer,
        "description": "The server is busy; see Retry-After.",
    },
}
_STATUSES = {
    404: "there is nothing at this address",
    405: "not a method of this address",
}
# Takes the request, the model if the route has one, and a function that checks the time.
Work = Callable[..., Any]


class ReportResponse(Response):
    """A report as JSON; infinite numbers become null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode a report as JSON."""
        return to_json(content).encode()


class ServerState:
    """The models, limits, pools, processes, trainings and the project of a running server."""

    def __init__(self, store: ModelStore, limits: Limits, project: Path | None = None) -> None:
        self.store, self.limits = store, limits
        self.project = OpenProject(project, store, limits)
        self.pool = Pool(limits)
        self.heavy = Pool(limits)  # a second pool, so that parses never wait for heavy requests
        self.processes = RequestProcesses(store.folder, limits)
        self.trainings = Trainings(store, limits)
        self.audits = Audits(store, limits)

    def stop(self) -> None:
        """End all threads, processes and trainings, and remove the folder."""
        self.pool.stop()
        self.heavy.stop()
        self.processes.stop()
        self.trainings.stop()
        self.audits.stop()
        self.project.stop()
        # Removed here and not where it was made: a signal may end the process right after this.
        shutil.rmtree(self.store.folder, ignore_errors=True)

    async def answer(
        self, request: Request, work: Callable[[Check], Any], *, is_heavy: bool
    ) -> ReportResponse:
        """Run the work in one of the two pools, and return its result as a report."""
        gone: asyncio.Event | None = request.scope.get(GONE)
        return ReportResponse(await (self.heavy if is_heavy else self.pool).run(work, gone))

    def route(
        self,
        app: FastAPI,
        path: str,
        tag: str,
        answer: type | None = None,
        *,
        kind: str | tuple[str, ...] = (),
        is_heavy: bool = False,
    ) -> Callable[[Work], Work]:
        """Add a route whose request body is validated and whose function runs in a pool.

        Parameters
        ----------
        answer
            The schema of the answer, for the documentation of the API.
        kind
            The kind or kinds of model that answer, which the function takes as its second argument;
            the request is heavy where the model is not loaded yet.
        is_heavy
            Whether the request may take seconds: many sentences, a whole treebank, a search.
        """
        kinds = (kind,) if isinstance(kind, str) else kind

        def add(work: Work) -> Work:
            async def route(request: Request, asked: Any) -> Response:
                models = [self.store.get(asked.model, *kinds)] if kinds else []
                is_slow = is_heavy or not all(model.is_loaded for model in models)
                return await self.answer(
                    request, lambda check: work(asked, *models, check), is_heavy=is_slow
                )

            route.__name__, route.__doc__ = work.__name__, work.__doc__
            asked = get_type_hints(work)["asked"]
            route.__annotations__ = {"request": Request, "asked": asked, "return": Response}
            app.post(path, response_model=answer, responses=ERRORS, tags=[tag])(route)
            return work

        return add


def make_app(server: ServerState) -> FastAPI:
    """The application with all routes; the guard is put around it by the server."""

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        yield
        server.stop()

    app = FastAPI(
        title="Sapwood",
        version=__version__,
        description="What `sapwood serve` shows, as JSON. Errors are objects with `error` and "
        "`hint`. Numbers that are infinite are null.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=live,
    )

    async def explain_error(_: Request, error: Exception) -> Response:
        return _error_answer(error)

    kinds = (Refusal, SapwoodError, RequestValidationError, HTTPException, MemoryError, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, explain_error)
    for add in (
        _sentences,
        _given_trees,
        _states,
        _compare,
        _identify,
        _others,
        _surprisal,
        _trainings,
        _audits,
        _annotation,
        _pages,
    ):
        add(app, server)
    return app


# -- errors ---------------------------------------------------------------------------------------


def _error_answer(error: Exception) -> ReportResponse:
    """The answer to a request that has failed."""
    if isinstance(error, Refusal):
        return ReportResponse(error.body(), error.status, error.headers)
    if isinstance(error, SapwoodError):
        return ReportResponse(error_body(error), 422)
    if isinstance(error, RequestValidationError):
        return ReportResponse(explain_invalid(error.errors()), 422)
    if isinstance(error, HTTPException):
        words = _STATUSES.get(error.status_code, str(error.detail))
        hint = "/docs on this server lists all requests"
        return ReportResponse({"error": words, "hint": hint}, error.status_code)
    if isinstance(error, MemoryError):
        body = {"error": "that needs more memory than there is", "hint": "ask for less"}
        return ReportResponse(body, 422)
    return ReportResponse(FAULT.body(), FAULT.status)  # the guard logs the error, raised again


# -- sentences and trees --------------------------------------------------------------------------


def _words(server: ServerState, loaded: LoadedModel, asked: schemas.SentenceRequest) -> list[str]:
    """The words of a request about a sentence, within the limits."""
    if asked.words is not None:
        words = asked.words
    else:
        text = (asked.sentence or "").strip()
        # Tokenising only adds words: a text with too many is refused before it is tokenised.
        server.limits.check_words(text.split()[: server.limits.words + 1])
        if kind_of([text]) == BRACKETED:  # a tree stands for its words
            words = _one_tree(server, text).words()
        else:
            words = loaded.tokenise(text)
    server.limits.check_words(words)
    return list(words)


def _constraints(
    server: ServerState, asked: schemas.ConstrainedRequest, n_words: int
) -> dict[str, Any]:
    """The constraints of a request, within the limits, as `Parser.parse` takes them."""
    phrases = {"spans": asked.spans, "forbidden": asked.forbidden}
    phrases = {name: given for name, given in phrases.items() if given}
    for given in phrases.values():
        server.limits.check_phrases(given, n_words)
    return {"tags": asked.tags} | phrases


def _parse(
    server: ServerState,
    loaded: LoadedModel,
    asked: schemas.ConstrainedSentenceRequest,
    decoder: str = "f1",
) -> Parse:
    """The parse of a request's sentence given its constraints."""
    words = _words(server, loaded, asked)
    return loaded.parser(decoder).parse(words, **_constraints(server, asked, len(words)))


def _text_words(server: ServerState, loaded: LoadedModel, text: str) -> list[str]:
    """The words of a text that may be empty, within the limits."""
    return _words(server, loaded, schemas.sentence_request(text)) if text.strip() else []


def _one_tree(server: ServerState, text: str) -> Tree:
    from sapwood.corpora.tree import Tree

    server.limits.check_brackets(text)
    tree = Tree.parse(text)
    server.limits.check_words(tree.words())
    return tree


def _sentences(app: FastAPI, server: ServerState) -> None:
    limits = server.limits

    @server.route(app, "/api/parse", "trees", schemas.ParseAnswer, kind=TREES)
    def parse(asked: schemas.ParseRequest, loaded: LoadedModel, _: Check) -> Any:
        """The best tree of a sentence, its constituents with posteriors, and the k best trees."""
        from sapwood.constituency.report.parses import parse_answer

        limits.check_k(asked.k)
        return parse_answer(_parse(server, loaded, asked, asked.decoder), asked.k)

    @server.route(app, "/api/sentences", "trees")
    def sentences(asked: schemas.SplitRequest, _: Check) -> Any:
        """The sentences of a text, each with its place."""
        from sapwood.corpora.running_text import document_places

        return {
            "sentences": [
                {"text": asked.text[start:end], "char_start": start, "char_end": end}
                for start, end in document_places(asked.text)
            ]
        }

    @server.route(app, "/api/parse-text", "trees", schemas.TextAnswer, kind=TREES, is_heavy=True)
    def parse_text(asked: schemas.TextRequest, loaded: LoadedModel, check: Check) -> Any:
        """The best tree of each sentence of a text, with the places of its words and phrases."""
        from sapwood.constituency.report.parses import parse_answer, source_fields
        from sapwood.corpora.running_text import sentences_of

        parser, answers = loaded.parser(asked.decoder), []
        sources = list(sentences_of(asked.text, parser.tokenizer))
        limits.check_sentences(len(sources))
        for source in sources:
            limits.check_words(source.words)
        for source in sources:
            check()
            found = parser.parse(source.words).located(source)
            answers.append(parse_answer(found) | source_fields(found))
        return {"sentences": answers}

    @server.route(app, "/api/k-best", "trees", kind=TREES)
    def k_best(asked: schemas.ParseRequest, loaded: LoadedModel, _: Check) -> Any:
        """The k best trees of a sentence with their scores."""
        from sapwood.constituency.report.parses import k_best_rows

        limits.check_k(asked.k)
        return {"k_best": k_best_rows(_parse(server, loaded, asked, asked.decoder), asked.k)}

    @server.route(app, "/api/posteriors", "trees", kind=TREES)
    def posteriors(asked: schemas.ConstrainedSentenceRequest, loaded: LoadedModel, _: Check) -> Any:
        """The posteriors of all constituents and tags of a sentence that survived pruning."""
        from sapwood.constituency.report.parses import posterior_report

        return posterior_report(_parse(server, loaded, asked))

    @server.route(app, "/api/draw", "trees", kind=TREES)
    def draw(asked: schemas.ParseRequest, loaded: LoadedModel, _: Check) -> Any:
        """The parse view of the page: a sentence, or a tree in brackets as it is."""
        from sapwood.constituency.report.parses import draw_given_tree, draw_parse

        limits.check_k(asked.k)
        vectors = loaded.atlas().vectors
        found = _parse(server, loaded, asked, asked.decoder)
        if asked.sentence is not None and kind_of([asked.sentence]) == BRACKETED:
            tree = _one_tree(server, asked.sentence)
            return draw_given_tree(loaded.model, tree, found, vectors)
        return draw_parse(found, asked.k, vectors)


def _given_trees(app: FastAPI, server: ServerState) -> None:
    limits = server.limits

    @server.route(app, "/api/tree", "trees", kind=TREES)
    def tree(asked: schemas.TreeRequest, loaded: LoadedModel, _: Check) -> Any:
        """A tree in brackets: drawn as it is, scored, with the posteriors of its parts."""
        from sapwood.constituency.report.parses import draw_given_tree

        given = _one_tree(server, asked.tree)
        constraints = _constraints(server, asked, len(given.words()))
        found = loaded.parser(asked.decoder).parse(given.words(), **constraints)
        return draw_given_tree(loaded.model, given, found, loaded.atlas().vectors)

    @server.route(app, "/api/members", "trees", kind=TREES, is_heavy=True)
    def members(asked: schemas.TreeRequest, loaded: LoadedModel, check: Check) -> Any:
        """Where the members of an ensemble disagree about a tree."""
        from sapwood.constituency.report.parses import member_report

        if not loaded.model.is_ensemble:
            return {"members": [], "nodes": []}
        given = _one_tree(server, asked.tree)
        words = given.words()
        constraints = _constraints(server, asked, len(words))

        def parse_by(member: int) -> Parse:
            return loaded.parser(member=member).parse(words, **constraints)

        return member_report(loaded.model, parse_by, given, check)

    @server.route(app, "/api/score", "trees", kind=TREES, is_heavy=True)
    def score(asked: schemas.ScoreRequest, loaded: LoadedModel, check: Check) -> Any:
        """Log-probabilities of trees or of sentences."""
        from sapwood.constituency.report.trees import ScoreReport, score_sentences, score_trees

        if asked.trees is not None:
            report = ScoreReport("trees", loaded.model.can.probabilities)
            items = score_trees(loaded.model, _gold(server, asked.trees))
        else:
            report = ScoreReport("sentences", loaded.model.can.probabilities)
            texts = asked.sentences or []
            limits.check_sentences(len(texts))
            items = score_sentences(
                loaded.model, [_text_words(server, loaded, text) for text in texts]
            )
        for weight, n_words in items:
            check()
            report.add(weight, n_words)
        return report.as_dict()

    @server.route(app, "/api/sample", "trees", kind=TREES, is_heavy=True)
    def sample(asked: schemas.SampleRequest, loaded: LoadedModel, _: Check) -> Any:
        """Trees drawn from the members of a model that have probabilities; `note` names them."""
        from sapwood.constituency.grammar.ensemble import describe_draw, generative_part

        limits.check_sentences(asked.n)
        part, note = generative_part(loaded.model), None
        if part is not loaded.model:
            note = describe_draw(loaded.model, part)
        drawn = [str(one) for one in part.sample(asked.n, seed=asked.seed)]
        return {"trees": drawn, "model": loaded.name, "note": note}


def _gold(server: ServerState, text: str) -> list[Tree]:
    """The gold trees of a request, cleaned and within the limits."""
    from sapwood.corpora.formats import read_lines
    from sapwood.corpora.tree import clean_all

    trees = list(clean_all(read_lines(io.StringIO(text), "trees")))
    if not trees:
        raise Refusal(422, "no tree found", "trees are written in brackets: (S (NP ...) (VP ...))")
    server.limits.check_sentences(len(trees))
    for tree in trees:
        server.limits.check_words(tree.words())
    return trees


# -- states ---------------------------------------------------------------------------------------


def _states(app: FastAPI, server: ServerState) -> None:
    @server.route(app, "/api/inspect", "states", kind=TREES)
    def inspect(asked: schemas.InspectRequest, loaded: LoadedModel, _: Check) -> Any:
        """The contents of a grammar: sizes, symbols, members, the meaning of a label's states."""
        return inspect_model(
            loaded.model, loaded.name, label=asked.label, member=asked.member, top=asked.top
        )

    @server.route(app, "/api/labels", "states", kind=TREES)
    def labels(asked: schemas.InspectRequest, loaded: LoadedModel, _: Check) -> Any:
        """The symbols of a grammar, commonest first; labels and tags that constraints may name."""
        from sapwood.constituency.report.inspect import telling_member

        whole = inspect_model(loaded.model, loaded.name)
        atlas = loaded.atlas(asked.member)
        known = loaded.parser().known_labels
        return {
            "member": asked.member or telling_member(loaded.model),
            "members": whole.get("members", []),
            "method": atlas.view.record.get("method"),
            "probabilistic": atlas.model.is_probabilistic,
            "labels": atlas.labels(),
            "phrases": sorted(known.phrases),
            "tags": sorted(known.tags),
            "has_trees": loaded.has_trees,
        }

    @server.route(app, "/api/states", "states", kind=TREES)
    def states(asked: schemas.StatesRequest, loaded: LoadedModel, _: Check) -> Any:
        """The states of a label: frequencies, rules or words, contexts, singular values."""
        return {"symbols": loaded.atlas(asked.member).cards(asked.label)}

    @server.route(app, "/api/state", "states", kind=TREES)
    def state(asked: schemas.StateRequest, loaded: LoadedModel, _: Check) -> Any:
        """One state in short; if asked for, the states of other labels that are most like it."""
        atlas = loaded.atlas(asked.member)
        card = atlas.card(asked.symbol, asked.state)
        if asked.nearest and asked.state is not None:
            return card | {"nearest": atlas.nearest(asked.symbol, asked.state)}
        return card

    @server.route(app, "/api/examples", "states", kind=TREES, is_heavy=True)
    def examples(asked: schemas.StatesRequest, loaded: LoadedModel, check: Check) -> Any:
        """Examples of a label's states in the training trees."""
        return loaded.atlas(asked.member).examples(asked.label, loaded.trees, check=check)

    @server.route(app, "/api/word", "states", kind=TREES)
    def word(asked: schemas.WordRequest, loaded: LoadedModel, _: Check) -> Any:
        """Which tags and states a word is in."""
        return loaded.atlas(asked.member).find_word(asked.word)


# -- comparing models -----------------------------------------------------------------------------


def _compare(app: FastAPI, server: ServerState) -> None:
    @server.route(app, "/api/compare", "compare", is_heavy=True)
    def compare(asked: schemas.CompareRequest, check: Check) -> Any:
        """Two grammars on one sentence, or on the sentences of gold trees."""
        from sapwood.constituency.report.parses import compare_on_gold, compare_parses

        both = [server.store.get(name, TREES) for name in asked.models]
        if asked.gold is not None:
            gold = _gold(server, asked.gold)
            return compare_on_gold(asked.models, [one.parser() for one in both], gold, check)
        words = _words(server, both[0], schemas.sentence_request(asked.sentence or ""))
        return compare_parses(asked.models, [one.parser().parse(words) for one in both])

    @server.route(app, "/api/difference", "compare")
    def difference(asked: schemas.DifferenceRequest, _: Check) -> Any:
        """Two trees over the same words; brackets of only one of them are marked."""
        from sapwood.constituency.report.parses import compare_trees

        trees = [_one_tree(server, text) for text in asked.trees]
        if trees[0].words() != trees[1].words():
            raise Refusal(422, "the two trees have different words")
        return compare_trees(trees)


# -- identify, dependencies, text -----------------------------------------------------------------


def _identify(app: FastAPI, server: ServerState) -> None:
    @server.route(app, "/api/identify", "identify", is_heavy=True)
    def identify(asked: schemas.IdentifyRequest, check: Check) -> Any:
        """Whether a family can be learnt from moments, and the parameters that cannot."""
        return server.processes.ask("identify", asked.model_dump(), check)

    @server.route(app, "/api/identify/table", "identify", is_heavy=True)
    def table(asked: schemas.TableRequest, check: Check) -> Any:
        """All families and moments at one size."""
        return server.processes.ask("identify/table", asked.model_dump(), check)


def _others(app: FastAPI, server: ServerState) -> None:
    limits = server.limits

    @server.route(app, "/api/depend", "dependencies", kind=ARCS)
    def depend(asked: schemas.DependRequest, loaded: LoadedModel, _: Check) -> Any:
        """The dependency tree of a sentence, with posteriors, and the k best ones."""
        from sapwood.dependency.report import depend_answer

        limits.check_k(asked.k)
        words = _words(server, loaded, asked)
        known = asked.model_dump(include={"tags", "heads", "relations"})
        return depend_answer(loaded.arc_parser.parse(words, **known), asked.k)

    @server.route(app, "/api/arcs", "dependencies")
    def arcs(asked: schemas.ArcsRequest, _: Check) -> Any:
        """A dependency tree in CoNLL-U, drawn."""
        from sapwood.dependency.data.bank import Arcs
        from sapwood.dependency.report import draw_arcs

        found = Arcs.parse(asked.conllu)
        limits.check_words(found.words)
        return draw_arcs(found)

    @server.route(app, "/api/lm/next", "text", kind=TEXT)
    def next_words(asked: schemas.NextRequest, loaded: LoadedModel, _: Check) -> Any:
        """The likeliest next words."""
        from sapwood.lm.report import next_report, unknown_words

        context = _text_words(server, loaded, asked.context)
        return {
            "context": context,
            "unknown": unknown_words(loaded.model, context),
            "next": next_report(loaded.model, context, asked.top),
        }

    @server.route(app, "/api/lm/classes", "text", kind=TEXT)
    def classes(asked: schemas.ClassesRequest, loaded: LoadedModel, _: Check) -> Any:
        """The hidden states of a language model as classes of words."""
        from sapwood.lm.report import class_report, describe_language, latent_member

        latent = latent_member(loaded.model)
        about = describe_language(loaded.model, loaded.name)
        rows = [] if latent is None else class_report(latent, asked.top, asked.word)
        return {"about": about, "states": rows}

    @server.route(app, "/api/lm/surprise", "text", kind=TEXT)
    def surprise(asked: schemas.SurpriseRequest, loaded: LoadedModel, check: Check) -> Any:
        """The surprisal of each word of a sentence, by a language model."""
        from sapwood.lm.report import surprise_report

        return surprise_report(loaded.model, _words(server, loaded, asked), check=check)


def _surprisal(app: FastAPI, server: ServerState) -> None:
    @server.route(
        app, "/api/surprisal", "text", schemas.SurprisalAnswer, kind=(TREES, TEXT), is_heavy=True
    )
    def surprisal(asked: schemas.SurprisalRequest, loaded: LoadedModel, check: Check) -> Any:
        """The surprisal of each word, by a grammar with probabilities or by a language model."""
        from math import isinf

        from sapwood.incremental import surprisal

        words = _words(server, loaded, asked)
        found = surprisal(loaded.model, words, unit=asked.unit, restart=asked.restart, check=check)
        rows = list(found.rows())
        impossible = (row["number"] for row in rows if isinf(row["surprisal"] or 0.0))
        return {
            "unit": found.unit,
            "total": found.total,
            "impossible": next(impossible, None),
            "words": rows,
        }


# -- models, treebanks, training ------------------------------------------------------------------


def _trainings(app: FastAPI, server: ServerState) -> None:
    store, trainings = server.store, server.trainings

    @app.get("/api/models", tags=["models"])
    async def models() -> Response:
        """The models and the limits of this server."""
        rows = [loaded.as_dict() for loaded in list(store.models.values())]
        return ReportResponse(
            {
                "models": rows, "limits": server.limits.as_dict(), "version": __version__,
                "methods": {name: method.as_dict() for name, method in METHODS.items()},
                "has_project": server.project.folder is not None,
            }
        )  # fmt: skip

    @app.get("/api/models/{name}/file", tags=["models"])
    async def download(name: str) -> Response:
        """The file of a model that was trained here."""
        loaded = store.models.get(name)
        if loaded is None or loaded.file is None or not loaded.file.exists():
            raise Refusal(404, "no model of that name was trained here")
        return FileResponse(loaded.file, media_type=BYTES, filename=f"{loaded.name}.sapwood")

    @app.post(
        "/api/treebanks", responses=ERRORS, tags=["training"],
        openapi_extra={"requestBody": {"content": {BYTES: {}}}},
    )  # fmt: skip
    async def upload(request: Request, title: str = "") -> Response:
        """Send a treebank: the text itself as the body; its errors come back with their places."""
        data = await request.body()
        return await server.answer(
            request,
            lambda check: store.upload(title, data, partial(server.processes.ask, check=check)),
            is_heavy=True,
        )

    @app.post("/api/train", responses=ERRORS, status_code=202, tags=["training"])
    async def start(asked: schemas.TrainRequest) -> Response:
        """Begin a training; there is one at a time."""
        return ReportResponse(await asyncio.to_thread(trainings.start, asked.model_dump()), 202)

    @app.get("/api/train", tags=["training"])
    async def status() -> Response:
        """Progress of the training, or the result of the last one."""
        return ReportResponse(trainings.status())

    @app.delete("/api/train", responses=ERRORS, tags=["training"])
    async def cancel() -> Response:
        """End the training that runs."""
        return ReportResponse(trainings.cancel())


def _audits(app: FastAPI, server: ServerState) -> None:
    audits = server.audits

    @app.post(
        "/api/audit", responses=ERRORS, status_code=202, tags=["audit"],
        openapi_extra={"requestBody": {"content": {BYTES: {}}}},
    )  # fmt: skip
    async def start(
        request: Request,
        title: str = "",
        is_fast: bool = True,
        folds: Annotated[int, Query(ge=2, le=20)] = 5,
    ) -> Response:
        """Begin an audit of the treebank in the body, in brackets or CoNLL-U; empty: bundled."""
        data = await request.body()
        wish = {"is_fast": is_fast, "folds": folds}
        return ReportResponse(await asyncio.to_thread(audits.start, title, data, wish), 202)

    @app.get("/api/audit", tags=["audit"])
    async def status() -> Response:
        """Progress of the audit, or the result of the last one."""
        return ReportResponse(audits.status())

    @app.get("/api/audit/report", responses=ERRORS, tags=["audit"])
    async def report() -> Response:
        """The findings of the last audit, with drawings of their trees."""
        return FileResponse(audits.report(), media_type="application/json")

    @app.delete("/api/audit", responses=ERRORS, tags=["audit"])
    async def cancel() -> Response:
        """End the audit that runs."""
        return ReportResponse(audits.cancel())


def _annotation(app: FastAPI, server: ServerState) -> None:
    add_annotation(app, server, ERRORS)


# -- the page itself ------------------------------------------------------------------------------


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Contents and type of every file of the page, by name."""
    files = resources.files("sapwood.web").joinpath("static").iterdir()
    return {
        file.name: (file.read_bytes(), TYPES[suffix])
        for file in files
        if (suffix := PurePosixPath(file.name).suffix) in TYPES and not file.name.startswith(".")
    }


def _pages(app: FastAPI, server: ServerState) -> None:
    def page(name: str) -> Response:
        found = static_files().get(name)
        if found is None:
            raise Refusal(404, "there is nothing here", "the page is at /")
        return Response(found[0], media_type=found[1])

    @app.get("/", include_in_schema=False)
    async def home() -> Response:
        return page("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return page("docs.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return page(name)

    @app.get("/{view}", include_in_schema=False)
    async def view(view: str) -> Response:
        if view not in VIEWS:
            raise Refusal(404, "there is nothing here", "the page is at /")
        return page("index.html")
