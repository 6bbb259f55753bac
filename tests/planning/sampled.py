"""A small cluster whose models send real samples into the real `state`: outlooks are made as in the service.

One node of GPUs, Deployments without autoscalers, pods that go at once and come Ready when told. Every plan is judged
by the oracle before it is carried out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from rebalancer.domain.cluster import Pod
from rebalancer.domain.codec import to_bytes
from rebalancer.domain.events import MetricSample
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Change, Plan
from rebalancer.domain.policy import Policy
from rebalancer.planning import Memo
from rebalancer.planning import plan as decide
from rebalancer.state import ClusterState
from tests.builders import NOW
from tests.planning import oracle
from tests.planning.story import Story
from tests.state.objects import a_cluster_node, a_ready_pod, a_sample, a_state, a_workload, changed, gone

SAMPLE_SECONDS = 5
IN_FLIGHT = 4.0  # requests that one replica carries, as the builders say


@dataclass
class Sampled:
    """`offered`: replicas' worth of requests in flight by model; None: its metrics are silent."""

    policy: Policy
    replicas: dict[str, int]
    gpus: int = 8
    now: float = NOW
    offered: dict[str, float | None] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    kept: Memo = field(default_factory=Memo)
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._named = 0
        self._pods: dict[str, list[Pod]] = {
            name: [self._pod(name) for _ in range(n)] for name, n in self.replicas.items()
        }
        workloads = [a_workload(name, n) for name, n in self.replicas.items()]
        pods = [pod for own in self._pods.values() for pod in own]
        self.state: ClusterState = a_state(self.policy, a_cluster_node(gpus=self.gpus), *workloads, *pods)

    def _pod(self, model: str, **overrides: object) -> Pod:
        self._named += 1
        return replace(a_ready_pod(f"{model}-{self._named:04}", model), **overrides)

    # --- what happens

    def goes_on(self, seconds: int) -> None:
        """Every pod says every 5 s what it does: its share of what is offered, as far as it can; the rest waits."""
        until = self.now + seconds
        while self.now < until:
            self.now += SAMPLE_SECONDS
            self.state.apply_all([sample for name in self.replicas for sample in self._samples(name)], self.now)

    def _samples(self, model: str) -> list[MetricSample]:
        offered, ready = self.offered.get(model), [pod for pod in self._pods[model] if pod.ready]
        if offered is None:
            return []
        each = offered * IN_FLIGHT / max(1, len(ready))
        running = min(IN_FLIGHT, each)
        return [a_sample(model, pod.name, self.now, running, gauges={"waiting": each - running}) for pod in ready]

    def become_ready(self) -> None:
        """What was asked for is there."""
        for name, pods in self._pods.items():
            self._pods[name] = [self._readied(pod) for pod in pods]

    def _readied(self, pod: Pod) -> Pod:
        if pod.ready:
            return pod
        ready = replace(pod, phase="Running", ready=True, ready_at=self.now, node="n1")
        self.state.apply(changed(ready, self.now), self.now)
        return ready

    # --- what we do

    def turn(self) -> Plan:
        """Decide, twice the same; judge; write; Deployments follow at once."""
        self.state.apply(changed(a_cluster_node(gpus=self.gpus), self.now), self.now)  # somebody is still watching
        snapshot = self.state.snapshot(self.now, len(self.plans) + 1)
        decision = decide(snapshot, self.policy, self.memory, self.kept)
        assert to_bytes(decision) == to_bytes(decide(snapshot, self.policy, self.memory))
        story = Story(self.policy, snapshot, decision.memory)
        oracle.judge_plan(snapshot, self.policy, decision.plan)
        oracle.carry_out(story, decision.plan)
        assert not decide(replace(story.snapshot, cycle=snapshot.cycle + 1), self.policy, decision.memory).plan.changes
        for change in decision.plan.changes:
            self._write(change)
        for outcome in story.snapshot.outcomes:
            if outcome not in snapshot.outcomes:
                self.state.note(Outcome(outcome.intent, self.now, outcome.status), self.now)
        self.memory = decision.memory
        self.plans.append(decision.plan)
        return decision.plan

    def _write(self, change: Change) -> None:
        model, pods = change.model, self._pods[change.model]
        self.replicas[model] = change.replicas_to
        self.state.apply(changed(a_workload(model, change.replicas_to), self.now), self.now)
        goes = [pod for pod in pods if pod.uid in change.victims]
        for pod in goes:
            self.state.apply(gone(pod, self.now), self.now)
        comes = [
            self._pod(model, phase="Pending", ready=False, ready_at=None, created_at=self.now, node="n1")
            for _ in range(change.replicas_to - change.replicas_from)
        ]
        for pod in comes:
            self.state.apply(changed(pod, self.now), self.now)
        self._pods[model] = [*(pod for pod in pods if pod not in goes), *comes]

    # --- what is asked of it

    def lives(
        self, minutes: float, offered: Mapping[str, float | None], every_seconds: int = 10
    ) -> list[dict[str, int]]:
        """Constant load; replicas by model after each plan. What is asked for is Ready by the next."""
        self.offered.update(offered)
        course = []
        for _ in range(round(60 * minutes / every_seconds)):
            self.goes_on(every_seconds)
            self.become_ready()
            self.turn()
            course.append(dict(self.replicas))
        return course
