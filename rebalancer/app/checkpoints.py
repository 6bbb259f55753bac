"""Memory into the `state` topic every half minute, the models' rings one after another over five minutes.

And the policy in force, whenever it is another one: at once (`followed`), else where Kafka did not take it then.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.past import Start
from rebalancer.domain.policy import Policy
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.kafka.outbox import Outbox
from rebalancer.obs.clock import Clock
from rebalancer.obs.metrics import Metrics
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState, checkpoint, chunks

LAST_SECONDS = 10.0
LOOK_SECONDS = 1.0  # between two looks whether a successor has planned

log = structlog.get_logger()


class Checkpoints:
    """Writes what the next start will read; `last` once more at an ordered shutdown.

    `leads`: whether this replica acts; else nothing is written, for another one's memory would go.
    `recorded`: models whose rings the topic has. Memory says up to where events were read, so it is written only once
    each model has some: a start from it alone would lose what a model without rings was told before.
    `slot`: where memory goes first if it needs chunks. The slot changes when all of them are acknowledged, so that a
    writing that broke off goes over itself. `acknowledged_monotonic`: when the last memory was (None: none yet).
    """

    def __init__(  # noqa: PLR0913  # the parts whose state is kept
        self,
        settings: ServiceSettings,
        clock: Clock,
        state: ClusterState,
        cycle_ports: ServicePorts,
        intake: KafkaIntake,
        outbox: Outbox,
        metrics: Metrics,
        slot: int = 0,
        leads: Callable[[], bool] = lambda: True,
        recorded: Iterable[str] = (),
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._state = state
        self._cycle_ports = cycle_ports
        self._intake = intake
        self._outbox = outbox
        self._metrics = metrics
        self._next_model = 0
        self._recorded = {*recorded}
        self._succeeds = False
        self._slot = slot
        self._leads = leads
        self._offsets: dict[tuple[str, int], int] = {}  # of a period ago
        self._policy: Policy | None = None  # acknowledged
        self.acknowledged_monotonic: float | None = None

    def succeed(self, past: Start) -> None:
        """Another replica led until now, and left `past`: with memory there are rings of each model."""
        self._succeeds = True
        self._slot, self.acknowledged_monotonic = past.slot, self._clock.monotonic()
        if past.offsets:
            self._recorded.update(model.id for model in self._cycle_ports.policy.models)

    async def run(self) -> None:
        """Writes checkpoints until cancelled; a successor of another leader writes memory after its first plan.

        Where each leader dies before its first period, nobody would write any. After four periods a successor reads
        all of `state` while nobody leads: at 1,000 models 0.5 to 2 s, where it takes 0.1 s to find memory in what it
        read along. Before its first plan it does not know itself what became of the last writes.
        """
        if self._succeeds:
            await self._planned()
            await self.memory()
        while True:
            await self._clock.sleep(self._settings.checkpoint_seconds)
            await self.memory()
            await self.policy()
            await self.rings(self._share())

    async def _planned(self) -> None:
        """Wait for a cycle, a period at most: one that fails for ever is no reason to forget."""
        cycle, until = self._cycle_ports.next_cycle, self._clock.monotonic() + self._settings.checkpoint_seconds
        while self._cycle_ports.next_cycle == cycle and self._clock.monotonic() < until:
            await self._clock.sleep(LOOK_SECONDS)

    def _share(self) -> int:
        """Models whose rings are due in one period."""
        periods = max(1.0, self._settings.rings_seconds / self._settings.checkpoint_seconds)
        return -(-len(self._cycle_ports.policy.models) // int(periods))

    async def memory(self) -> None:
        """What planning must not forget and state cannot see again, with the offsets of the events it has seen."""
        self._state.offsets = self._intake.consumer.safe_offsets()
        models = [model.id for model in self._cycle_ports.policy.models]
        if not await self._rings_of([model for model in models if model not in self._recorded]):
            return
        self._state.offsets = self._intake.consumer.safe_offsets()
        cycle = self._cycle_ports.next_cycle - 1
        now = self._clock.now()
        foreign, notices = self._state.foreign_past(), self._state.notices_past()
        memory, ours = self._cycle_ports.memory, self._settings.installation
        entry = checkpoint.memory_entry(memory, cycle, now, self._state.offsets, foreign, notices, ours)
        for key, value in chunks.entries(*entry, self._slot):
            if not await self._send(key, value):
                self._failed("memory")
                return
        self._slot = (self._slot + 1) % chunks.SLOTS
        self.acknowledged_monotonic = self._clock.monotonic()

    async def policy(self) -> None:
        """The policy in force, unless it was acknowledged before, or another replica leads: that one keeps its own."""
        policy = self._cycle_ports.policy
        if policy is self._policy or not self._leads():
            return
        if await self._send(*checkpoint.policy_entry(policy)):
            self._policy = policy
        else:
            self._failed("policy")

    async def rings(self, models: int) -> None:
        """The rings of the next `models` models, to be read on from a period before.

        A producer's counters say what came beside its sample before only; what the rings have is recognised.
        """
        ids = [model.id for model in self._cycle_ports.policy.models]
        before, self._offsets = self._offsets, self._intake.consumer.safe_offsets()
        self._state.offsets = before or self._offsets
        turns = min(models, len(ids))
        turn = [ids[(self._next_model + place) % len(ids)] for place in range(1, turns + 1)]
        self._next_model = (self._next_model + turns) % max(1, len(ids))
        await self._rings_of(turn)

    async def _rings_of(self, models: Iterable[str]) -> bool:
        """The rings of these models; whether all were acknowledged."""
        for model in models:
            if model not in {one.id for one in self._cycle_ports.policy.models}:
                continue  # it left the policy while another model's were on their way
            key, value = checkpoint.rings_entry(model, self._state.rings_bytes(model))
            if not await self._send(key, value):
                self._failed(f"rings of {model}")
                return False
            self._recorded.add(model)
        return True

    async def _send(self, key: bytes, value: bytes) -> bool:
        return self._leads() and await self._outbox.send("state", key, value)

    def _failed(self, what: str) -> None:
        log.warning("no checkpoint", of=what)
        self._metrics.count("rebalancer_checkpoint_failures_total")

    async def last(self, *, rings: bool = True) -> None:
        """Everything, unless Kafka is away; no `rings` where another replica waits that has seen as much.

        Raises nothing: without it the next start reads more of other topics.
        """
        if self._outbox.trouble is not None or not self._leads():
            return
        try:
            async with asyncio.timeout(LAST_SECONDS):
                await self.memory()
                await self.policy()
                if rings:
                    await self.rings(len(self._cycle_ports.policy.models))
        except Exception:  # stopping goes on
            log.exception("the last checkpoint could not be written")
