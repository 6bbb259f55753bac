"""03:12:07 on a bad night with every node, pod and mark of the drawings, as values and as the API sends it."""

from msgspec.structs import replace

from rebalancer.api.http.json_codec import to_wire
from rebalancer.api.pages.gpu_tiles import seat
from rebalancer.api.pages.model_page import model_page
from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.overview import overview
from rebalancer.api.pages.pool_page import pool_page
from rebalancer.api.pages.values.model import ModelPage
from rebalancer.api.pages.values.overview import Overview
from rebalancer.api.pages.values.pool import PoolPage
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.ports.timeline import Point, TimelineEvent
from rebalancer.domain.memory import Loan
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.snapshot import PodView, Snapshot, TargetView
from tests.builders import (
    a_load,
    a_model,
    a_model_view,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_reading,
    a_target,
    an_elastic_pool,
    some_work,
)
from tests.cli import scene

NOW = scene.NOW
EPOCH = "rb-0-1a2b3c"
GPUS = {"llama-70b": 4, "mixtral-8x7b": 2, "qwen-32b": 2, "sdxl": 1}
# Who runs where, in the order in which the pods came: model, pool, node, how many.
SEATED = (
    ("llama-70b", "a100", "a100-1", 2),
    ("llama-70b", "a100", "a100-2", 2),
    ("mixtral-8x7b", "a100", "a100-3", 2),
    ("qwen-32b", "a100", "a100-4", 3),
    ("llama-70b", "spot", "spot-1", 1),
    ("sdxl", "spot", "spot-1", 2),
    ("llama-70b", "spot", "spot-2", 1),
    ("sdxl", "spot", "spot-2", 4),
)

POLICY: Policy = a_policy(
    a_model(
        "llama-70b",
        2,
        pools=("a100", "spot"),
        gpus_per_replica=4,
        entitlement=4,
        workload_class="realtime",
        priority=100,
        team="chat",
        slo={"latency_seconds": 2.0},
        signals={
            "concurrency": {"per_replica": 16.0},
            "kv_cache": {"high": 0.8, "low": 0.3},
            "latency": True,
        },
    ),
    a_model("mixtral-8x7b", 2, gpus_per_replica=2, entitlement=4, team="chat", workload_class="batch"),
    a_model("qwen-32b", 1, gpus_per_replica=2, entitlement=3, team="search"),
    a_model("sdxl", 0, pools=("spot",), entitlement=0, team="images", workload_class="batch"),
    pools=(a_pool("a100", 32), an_elastic_pool("spot", 24)),
)


def _pods(model: str, pool: str) -> tuple[PodView, ...]:
    """The pods of `SEATED`, a minute between any two."""
    pods: list[PodView] = []
    for place, (who, where, node, count) in enumerate(SEATED):
        for _ in range(count if (who, where) == (model, pool) else 0):
            born = scene.at("01:00:00") + place * 600.0 + len(pods) * 60.0
            pods.append(a_pod(f"{model}-{pool}-{len(pods)}", node, created_at=born, since=born + 240.0))
    if (model, pool) == ("llama-70b", "a100"):
        born = scene.at("03:10:11")
        pods.append(a_pod("llama-70b-a100-4", "a100-3", phase="loading", created_at=born, since=born + 4.0))
    return tuple(pods)


def _target(model: str, pool: str) -> TargetView:
    first = pool == "a100" or model == "sdxl"
    pods = _pods(model, pool)
    name = model if first else f"{model}-{pool}"
    return a_target(name, len(pods), pool, gpus_per_pod=GPUS[model], pods=pods)


LOADS = (
    a_load(
        "llama-70b",
        {
            "concurrency": a_reading(112.0, NOW - 2.0),
            "kvCache": a_reading(0.71, NOW - 3.0),
            "latency": a_reading(1.4, NOW - 48.0),
        },
        6.6,
        pod_requests={pod.uid: 16.0 + place for place, pod in enumerate(_pods("llama-70b", "a100")[:4])},
    ),
    a_load("mixtral-8x7b", {"concurrency": a_reading(7.0, NOW - 1.0)}, some_work(1.7)),
    a_load("qwen-32b", {"concurrency": a_reading(6.0, NOW - 4.0)}, some_work(1.4)),
    a_load("sdxl", {"concurrency": a_reading(8.0, NOW - 2.0)}, some_work(1.9)),
)

SNAPSHOT: Snapshot = replace(
    scene.SNAPSHOT,
    pools=(
        PoolView("a100", tuple(a_node(f"a100-{n}") for n in (1, 2, 3, 4))),
        PoolView("spot", tuple(a_node(f"spot-{n}", node_pool="spot") for n in (1, 2))),
    ),
    models=(
        a_model_view("llama-70b", _target("llama-70b", "a100"), _target("llama-70b", "spot"), load_seconds=240.0),
        a_model_view("mixtral-8x7b", _target("mixtral-8x7b", "a100")),
        a_model_view("qwen-32b", _target("qwen-32b", "a100")),
        a_model_view("sdxl", _target("sdxl", "spot")),
    ),
    loads=LOADS,
    notices=tuple(replace(one, since=scene.at("03:11:40")) for one in scene.SNAPSHOT.notices),
)

LOANS = (
    Loan("sdxl", None, "spot", 1, scene.at("02:10:00")),
    Loan("sdxl", None, "spot", 1, scene.at("02:11:00")),
    Loan("llama-70b", None, "spot", 4, scene.at("02:20:00")),
    Loan("llama-70b", "mixtral-8x7b", "a100", 4, scene.at("03:10:11")),
)


def _seen(
    clock: str, kind: str, cycle: int, said: str, model: str | None = None, pool: str | None = None
) -> TimelineEvent:
    return TimelineEvent(scene.at(clock), kind, said, cycle, model, pool)


TIMELINE = (
    _seen("02:45:10", "override", 48_042, "cap sdxl 6 by ci until 05:59:00: render batch", "sdxl"),
    _seen("02:58:20", "release", 48_124, "gives up 1 replica that nobody needs (3 -> 2)", "mixtral-8x7b", "a100"),
    _seen("02:58:24", "grant", 48_125, "5 -> 6  from mixtral-8x7b", "llama-70b", "a100"),
    _seen("03:09:40", "release", 48_200, "4 -> 3  for llama-70b", "qwen-32b", "a100"),
    _seen("03:10:11", "grant", 48_203, "6 -> 7  from qwen-32b", "llama-70b", "a100"),
    _seen("03:11:40", "notice", 48_213, "spot-2 goes 03:13:40 (spot-interruption)", None, "spot"),
    _seen("03:12:06", "release", 48_216, "ends 4 replicas on spot-2, under notice (6 -> 2)", "sdxl", "spot"),
    _seen("03:12:06", "release", 48_216, "ends 1 replica on spot-2, under notice (7 -> 6)", "llama-70b", "spot"),
    _seen(
        "03:12:06",
        "refusal",
        48_216,
        "keeps 1 replica that would go (3 -> 2): guard step, it lost 1 of at most 1",
        "qwen-32b",
    ),
    _seen("03:12:06", "node", 48_216, "nodepool/spot 16 -> 24 GPU limit  node ~03:16", None, "spot"),
)

PAGE_DATA = PageData(
    epoch=EPOCH,
    status=replace(scene.STATUS, notices=SNAPSHOT.notices),
    snapshot=SNAPSHOT,
    policy=POLICY,
    loans=LOANS,
    timeline=TIMELINE,
)


def chart() -> tuple[Point, ...]:
    """An hour of llama-70b: 5 replicas, then a rise from 02:58 on; unknown for two minutes."""
    points = []
    for step in range(120):
        at = NOW - NOW % 30 - (119 - step) * 30.0
        blind = scene.at("02:30:00") <= at < scene.at("02:32:00")
        demand = 5 if at < scene.at("02:58:00") else 6 if at < scene.at("03:09:30") else 7
        ready = 5 if at < scene.at("03:02:30") else 6 if at < scene.at("03:11:40") else 5
        points.append(Point(at, None if blind else demand, demand, ready))
    return tuple(points)


def the_overview(query: ModelsQuery | None = None) -> Overview:
    """What `/v1/overview` answers."""
    return overview(PAGE_DATA, query or ModelsQuery(), seat({}, SNAPSHOT))


def the_model_page(model: str = "llama-70b") -> ModelPage:
    """What `/v1/models/MODEL` answers."""
    spec = next(each for each in POLICY.models if each.id == model)
    decision = next(each for each in scene.PLAN.models if each.model == model)
    return model_page(PAGE_DATA, scene.PLAN, spec, decision, chart())


def the_pool_page(pool: str = "a100") -> PoolPage:
    """What `/v1/pools/POOL` answers."""
    spec = next(each for each in POLICY.pools if each.name == pool)
    return pool_page(PAGE_DATA, spec, seat({}, SNAPSHOT))


def overview_json() -> bytes:
    """The overview as the wire has it."""
    return to_wire(the_overview())


def model_page_json(model: str = "llama-70b") -> bytes:
    """A model's page as the wire has it."""
    return to_wire(the_model_page(model))


def pool_page_json(pool: str = "a100") -> bytes:
    """A pool's page as the wire has it."""
    return to_wire(the_pool_page(pool))
