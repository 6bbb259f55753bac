"""03:12:07 on a bad night, as the console's drawings show it: one scene for every rendering test."""

from msgspec.structs import replace

from rebalancer.api.ports.requests import Effect, Preview
from rebalancer.api.ports.status import Status
from rebalancer.domain.plan import (
    Change,
    ModelDecision,
    NodePoolChange,
    Plan,
    PoolDecision,
    Refusal,
    Step,
    Unmet,
)
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from tests.builders import a_model_view, a_notice, a_pod, a_target, an_override

MIDNIGHT = 1_800_057_600.0  # 2027-01-16 00:00:00 UTC


def at(clock: str) -> float:
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return MIDNIGHT + hours * 3600 + minutes * 60 + seconds


NOW = at("03:12:07")


def decided(model: str, *numbers: int | None, why: str, **more: object) -> ModelDecision:
    """`numbers`: demand, allocation, ready, loading, doomed, floor."""
    demand, allocation, ready, loading, doomed, floor = numbers
    fields = {"granted": allocation, "surge": False, "lent": 0, "borrowed": 0, "why": why}
    counts = {"allocation": allocation, "ready": ready, "loading": loading, "doomed": doomed, "floor": floor}
    return ModelDecision(model=model, demand=demand, **{**counts, **fields, **more})  # type: ignore[arg-type]  # numbers


def change(model: str, before: int, after: int, reason: str, **more: object) -> Change:
    fields: dict[str, object] = {"kind": "release", "minimum": 0, "passes": "drain", "target": a_target(model)}
    return Change(
        id=f"1-{model}",
        model=model,
        replicas_from=before,
        replicas_to=after,
        reason=reason,
        **{**fields, **more},  # type: ignore[arg-type]  # fields of Change
    )


STEPS = (
    Step("readings", "concurrency 112 votes 7 (2 s); kvCache 0.71 votes 6 (3 s); latency abstains (48 s)"),
    Step("demand", "112 requests / 16", {"demand": 7}),
    Step("doomed", "1 doomed", {"doomed": 1}),
    Step("allocation", "6 -> 7", {"held": 6, "allocation": 7}),
    Step("guard", "qwen-32b 3 -> 2  refused by step"),
    Step("plan", "granted 6", {"granted": 6}),
)

PLAN = Plan(
    cycle=48_216,
    at=at("03:12:06"),
    changes=(
        change("sdxl", 6, 2, "ends 4 replicas on spot-2, under notice"),
        change("llama-70b", 7, 6, "ends 1 replica on spot-2, under notice: no 4 GPUs are free together"),
    ),
    node_pools=(
        NodePoolChange(
            id="1-spot",
            kind="limit",
            name="spot",
            uid="uid-spot",
            pool="spot",
            resource="nvidia.com/gpu",
            reason="node ~03:16",
            limit_from=16,
            limit_to=24,
        ),
    ),
    refusals=(
        Refusal(
            guard="step",
            subject="qwen-32b",
            replicas_from=3,
            replicas_to=2,
            why="it lost 1 of at most 1",
            until=at("03:14:40"),
        ),
    ),
    unmet=(Unmet("llama-70b", 1, "step", "no node has 4 GPUs free: 2 on a100-4, 2 on spot-1", at("03:11:40")),),
    models=(
        decided("llama-70b", 7, 7, 5, 1, 1, 2, why="short 1", steps=STEPS, surge=True),
        decided("mixtral-8x7b", 2, 2, 2, 0, 0, 2, why="lends 4 GPUs", lent=1),
        decided("qwen-32b", 2, 2, 3, 0, 0, 1, why="step holds 1"),
        decided("sdxl", 2, 2, 2, 0, 4, 0, why="demand is 2"),
    ),
    pools=(
        PoolDecision("a100", budget=32, promised=30, owned=26, lent=0, loading=4, doomed=0, foreign=0, free=2),
        PoolDecision("spot", budget=8, promised=6, owned=0, lent=6, loading=0, doomed=8, foreign=0, free=2),
    ),
)

LLAMA = a_target(
    "llama-70b",
    gpus_per_pod=4,
    pods=(
        *(a_pod(f"llama-70b-{n}", "a100-1") for n in range(4)),
        a_pod("llama-70b-4", "spot-2"),
        a_pod("llama-70b-5", "a100-4", phase="loading", created_at=at("03:10:11")),
    ),
)

SNAPSHOT = Snapshot(
    cycle=48_216,
    at=NOW,
    models=(
        a_model_view("llama-70b", LLAMA, load_seconds=240.0),
        a_model_view("mixtral-8x7b", a_target("mixtral-8x7b", 2)),
        a_model_view("qwen-32b", a_target("qwen-32b", 3)),
        a_model_view("sdxl", a_target("sdxl", 6, pool="spot")),
    ),
    notices=(a_notice("spot-2", deadline=at("03:13:40")),),
    overrides=(replace(an_override("cap", "sdxl", 6, actor="ci", reason="render batch"), expires_at=at("05:59:00")),),
)

STATUS = Status(
    cluster="prod-eu",
    instance="rb-0",
    leader="rb-0",
    write_mode="act",
    writes_stopped=None,
    at=NOW,
    cycle=48_216,
    policy_digest="0123456789abcdef",
    policy_problems=(),
    sync=Sync(synced_at=MIDNIGHT),
    plan=PLAN,
    notices=SNAPSHOT.notices,
    overrides=SNAPSHOT.overrides,
    elastic=("spot",),
)

PREVIEW = Preview(
    preview="sha256:0123",
    name="ov-0123abcd",
    namespace="serving",
    actor="rebalancer-viewer",
    expires_at=at("03:42:07"),
    effects=(Effect("now", "qwen-32b 3 -> 2  passes step; floor 1 kept", "qwen-32b", 3, 2),),
    unmet_before=1,
    lines=(
        "now  qwen-32b 3 -> 2  passes step; floor 1 kept",
        "then llama-70b 6 -> 7 on a100-4, ready ~03:20 UTC; unmet 0",
    ),
)

RESUME_PREVIEW = Preview(
    preview="sha256:4567",
    name="",
    namespace="",
    actor="rebalancer-operator",
    expires_at=at("03:42:07"),
    lines=("now  sdxl ends 4 replicas on spot-2, under notice (6 -> 2)",),
)
