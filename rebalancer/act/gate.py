"""The gate: the last look before each write. It carries out what a plan asks for, or says which check declined it."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Literal

import structlog

from rebalancer.act import succession
from rebalancer.act.bounds import BoundsDriver
from rebalancer.act.checks import Ground, check, check_limit, check_node_pool, decreases, rests_on_marks
from rebalancer.act.deletion_cost import DeletionCost
from rebalancer.act.drain import DrainDriver, EvictionRests, check_drain
from rebalancer.act.driver import C_contra, Driver, Refused, together
from rebalancer.act.events import Events
from rebalancer.act.hpa import HPA
from rebalancer.act.intents import AnyChange, intent_of, waves
from rebalancer.act.led import Led, NotLeading
from rebalancer.act.metric import MetricDriver
from rebalancer.act.node_pool import NodePoolDriver
from rebalancer.act.once import write_once
from rebalancer.act.override_status import OverrideStatus
from rebalancer.act.permission import Permission, sees_the_cluster
from rebalancer.act.port import Port
from rebalancer.act.recorder import WriteRecorder
from rebalancer.act.rests import Rests
from rebalancer.act.scale import ScaleDriver
from rebalancer.act.scaled_object import SCALED_OBJECT
from rebalancer.act.shadow import Shadow
from rebalancer.act.unseen_pods import UnseenPods, all_seen
from rebalancer.act.unseen_writes import UnseenWrites, asking
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import FAILED, REFUSED, WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from rebalancer.kube.resources import Object
from rebalancer.leader.right import Right
from rebalancer.obs.clock import Clock

AT_ONCE = 8  # objects under way at a time
LOOKS = 3  # a status update moves the revision too: just after pods became Ready, one write in six meets one
UNACKNOWLEDGED = ("drain", "override")  # decreases that may go ahead on the local journal alone
ACKNOWLEDGED_SECONDS = 5.0  # how long another decrease waits for Kafka, which is as long as the outbox tries
PATIENCE_SECONDS = 1.0  # how long those two wait before they go ahead: a notice is to reach its first call within two

log = structlog.get_logger()


class Gate:
    """Writes plans, one at a time. `events.run()` posts what happened and wants a task of its own.

    `facts` is the state as it is at an instant, `right` whether we may write, `on_written` hears of each
    acknowledged write: the change, the replicas now asked for, the instant. `instance` is the pod that reports Events,
    `installation` the name we put on what we write to.
    """

    def __init__(  # noqa: PLR0913  # the hands it works with, each one thing
        self,
        kube: Port,
        facts: Callable[[float], Snapshot],
        clock: Clock,
        recorder: WriteRecorder,
        right: Right,
        write_mode: Literal["shadow", "act"],
        on_written: Callable[[Change, int, float], None],
        *,
        instance: str = "rebalancer",
        installation: str = "",
    ) -> None:
        kube = Led(kube, right)
        self.events = Events(kube, clock, instance)
        self._facts = facts
        self._clock = clock
        self._recorder = recorder
        self._right = right
        self._shadow = Shadow(clock, recorder) if write_mode == "shadow" else None
        self._on_written = on_written
        self._permission = Permission(kube, clock, right)
        self._unseen = UnseenWrites()
        self._pods = UnseenPods(kube, clock)
        self._rests = Rests(clock)
        self._scale = ScaleDriver(kube, clock)
        self._metric = MetricDriver(kube)
        self._bounds = {
            "ScaledObject": BoundsDriver(kube, clock, SCALED_OBJECT, installation),
            "HorizontalPodAutoscaler": BoundsDriver(kube, clock, HPA, installation),
        }
        self._node_pools = NodePoolDriver(kube, installation)
        self._drain = DrainDriver(kube, installation)
        self._evictions = EvictionRests(clock)
        self._deletion_cost = DeletionCost(kube)
        self._overrides = OverrideStatus(kube)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._intended: set[Intent] = set()  # of the plan under way: recorded, and acknowledged where that is needed
        self._unheard = False  # in the plan under way Kafka did not acknowledge an intent within ACKNOWLEDGED_SECONDS
        self._impatient = False  # the same within PATIENCE_SECONDS: nobody urgent waits any more

    async def apply(self, plan: Plan, policy: Policy, memory: Memory) -> tuple[Outcome, ...]:
        """Write `plan`; one outcome per change. Nothing is raised but cancellation: one change never costs another."""
        if plan.empty and not plan.overrides:
            return ()
        ground = Ground(policy, memory.node_grants)
        self._unheard = self._impatient = False
        self._intended.clear()
        if self._shadow is not None:
            return await self._shadow.apply(plan, policy, memory)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_overrides(plan))
            written = group.create_task(self._write(plan, ground))
        return tuple(written.result())

    def inherit(self, outcomes: tuple[Outcome, ...]) -> None:
        """Another replica led until now: what it left unknown counts both ways until the watches show it."""
        succession.inherit(self._unseen, outcomes, lambda: self._facts(self._clock.now()))

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds."""
        self._unseen.stepped(seconds)

    async def _tell_overrides(self, plan: Plan) -> None:
        """Our own objects' status goes on under a write stop, but it is the leader's to tell."""
        if not plan.overrides or self._right.why_not() is not None:
            return
        now = self._clock.now()
        try:
            await self._overrides.tell(plan.overrides, self._facts(now).overrides, now)
        except Exception:  # a status that cannot be told stops no write
            log.exception("the overrides' status could not be told")

    async def _write(self, plan: Plan, ground: Ground) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for wave in waves(plan):
            chains = await asyncio.gather(*(self._chain(chain, plan.cycle, ground) for chain in wave))
            outcomes.extend(outcome for chain in chains for outcome in chain)
        return outcomes

    async def _chain(self, chain: list[AnyChange], cycle: int, ground: Ground) -> list[Outcome]:
        return [await self._one(change, cycle, ground) for change in chain]

    async def _one(self, change: AnyChange, cycle: int, ground: Ground) -> Outcome:
        async with self._slots:
            intent = intent_of(change, cycle, self._clock.now())
            try:
                status, detail = await self._until_no_conflict(change, intent, ground)
            except Refused as refused:
                status, detail = REFUSED, str(refused)
            except NotLeading as error:
                status, detail = REFUSED, f"leadership: {error}"
            except Conflict as error:
                status, detail = REFUSED, f"conflict: somebody else wrote it meanwhile; {error}"
            except NotFound as error:
                status, detail = REFUSED, f"gone: {error}"
            except KubeError as error:
                status, detail = FAILED, str(error)
            except Exception as error:
                log.exception("a change could not be carried out", change=change.id)
                status, detail = FAILED, f"{type(error).__name__}: {error}"
            outcome = Outcome(intent, self._clock.now(), status, detail)
            await self._record(outcome)
        self.events.tell(change, outcome)
        return outcome

    async def _until_no_conflict(self, change: AnyChange, intent: Intent, ground: Ground) -> tuple[str, str]:
        """Look, check and write anew after a conflict, which says that nothing was written. Raises the last one."""
        for _ in range(LOOKS - 1):
            with suppress(Conflict):
                return await self._through(change, intent, ground)
        return await self._through(change, intent, ground)

    async def _through(self, change: AnyChange, intent: Intent, ground: Ground) -> tuple[str, str]:
        if isinstance(change, NodePoolChange):
            return await self._through_node_pool(change, intent, ground)
        if isinstance(change, DrainChange):
            return await self._through_drain(change, intent, ground)
        return await self._through_target(change, intent, ground)

    async def _through_node_pool(self, change: NodePoolChange, intent: Intent, ground: Ground) -> tuple[str, str]:
        check_limit(change, ground)
        self._rests.ask(change)
        seen = await self._look(self._node_pools, change)
        check_node_pool(change, self._fresh([change.pool]))
        await self._intend(intent)
        await self._permission.ask()
        try:
            status, detail, _ = await write_once(self._node_pools, change, seen)
        except (Forbidden, Invalid) as error:
            self._rests.denied(change, str(error))
            raise
        if status == WRITTEN:
            self._rests.taken(change)
        return status, detail

    async def _through_drain(self, change: DrainChange, intent: Intent, ground: Ground) -> tuple[str, str]:
        """A drain waits for no acknowledgement: it takes no number from anybody, and its node does not wait."""
        self._rests.ask(change)
        self._evictions.ask(change)
        seen = await self._look(self._drain, change)
        facts = self._fresh([change.pool])
        check_drain(change, facts, ground.pools)
        await self._intend(intent)
        trouble = ""
        if change.pod and facts.marks_victims:
            trouble = await self._deletion_cost.mark_pod(change.namespace, change.pod, change.uid)
        await self._permission.ask()
        try:
            status, detail, _ = await write_once(self._drain, change, seen)
        except NotFound:
            return WRITTEN, "it was gone already"
        except KubeError as error:
            by_budgets = self._evictions.declined(change, error)
            if isinstance(error, Forbidden | Invalid) and not by_budgets and change.kind != "delete":
                self._rests.denied(change, str(error))  # a deletion has seconds, not a minute
            raise
        if status == WRITTEN:
            self._rests.taken(change)
        return status, "; ".join(filter(None, (detail, trouble)))

    async def _through_target(self, change: Change, intent: Intent, ground: Ground) -> tuple[str, str]:
        driver = self._driver(change, ground)
        self._rests.ask(change)
        seen, pods = await together(self._look(driver, change), self._pods.known(change))
        # No await between the facts and the booking: changes that are checked side by side must see each other.
        facts = self._fresh([change.target.pool, *(spec.pool for spec in ground.models[change.model].targets)])
        ground.open(change, facts.at)
        try:
            check(change, facts, ground, self._unseen)
            all_seen(change, facts, pods)
            by_marks = rests_on_marks(change, facts, ground, self._unseen)
            with self._unseen.booked(change, self._clock) as booking:
                await self._intend(intent, change)
                trouble = await self._mark_victims(change, facts, needed=by_marks)
                await self._permission.ask()
                status, detail, stored = await write_once(driver, change, seen)
        except (Refused, KubeError) as error:
            if isinstance(error, Forbidden | Invalid):
                self._rests.denied(change, str(error))
            ground.close(change)
            raise
        if status == WRITTEN:
            ask = asking(change)
            stored = ask if stored is None else stored
            self._rests.stored(change, ask, stored)
            if stored != ask:
                detail = f"stored as {stored}, not {ask}: an admission webhook changed it"
            now = self._clock.now()
            booking.written(stored, now)
            self._tell_written(change, stored.replicas, now)
        return status, "; ".join(filter(None, (detail, trouble)))

    def _tell_written(self, change: Change, replicas: int, at: float) -> None:
        try:
            self._on_written(change, replicas, at)
        except Exception:  # whoever listens must not make a write that happened look failed
            log.exception("a write could not be told", change=change.id)  # it happened all the same

    def _driver(self, change: Change, ground: Ground) -> Driver[Change]:
        """The driver for this target: its autoscaler's bounds, or what we answer it; without one its scale."""
        model, autoscaler = ground.models.get(change.model), change.target.autoscaler
        if model is None:
            raise Refused("moved", f"{change.model} is no model of the policy any more")
        if model.actuation != "metric" and (autoscaler is None or (autoscaler.paused and model.actuation == "scale")):
            return self._scale
        if autoscaler is None:
            raise Refused("metric", f"no ScaledObject of {change.target.name} asks for its replicas")
        if autoscaler.paused:
            raise Refused("paused", f"{autoscaler.kind} {autoscaler.name} is paused: its bounds reach nobody")
        if model.actuation == "metric":
            return self._metric
        if model.actuation == "scale":
            raise Refused(
                "foreign", f"{autoscaler.kind} {autoscaler.name} owns {change.target.name}; actuation is scale"
            )
        return self._bounds[autoscaler.kind]

    async def _look(self, driver: Driver[C_contra], change: C_contra) -> Object:
        """The object, once we know that we may write at all."""
        _, seen = await together(self._permission.ask(), driver.look(change))
        return seen

    def _fresh(self, pools: Collection[str]) -> Snapshot:
        """The state of this moment. Raises Refused while it is not the whole truth about these pools."""
        facts = self._facts(self._clock.now())
        sees_the_cluster(facts, pools)
        return facts

    async def _intend(self, intent: Intent, change: Change | None = None) -> None:
        """Record the intent, once; a decrease that no successor would know of is made for drains and overrides alone.

        When one of a plan's intents found no acknowledgement, the rest do not wait for theirs: grants wait behind them.
        """
        if intent in self._intended:
            return
        decrease = change is not None and decreases(change)
        urgent = change is not None and decrease and (change.passes or "").startswith(UNACKNOWLEDGED)
        needed = decrease and not urgent
        if needed and self._unheard:
            raise Refused("unrecorded", "the decisions topic did not acknowledge the intent of another change")
        wait_seconds = ACKNOWLEDGED_SECONDS if needed else 0.0
        if urgent and not self._impatient:
            wait_seconds = PATIENCE_SECONDS
        acknowledged = False
        try:
            acknowledged = await self._recorder.intent(intent, wait_seconds=wait_seconds)
        except Exception:  # whatever the recorder raises, it is not recorded: what must be is not written
            log.exception("an intent could not be recorded", intent=intent.id)
        if decrease and not acknowledged:
            self._impatient = True
        if needed and not acknowledged:
            self._unheard = True
            raise Refused("unrecorded", "a decrease waits until the decisions topic acknowledges its intent")
        self._intended.add(intent)

    async def _mark_victims(self, change: Change, facts: Snapshot, *, needed: bool) -> str:
        """A sentence about marks that failed. Raises Refused when a floor rests on the marks that are missing."""
        numbered = change.target.victims == "ordinal"  # whatever is marked, the highest number goes
        if not facts.marks_victims or numbered or change.replicas_to >= change.replicas_from:
            return ""
        trouble = await self._deletion_cost.mark(change)
        if trouble and needed:
            raise Refused("floor", f"{change.model} keeps its floor only if its victims are marked: {trouble}")
        return trouble

    async def _record(self, outcome: Outcome) -> None:
        try:
            await self._recorder.outcome(outcome)
        except Exception:  # the write happened: its outcome is seen in the cluster again
            log.exception("an outcome could not be recorded", intent=outcome.intent.id)
