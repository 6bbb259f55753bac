"""One night at 03:12:07: a spot node goes in 93 s, a model is short, a person has capped another."""

import msgspec
from msgspec.structs import replace

from rebalancer.api.pages.badges import badges
from rebalancer.api.pages.values.checks import Checks
from rebalancer.api.pages.values.decisions import DecisionPage, ModelBeside
from rebalancer.api.pages.values.model import ModelPage, ReplicaRow, SignalRow
from rebalancer.api.pages.values.overview import AttentionItem, ModelRow, Overview, PoolRow, WayOut
from rebalancer.api.pages.values.policy import PolicyPage
from rebalancer.api.pages.values.tiles import NodeTiles, Seated
from rebalancer.api.ports.requests import Preview
from rebalancer.api.ports.status import Status
from rebalancer.api.ports.timeline import Point, ShiftStep, TimelineEvent
from rebalancer.domain.people import Override
from rebalancer.domain.plan import ModelDecision, Plan, PoolDecision, Refusal, Step, Unmet
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.survey.finding import Finding

NOW = 1_800_069_127.0  # 2027-01-16T03:12:07Z
CYCLE = 48_211

CAP = Override(
    name="ov-7f3a",
    namespace="serving",
    uid="u1",
    resource_version="1",
    kind="cap",
    subject="sdxl",
    subject_kind="model",
    reason="render batch",
    actor="ci",
    created_at=NOW - 780,
    expires_at=NOW + 10_020,
    value=6,
    phase="InForce",
)


def at(clock: str) -> float:
    """The instant of that night at which a clock shows HH:MM:SS."""
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return NOW - NOW % 86_400 + hours * 3600 + minutes * 60 + seconds


NIGHT = (
    TimelineEvent(at("02:46:30"), "override", "is put under cap 6 by ci until 04:00:00: render batch", 48_054, "sdxl"),
    TimelineEvent(at("02:58:10"), "release", "gives 1 replica to llama-70b (3 -> 2)", 48_130, "mixtral-8x7b"),
    TimelineEvent(at("02:58:40"), "grant", "gets 1 replica from mixtral-8x7b on a100-2 (5 -> 6)", 48_130, "llama-70b"),
    TimelineEvent(
        at("03:06:20"),
        "refusal",
        "keeps 1 replica that would go (4 -> 3): guard agree, one vote of two",
        48_177,
        "qwen-32b",
    ),
    TimelineEvent(at("03:09:40"), "release", "gives up 1 replica that nobody needs (4 -> 3)", 48_197, "qwen-32b"),
    TimelineEvent(at("03:10:02"), "grant", "gets 1 replica on a100-3 (6 -> 7)", 48_197, "llama-70b"),
    TimelineEvent(at("03:11:40"), "notice", "spot-2 goes 03:13:40", 48_208, None, "spot"),
    TimelineEvent(at("03:11:41"), "release", "ends 4 replicas on spot-2, under notice (6 -> 2)", 48_209, "sdxl"),
    TimelineEvent(
        at("03:11:41"),
        "refusal",
        "keeps 1 replica that would go (3 -> 2): guard step, it lost 1 of at most 1",
        48_209,
        "qwen-32b",
    ),
    TimelineEvent(at("03:11:50"), "node", "nodepool/spot 16 -> 24 GPU limit; node ~03:16", 48_210, None, "spot"),
)

SHIFT = ("48197-0f0f0f0f", at("03:09:40"), at("03:10:02"))
TIMELINE = tuple(
    replace(
        each,
        id=SHIFT[0] if each.at == SHIFT[2] else f"{each.cycle}-{place}",
        shift="c48197-0" if each.at in SHIFT[1:] else None,
        steps=(
            ShiftStep(SHIFT[1], "qwen-32b", "gives 1 replica to llama-70b (4 -> 3)"),
            ShiftStep(SHIFT[2], "llama-70b", "gets 1 replica from qwen-32b on a100-3 (6 -> 7)"),
        )
        if each.at == SHIFT[2]
        else (),
    )
    for place, each in enumerate(NIGHT)
)

ATTENTION = (
    AttentionItem(
        "critical",
        "spot-2 goes 03:13:40: llama-70b 1, sdxl 4",
        at("03:13:40"),
        pool="spot",
        node="spot-2",
        impact="without it: llama-70b 5 Ready, 1 loading of 7 needed; sdxl 2 Ready of 2 needed",
        since=at("03:11:40"),
        way_out=WayOut("follow it", "rebalancer explain --node spot-2"),
    ),
    AttentionItem(
        "warning",
        "llama-70b is short of 1 replica (4 GPUs); qwen-32b may shrink, not before 03:14:40",
        at("03:14:40"),
        "llama-70b",
        impact="6.6 replicas of work on 6, about 140 of 900 requests late in the next 110 s",
        since=at("03:11:40"),
        way_out=WayOut(
            "cap qwen-32b at 2 now",
            "rebalancer override add cap qwen-32b 2 --for 30m --reason WHY",
            "cap",
            "qwen-32b",
            2,
        ),
    ),
)

POOLS = (
    PoolRow(
        "a100",
        "primary",
        32,
        {"owned": 26, "loading": 4, "free": 2},
        (
            NodeTiles("a100-1", "########", seated=(Seated(8, "mixtral-8x7b"),)),
            NodeTiles("a100-2", "########", seated=(Seated(8, "llama-70b"),)),
            NodeTiles("a100-3", "####////", seated=(Seated(4, "qwen-32b"), Seated(4, "llama-70b"))),
            NodeTiles("a100-4", "######..", seated=(Seated(6, "qwen-32b"), Seated(2))),
        ),
        4,
    ),
    PoolRow(
        "spot",
        "elastic",
        16,
        {"lent": 6, "doomed": 8, "free": 2},
        (
            NodeTiles(
                "spot-1", "++++++..", seated=(Seated(4, "llama-70b", "spot"), Seated(2, "sdxl", "spot"), Seated(2))
            ),
            NodeTiles(
                "spot-2",
                "xxxxxxxx",
                doomed_at=at("03:13:40"),
                seated=(Seated(4, "llama-70b"), Seated(4, "sdxl", "spot")),
            ),
        ),
        2,
    ),
)


def _row(model: str, numbers: tuple[int, ...], why: str, next_at: float | None, workload_class: str) -> ModelRow:
    demand, allocation, ready, loading, doomed, floor, lent, borrowed, unmet = numbers
    return ModelRow(
        model=model,
        demand=demand,
        allocation=allocation,
        ready=ready,
        loading=loading,
        doomed=doomed,
        floor=floor,
        lent=lent,
        borrowed=borrowed,
        unmet=unmet,
        why=why,
        next_at=next_at,
        workload_class=workload_class,
        namespace="serving",
        on_loan=min(ready, borrowed),
        unowned=min(ready, borrowed),
        most=8,
    )


MODELS = (
    _row("llama-70b", (7, 7, 5, 1, 1, 2, 0, 1, 1), "short 1", at("03:14:40"), "realtime"),
    _row("qwen-32b", (2, 2, 3, 0, 0, 1, 0, 0, 0), "step holds 1", at("03:14:40"), "realtime"),
    _row("mixtral-8x7b", (2, 2, 2, 0, 0, 2, 1, 0, 0), "lends 4 GPUs", None, "interactive"),
    _row("sdxl", (2, 2, 2, 0, 4, 0, 0, 2, 0), "demand is 2", None, "batch"),
)

BADGES = badges(tuple(sorted(row.model for row in MODELS)))

OVERVIEW = Overview(
    epoch="e1",
    cluster="prod-eu",
    instance="rb-0",
    leader="rb-0",
    write_mode="act",
    at=NOW,
    cycle=CYCLE,
    plan_at=NOW - 1,
    namespace="gpu-ops",
    sync=Sync(),
    attention=ATTENTION,
    pools=POOLS,
    models=MODELS,
    models_total=4,
    timeline=TIMELINE,
    overrides=(CAP,),
    badges=BADGES,
)

EXPLANATION = (
    "short 1 replica (4 GPUs) since 03:11:40",
    "demand  7 = 112 requests / 16; KV cache votes 6; latency abstains (48 s)",
    "has     5 ready + 1 loading (~03:14:11); 1 doomed on spot-2",
    "refused qwen-32b keeps 1 replica that would go (3 -> 2): guard step, it lost 1 of at most 1",
    "or now  rebalancer override add cap qwen-32b 2 --for 30m ...",
)


def _point(minute: int) -> Point:
    """60 minutes: a calm, a gap without readings, a surge, a doomed node."""
    demand = None if 18 <= minute <= 20 else 3 if minute < 26 else 5 if minute < 40 else 6 if minute < 57 else 7
    ready = 3 if minute < 31 else 5 if minute < 47 else 6 if minute < 60 else 5
    allocation = 3 if minute < 26 else 5 if minute < 41 else 6 if minute < 57 else 7
    return Point(NOW - 3600 + minute * 60, demand, allocation, ready)


LLAMA = ModelPage(
    at=NOW,
    cycle=CYCLE,
    decision=ModelDecision(
        model="llama-70b",
        demand=7,
        allocation=7,
        granted=7,
        ready=5,
        loading=1,
        doomed=1,
        floor=2,
        surge=False,
        lent=0,
        borrowed=1,
        why="short 1",
        steps=(Step("demand", "112 requests / 16"),),
    ),
    namespace="serving",
    workload_class="realtime",
    team="chat",
    priority=100,
    actuation="bounds",
    unmet=(Unmet("llama-70b", 1, "step", "4 GPUs on one node", at("03:11:40")),),
    refusals=(Refusal("step", "qwen-32b", 3, 2, "it lost 1 of at most 1", {}, at("03:14:40")),),
    explanation=EXPLANATION,
    signals=(
        SignalRow("concurrency", "112", 7, 2),
        SignalRow("KV cache", "71 %", 6, 2),
        SignalRow("latency", None, None, 48, "stale: 48 s"),
    ),
    replicas=(
        *(ReplicaRow(f"llama-70b-{n}", f"a100-{n}", "a100", "ready", NOW - 9000 - n, "", 20 + n) for n in (1, 2)),
        *(ReplicaRow(f"llama-70b-{n}", "a100-2", "a100", "ready", NOW - 4000 - n, "", 22.0) for n in (3, 4)),
        ReplicaRow("llama-70b-5", "spot-1", "spot", "ready", NOW - 3000, "spot", 18.0),
        ReplicaRow("llama-70b-6", "a100-3", "a100", "loading", NOW - 125, "", None),
        ReplicaRow("llama-70b-7", "spot-2", "spot", "doomed", NOW - 2000, "spot", 12.0),
    ),
    chart=tuple(_point(minute) for minute in range(61)),
    timeline=tuple(each for each in TIMELINE if each.model == "llama-70b" or each.kind == "notice"),
    overrides=(),
    summary="5 replicas, 1 loading, 1 more on nodes that go, with 6.6 of work: short of 1 replica since 03:11:40",
    changes_when=(
        "1 replica more from about 03:14:11 on",
        "qwen-32b may shrink to 2, not before 03:14:40 (guard step)",
        "its 8th replica when more than 48 requests/s arrive (44 expected now)",
    ),
    most=8,
)

NEW = replace(CAP, name="ov-91bc", kind="cap", subject="qwen-32b", value=2, actor="oncall", reason="TICKET-1", phase="")

PREVIEW = Preview(
    preview="a1b2",
    name=NEW.name,
    namespace="serving",
    actor="oncall",
    expires_at=NOW + 1800,
    unmet_before=1,
    unmet_after=0,
    lines=(
        "now  qwen-32b 3 -> 2  passes step; floor 1 kept",
        "then llama-70b 6 -> 7 on a100-4, ready ~03:20 UTC; unmet 0",
    ),
)

PLAN = Plan(
    cycle=CYCLE,
    at=NOW - 1,
    refusals=LLAMA.refusals,
    unmet=LLAMA.unmet,
    models=(LLAMA.decision,),
    pools=(
        PoolDecision("a100", 32, 30, 26, 0, 4, 0, 0, 2),
        PoolDecision("spot", None, 14, 0, 6, 0, 8, 0, 2),
    ),
)

DECISION = DecisionPage(
    cycle=CYCLE,
    at=NOW - 1,
    policy_digest="sha256:9f2c41d07b",
    code_digest="sha256:51aa90ce12",
    plan=PLAN,
    inputs=Snapshot(cycle=CYCLE, at=NOW - 1, overrides=(CAP, replace(CAP, uid="u0", expires_at=NOW - 60))),
    beside=(
        ModelBeside("sdxl", 6, 2, 2, "gives up 4 replicas"),
        ModelBeside("llama-70b", 7, 7, 7, "short 1"),
        ModelBeside("qwen-32b", 3, 3, 2, "step holds 1"),
    ),
    triggers=("spot-2 goes 03:13:40", "sdxl needs 2 instead of 6: 8 requests / 4"),
)

POLICY = PolicyPage(
    at=NOW,
    digest="9f2c41d07b",
    since=at("03:02:00"),
    before="77aa01b2c3",
    differences=("models.sdxl.maxReplicas 4 -> 8", "models.whisper is gone"),
    file="/etc/rebalancer/policy.yaml",
    text=msgspec.json.encode(
        {
            "pools": [{"name": "spot", "kind": "elastic", "gpuLimit": 24}],
            "models": [
                {
                    "id": "sdxl",
                    "targets": [{"pool": "spot"}],
                    "gpusPerReplica": 1,
                    "minReplicas": 0,
                    "entitlement": 2,
                    "maxReplicas": 8,
                }
            ],
        }
    ).decode(),
)

CHECKS = Checks(
    at=NOW,
    findings=(
        Finding(
            "FAIL",
            "scaledobject/serving/sdxl",
            "trigger 0: AverageValue of an average",
            "metricType: Value",
            "average-of-an-average",
            "docs/reference/traps.md#average-of-an-average",
        ),
        Finding(
            "warn", "nodepool/spot", "consolidateAfter 30s < load time 7m40s", "spec.disruption.consolidateAfter: 10m"
        ),
    ),
    looked_at=at("03:10:00"),
    unread=("nodes, pods and everything else: rebalancer doctor looks at them with your own rights",),
    well=22,
)

STATUS = Status(
    cluster="prod-eu",
    instance="rb-0",
    leader="rb-0",
    write_mode="act",
    writes_stopped=None,
    at=NOW,
    cycle=CYCLE,
    policy_digest="sha256:9f2c41d07b",
    policy_problems=(),
    sync=Sync(),
    plan=PLAN,
    notices=(),
    overrides=(CAP,),
)
