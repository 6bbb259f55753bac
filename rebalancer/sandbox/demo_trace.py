"""A recorded trace in the story's place: it drives the traffic, and the verdict reports what came of it."""

from collections.abc import Mapping

from rebalancer.sandbox.demo_story import Act, DemoStage, watch
from rebalancer.sandbox.oracle import CheckAnswer, CheckResult, Evidence
from rebalancer.world import World
from rebalancer.world.traffic import Rows, Trace

TENTHS = 10


class TracePlay:
    """Plays rows per model, a tenth of the time per act; models that it does not name stay as they are."""

    def __init__(self, trace: Mapping[str, Rows]) -> None:
        self._trace = trace
        self._seconds = max(at for rows in trace.values() for at, _ in rows) + 1.0
        self.started_at = 0.0
        self._before: dict[str, tuple[float, float]] = {}

    @property
    def acts(self) -> tuple[Act, ...]:
        """The service comes up, then time passes."""
        return (Act("the service reads an hour of history", watch), *map(self._act, range(1, TENTHS + 1)))

    def _act(self, tenth: int) -> Act:
        until = self._seconds * tenth / TENTHS

        async def play(stage: DemoStage) -> None:
            if tenth == 1:
                self._start(stage)
            await stage.clock.sleep(self.started_at + until - stage.clock.now())

        return Act(f"trace until {until:.0f} s of {self._seconds:.0f} s", play)

    def _start(self, stage: DemoStage) -> None:
        self.started_at = stage.clock.now()
        self._before = _ended(stage.cluster.world)
        for model, rows in self._trace.items():
            for cluster in (stage.cluster, *stage.peers.values()):
                cluster.world.lines[model].traffic = Trace(self.started_at, rows)

    def report(self, world: World, evidence: Evidence) -> list[CheckResult]:
        """What became of the requests since the trace began, and of the GPUs."""
        findings = []
        for model, now in _ended(world).items():
            findings.append(CheckResult(model, self._requests(model, now, evidence)))
            lent = max((evidence.borrowed_gpus(model, at) for at in _instants(model, evidence)), default=0)
            if lent:
                findings.append(CheckResult(f"GPUs lent to {model}", CheckAnswer(f"at most {lent}")))
        return findings

    def _requests(self, model: str, now: tuple[float, float], evidence: Evidence) -> CheckAnswer:
        served, gave_up = (end - begin for end, begin in zip(now, self._before.get(model, now), strict=True))
        share = served / (served + gave_up) if served + gave_up else 1.0
        most = max((evidence.facts.ready(model, at) for at in _instants(model, evidence)), default=0)
        writes = sum(1 for write in evidence.writes if write.place.model == model)
        return CheckAnswer(
            f"{share:.1%} of {served + gave_up:.0f} requests served; {writes} writes, at most {most} replicas"
        )


def _instants(model: str, evidence: Evidence) -> list[float]:
    """The instants at which the model's holdings grew."""
    return [at for pod in evidence.facts.of(model) for at in (pod.bound_at, pod.ready_at) if at is not None]


def _ended(world: World) -> dict[str, tuple[float, float]]:
    """Requests (served, given up) per model."""
    return {model: (each.line.served.count, each.line.gave_up) for model, each in world.lines.items()}
