"""What the demo plays, act by act. An act is over when all that it is to show has been seen in the API."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from rebalancer.domain.people import LOCAL
from rebalancer.domain.plan import Plan
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox import demo_checks as seen
from rebalancer.sandbox.demo_cluster import IDLE_RATES, DemoCluster
from rebalancer.sandbox.oracle import Check, CheckAnswer, CheckResult, Evidence, Marks
from rebalancer.sandbox.producer import spelled
from rebalancer.sandbox.sandbox import Sandbox

LOOK_SECONDS = 0.5
RAMP_SECONDS = 3.0  # a rate needs this long to its new value
SURGE_RATE = 44.0  # requests per second on chat: 3.7 times as many as before; 7 replicas do 54
BACK_RATE = 31.0  # on code: all of its entitlement is needed
EBB_RATE = 18.0  # on chat by then, which its own three replicas serve: KEDA alone would keep the rest for five minutes
STAY_SECONDS = 30.0  # code's users go on: a tenth of the time for which an HPA would keep chat's replicas
SETTLED_SECONDS = 34.0  # after a start it takes nothing from anybody for 32 s: a plan, and two of realtime's cooldowns
# Karpenter drains a node 2 s after the notice. These are of the watcher, as the service computes in those too: a busy
# machine that holds it up for 0.8 s is not to look as if Karpenter had been quicker.
DRAIN_WALL_SECONDS = 2.0
PIN_SECONDS = 30.0
PINNED = 4  # of 5: enough for what comes, so that nobody pays for the show
PIN = "demo-pin"


class Decides(Protocol):
    """The service, as far as the stage waits for it."""

    @property
    def plan(self) -> Plan | None:
        """The service's last plan; None before the first."""
        ...


@dataclass(slots=True)
class DemoStage:
    """All that an act works with, and what it noted.

    clock: the demo's clock.
    sandbox: the Kafka and Kubernetes around our cluster.
    cluster: our cluster, which the service acts on.
    service: the service, for whose plans an act may wait.
    marks: what the acts noted.
    peers: clusters that live through the same beside ours, without the service, by the name of how KEDA is set up in
        them; empty where there are none.
    """

    clock: ScaledClock
    sandbox: Sandbox
    cluster: DemoCluster
    service: Decides
    marks: Marks = field(default_factory=Marks)
    peers: Mapping[str, DemoCluster] = field(default_factory=dict)

    def turn(self, model: str, rate_per_second: float) -> float:
        """Users of `model` send that many requests from now on, everywhere; returns now."""
        now = self.clock.now()
        for cluster in (self.cluster, *self.peers.values()):
            cluster.dials[model].turn(rate_per_second, now, RAMP_SECONDS)
        return now

    async def interrupt(self) -> tuple[str, float]:
        """The cloud announces that it takes the oldest spot node, everywhere: the name of ours, and the deadline."""
        doomed = next(iter(self.cluster.world.node_claims))
        read_seconds = DRAIN_WALL_SECONDS / self.clock.wall_seconds(1.0)
        deadline = await self.sandbox.interrupt(doomed, read_seconds)
        for cluster in self.peers.values():
            cluster.world.advance(self.cluster.world.now)
            cluster.world.interrupt(next(iter(cluster.world.node_claims)), deadline, read_seconds)
        return doomed, deadline

    async def until(self, true: Callable[[], bool], within_seconds: float) -> bool:
        """Wait until `true`, at most that long; whether it became so."""
        deadline = self.clock.now() + within_seconds
        while not true():
            if self.clock.now() >= deadline:
                return False
            await self.clock.sleep(LOOK_SECONDS)
        return True


@dataclass(frozen=True, slots=True)
class Act:
    """One step of the story: what is done, and what must be seen within a time.

    title: what it is about, as the audience reads it.
    play: what does it, by means of the stage.
    checks: what must be seen once it is done; with none, the next act begins at once.
    within_seconds: seconds of the demo's clock in which all of that must be seen.
    """

    title: str
    play: Callable[[DemoStage], Awaitable[None]]
    checks: tuple[Check, ...] = ()
    within_seconds: float = 120.0


class Audience(Protocol):
    """A listener to the story, told of each act and of each finding."""

    def act(self, number: int, total: int, title: str) -> None:
        """The next act begins."""
        ...

    def show_finding(self, finding: CheckResult) -> None:
        """Something was seen, or was not seen in time."""
        ...


async def tell(
    acts: tuple[Act, ...], stage: DemoStage, evidence: Evidence, audience: Audience, findings: list[CheckResult]
) -> None:
    """Play the acts and fill `findings`; after one that fails the others are not played."""
    for number, act in enumerate(acts, 1):
        audience.act(number, len(acts), act.title)
        await act.play(stage)
        if not await _seen(act, stage, evidence, audience, findings):
            findings += [
                CheckResult(check.what, CheckAnswer("not reached", held=False))
                for later in acts[number:]
                for check in later.checks
            ]
            return


async def _seen(
    act: Act, stage: DemoStage, evidence: Evidence, audience: Audience, findings: list[CheckResult]
) -> bool:
    open_checks = list(act.checks)

    def look() -> bool:
        for check in tuple(open_checks):
            answer = check.look(evidence)
            if answer is not None:
                open_checks.remove(check)
                _enter(CheckResult(check.what, answer), audience, findings)
        return not open_checks

    await stage.until(look, act.within_seconds)
    for check in open_checks:
        words = f"did not happen within {act.within_seconds:.0f} s"
        _enter(CheckResult(check.what, CheckAnswer(words, held=False)), audience, findings)
    return not open_checks


def _enter(finding: CheckResult, audience: Audience, findings: list[CheckResult]) -> None:
    findings.append(finding)
    audience.show_finding(finding)


# --- the acts


async def watch(stage: DemoStage) -> None:
    """Let the service see that code is idle, and have been up long enough to act on it."""
    started = stage.clock.now()

    def idle() -> bool:
        models = stage.service.plan.models if stage.service.plan else ()
        return any(model.model == "code" and model.demand == 1 for model in models)

    await stage.until(lambda: idle() and stage.clock.now() - started >= SETTLED_SECONDS, 90.0)


async def surge(stage: DemoStage) -> None:
    """Nearly four times the users on chat."""
    stage.marks.surge_at = stage.turn("chat", SURGE_RATE)


async def notice(stage: DemoStage) -> None:
    """The cloud takes the spot node that image runs on, in the middle of chat's surge."""
    marks = stage.marks
    marks.notice_at = stage.clock.now()
    marks.doomed, marks.deadline = await stage.interrupt()


async def back(stage: DemoStage) -> None:
    """Waits until the borrower has worked off its queue; then its surge ebbs, and the owner's users come back."""
    line = stage.cluster.world.lines["chat"].line
    await stage.until(lambda: line.in_time, 120.0)
    stage.marks.caught_up_at = stage.clock.now() if line.in_time else 0.0
    stage.turn("chat", EBB_RATE)
    stage.marks.back_at = stage.turn("code", BACK_RATE)


async def pin(stage: DemoStage) -> None:
    """Code is in time again and chat calm; an operator creates an Override through the API, as kubectl would."""
    line = stage.cluster.world.lines["code"].line
    await stage.until(lambda: line.in_time, 60.0)
    await stage.clock.sleep(STAY_SECONDS)
    stage.turn("chat", IDLE_RATES["chat"])
    marks = stage.marks
    marks.pin, marks.pinned, marks.pin_at = PIN, PINNED, stage.clock.now()
    marks.pin_ends_at = marks.pin_at + PIN_SECONDS
    spec = {
        "kind": "pin",
        "target": {"model": "code"},
        "value": PINNED,
        "reason": "a replica is wanted elsewhere for a moment",
        "expiresAt": spelled(marks.pin_ends_at),
        "actor": LOCAL,
    }
    body = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Override", "metadata": {"name": PIN}, "spec": spec}
    path = "/apis/rebalancer.io/v1alpha1/namespaces/serving/overrides"
    async with aiohttp.ClientSession(stage.sandbox.kubernetes.url, headers=_login(), raise_for_status=True) as session:
        await session.post(path, json=body)


def _login() -> dict[str, str]:
    return {"Authorization": f"Bearer sandbox-{LOCAL}", "User-Agent": "kubectl"}


STORY = (
    Act("the service reads an hour of history, sees that code idles", watch),
    Act(
        "surge: chat gets nearly 4 times the users, code idles",
        surge,
        (
            Check("first move after the surge", seen.first_write("chat", "code")),
            Check("from giving to getting", seen.release_to_grant("chat", "code")),
            Check("lent GPUs serve chat", seen.lent("chat")),
        ),
    ),
    Act(
        f"spot notice: image's node goes in 2 minutes, Karpenter drains it in {DRAIN_WALL_SECONDS:g} s of yours",
        notice,
        (
            Check("replacement asked for", seen.replacement_asked("image")),
            Check("replacement serves", seen.replacement_ready("image")),
        ),
    ),
    Act(
        "reclaim: chat works off its queue and its surge ebbs, code's users are back",
        back,
        (
            Check("chat in time again", seen.in_time_again),
            Check("code has its GPUs back", seen.brought_home("code", "chat")),
        ),
    ),
    Act(
        f"override: chat is calm, an operator pins code at {PINNED} for {PIN_SECONDS:.0f} s",
        pin,
        (
            Check("override obeyed", seen.pin_written("code")),
            Check("override over", seen.pin_ended("code")),
        ),
    ),
)
