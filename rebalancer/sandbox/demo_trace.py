"""A recorded trace in the story's place: it drives the traffic, and the verdict reports what came of it."""

from collections.abc import Mapping

from rebalancer.sandbox.demo_cluster import DemoCluster
from rebalancer.sandbox.demo_story import Act, Stage
from rebalancer.sandbox.oracle import Evidence, Finding, Said
from rebalancer.world.traffic import Rows

TENTHS = 10


def the_trace(trace: Mapping[str, Rows], started_at: float) -> tuple[Act, ...]:
    """Acts that only let time pass until the trace is over, a tenth each."""
    seconds = max(at for rows in trace.values() for at, _ in rows) + 1.0

    def until(tenth: int) -> Act:
        async def play(stage: Stage) -> None:
            await stage.clock.sleep(started_at + seconds * tenth / TENTHS - stage.clock.now())

        return Act(f"trace until {seconds * tenth / TENTHS:.0f} s of {seconds:.0f} s", play)

    return tuple(until(tenth) for tenth in range(1, TENTHS + 1))


def report(cluster: DemoCluster, evidence: Evidence) -> list[Finding]:
    """What became of the requests, and of the GPUs."""
    findings = []
    for model, served in cluster.served().items():
        lives = evidence.facts.of(model)
        ready = [evidence.facts.ready(model, life.ready_at) for life in lives if life.ready_at is not None]
        writes = [write for write in evidence.writes if write.place.model == model]
        share = served.served / served.arrived if served.arrived else 1.0
        words = f"{served.arrived:.0f} requests, {share:.1%} served, {served.gave_up:.0f} given up"
        words += f"; {len(writes)} writes, at most {max(ready, default=0)} replicas"
        findings.append(Finding(model, Said(words)))
        instants = [life.bound_at for life in lives if life.bound_at is not None]
        lent = max((evidence.borrowed_gpus(model, at) for at in instants), default=0)
        if lent:
            findings.append(Finding(f"GPUs lent to {model}", Said(f"at most {lent}")))
    return findings
