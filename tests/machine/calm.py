"""Judges a world in which nothing has happened for minutes as if it were at rest, though something is broken for good.

A machine that stays dead, a node that never comes back and a template that hangs are no excuse: whoever is short by
then beside idle GPUs, or beside others who hold more than their own, is wronged. What really keeps the service from
acting (a webhook, silent metrics, a wrong clock) is. So is what it left behind in a policy's model that is none now.
"""

from rebalancer.act.originals import ANNOTATION
from rebalancer.domain.policy import Policy
from rebalancer.world import World, WorldHpa, WorldScaledObject
from tests.machine.oracle import Oracle
from tests.machine.service import INSTALLATION

CALM_SECONDS = 285.0  # 40 s to be NotReady, 60 s of grace, an HPA's two looks, an end, two loads, and some cycles
PINNED_SECONDS = 120.0  # a look every 2 s, after a failure again within 60 s
EVERY_SECONDS = 20.0


class Calm:
    """Knows since when nothing happened, and since when an autoscaler of nobody's model carries numbers of ours."""

    def __init__(self, world: World, oracle: Oracle) -> None:
        self._world = world
        self._oracle = oracle
        self._since = self._judged_at = world.now
        self._nodes: tuple[object, ...] = ()
        self._wrongs: set[str] = set()
        self._pinned: dict[str, float] = {}

    def disturbed(self) -> None:
        """Something happened."""
        self._since = self._world.now

    def judge(self, policy: Policy, *, hindered: bool) -> None:
        """After a cycle; `hindered`: something is under way that keeps the service from acting."""
        now = self._world.now
        nodes = tuple((node.uid, node.gpus, node.allocatable, node.taints) for node in self._world.nodes.values())
        if hindered or nodes != self._nodes or self._oracle.deadlines:
            self._since, self._nodes = now, nodes
        self._judge_pinned(policy, hindered=hindered)
        if now - self._since >= CALM_SECONDS and now - self._judged_at >= EVERY_SECONDS:
            self._judged_at = now
            self._judge_models(policy)

    def _judge_models(self, policy: Policy) -> None:
        """What is wrong at two looks: between a release and its grant GPUs are idle."""
        verdicts = self._oracle.verdicts
        before = len(verdicts)
        self._oracle.judge_models(policy)
        wrong = {one.text for one in verdicts[before:]}
        verdicts[before:] = [one for one in verdicts[before:] if one.text in self._wrongs]
        self._wrongs = wrong

    def _judge_pinned(self, policy: Policy, *, hindered: bool) -> None:
        named = {(model.namespace, one.name) for model in policy.models for one in model.targets}
        autoscalers: list[WorldHpa | WorldScaledObject] = [
            *self._world.hpas.values(),
            *self._world.scaled_objects.values(),
        ]
        left = [one for one in autoscalers if f'"{INSTALLATION}"' in one.annotations.get(ANNOTATION, "")]
        left = [one for one in left if (one.target.namespace, one.target.name) not in named]
        now = self._world.now
        self._pinned = {} if hindered else {one.name: self._pinned.get(one.name, now) for one in left}
        for name, since in self._pinned.items():
            if now - since > PINNED_SECONDS:
                self._oracle.fail("d", f"{name} is no model's any more, and pinned by us for {now - since:.0f} s since")
