"""What the service says of itself, held against what is true: the inputs of `/readyz`, and of its alerts.

Judged after each cycle by what the API server had shown before it. `synced` and `sources` are what `/readyz` and
RebalancerNotSynced rest on; replicas Ready, RebalancerFloorAtRisk; a pool whose budget is unknown,
RebalancerBudgetUnknown; refusals by the guard `foreign`, RebalancerForeignWriter; outcomes, the dashboards' failed
writes. That a cycle raises (`/livez`, RebalancerCyclesFailing) is a verdict by itself.
"""

from collections import Counter

from rebalancer.act.originals import ANNOTATION
from rebalancer.domain.outcome import FAILED, WRITTEN, Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.sync import Sync
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Deployment, World, WorldHpa, WorldScaledObject
from tests.machine.oracle import Oracle
from tests.machine.service import INSTALLATION
from tests.machine.verdicts import Seen
from tests.machine.worlds import STEP_SECONDS

FOREIGN_SLACK_SECONDS = 4 * STEP_SECONDS

Numbers = tuple[tuple[int | None, ...], ...]


class Said:
    """Remembers what others wrote, and when. Every falsehood is a verdict of rule (f).

    `answers`: how the API server answered since the last cycle, `stored` or `error`.
    """

    def __init__(self, world: World, oracle: Oracle, answers: Counter[str]) -> None:
        self._answers = answers
        self._world = world
        self._oracle = oracle
        self._by_others: dict[WorkloadRef, Numbers] = {}
        self._fought_at: dict[WorkloadRef, float] = {}
        self._showing: dict[str, bool] = {}
        self._none: dict[str, bool] = {}
        self._templates: dict[str, int] = {}
        self._wanted: dict[WorkloadRef, int] = {}
        self._elsewhere: set[str] = set()

    def look(self) -> None:
        """Who wrote which numbers since the last look; of which pools every node is Ready and shows GPUs, or none.

        And which releases are under way before the next cycle writes: its plan cannot know what its writes change.
        """
        self._showing, self._none, self._wanted = {}, {}, {}
        for node in self._world.nodes.values():
            pool = node.labels["pool"]
            self._showing[pool] = self._showing.get(pool, True) and node.ready and node.allocatable > 0
            self._none[pool] = self._none.get(pool, True) and node.allocatable == 0
        self._templates = {ref.name: one.gpus for ref, one in self._world.deployments.items() if not one.rolling}
        scaled: list[WorldHpa | WorldScaledObject] = [*self._world.hpas.values(), *self._world.scaled_objects.values()]
        held = (one for one in scaled if ANNOTATION in one.annotations)
        self._elsewhere = {one.target.name for one in held if f'"{INSTALLATION}"' not in one.annotations[ANNOTATION]}
        for ref, owner in self._world.deployments.items():
            now = self._numbers_of(owner)
            if now != self._by_others.get(ref, now) and now:
                self._fought_at[ref] = self._world.now
            self._by_others[ref] = now
            most = (one.maximum for one in scaled if one.target == ref and one.maximum is not None)
            self._wanted[ref] = min(owner.replicas, self._oracle.asked.get(ref, owner.replicas), *most)

    def restarted(self, kept_at: float, younger_seconds: float) -> None:
        """The service begins from a checkpoint of then: what others did seems by so much younger to it than it is.

        Between two processes only UTC says how much time went by. Where it was set back meanwhile nobody can know that
        from outside, so a stand-down may then be told for as much longer. And what was done since the checkpoint is as
        young as the start, which sees it first.
        """
        for ref, at in self._fought_at.items():
            self._fought_at[ref] = self._world.now if at >= kept_at else at + younger_seconds

    def _numbers_of(self, owner: Deployment) -> Numbers:
        """The numbers of its objects that are somebody else's."""
        found: list[tuple[int | None, ...]] = [(owner.replicas,)] if owner.writer else []
        autoscalers: list[WorldHpa | WorldScaledObject] = [
            *self._world.hpas.values(),
            *self._world.scaled_objects.values(),
        ]
        found += [(one.minimum, one.maximum) for one in autoscalers if one.target == owner.ref and any(one.writers)]
        return tuple(found)

    def judge(self, plan: Plan, policy: Policy, sync: Sync, failing: set[str]) -> None:
        """`failing`: sources that really cannot be watched."""
        unready = {*sync.missing, *sync.stale}
        if unready != failing:
            self._oracle.fail("f", f"/readyz names {sorted(unready)}, what cannot be watched is {sorted(failing)}")
        if not failing:
            self._judge_ready(plan, policy)
            self._judge_budgets(plan, policy)
        self._judge_foreign(plan, policy)
        self._judge_templates(plan, policy)

    def _judge_ready(self, plan: Plan, policy: Policy) -> None:
        names = {model.id: {one.name for one in model.targets} for model in policy.models}
        for said in plan.models:
            by_target = [(ref, pods) for ref, pods in self._oracle.shown() if ref.name in names.get(said.model, ())]
            least, most = (
                (sum(each) for each in zip(*map(self._ready, by_target), strict=True)) if by_target else (0, 0)
            )
            if not least <= said.ready <= most:
                there = f"{least}" if least == most else f"{least} to {most}"
                self._oracle.fail("f", f"{said.model} is said to have {said.ready} replicas Ready, {there} serve")

    def _ready(self, shown: tuple[WorkloadRef, list[Seen]]) -> tuple[int, int]:
        """How many Ready replicas that stay a target may be said to have.

        A release under way takes some of them: at the worst it leaves those that are lost, which a ReplicaSet takes for
        Ready, and ends those that serve.
        """
        ref, pods = shown
        least = sum(one.serves and one.active and one.goes is False for one in pods)
        others = sum(one.active for one in pods) - least
        worst = max(0, min(least, self._wanted.get(ref, 0) - others))
        return worst, sum(one.serves and one.active and not one.overdue for one in pods)

    def _judge_budgets(self, plan: Plan, policy: Policy) -> None:
        labels = {pool.name: pool.node_labels["pool"] for pool in policy.pools}
        targets = [(one.name, one.pool) for model in policy.models for one in model.targets]
        placed = {ref.name for ref, pods in self._oracle.shown() if any(one.placed and one.active for one in pods)}
        running = {pool for name, pool in targets if name in placed}
        for said in plan.pools:
            if said.budget is None and self._showing.get(labels.get(said.pool, "")):
                self._oracle.fail("f", f"the budget of {said.pool} is said to be unknown, its nodes show their GPUs")
            if said.budget is not None and self._none.get(labels.get(said.pool, "")) and said.pool in running:
                what = f"the budget of {said.pool} is said to be {said.budget}"
                self._oracle.fail("f", f"{what}: pods run there, and no node shows any GPU")

    def _judge_foreign(self, plan: Plan, policy: Policy) -> None:
        names = {model.id: {one.name for one in model.targets} for model in policy.models}
        window = policy.guards.foreign.window_seconds + FOREIGN_SLACK_SECONDS
        told = {refusal.subject for refusal in plan.refusals if refusal.guard == "foreign"}
        for model, targets in names.items():
            if targets & self._elsewhere and model not in told:
                self._oracle.fail("f", f"nothing is said of {model}: another installation holds it")
        for refusal in plan.refusals:
            if refusal.guard != "foreign" or names.get(refusal.subject, set()) & self._elsewhere:
                continue
            fought = [at for ref, at in self._fought_at.items() if ref.name in names.get(refusal.subject, ())]
            ago = self._world.now - max(fought, default=0.0)
            if ago > window:
                when = "nobody ever wrote there" if not fought else f"the last one wrote {ago:.0f} s ago"
                self._oracle.fail("f", f"{refusal.why}, is said of {refusal.subject}: {when}")

    def _judge_templates(self, plan: Plan, policy: Policy) -> None:
        """A target that is no rollout's any more and whose pods hold other numbers of GPUs than the policy says."""
        refused = {refusal.subject for refusal in plan.refusals if refusal.guard == "gpus"}
        for model in policy.models:
            shown = [self._templates.get(one.name) for one in model.targets]
            other = [gpus for gpus in shown if gpus not in {None, model.gpus_per_replica}]
            if other and model.id not in refused:
                what = f"its template asks for {other[0]} GPUs, the policy says {model.gpus_per_replica}"
                self._oracle.fail("f", f"nothing is said of {model.id}: {what}")

    def judge_outcomes(self, outcomes: list[Outcome]) -> None:
        """What became of a cycle's writes, as it is told."""
        said = Counter(one.status for one in outcomes)
        if said[WRITTEN] > self._answers["stored"]:
            self._oracle.fail("f", f"{said[WRITTEN]} writes are said to be written, {self._answers['stored']} are")
        if said[FAILED] > self._answers["error"]:
            self._oracle.fail("f", f"{said[FAILED]} writes are said to have failed, {self._answers['error']} have")
        self._oracle.counts["failed writes"] += said[FAILED]
        self._answers.clear()
