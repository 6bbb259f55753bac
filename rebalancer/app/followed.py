"""The policy in force while the service runs: the file's, or at a start what was in force before a file it refuses."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from rebalancer.api.ports.page_data import PolicyChange
from rebalancer.app.cycle_ports import ServicePorts
from rebalancer.app.past import read_last_policy
from rebalancer.domain.policy import Policy
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.watches import Watches
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.topic_past import PastUnreadable
from rebalancer.loop.runner import Runner
from rebalancer.obs.clock import Clock
from rebalancer.obs.recorder import Recorder
from rebalancer.settings.policy_differences import differences
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.renames import unheard
from rebalancer.state import ClusterState

LOOK_SECONDS = 2.0

log = structlog.get_logger()


class NoPolicy(ValueError):
    """The service cannot start: the policy file has problems. The text names all of them."""


def _warn_of_unheard(before: Policy, after: Policy) -> tuple[str, ...]:
    """A sentence for each model that was renamed and is not heard any more; the log has it, too."""
    lost = tuple(unheard(before, after))
    for problem in lost:
        log.warning("policy", problem=problem)
    return lost


class FollowedPolicy:
    """The policy file, followed: `first` at the start, `go_on` once Kafka is there, then `follow`.

    Each new policy goes to `recorder`. `broker` keeps the last good policy of `installation`; None: nobody keeps it.
    """

    def __init__(
        self, file: PolicyFile, broker: Broker | None, clock: Clock, recorder: Recorder, installation: str
    ) -> None:
        self._file = file
        self._installation = installation
        self._broker = broker
        self._clock = clock
        self._recorder = recorder
        self._change = PolicyChange(file=str(file.path))

    def last_change(self) -> PolicyChange:
        """The instant at which the policy came into force, and what differs from the one before, if one is known."""
        return self._change

    def in_force(self) -> Policy:
        """The policy in force; ports open when there is one. Raises NoPolicy."""
        if self._file.current is None:
            problems = "\n".join(str(problem) for problem in self._file.problems)
            raise NoPolicy(problems or f"{self._file.path}: no policy")
        return self._file.current

    async def first(self) -> Policy:
        """The policy to start with. Raises NoPolicy.

        With a bad file the service starts with the last good policy that Kafka keeps, as a running one would go on.
        Without Kafka, or without a policy there, it does not start: a model that is left out might be one that we
        moved.
        """
        await asyncio.to_thread(self._file.changed, self._clock.now())
        if self._file.current is None:
            try:
                await self._go_on_from_the_last()
            except PastUnreadable as error:
                log.warning("the last policy is not known", error=str(error))
        self._begin(self.in_force())
        return self.in_force()

    async def go_on(self) -> Policy:
        """The policy to go on with: that of `first`, or the last good one where a running service would have kept it.

        Waits for Kafka, as reading the past does: a start drops nothing that a reload may not drop. Raises
        PastUnreadable.
        """
        before = self.in_force()
        if not self._file.problems:  # else `first` has gone on from the last
            await self._go_on_from_the_last()
        if self.in_force() is not before:
            self._begin(self.in_force())
        return self.in_force()

    async def _go_on_from_the_last(self) -> None:
        """Let the file follow what Kafka keeps, if it keeps a policy. Raises PastUnreadable."""
        if self._broker is None:
            return
        last = await read_last_policy(self._broker, self._installation, self._clock.now())
        if last is not None:
            await asyncio.to_thread(self._file.go_on_from, last, self._clock.now())
            if self._file.trouble is not None:
                log.warning("policy", problem=self._file.trouble)
            if self._file.current is not None:
                self._change = replace(self._change, differences=_warn_of_unheard(last, self._file.current))

    def _begin(self, policy: Policy) -> None:
        self._change = replace(self._change, at=self._clock.now())
        self._recorder.policy(policy, self._clock.now())

    async def follow(  # noqa: PLR0913  # all that takes a policy over
        self,
        state: ClusterState,
        cycle_ports: ServicePorts,
        runner: Runner,
        watches: Watches,
        intake: KafkaIntake | None = None,
        keep: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take a changed policy over, for ever; a bad file keeps the last good one.

        `intake`, `keep`: None without Kafka. `keep` tells it at once which policy is in force: a start before the next
        checkpoint would go on from the one before, and might take what has left for dropped by accident.

        Ports and state change without a wait between them: no plan is made, and no write passes the gate, under one of
        them alone. What leaves the policy is then given back by `Restoring`.
        """
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            now, digest = self._clock.now(), self._file.digest
            if not await asyncio.to_thread(self._file.changed, now):
                continue
            if self._file.trouble is not None:
                log.warning("policy", problem=self._file.trouble)
            policy = self._file.current
            if policy is not None and policy is not cycle_ports.policy:
                lost = _warn_of_unheard(cycle_ports.policy, policy)
                others = lost + await asyncio.to_thread(differences, cycle_ports.policy, policy)
                self._change = replace(self._change, at=now, before=digest, differences=others)
                cycle_ports.policy = policy
                state.set_policy(policy, now)
                watches.follow(policy)
                if intake is not None:
                    intake.follow(policy)
                self._recorder.policy(policy, now)
                runner.wake()
                log.info("policy in force", digest=self._file.digest)
                if keep is not None:
                    await keep()
