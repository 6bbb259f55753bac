"""Reads: the service, its plan, the world as it knows it, the console's pages, and what was decided."""

import asyncio
from typing import Any, Final, NoReturn

from aiohttp import web

from rebalancer.api.decisions import KINDS, LIMIT, MOST, Filter, decision_page, decisions
from rebalancer.api.explained import explained
from rebalancer.api.keys import VIEW
from rebalancer.api.look import Look, NotRecorded, Recorded, RecordsBusy
from rebalancer.api.made import PAGES, packed, packed_body
from rebalancer.api.model_page import model_page
from rebalancer.api.models_table import SORTS, STATES, Asked
from rebalancer.api.pages import DecisionPage, Decisions, Explanation, ModelPage, Overview, PoolPage
from rebalancer.api.pool_page import pool_page
from rebalancer.api.replies import ApiError
from rebalancer.api.route import Query, Route
from rebalancer.api.stream import CHANNELS, follow
from rebalancer.api.text.words import printable, some
from rebalancer.api.view import Status
from rebalancer.api.wire import instant_of, instant_text
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot


async def status(request: web.Request) -> web.Response:
    """The service, its plan, notices and overrides."""
    return await packed(request, request.app[VIEW].status())


async def snapshot(request: web.Request) -> web.Response:
    """The world as it is known now."""
    return await packed(request, request.app[VIEW].snapshot())


async def plan(request: web.Request) -> web.Response:
    """The last plan."""
    return await packed(request, _decided(request.app[VIEW].status()))


async def overview(request: web.Request) -> web.Response:
    """The first page."""
    frame = await request.app[PAGES].frame(_asked(request))
    return await packed_body(request, frame.body)


async def stream(request: web.Request) -> web.StreamResponse:
    """The first page, whenever it changes."""
    return await follow(request, request.app[PAGES], request.app[CHANNELS], _asked(request))


async def model(request: web.Request) -> web.Response:
    """One model's page."""
    pages, name = request.app[PAGES], request.match_info["model"]
    chart = pages.looks.chart(name)

    def page(look: Look, _seats: object) -> ModelPage:
        decided = _decided(look.status)
        spec = next((each for each in look.policy.models if each.id == name), None)
        decision = next((each for each in decided.models if each.model == name), None)
        if spec is None or decision is None:
            _no_model(name, [each.id for each in look.policy.models])
        return model_page(look, decided, spec, decision, chart)

    return await packed(request, await pages.make(page))


async def pool(request: web.Request) -> web.Response:
    """One pool's page."""
    name, page = request.match_info["pool"], int(request.query.get("page", "1"))

    def made(look: Look, seats: Any) -> PoolPage:  # noqa: ANN401  handed on
        spec = next((each for each in look.policy.pools if each.name == name), None)
        if spec is None:
            known = some([each.name for each in look.policy.pools], 20)
            raise ApiError(404, f"no pool {printable(name)[:64]!r} in the policy", f"pools: {known}", "path.pool")
        return pool_page(look, spec, seats, page)

    return await packed(request, await request.app[PAGES].make(made))


async def explain(request: web.Request) -> web.Response:
    """Why a model has what it has, or had."""
    name = request.match_info["model"]
    if "at" in request.query:
        recorded = await _recorded(request, at=instant_of(request.query["at"]))
        found = await asyncio.to_thread(_explained, recorded.plan, recorded.snapshot, name)
    else:
        look = request.app[PAGES].looks.look()
        found = await asyncio.to_thread(_explained, _decided(look.status), look.snapshot, name)
    return await packed(request, found)


def _explained(decided: Plan, seen: Snapshot, name: str) -> Explanation:
    if all(each.model != name for each in decided.models):
        _no_model(name, [each.model for each in decided.models])
    return explained(decided, seen, name)


def _no_model(name: str, known: list[str]) -> NoReturn:
    raise ApiError(404, f"no model {printable(name)[:64]!r} in the policy", f"models: {some(known, 20)}", "path.model")


async def history(request: web.Request) -> web.Response:
    """Cycles in memory that did or refused something new."""
    query = request.query
    before = int(query["before"]) if "before" in query else None
    limit = int(query.get("limit", LIMIT))
    wanted = Filter(query.get("model", ""), query.get("kind", ""), before, limit)
    rows = request.app[PAGES].looks.decisions()
    return await packed(request, await asyncio.to_thread(decisions, rows, wanted))


async def decision(request: web.Request) -> web.Response:
    """One cycle from the journal."""
    number = request.match_info["cycle"]
    if not (number.isascii() and number.isdigit() and len(number) <= 15):  # noqa: PLR2004  below 2**53
        raise ApiError(404, f"no cycle {printable(number)[:20]!r}", "cycles are whole numbers", "path.cycle")
    recorded = await _recorded(request, cycle=int(number))
    page = await asyncio.to_thread(decision_page, recorded, request.query.get("model", ""))
    return await packed(request, page)


async def _recorded(request: web.Request, *, cycle: int | None = None, at: float | None = None) -> Recorded:
    try:
        return await request.app[PAGES].looks.recorded(cycle=cycle, at=at)
    except NotRecorded as error:
        reaches = instant_text(error.oldest) if error.oldest is not None else None
        fix = f"it reaches back to {reaches}" if reaches else "it begins with the first cycle of the service"
        where = "query.at" if cycle is None else "path.cycle"
        raise ApiError(404, str(error), fix, where) from error
    except RecordsBusy as error:
        raise ApiError(503, str(error), "try again", retry_after_seconds=5) from error


def _decided(now: Status) -> Plan:
    if now.plan is None:
        raise ApiError(503, "nothing is decided yet", "see /readyz on the probe port for what is missing")
    return now.plan


def _asked(request: web.Request) -> Asked:
    query = request.query
    page = int(query.get("page", "1"))
    return Asked(query.get("q", ""), query.get("state", ""), query.get("sort") or "trouble", page)


PAGE: Final = Query("page", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 1}, "which page, from 1")
MODELS: Final = (
    Query("q", {"type": "string", "maxLength": 63}, "part of a model's id, namespace or team"),
    Query("state", {"type": "string", "enum": ["", *STATES]}, "only models in this state"),
    Query("sort", {"type": "string", "enum": [*SORTS], "default": "trouble"}, "order of the models"),
    PAGE,
)
HISTORY: Final = (
    Query("model", {"type": "string", "maxLength": 63}, "only what happened to this model"),
    Query("kind", {"type": "string", "enum": ["", *KINDS]}, "only happenings of this kind"),
    Query("before", {"type": "integer", "minimum": 0, "maximum": 10**15}, "only cycles before this one"),
    Query("limit", {"type": "integer", "minimum": 1, "maximum": MOST, "default": LIMIT}, "cycles on one page"),
)
AT: Final = Query("at", {"type": "string", "format": "date-time"}, "as it was then, from the journal")
ALONE: Final = Query("model", {"type": "string", "maxLength": 63}, "that model's part alone")

ROUTES = (
    Route("GET", "/v1/status", status, "The service, its last plan, notices and overrides.", Status),
    Route("GET", "/v1/plan", plan, "What the last cycle decided.", Plan),
    Route("GET", "/v1/snapshot", snapshot, "The world as it is known now.", Snapshot),
    Route(
        "GET", "/v1/overview", overview, "Who lacks what, who holds which GPU, what happened.", Overview, query=MODELS
    ),
    Route("GET", "/v1/stream", stream, "The overview, whenever it changes.", Overview, query=MODELS, streams=True),
    Route("GET", "/v1/models/{model}", model, "One model's page.", ModelPage, errors=(404,)),
    Route("GET", "/v1/pools/{pool}", pool, "One pool's page.", PoolPage, query=(PAGE,), errors=(404,)),
    Route(
        "GET", "/v1/explain/{model}", explain, "Why a model has what it has.", Explanation, query=(AT,), errors=(404,)
    ),
    Route("GET", "/v1/decisions", history, "Cycles that did or refused something.", Decisions, query=HISTORY),
    Route("GET", "/v1/decisions/{cycle}", decision, "One cycle.", DecisionPage, query=(ALONE,), errors=(404,)),
)
