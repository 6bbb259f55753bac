"""Judges every write, plan and rest by the world itself, as its API server showed it when the watches last came.

Rules, each a letter: (a) no write takes a model's serving, staying replicas under its floor; (b) no raise puts more on
a pool than it has; (c) a serving replica that its model needs goes only where somebody else serves with its GPUs soon
after; (d) at rest nothing is written, floors and entitlements are met, nobody is short beside idle GPUs; (f) every
cycle plans, and what the service says of itself is true (`said`). Two more are judged by two worlds (`histories`): (e)
a broken thing is its own pool's alone; (r) who was restarted takes no more than who was not.
"""

from collections import Counter
from collections.abc import Iterable

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Deployment, World, WorldHpa, WorldPod, WorldScaledObject
from rebalancer.world.replicas import victims
from tests.machine.debts import Debts
from tests.machine.shown import MARGIN_SECONDS, Shown, held_gpus
from tests.machine.verdicts import Debt, Seen, Verdict
from tests.machine.worlds import STEP_SECONDS

ACTING_SECONDS = 2 * 16.0 + 10.0 + 4 * STEP_SECONDS  # two looks of an HPA, an end, and the cycles between them
ROLLED_SECONDS = 400.0  # a rollout that waited for room ends late; what follows it has its own time


class Oracle(Shown):
    """What is true, and what each write does to it.

    `asked`: what the service asked of each target last, `ours`: as bounds. `lost`: serving replicas on nodes that stay,
    which its writes took, by model.
    """

    def __init__(self, world: World, policy: Policy, levels: dict[str, float]) -> None:
        super().__init__(world, policy, levels)
        self.asked: dict[WorkloadRef, int] = {}
        self.ours: dict[WorkloadRef, tuple[int, int]] = {}
        self.verdicts: list[Verdict] = []
        self.counts: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.handing_back = False
        self.wrote_at = 0.0
        self._ended: set[str] = set()  # pods that the service's writes took since it was shown the API server
        self._debts = Debts()

    def look(self, acts_at: float | None = None) -> None:
        """As it is shown; and what was due and is not paid is judged."""
        super().look(acts_at)
        self._ended.clear()
        self.touched(self._back)
        self._settle(self._looked_at)

    def touched(self, pools: frozenset[str]) -> None:
        """Something was disturbed: who owed GPUs there may have been kept from it."""
        for debt in self._debts.open:
            debt.touched = debt.touched or debt.pool in pools

    # --- what is judged

    def fail(self, rule: str, text: str) -> None:
        """Keep the verdict."""
        self.verdicts.append(Verdict(rule, self._world.now, text))

    def wrote(self) -> None:
        """The service changed something."""
        self.wrote_at = self._world.now
        self.counts["writes"] += 1

    def taken(self, owner: Deployment, pods: list[WorldPod], given_away: list[WorldPod]) -> None:
        """A write ends these pods, or lets an autoscaler end `given_away`."""
        model = self.model(owner.model)
        if model is None:
            return self.fail("a", f"{owner.model} is in no policy and loses {len(pods)} replicas")
        self._judge_floor(model, pods or given_away)
        self._judge_need(owner, model, pods)
        self.lost[model.id] += self._serving(model.id, pods)[1]
        self._ended |= {pod.uid for pod in pods}
        return None

    def ended(self, pods: Iterable[str]) -> None:
        """Earlier writes end these, by UID, and no controller has come to it yet: they serve as long as that takes."""
        self._ended |= {*pods}

    def serving(self) -> Counter[str]:
        """Replicas of each model that serve and may stay, less what the service has taken and what bounds let go."""
        each = {model.id: self._serving(model.id, self._above_bounds(model.id)) for model in self.policy.models}
        return Counter({model: there - going for model, (there, going) in each.items()})

    def needed(self) -> Counter[str]:
        """What each model needed at most in the last two minutes."""
        return Counter({model.id: min(self.peak(model.id), model.max_replicas) for model in self.policy.models})

    def _above_bounds(self, model: str) -> list[WorldPod]:
        """Pods that an autoscaler ends when it follows its bounds: some 15 s after they were written."""
        going = []
        for owner in (one for one in self._world.deployments.values() if one.model == model):
            scaled = [one for one in self._world.scaled_objects.values() if one.target == owner.ref]
            hpas = [one for one in self._world.hpas.values() if one.target == owner.ref]
            most = [one.maximum for one in scaled or hpas if one.maximum is not None and not _paused(one)]
            going += victims(owner.active, max(0, len(owner.active) - min(most, default=len(owner.active))))
        return going

    def _serving(self, model: str, gone: list[WorldPod]) -> tuple[int, int]:
        """Replicas that serve and may stay before these go, and how many of these are such for certain.

        As they were shown, less what the service itself took since: a rollout that ends an old pod for a new one
        between the two is neither a loss nor a gain of ours.
        """
        going = {pod.uid for pod in gone}
        there = [
            uid
            for uid, one in self._seen.items()
            if one.model == model and one.serves and one.active and one.goes is not True and uid not in self._ended
        ]
        taken = sum(uid in going and self._seen[uid].goes is False for uid in there)
        return len(there), taken

    def _judge_floor(self, model: Model, gone: list[WorldPod]) -> None:
        before, taken = self._serving(model.id, gone)
        if taken and before - taken + self._came(model, gone) < model.min_replicas:
            self.fail("a", f"{model.id} serves with {before} and loses {taken}; its floor is {model.min_replicas}")

    def _came(self, model: Model, gone: list[WorldPod]) -> int:
        """Replicas that serve when these go, and were shown while they loaded, on nodes that stay."""
        going = {pod.uid for pod in gone}
        there = (self._seen.get(pod.uid) for pod in self._pods(model.id) if pod.serves and pod.uid not in going)
        return sum(seen is not None and seen.loads and seen.goes is not True for seen in there)

    def _comes(self, pod: WorldPod) -> bool:
        """Whether a pod was shown while it loaded, or has got its node since."""
        seen = self._seen.get(pod.uid)
        came = pod.node is not None and pod.node.listed and pod.node.ready and pod.deleted_at is None and not pod.failed
        return seen.loads if seen is not None and seen.placed else came

    def _judge_need(self, owner: Deployment, model: Model, gone: list[WorldPod]) -> None:
        before, taken = self._serving(model.id, gone)
        need = min(self.need(model.id), model.max_replicas)
        lost = min(need, before) - (before - taken + self._came(model, gone))
        pool = owner.node_selector["pool"]
        left = before - taken + sum(map(self._comes, self._pods(model.id)))
        if taken and min(need, before, model.entitlement) > left and self._fits(pool):
            what = f"{model.id} owns {model.entitlement}, needs {need} and served with {before}"
            self._judge_robbed(model, pool, what)
        if not taken or lost <= 0 or self._above_limit(pool):
            return
        self.counts["needed replicas taken"] += lost
        starts = (one.load_seconds for one in self._world.deployments.values() if one.node_selector["pool"] == pool)
        due = self._world.now + ACTING_SECONDS + max(starts) + MARGIN_SECONDS
        text = f"{model.id} needs {need}, served with {before} and lost {taken}; nobody served with its GPUs by the due"
        gpus, hangs = lost * owner.gpus, self._hangs(model)
        self._debts.open.append(Debt(model.id, pool, gpus, owner.gpus, self._looked_at, due, text, touched=hangs))

    def _hangs(self, model: Model) -> bool:
        """Whether a pod of it never ends to load, and has not loaded for so long that anybody could know it."""
        stuck = (pod for pod in self._pods(model.id) if pod.stuck and self._seen[pod.uid].loads)
        return any(self._world.now - pod.created_at < 2 * pod.owner.load_seconds for pod in stuck)

    def _judge_robbed(self, model: Model, pool: str, what: str) -> None:
        """An owner gives what it needs of its own to nobody but who is under a floor, or was when the plan was made."""
        if pool in self._back:
            return
        for other in self.policy.models:
            targets = [one for one in self._world.deployments.values() if one.model == other.id]
            beside = other.id != model.id and any(one.node_selector["pool"] == pool for one in targets)
            if beside and self._serving(other.id, [])[0] < other.min_replicas:
                return
        self.fail("c", f"{what}, and is robbed of it: what is on {pool} fits there, and nobody is under a floor")

    def _fits(self, pool: str) -> bool:
        """Whether all that holds GPUs of the pool has room on what there is, within what people allow."""
        nodes = self._counted(pool)
        held = sum(self._held.get(node.name, 0) for node in nodes)
        room = held <= sum(node.gpus for node in nodes) and not self._above_limit(pool)
        return room and not any(map(self._may_go, nodes))

    def _settle(self, now: float) -> None:
        """What is due and not paid by who serves since is broken, unless something came between."""
        self._debts.seen(self._world.pods.values())
        open_debts = []
        for debt in self._debts.open:
            if self._debts.paid(debt):
                self.counts["paid"] += 1
            elif now < debt.due:
                open_debts.append(debt)
            elif debt.touched:
                self.counts["excused"] += 1
            else:
                self.fail("c", debt.text)
        self._debts.open = open_debts

    def raised(self, owner: Deployment, before: int, after: int) -> None:
        """A write asks a target for more than it runs."""
        if after <= self._replicas.get(owner.ref, 0):
            return None  # no more than it had when the watches came
        pool = owner.node_selector["pool"]
        of = next((one for one in self.policy.pools if one.node_labels["pool"] == pool), None)
        if of is None:
            return self.fail("b", f"{owner.ref.name} is raised on a pool that the policy does not have")
        asked, has = self._balance(pool, early=False)
        if asked > min(of.gpu_limit, has) if not of.node_pools else asked > of.gpu_limit:
            early_asked, early_has = self._balance(pool, early=True)
            if early_asked > early_has or of.node_pools:
                self.fail("b", f"{owner.ref.name} {before} -> {after}: {asked} GPUs of {pool} asked for, it has {has}")
        return None

    def _balance(self, pool: str, *, early: bool) -> tuple[int, int]:
        """GPUs asked for and GPUs there are. `early`: nodes whose end is announced are left out on both sides.

        Both as of the last look: a node or a pod that comes to its end between look and write counts on both sides.
        """
        has = sum(
            max(node.gpus, self._held.get(node.name, 0))
            for node in self._counted(pool)
            if not (early and node.name in self.deadlines)
        )
        owners = (one for one in self._world.deployments.values() if one.node_selector["pool"] == pool)
        return sum(self._asks(one, early=early) for one in owners), has

    def _asks(self, owner: Deployment, *, early: bool) -> int:
        """GPUs that a target holds, and of our own wishes those that it will.

        What was asked for a target that has left the policy is nobody's wish any more: it counts as others' pods do,
        where they are bound. On which pool's nodes a stranger's pending pod will land, nobody promises to know.
        """
        pods = self._pods_of.get(owner.ref, [])
        inside = [one for one in pods if one.counted and not (early and one.goes is None)]
        outside = sum(one.active for one in pods) - sum(one.active for one in inside)
        held = sum(one.gpus for one in inside)
        placed = sum(one.gpus for one in inside if one.placed)
        ours = self.asked.get(owner.ref)
        if ours is None or not self._named(owner) or self._by_others(owner) or self._switched_off(owner):
            return placed
        return max(held - self._stranded(owner, inside, ours - outside) * owner.gpus, (ours - outside) * owner.gpus)

    def _stranded(self, owner: Deployment, inside: list[Seen], ours: int) -> int:
        """Pods beyond what was asked for that a rollout made and that fit on no node: what is free is none for them."""
        nodes = self._counted(owner.node_selector["pool"])
        most_free = max((node.allocatable - self._held.get(node.name, 0) for node in nodes), default=0)
        if not owner.rolling or owner.gpus <= most_free:
            return 0
        waiting = sum(one.active and not one.placed for one in inside)
        return min(waiting, max(0, len(inside) - ours))

    def _named(self, owner: Deployment) -> bool:
        """Whether the policy in force has it."""
        model = self.model(owner.model)
        return model is not None and any(one.name == owner.ref.name for one in model.targets)

    def _by_others(self, owner: Deployment) -> bool:
        """Whether somebody else wrote its number last, or that of its autoscaler."""
        autoscalers: list[WorldHpa | WorldScaledObject] = [
            *self._world.hpas.values(),
            *self._world.scaled_objects.values(),
        ]
        return bool(owner.writer) or any(any(one.writers) for one in autoscalers if one.target == owner.ref)

    # --- at rest

    @property
    def quiet_seconds(self) -> float:
        """Since the service's last write."""
        return self._world.now - self.wrote_at

    def judge_rest(self, least_quiet_seconds: float) -> None:
        """Ten minutes after the last disturbance."""
        rolled_lately = self._world.now - self.rolled_at < ROLLED_SECONDS
        if self.quiet_seconds < least_quiet_seconds and not rolled_lately:
            self.fail("d", f"not at rest: a write {self.quiet_seconds:.0f} s ago")
        self.judge_models(self.policy)

    def judge_models(self, policy: Policy) -> None:
        """Floors and wanted entitlements are met, nobody is short beside idle GPUs."""
        for model in policy.models:
            self._judge_model_at_rest(model)

    def _judge_model_at_rest(self, model: Model) -> None:
        owners = [one for one in self._world.deployments.values() if one.model == model.id]
        if any(map(self._switched_off, owners)) or self._left_alone(model) or not owners:
            return
        serving = sum(pod.serves for pod in self._pods(model.id))
        own = max(model.min_replicas, min(self.need(model.id), model.entitlement))
        if serving < own <= serving + self._hanging(model):
            return
        if serving < own:
            self._judge_owner(model, owners, serving, own)
        # With fewer than it needs requests pile up all the same and come late: what is idle is of no use to them.
        elif 0 < min(self.need(model.id), model.max_replicas) - serving <= sum(map(self._room, owners)):
            self.fail("d", f"{model.id} serves with {serving}, needs {self.need(model.id)}, beside idle GPUs")

    def _hanging(self, model: Model) -> int:
        """Pods of a template that hangs, on nodes: more of them would hang as well."""
        return sum(pod.owner.broken and pod.stuck and pod.node is not None for pod in self._pods(model.id))

    def _judge_owner(self, model: Model, owners: list[Deployment], serving: int, own: int) -> None:
        what = "floor" if serving < model.min_replicas else "entitlement"
        why = f"{model.id} serves with {serving}, {what} and need are {own}"
        if any(self._room(one) for one in owners):
            self.fail("d", f"{why}, beside idle GPUs")
            return
        pool = owners[0].node_selector["pool"]
        for other in self.policy.models:
            held = [pod for pod in self._pods(other.id) if pod.owner.node_selector["pool"] == pool and pod.serves]
            least = other.min_replicas if serving < model.min_replicas else max(other.entitlement, other.min_replicas)
            # Where devices have gone under pods, what these free is nobody's until no more is held than is there.
            nodes = {pod.node.name: pod.node for pod in held if pod.node is not None}.values()
            lacking = sum(max(0, held_gpus(node) - node.gpus) for node in nodes) + self._surging(pool)
            if (
                other.id != model.id
                and not self._left_alone(other)
                and (len(held) - least) * other.gpus_per_replica >= model.gpus_per_replica + lacking
            ):
                self.fail("d", f"{why}, {other.id} serves with {len(held)}, its own are {least}")
                return

    def _surging(self, pool: str) -> int:
        """GPUs of a pool that rollouts' pods wait for, which take what others free."""
        waiting = (pod for pod in self._world.pods.values() if pod.node is None and pod.owner.rolling)
        return sum(pod.gpus for pod in waiting if pod.owner.node_selector["pool"] == pool)

    def _left_alone(self, model: Model) -> bool:
        """Whether it is neither donor nor recipient: a rollout, or pods of other GPUs than the policy says."""
        owners = (one for one in self._world.deployments.values() if one.model == model.id)
        return any(one.rolling or one.gpus != model.gpus_per_replica for one in owners)

    def _switched_off(self, owner: Deployment) -> bool:
        """Whether its autoscaler's bounds reach nobody: paused, or a target of 0 replicas."""
        paused = any(_paused(one) and one.target == owner.ref for one in self._world.scaled_objects.values())
        return paused or (owner.replicas == 0 and any(hpa.target == owner.ref for hpa in self._world.hpas.values()))

    def _room(self, owner: Deployment) -> int:
        """How many more of its pods would fit on nodes now, within what people allow; 0 where some wait already."""
        pool = owner.node_selector["pool"]
        if any(pod.node is None for pod in self._world.pods.values()):
            return 0
        nodes = (node for node in self._world.nodes.values() if node.labels["pool"] == pool)
        free = (node.free for node in nodes if node.ready and node.name not in self.deadlines)
        fit = sum(max(0, gpus) // owner.gpus for gpus in free)
        return next((most for most in range(fit, 0, -1) if not self._above_limit(pool, most * owner.gpus)), 0)


def _paused(one: WorldHpa | WorldScaledObject) -> bool:
    return isinstance(one, WorldScaledObject) and one.paused
