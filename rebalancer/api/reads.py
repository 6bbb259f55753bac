"""Reads: the service, its plan, the world as it knows it, and one model's decision."""

from aiohttp import web
from msgspec import Struct

from rebalancer.api.keys import VIEW
from rebalancer.api.replies import ApiError, answer
from rebalancer.api.route import Route
from rebalancer.api.view import Status
from rebalancer.domain.instant import Instant
from rebalancer.domain.plan import Change, ModelDecision, Plan, Refusal, Unmet
from rebalancer.domain.snapshot import Snapshot


class Explanation(Struct, frozen=True):
    """One model's decision with its refusals, what it lacks and what changes."""

    model: ModelDecision
    refusals: tuple[Refusal, ...]
    unmet: tuple[Unmet, ...]
    changes: tuple[Change, ...]
    at: Instant
    cycle: int


async def status(request: web.Request) -> web.Response:
    """The service, its plan, notices and overrides."""
    return await answer(request.app[VIEW].status())


async def snapshot(request: web.Request) -> web.Response:
    """The world as it is known now."""
    return await answer(request.app[VIEW].snapshot())


async def plan(request: web.Request) -> web.Response:
    """The last plan."""
    return await answer(_decided(request))


async def explain(request: web.Request) -> web.Response:
    """One model's decision with its refusals and what it lacks."""
    decided = _decided(request)
    name = request.match_info["model"]
    model = next((each for each in decided.models if each.model == name), None)
    if model is None:
        known = ", ".join(each.model for each in decided.models[:20])
        raise ApiError(404, f"no model {name[:64]!r} in the policy", f"models: {known}", "path.model")
    return await answer(
        Explanation(
            model=model,
            refusals=tuple(each for each in decided.refusals if each.subject == name),
            unmet=tuple(each for each in decided.unmet if each.model == name),
            changes=tuple(each for each in decided.changes if each.model == name),
            at=decided.at,
            cycle=decided.cycle,
        )
    )


def _decided(request: web.Request) -> Plan:
    decided = request.app[VIEW].status().plan
    if decided is None:
        raise ApiError(503, "nothing is decided yet", "see /readyz on the probe port for what is missing")
    return decided


ROUTES = (
    Route("GET", "/v1/status", status, "The service, its last plan, notices and overrides.", Status),
    Route("GET", "/v1/plan", plan, "What the last cycle decided.", Plan),
    Route("GET", "/v1/snapshot", snapshot, "The world as it is known now.", Snapshot),
    Route("GET", "/v1/explain/{model}", explain, "Why a model has what it has.", Explanation, errors=(404,)),
)
