"""A month of 20 models as a journal: the planner's own decisions in virtual time, every five minutes.

Nodes, pods, autoscalers and readings are made here and are simple: a pod is Ready one step after it was created, an HPA
asks for the work over 0.7 within its bounds at each step, work swings by day and week with noise and surges. What is
real is `planning.plan` with its memory, and the journal's lines. Two hours are missing (the service was down), one node
is gone for a night, and one model has no work at all.
"""

import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from rebalancer.act.intents import intent_of
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.placement import INSTANCE_TYPE
from rebalancer.domain.plan import Change, Decision
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.readings import ModelLoad, NoReading, Reading, TokenRate, Work
from rebalancer.domain.snapshot import AutoscalerView, ModelView, PodView, Snapshot, TargetView
from rebalancer.domain.sync import Sync
from rebalancer.obs import journal
from rebalancer.planning import Memo, plan

BEGIN = 1_798_761_600.0  # 2027-01-01 00:00 UTC, a Friday
STEP = 300.0
KEYFRAME_STEPS = 12
FILE_STEPS = 1440  # five days
MODELS, NODES, GPUS = 20, 20, 8
SLOTS = 16.0
REQUEST_SECONDS = 0.8  # of a replica
DOWN = (12 * 288, 12 * 288 + 24)  # steps in which the service is away
NODE_GONE = (20 * 288, 20 * 288 + 96)
IDLE = 19
PROMPT, GENERATED, UNCOUNTED = 900.0, 100.0, 3  # tokens of a request; which of four models counts none
UP = 0.7
LEAST_LATE = 0.01  # of the work: less is no reason to move anybody


def a_month_policy(step_seconds: float = STEP) -> Policy:
    """20 models of five teams on one pool of 160 GPUs."""
    rng = random.Random(23)
    models = []
    for number in range(MODELS):
        owned = rng.randint(3, 9)
        models.append(
            {
                "id": f"model-{number:02}",
                "namespace": "serving",
                "targets": ({"pool": "h100", "name": f"model-{number:02}"},),
                "gpus_per_replica": rng.choice((1, 1, 2)),
                "min_replicas": max(1, owned // 3),
                "max_replicas": owned + 5,
                "entitlement": owned,
                "team": f"team-{number % 5}",
                "cost_center": f"cc-{number % 3}",
                "slo": {"latency_seconds": 2.0},
                "load_seconds": 60.0,
                "signals": {"concurrency": {"per_replica": SLOTS}, "queue": {"high": 8.0}},
            }
        )
    pool = {
        "name": "h100",
        "kind": "primary",
        "node_labels": {"pool": "h100"},
        "gpu_limit": NODES * GPUS,
        "price_per_gpu_hour": 2.5,
        "gpus_per_node": GPUS,
    }
    head = {"api_version": "rebalancer.io/v1alpha1", "kind": "Policy", "plan_every_seconds": min(600.0, step_seconds)}
    return Policy.model_validate({**head, "pools": (pool,), "models": tuple(models)})


@dataclass
class Served:
    """One model of the month: how its work swings, and its pods by node."""

    entry: Model
    rng: random.Random
    number: int
    level: float
    swing: float
    peak_hour: float
    minimum: int
    maximum: int
    replicas: int
    surge_until: float = 0.0
    surge: float = 1.0
    pods: dict[str, tuple[str | None, float]] = field(default_factory=dict)  # by uid: node, created at

    def work(self, at: float) -> float:
        """Replicas of work that are offered at that instant."""
        if self.number == IDLE:
            return 0.0
        hour, day = at % 86_400 / 3600, int((at - BEGIN) // 86_400)
        weekend = 0.6 if (day + 4) % 7 >= 5 else 1.0
        if at >= self.surge_until and self.rng.random() < 0.002:
            self.surge_until, self.surge = at + self.rng.uniform(900, 5400), self.rng.uniform(1.5, 2.5)
        times = self.surge if at < self.surge_until else 1.0
        daily = 1.0 + self.swing * math.cos((hour - self.peak_hour) / 24 * 2 * math.pi)
        return round(self.level * daily * weekend * times * self.rng.lognormvariate(0.0, 0.12), 6)


def write_month(folder: Path, steps: int, step_seconds: float = STEP) -> int:
    """`steps` cycles, `step_seconds` apart, into `folder/journal-*.jsonl`; how many were recorded."""
    policy = a_month_policy(step_seconds)
    line = journal.policy_line(policy, BEGIN, journal.code_digest())
    memory, memo, before, recorded = Memory(), Memo(), journal.EMPTY, 0
    month = Month(policy, step_seconds)
    folder.mkdir(parents=True, exist_ok=True)
    handle: BinaryIO | None = None
    for step in range(steps):
        snapshot = month.snapshot(step)
        decision = plan(snapshot, policy, memory, memo)
        memory = decision.memory
        outcomes = month.act(decision)
        if DOWN[0] <= step < DOWN[1]:
            continue
        if recorded % KEYFRAME_STEPS == 0 or handle is None:
            if recorded % FILE_STEPS == 0:
                if handle is not None:
                    handle.close()
                handle = (folder / f"journal-{recorded // FILE_STEPS + 1:06}.jsonl").open("wb")
            assert handle is not None
            handle.write(journal.encode(line))
            for frame in journal.keyframe(snapshot, memory):
                handle.write(journal.encode(frame))
            before = snapshot
        handle.write(journal.encode(journal.cycle_line(before, snapshot, decision, line.digest)))
        handle.writelines(journal.encode(journal.OutcomeLine(outcome)) for outcome in outcomes)
        before, recorded = snapshot, recorded + 1
    if handle is not None:
        handle.close()
    return recorded


class Month:
    """The cluster of the month, step by step."""

    def __init__(self, policy: Policy, step_seconds: float) -> None:
        self._step_seconds = step_seconds
        rng = random.Random(7)
        self._served = [
            Served(
                model,
                random.Random(f"{number}"),
                number,
                level=model.entitlement * rng.uniform(0.35, 0.75),
                swing=rng.uniform(0.2, 0.8),
                peak_hour=rng.uniform(0, 24),
                minimum=model.min_replicas,
                maximum=model.entitlement + 2,
                replicas=model.entitlement,
            )
            for number, model in enumerate(policy.models)
        ]
        self._bounds = {each.entry.id: (each.minimum, each.maximum) for each in self._served}
        self._pods = 0
        self._outcomes: tuple[Outcome, ...] = ()

    def snapshot(self, step: int) -> Snapshot:
        """The cluster at that step: pods follow what was asked for, then everybody is looked at."""
        at = BEGIN + step * self._step_seconds
        nodes = self._nodes(step)
        names = {node.name for node in nodes}
        free = dict.fromkeys(names, GPUS)
        for each in self._served:
            each.pods = {uid: pod for uid, pod in each.pods.items() if pod[0] is None or pod[0] in names}
            for node, _ in each.pods.values():
                if node is not None:
                    free[node] -= each.entry.gpus_per_replica
        works = [each.work(at) for each in self._served]
        for each, work in zip(self._served, works, strict=True):
            each.replicas = min(max(math.ceil(work / UP), each.minimum), each.maximum)
            self._follow(each, at, free)
        return Snapshot(
            cycle=step + 1,
            at=at,
            sync=Sync(synced_at=BEGIN),
            outcomes=self._outcomes,
            pools=(PoolView("h100", nodes),),
            models=tuple(self._view(each, at) for each in self._served),
            loads=tuple(self._load(each, work, at) for each, work in zip(self._served, works, strict=True)),
        )

    def act(self, decision: Decision) -> tuple[Outcome, ...]:
        """Bounds are written at once; HPAs follow them at the next step. What became of each write."""
        by_id = {each.entry.id: each for each in self._served}
        plan = decision.plan
        for change in plan.changes:
            self._write(by_id[change.model], change)
        self._outcomes = tuple(
            Outcome(intent_of(change, plan.cycle, plan.at), plan.at, WRITTEN) for change in plan.changes
        )
        return self._outcomes

    def _write(self, each: Served, change: Change) -> None:
        each.minimum, each.maximum = min(change.minimum, change.replicas_to), change.replicas_to

    def _nodes(self, step: int) -> tuple[NodeView, ...]:
        gone = 1 if NODE_GONE[0] <= step < NODE_GONE[1] else 0
        kinds = ("p5.48xlarge", "p5e.48xlarge")
        return tuple(
            NodeView(
                f"n{n:02}", GPUS, ready=True, schedulable=True, labels={"pool": "h100", INSTANCE_TYPE: kinds[n % 2]}
            )
            for n in range(gone, NODES)
        )

    def _follow(self, each: Served, at: float, free: dict[str, int]) -> None:
        gpus = each.entry.gpus_per_replica
        for uid in sorted(each.pods, key=lambda uid: (each.pods[uid][0] is not None, -each.pods[uid][1], uid)):
            if len(each.pods) <= each.replicas:
                break
            node = each.pods.pop(uid)[0]
            if node is not None:
                free[node] += gpus
        while len(each.pods) < each.replicas:
            self._pods += 1
            each.pods[f"uid-{self._pods:07}"] = (None, at)
        for uid, (node, created) in each.pods.items():
            if node is None:
                place = next((name for name in sorted(free) if free[name] >= gpus), None)
                if place is not None:
                    free[place] -= gpus
                    each.pods[uid] = (place, at)
                del created

    def _view(self, each: Served, at: float) -> ModelView:
        pods = tuple(self._pod(uid, each, at) for uid in sorted(each.pods))
        least, most = self._bounds[each.entry.id]
        now = each.minimum, each.maximum, each.minimum, each.maximum
        autoscaler = AutoscalerView(
            "ScaledObject", each.entry.id, f"so-{each.entry.id}", "1", *now, originals=Originals(least, most)
        )
        target = TargetView(
            "h100", "serving", "Deployment", each.entry.id, f"d-{each.entry.id}", "1", each.replicas,
            autoscaler=autoscaler, gpus_per_pod=each.entry.gpus_per_replica, node_selector={"pool": "h100"}, pods=pods,
        )  # fmt: skip
        return ModelView(each.entry.id, (target,), load_seconds=60.0, slow_load_seconds=90.0)

    def _pod(self, uid: str, each: Served, at: float) -> PodView:
        node, since = each.pods[uid]
        phase = "pending" if node is None else "loading" if at - since < self._step_seconds else "ready"
        began = since + 60.0 if phase == "ready" else since
        return PodView(uid, f"{each.entry.id}-{uid[-5:]}", node, phase, began, since)

    def _load(self, each: Served, work: float, at: float) -> ModelLoad:
        ready = sum(node is not None and at - since >= self._step_seconds for node, since in each.pods.values())
        running = min(work, ready) * SLOTS
        waiting = max(0.0, work - ready) * SLOTS
        readings: dict[str, Reading | NoReading] = dict.fromkeys(
            ("kvCache", "latency", "utilisation"), NoReading("never-seen")
        )
        readings |= {"concurrency": Reading(running, at - 1.0, 1.0), "queue": Reading(waiting, at - 1.0, 1.0)}
        offered = Work(work, work, work, work, "arrivals", 1.0, "")
        served = min(work, ready) / REQUEST_SECONDS  # requests per second; every fourth model counts no tokens
        tokens = None if each.number % 4 == UNCOUNTED else TokenRate(PROMPT * served, GENERATED * served)
        load = ModelLoad(each.entry.id, readings, offered, 5.0, 100, known_until=at, tokens=tokens)
        return replace(load, outlook=_outlook(work, ready + (len(each.pods) - ready), at))


def _outlook(work: float, current: int, at: float) -> Outlook:
    """As late as a normal spread of a quarter of the level around it makes each count of replicas."""
    seconds, least, most = 150, max(1, current - 4), current + 6
    late = tuple(_expected(work, count) * seconds / REQUEST_SECONDS for count in range(least, most + 1))
    values = tuple(round(each - 1e-6 * place, 6) for place, each in enumerate(late))
    return Outlook(
        at, seconds, current, least, values, late, (0.0,) * len(late), work, work, 1.0, 0.0, work, 1.0, 10, 0, 0.0,
        REQUEST_SECONDS, None, None, usual=work, late_arrivals=late, busiest=work,
    )  # fmt: skip


def _expected(level: float, count: int) -> float:
    """Mean of what is above `count` of a normal variable around `level`, whose deviation is a quarter of it."""
    spread = max(0.05, 0.25 * level)
    z = (count - level) / spread
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    beyond = spread * (density - z * 0.5 * math.erfc(z / math.sqrt(2)))
    return round(beyond, 6) if beyond > LEAST_LATE * level else 0.0
