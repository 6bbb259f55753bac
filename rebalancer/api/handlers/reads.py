"""Reads: the service, its plan, the world as it knows it, the console's pages, and what was decided."""

import asyncio
from contextlib import suppress
from typing import Any, NoReturn

from aiohttp import web
from msgspec.structs import replace

from rebalancer.api.handlers.app_keys import RENDERER, STATUS_PORT
from rebalancer.api.handlers.event_stream import CHANNELS, follow
from rebalancer.api.http.json_codec import instant_text
from rebalancer.api.http.packing import packed, packed_body
from rebalancer.api.http.query_params import query_of
from rebalancer.api.http.responses import ApiError
from rebalancer.api.http.route import Route
from rebalancer.api.pages.checks import checked
from rebalancer.api.pages.decisions import DecisionQuery, DecisionsQuery, decision_page, decisions
from rebalancer.api.pages.explanation import ExplanationQuery, explained, explained_node
from rebalancer.api.pages.history import HistoryPage, HistoryQuery, history_page
from rebalancer.api.pages.model_page import model_page
from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.more_gpus import MoreGpus, more_gpus
from rebalancer.api.pages.policy_page import policy_page
from rebalancer.api.pages.pool_page import PoolQuery, pool_page
from rebalancer.api.pages.values.checks import Checks
from rebalancer.api.pages.values.decisions import DecisionPage, Decisions
from rebalancer.api.pages.values.explanation import Explanation, NodeExplanation
from rebalancer.api.pages.values.model import ModelPage
from rebalancer.api.pages.values.overview import Overview
from rebalancer.api.pages.values.policy import PolicyPage
from rebalancer.api.pages.values.pool import PoolPage
from rebalancer.api.ports.page_data import NotRecorded, PageData, RecordedCycle, RecordsBusy
from rebalancer.api.ports.past_refusals import PastRefusal
from rebalancer.api.ports.status import Status
from rebalancer.api.text.words import known_names, printable, some
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Model
from rebalancer.domain.snapshot import Snapshot


async def status(request: web.Request) -> web.Response:
    """The service, its plan, notices and overrides."""
    return await packed(request, request.app[STATUS_PORT].status())


async def snapshot(request: web.Request) -> web.Response:
    """The world as it is known now."""
    return await packed(request, request.app[STATUS_PORT].snapshot())


async def plan(request: web.Request) -> web.Response:
    """The last plan."""
    return await packed(request, _decided(request.app[STATUS_PORT].status()))


async def overview(request: web.Request) -> web.Response:
    """The first page."""
    frame = await request.app[RENDERER].frame(query_of(request, ModelsQuery))
    return await packed_body(request, frame.body)


async def stream(request: web.Request) -> web.StreamResponse:
    """The first page, whenever it changes."""
    return await follow(request, request.app[RENDERER], request.app[CHANNELS], query_of(request, ModelsQuery))


async def model(request: web.Request) -> web.Response:
    """One model's page."""
    renderer, name = request.app[RENDERER], request.match_info["model"]
    chart, day = renderer.source.chart(name), renderer.source.day()

    def page(data: PageData, _seats: object) -> ModelPage:
        of_model = _of_model(data, name)
        return replace(model_page(data, *of_model, chart), more_gpus=more_gpus(data, *of_model, day))

    return await packed(request, await renderer.make(page))


async def more(request: web.Request) -> web.Response:
    """Whether more GPUs would help a model."""
    renderer, name = request.app[RENDERER], request.match_info["model"]
    day = renderer.source.day()

    def page(data: PageData, _seats: object) -> MoreGpus:
        return more_gpus(data, *_of_model(data, name), day)

    return await packed(request, await renderer.make(page))


def _of_model(data: PageData, name: str) -> tuple[Plan, Model, ModelDecision]:
    decided = _decided(data.status)
    spec = next((each for each in data.policy.models if each.id == name), None)
    decision = next((each for each in decided.models if each.model == name), None)
    if spec is None or decision is None:
        _no_model(name, [each.id for each in data.policy.models])
    return decided, spec, decision


async def pool(request: web.Request) -> web.Response:
    """One pool's page."""
    name, page = request.match_info["pool"], query_of(request, PoolQuery).page

    def made(data: PageData, seats: Any) -> PoolPage:  # noqa: ANN401  handed on
        spec = next((each for each in data.policy.pools if each.name == name), None)
        if spec is None:
            known = some([each.name for each in data.policy.pools], 20)
            raise ApiError(404, f"no pool {printable(name)[:64]!r} in the policy", f"pools: {known}", "path.pool")
        return pool_page(data, spec, seats, page)

    return await packed(request, await request.app[RENDERER].make(made))


async def explain(request: web.Request) -> web.Response:
    """Why a model has what it has, or had."""
    name = request.match_info["model"]
    at = query_of(request, ExplanationQuery).at
    if at is not None:
        recorded = await _recorded(request, at=at)
        explanation = await asyncio.to_thread(_explained, recorded.plan, recorded.snapshot, name, recorded.refusals)
    else:
        data = request.app[RENDERER].source.read()
        explanation = await asyncio.to_thread(_explained, _decided(data.status), data.snapshot, name, data.refusals)
    return await packed(request, explanation)


async def explain_node(request: web.Request) -> web.Response:
    """What becomes of a node under notice."""
    name, data = request.match_info["node"], request.app[RENDERER].source.read()
    explanation = await asyncio.to_thread(explained_node, data, _decided(data.status), name)
    if explanation is None:
        known = sorted({*(each.node for each in data.snapshot.notices), *(each.node for each in data.accounts)})
        why = f"no notice about node {printable(name)[:64]!r} stands, and none ended in the last hour"
        raise ApiError(404, why, known_names("nodes with a notice now or in the last hour", name, known), "path.node")
    return await packed(request, explanation)


def _explained(decided: Plan, seen: Snapshot, name: str, past: tuple[PastRefusal, ...]) -> Explanation:
    if all(each.model != name for each in decided.models):
        _no_model(name, [each.model for each in decided.models])
    return explained(decided, seen, name, past)


def _no_model(name: str, known: list[str], where: str = "path.model") -> NoReturn:
    raise ApiError(404, f"no model {printable(name)[:64]!r} in the policy", known_names("models", name, known), where)


async def history(request: web.Request) -> web.Response:
    """The last hours."""
    query, source = query_of(request, HistoryQuery), request.app[RENDERER].source
    data, day, rows = source.read(), source.day(), source.decisions()
    if query.model and all(each.id != query.model for each in data.policy.models):
        _no_model(query.model, [each.id for each in data.policy.models], "query.model")
    page = await asyncio.to_thread(history_page, day, data.policy, rows, query, data.status.at)
    return await packed(request, page)


async def timeline(request: web.Request) -> web.Response:
    """Cycles in memory that did or refused something new."""
    query = query_of(request, DecisionsQuery)
    source = request.app[RENDERER].source
    page, now = await asyncio.to_thread(decisions, source.decisions(), query), source.read().status
    return await packed(request, replace(page, instance=now.instance, leader=now.leader))


async def decision(request: web.Request) -> web.Response:
    """One cycle from the journal."""
    number = request.match_info["cycle"]
    if not (number.isascii() and number.isdigit() and len(number) <= 15):  # noqa: PLR2004  below 2**53
        raise ApiError(404, f"no cycle {printable(number)[:20]!r}", "cycles are whole numbers", "path.cycle")
    recorded = await _recorded(request, cycle=int(number))
    before = recorded.before
    if (
        before is None
    ):  # just before a keyframe; without it nothing tells what was new, and the decision is worth showing
        with suppress(NotRecorded, RecordsBusy):
            before = await request.app[RENDERER].source.recorded(cycle=int(number) - 1)
    page = await asyncio.to_thread(decision_page, recorded, before, query_of(request, DecisionQuery).model)
    return await packed(request, page)


async def policy(request: web.Request) -> web.Response:
    """The policy in force, and its last change."""
    return await packed(request, await request.app[RENDERER].make(lambda data, _seats: policy_page(data)))


async def checks(request: web.Request) -> web.Response:
    """What the doctor says of the service."""
    looked = request.app[RENDERER].source.traps()
    return await packed(request, await request.app[RENDERER].make(lambda data, _seats: checked(data, looked)))


async def _recorded(request: web.Request, *, cycle: int | None = None, at: float | None = None) -> RecordedCycle:
    try:
        return await request.app[RENDERER].source.recorded(cycle=cycle, at=at)
    except NotRecorded as error:
        reaches = instant_text(error.oldest) if error.oldest is not None else None
        fix = f"it reaches back to {reaches}" if reaches else "it begins with the first cycle of the service"
        where = "query.at" if cycle is None else "path.cycle"
        now = request.app[RENDERER].source.read().status
        if now.leader not in {"", now.instance}:
            idle = f"{error}: {now.instance} stands by and records nothing"
            fix = f"ask {now.leader}, which leads; by the kubeconfig our command line does"
            raise ApiError(404, idle, fix, where) from error
        raise ApiError(404, str(error), fix, where) from error
    except RecordsBusy as error:
        raise ApiError(503, str(error), "try again", retry_after_seconds=5) from error


def _decided(now: Status) -> Plan:
    if now.plan is None:
        raise ApiError(503, "nothing is decided yet", "see /readyz on the probe port for what is missing")
    return now.plan


ROUTES = (
    Route("GET", "/v1/status", status, "The service, its last plan, notices and overrides.", Status),
    Route("GET", "/v1/plan", plan, "What the last cycle decided.", Plan),
    Route("GET", "/v1/snapshot", snapshot, "The world as it is known now.", Snapshot),
    Route(
        "GET",
        "/v1/overview",
        overview,
        "Who lacks what, who holds which GPU, what happened.",
        Overview,
        query=ModelsQuery,
    ),
    Route("GET", "/v1/stream", stream, "The overview, whenever it changes.", Overview, query=ModelsQuery, streams=True),
    Route("GET", "/v1/models/{model}", model, "One model's page.", ModelPage, errors=(404,)),
    Route(
        "GET",
        "/v1/models/{model}/more-gpus",
        more,
        "Whether more GPUs would help a model, and of which pool.",
        MoreGpus,
        errors=(404,),
    ),
    Route("GET", "/v1/pools/{pool}", pool, "One pool's page.", PoolPage, query=PoolQuery, errors=(404,)),
    Route(
        "GET",
        "/v1/explain/{model}",
        explain,
        "Why a model has what it has.",
        Explanation,
        query=ExplanationQuery,
        errors=(404,),
    ),
    Route(
        "GET",
        "/v1/nodes/{node}",
        explain_node,
        "What becomes of a node under notice.",
        NodeExplanation,
        errors=(404,),
    ),
    Route(
        "GET",
        "/v1/history",
        history,
        "Who held the GPUs in the last hours, and how late requests were.",
        HistoryPage,
        query=HistoryQuery,
        errors=(404,),
    ),
    Route("GET", "/v1/policy", policy, "The policy in force, and what its last change was.", PolicyPage),
    Route("GET", "/v1/checks", checks, "What the doctor says that the service sees by itself.", Checks),
    Route("GET", "/v1/decisions", timeline, "Cycles that did or refused something.", Decisions, query=DecisionsQuery),
    Route("GET", "/v1/decisions/{cycle}", decision, "One cycle.", DecisionPage, query=DecisionQuery, errors=(404,)),
)
