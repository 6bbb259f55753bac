"""What KEDA is answered when it asks for a target's replicas: a number, or a 503; never a 0 for what nobody knows."""

from msgspec.structs import replace

from rebalancer.domain.snapshot import AutoscalerView, MetricView, TargetView
from rebalancer.domain.sync import Sync
from tests.api.asking import Asked, token
from tests.builders import a_model_view, a_target

PATH = "/v1/models/b/desired/a100"
FOLLOWS = AutoscalerView("ScaledObject", "b", "uid-so", "1", 1, 8, 1, 8)


def shows(api: Asked, target: TargetView, sync: Sync = Sync(synced_at=1.0)) -> None:  # noqa: B008  frozen
    others = tuple(model for model in api.status_port.seen.models if model.id != "b")
    api.status_port.seen = replace(api.status_port.seen, models=(*others, a_model_view("b", target)), sync=sync)


def a_follower(metric: MetricView) -> TargetView:
    return a_target("b", 3, autoscaler=FOLLOWS, metric=metric)


async def test_the_replicas_asked_for_are_answered_and_before_that_those_that_are_there(open_api: Asked) -> None:
    shows(open_api, a_follower(MetricView(5)))
    answer = await open_api("GET", PATH)
    assert (answer.status, answer.json["replicas"]) == (200, 5)
    shows(open_api, a_follower(MetricView()))
    assert (await open_api("GET", PATH)).json["replicas"] == 3


async def test_who_stands_by_or_writes_nothing_says_so(open_api: Asked) -> None:
    shows(open_api, a_follower(MetricView(5)))
    open_api.status_port.idle = "rb-1 leads"
    answer = await open_api("GET", PATH)
    assert answer.status == 503
    assert "rb-1 leads" in answer.said


async def test_what_is_not_known_is_no_number(open_api: Asked) -> None:
    shows(open_api, a_follower(MetricView()), Sync(stale=("deployments",), synced_at=1.0))
    assert (await open_api("GET", PATH)).status == 503
    shows(open_api, a_follower(MetricView(5)), Sync(stale=("deployments",), synced_at=1.0))
    assert (await open_api("GET", PATH)).status == 200, "a number that was asked for does not age"
    shows(open_api, a_follower(MetricView(5)), Sync())
    assert (await open_api("GET", PATH)).status == 503
    shows(open_api, a_follower(MetricView(5, ("its targetValue is 10, not 1",))))
    answer = await open_api("GET", PATH)
    assert answer.status == 503
    assert "targetValue is 10" in answer.said
    shows(open_api, a_follower(MetricView(5)))
    open_api.status_port.decided = None
    assert (await open_api("GET", PATH)).status == 503


async def test_who_is_moved_otherwise_and_who_is_not_there_is_told(open_api: Asked) -> None:
    shows(open_api, a_target("b", 3, autoscaler=FOLLOWS))
    assert (await open_api("GET", PATH)).status == 404
    assert (await open_api("GET", "/v1/models/b/desired/other")).status == 404
    shows(open_api, a_target("b", missing=True, metric=MetricView(5)))
    assert (await open_api("GET", PATH)).status == 503


async def test_it_wants_a_token_that_the_api_server_knows(api: Asked) -> None:
    shows(api, a_follower(MetricView(5)))
    assert (await api("GET", PATH)).status == 401
    assert (await api("GET", PATH, {"Authorization": "Bearer stranger"})).status == 401
    assert (await api("GET", PATH, token("keda"))).status == 200
