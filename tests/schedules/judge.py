"""What must hold in every schedule, whatever fails: judged at each write by what its sender was shown, and at rest.

Rules, each a letter: (a) no write takes a model's serving replicas under its floor, and (b) none asks a pool for more
than it has, as the oracle of `tests.machine` judges one service; (d) ten quiet minutes after the last fault one replica
leads and the other one stands by, nothing is written, floors and entitlements are met and nobody is short beside idle
GPUs: who has released has granted, each Override says whether it is in force, and no node is cordoned that nothing is
told of; (f) every cycle plans; (w) one writes: never may two replicas act at one instant, no write leaves a replica
that may not, and none is taken by an object that a later term has written; (t) no two processes intend something under
one identity: what became of the one would be taken for what became of the other; (s) nothing but an Event, or what is
told of an Override, is written later than 2 s after somebody has stopped all writes.
"""

from collections import Counter

from rebalancer.domain.outcome import Intent
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.resources import Call
from rebalancer.world import Deployment, World, WorldNode, WorldPod
from tests.machine.oracle import Oracle
from tests.machine.verdicts import Verdict

STOPPED_SECONDS = 2.0  # README.md, docs/operations.md: so soon after a write stop nothing is written
LATE_SECONDS = 10.0  # docs/operations.md: so long after the next leader began a write on its way is counted both ways


class View(Oracle):
    """The oracle as it sees what one replica was shown; it looks whenever that one does.

    Which replica has heard of a notice is not known here: pods on nodes whose end is announced may be counted or not.
    `others`: the views of the other replicas, which hear what this one's writes end. `behind`: its watches are late.
    `taken_back`: nodes whose notice was, until its deadline. `pinned`: models that a person has pinned.
    `sent_at`: when the write that is judged left its sender; None: just now. `saw_more`: it has looked at what befell
    the cluster before its replica could hear of it.
    """

    def __init__(self, world: World, policy: Policy, levels: dict[str, float]) -> None:
        super().__init__(world, policy, levels)
        self.others: list[View] = []
        self.behind = False
        self.sent_at: float | None = None
        self.taken_back: set[str] = set()
        self.pinned: set[str] = set()
        self.saw_more = False
        self._there: tuple[object, ...] = ()

    def look(self, acts_at: float | None = None) -> None:
        """As it is now."""
        over = {name for name in self.taken_back if self.deadlines.get(name, 0.0) < self._world.now}
        self.taken_back -= over
        self.deadlines = {name: at for name, at in self.deadlines.items() if name not in over}
        super().look(acts_at)
        self._there = self._nodes()

    def _nodes(self) -> tuple[object, ...]:
        world = self._world
        return tuple((node.name, node.gpus, node.listed, node.ready) for node in world.nodes.values())

    def _goes(self, node: WorldNode, now: float) -> bool | None:  # as the oracle asks
        return None if node.name in self.deadlines else False

    def raised(self, owner: Deployment, before: int, after: int) -> None:
        """Not judged where the nodes have changed since its sender was shown them, or its clock or watches are late.

        By a wrong clock a silent node's grace ends sooner or later than it does; by late watches some of what happened
        is known, and not all. A write that its sender has given up arrives after it was shown more.
        """
        given_up = self.sent_at is not None and self.sent_at < self._looked_at
        unlike = self.clock_is_wrong or self.behind or self.saw_more or given_up
        if self._there == self._nodes() and not unlike:
            super().raised(owner, before, after)
        else:
            self.counts["raises not judged"] += 1

    def _serving(self, model: str, gone: list[WorldPod]) -> tuple[int, int]:
        """Of those that go only who really serves and may stay.

        One that crashed while its sender's watch was silent is no loss. A notice is heard through Kafka, also while
        the watch is silent.
        """
        return super()._serving(model, [pod for pod in gone if pod.ready_at is not None and not self._announced(pod)])

    def _left_alone(self, model: Model) -> bool:  # as the oracle asks
        return model.id in self.pinned or super()._left_alone(model)

    def _announced(self, pod: WorldPod) -> bool:
        return pod.node is not None and pod.node.name in self.deadlines

    def shares(self, asked: dict[WorkloadRef, int], ours: dict[WorkloadRef, tuple[int, int]]) -> None:
        """What was asked for is one thing, whoever asked."""
        self.asked, self.ours = asked, ours


class Terms:
    """Who writes in which term. `may_act`: of each replica, by name, whether it may at this moment."""

    def __init__(self, fail: "Fail") -> None:
        self.counts: Counter[str] = Counter()
        self._fail = fail
        self._highest: tuple[int, float] = 0, 0.0  # and when it began
        self._by_object: dict[str, int] = {}
        self._intents: dict[str, str] = {}
        self._by_identity: dict[tuple[str, float], str] = {}

    def began(self, epoch: int, now: float) -> None:
        """A term's first sign of life."""
        if epoch > self._highest[0]:
            self._highest = epoch, now
            self.counts["terms"] += 1

    def intends(self, who: str, intent: Intent) -> None:
        """A process is about to write: whoever starts next knows its intents by their identities."""
        self.counts["intents under a name that another process gave, too"] += (
            self._intents.setdefault(intent.id, who) != who
        )
        if self._by_identity.setdefault(intent.identity, who) != who:
            self._fail("t", f"{who} intends {intent.id} at {intent.at}, as {self._by_identity[intent.identity]} did")

    def sent(self, who: str, call: Call, why_not: str | None) -> None:
        """A write leaves a replica."""
        if why_not is not None:
            self._fail("w", f"{who} sends {call} and may not: {why_not}")

    def stopped(self, who: str, call: Call, seconds: float | None) -> None:
        """A write leaves a replica so long after writes were stopped; None: they are not."""
        if seconds is not None and seconds > STOPPED_SECONDS:
            self._fail("s", f"{who} sends {call} {seconds:.1f} s after all writes were stopped")

    def taken(self, who: str, call: Call, epoch: int, now: float) -> None:
        """The API server has taken a write."""
        self.began(epoch, now)
        # An Event is made, never changed: what one leader tells late takes nothing from what a later one has told.
        last = 0 if call.verb == "create" else self._by_object.get(call.path, 0)
        highest, since = self._highest
        if epoch < last:
            self._fail("w", f"{call} of {who}, term {epoch}, is taken where term {last} wrote")
        elif epoch < highest:
            self.counts["writes of an earlier term, late"] += 1
            if now - since > LATE_SECONDS:
                self._fail(
                    "w", f"{call} of {who}, term {epoch}, is taken {now - since:.1f} s after term {highest} began"
                )
        self._by_object[call.path] = max(last, epoch)


class Fail:
    """Keeps verdicts."""

    def __init__(self, world: World) -> None:
        self.verdicts: list[Verdict] = []
        self._world = world

    def __call__(self, rule: str, text: str) -> None:
        """One more."""
        self.verdicts.append(Verdict(rule, self._world.now, text))
