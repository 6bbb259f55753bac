"""What goes on after the story with `--keep`: traffic in a loop, and surges that somebody asks for from elsewhere.

Whoever asks annotates the model's Deployment in the embedded API with its seconds; `rebalancer demo surge MODEL` does.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from rebalancer.domain.digits import whole_number
from rebalancer.sandbox.api import Obj, Revision
from rebalancer.sandbox.api.resources import DEPLOYMENTS, Target
from rebalancer.sandbox.api.status import StatusError
from rebalancer.sandbox.demo_cluster import IDLE_RATES
from rebalancer.sandbox.demo_peers import SideTally
from rebalancer.sandbox.demo_picture import sums, worst_off
from rebalancer.sandbox.demo_story import BACK_RATE, SURGE_RATE, DemoStage

ANNOTATION = "demo.rebalancer.io/surge"
LONGEST_SECONDS = 3600.0  # of the demo's clock: of one surge
SURGES = {"chat": SURGE_RATE, "code": 36.0, "image": 20.0}  # requests per second: more than each has replicas for
# Seconds of the demo's clock, then: who gets how many requests per second from then on.
ROUND = (
    (60.0, "code", IDLE_RATES["code"]),
    (60.0, "chat", SURGE_RATE),
    (90.0, "chat", IDLE_RATES["chat"]),
    (45.0, "code", BACK_RATE),
)
LOOK_SECONDS = 1.0

Say = Callable[[str], None]


def refuse(target: Target, old: Obj | None, new: Obj) -> None:
    """No surge while the story is played, which has its own. Raises StatusError."""
    if target.resource == DEPLOYMENTS and old is not None and _surge_annotation(new) != _surge_annotation(old):
        raise StatusError(
            422, "the demo still plays its story, or runs without --keep: surges are for the time after it"
        )


def _surge_annotation(deployment: Obj) -> str | None:
    annotation: str | None = (deployment["metadata"].get("annotations") or {}).get(ANNOTATION)
    return annotation


def _seconds(annotation: str | None) -> float:
    """How long a surge is asked for: `600 s, asked at ...`; 0 where the annotation says nothing of the kind."""
    number = (annotation or "").partition(" ")[0]
    return min(whole_number(number) or 0.0, LONGEST_SECONDS)


@dataclass(slots=True)
class Loop:
    """Rounds of traffic on all sides, until it is cancelled.

    stage: the demo's cluster, its service and the clusters beside, whose traffic it turns.
    tally: counts of the requests on all sides, of which it drops those of rounds that are over.
    say: is called with a line of text for each turn of the traffic, each round and each surge.
    _usual: requests per second that each model gets outside of surges that somebody asked for, by model.
    _surging: models in a surge that somebody asked for.
    """

    stage: DemoStage
    tally: SideTally
    say: Say
    _usual: dict[str, float] = field(default_factory=dict)
    _surging: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Go round and round."""
        self._usual = {model: dial.rate_per_second for model, dial in self.stage.cluster.dials.items()}
        kubernetes = self.stage.sandbox.kubernetes
        kubernetes.verbs.admit = lambda _target, _old, _new: None
        async with asyncio.TaskGroup() as group:
            kubernetes.store.subscribe(lambda change: self._hear(change, group))
            group.create_task(self._look())
            while True:
                begun = self.stage.clock.now()
                for seconds, model, rate in ROUND:
                    await self.stage.clock.sleep(seconds)
                    self._usually(model, rate)
                self.say(f"a round, {self._since(begun)}")
                del self.tally.looks[:-1]

    async def _look(self) -> None:
        while True:
            self.tally.look(self.stage.clock.now())
            await self.stage.clock.sleep(LOOK_SECONDS)

    def _usually(self, model: str, rate: float) -> None:
        self._usual[model] = rate
        if model not in self._surging:
            self.stage.turn(model, rate)
            self.say(f"traffic: {model} gets {rate:g} requests per second")

    def _hear(self, change: Revision, group: asyncio.TaskGroup) -> None:
        before = change.previous
        if (
            change.resource != DEPLOYMENTS
            or before is None
            or _surge_annotation(change.obj) == _surge_annotation(before)
        ):
            return
        model = change.obj["metadata"]["name"]  # the demo's Deployments are called as their models
        seconds = _seconds(_surge_annotation(change.obj))
        if seconds and model in SURGES and model not in self._surging:
            group.create_task(self._surge(model, seconds))

    async def _surge(self, model: str, seconds: float) -> None:
        self._surging.add(model)
        begun = self.stage.turn(model, SURGES[model])
        self.say(f"surge, as asked: {model} gets {SURGES[model]:g} requests per second for {seconds:.0f} s")
        await self.stage.clock.sleep(seconds)
        self._surging.discard(model)
        self.stage.turn(model, self._usual[model])
        self.say(f"surge of {model} over, {self._since(begun)}")

    def _since(self, begun: float) -> str:
        """Late requests of all sides, and whose most: fewer in all may be one model's alone."""
        stretch = self.tally.between(begun, self.stage.clock.now())
        return f"{sums(stretch)}   worst off: {', '.join(worst_off(stretch))}"
