"""The cluster that is measured: so many models of ten one-GPU replicas, their policy, their samples, their objects."""

from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.events import Gauges, MetricSample, Position
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import Work
from rebalancer.domain.snapshot import Snapshot
from tests.builders import NOW, a_model, a_policy, a_pool, a_reading, a_snapshot

REPLICAS = 10
GPUS_PER_NODE = 8
PER_REPLICA = 4.0
SIGNALS = {"concurrency": {"per_replica": PER_REPLICA}, "queue": {"high": 2.0}}


@dataclass(frozen=True, slots=True)
class Scale:
    """`models` models on `pools` primary pools with room for `spare` replicas more."""

    models: int
    pools: int
    spare: int = 0

    @property
    def gpus(self) -> int:
        """GPUs of all pools."""
        return self.models * REPLICAS + self.spare

    def model_id(self, number: int) -> str:
        """Ids in order."""
        return f"m{number:04d}"

    def pool_of(self, number: int) -> str:
        """Models are dealt out to the pools."""
        return f"p{number % self.pools}"

    def policy(self) -> Policy:
        """Every model is entitled to half of what it holds: the other half is borrowed."""
        pools = tuple(a_pool(f"p{number}", gpus=self.gpus // self.pools) for number in range(self.pools))
        models = [
            a_model(
                self.model_id(number),
                min_replicas=1,
                entitlement=REPLICAS // 2,
                pools=(self.pool_of(number),),
                signals=SIGNALS,
            )
            for number in range(self.models)
        ]
        return a_policy(*models, pools=pools)

    def snapshot(self, policy: Policy) -> Snapshot:
        """All pods Ready, all models at nine tenths of what they carry."""
        busy = PER_REPLICA * REPLICAS * 0.9
        ids = [model.id for model in policy.models]
        readings = {model: {"concurrency": busy, "queue": 0.0} for model in ids}
        return a_snapshot(policy, dict.fromkeys(ids, REPLICAS), readings, dict.fromkeys(ids, REPLICAS * 0.9))


def moved_on(snapshot: Snapshot, share: float, turn: int) -> Snapshot:
    """A second later: a `share` of the models has other readings, every fourth of those is in a surge."""
    loads = list(snapshot.loads)
    every = max(1, round(1 / share))
    for number in range(turn % every, len(loads), every):
        level = REPLICAS * (1.5 if number % 4 == 0 else 0.85 + 0.01 * (turn % 10))
        signals = {**loads[number].signals, "concurrency": a_reading(PER_REPLICA * level, at=snapshot.at)}
        work = Work(short=level, last_60s=level, long=REPLICAS * 0.9, slow=REPLICAS * 0.9)
        loads[number] = replace(loads[number], signals=signals, work=work)
    return replace(snapshot, cycle=snapshot.cycle + 1, at=snapshot.at + 1.0, loads=tuple(loads))


def samples(scale: Scale, at: float, offset: int) -> list[MetricSample]:
    """One sample per model."""
    return [
        MetricSample(
            source="bench",
            id=f"{offset}-{number}",
            at=at,
            model=scale.model_id(number),
            interval_seconds=1.0,
            gauges=Gauges(running=30.0 + number % 7, waiting=0.0, kv_cache_use=0.5),
            position=Position("rebalancer.metrics", number % 12, offset),
        )
        for number in range(scale.models)
    ]


SMALL = Scale(models=100, pools=2)
LARGE = Scale(models=1000, pools=5)
START = NOW
