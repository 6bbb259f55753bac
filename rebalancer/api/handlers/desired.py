"""The number that a ScaledObject's metrics-api trigger asks for: how many replicas a target is to have.

Whatever is not known is a 503, never a 0: KEDA then leaves things as they are, and after a while goes to its fallback.
"""

from aiohttp import web
from msgspec import UNSET, Struct

from rebalancer.api.handlers.app_keys import STATUS_PORT
from rebalancer.api.http.responses import ApiError, answer
from rebalancer.api.http.route import Route
from rebalancer.api.text.words import printable
from rebalancer.domain.arithmetic import converging
from rebalancer.domain.instant import Instant
from rebalancer.domain.snapshot import Snapshot, TargetView


class Desired(Struct, frozen=True):
    """The replicas that a model's target in one pool is to have.

    model: id of the model.
    pool: name of the pool.
    replicas: replicas that the target is to have.
    at: instant as of which that is known.
    """

    model: str
    pool: str
    replicas: int
    at: Instant


async def desired(request: web.Request) -> web.Response:
    """One target's replicas, from the replica that acts."""
    port, name, pool = request.app[STATUS_PORT], request.match_info["model"], request.match_info["pool"]
    seen, now = port.snapshot(), port.status()
    if now.plan is None or seen.sync.synced_at is None:
        raise ApiError(503, "nothing is decided yet", "see /readyz on the probe port for what is missing")
    target = _target(seen, name, pool)
    why_not = port.why_not_acting()
    if why_not is not None:
        raise ApiError(503, f"this replica cannot say: {why_not}", "the replica that leads can")
    if not target.by_metric:
        why = "; ".join(() if target.metric is UNSET else target.metric.faults) or "its ScaledObject is paused"
        raise ApiError(503, f"{target.name} does not follow this number: {why}", "see rebalancer explain", "path.model")
    planned = target.metric is not UNSET and target.metric.desired is not None
    if not planned and (seen.sync.missing or seen.sync.stale):
        what = ", ".join((*seen.sync.missing, *seen.sync.stale))
        raise ApiError(503, f"how many replicas there are is not known: {what}", "see /readyz on the probe port")
    return await answer(Desired(name, pool, converging(target), seen.at))


def _target(seen: Snapshot, name: str, pool: str) -> TargetView:
    views = [target for model in seen.models if model.id == name for target in model.targets if target.pool == pool]
    if not views:
        what = f"no model {printable(name)[:64]!r} with a target in pool {printable(pool)[:64]!r}"
        raise ApiError(404, what, "take both names from the policy", "path.model")
    if views[0].metric is UNSET and not views[0].missing:
        raise ApiError(404, f"{name} is not moved by its ScaledObject's trigger", "its actuation is another", "path")
    if views[0].missing:
        raise ApiError(503, f"{views[0].kind} {views[0].name} does not exist", "see rebalancer explain", "path.model")
    return views[0]


ROUTES = (
    Route(
        "GET",
        "/v1/models/{model}/desired/{pool}",
        desired,
        "The replicas that a target is to have, for its ScaledObject's metrics-api trigger.",
        Desired,
        errors=(404,),
    ),
)
