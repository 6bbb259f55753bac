"""The controllers that the suite plays on the fast path, with the settings over which each is tuned."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import ModuleType

from rebalancer.sim.controller import Controller
from rebalancer.sim.limits import foresight, lookahead
from rebalancer.sim.limits.foresight import Foresight
from rebalancer.sim.peers import apa, behaviour, engine, hpa, keda, kpa, ray_serve, signals, static, wva
from rebalancer.sim.peers.apa import Apa, ApaSettings
from rebalancer.sim.peers.hpa import Hpa, Metric
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.kpa import Kpa
from rebalancer.sim.peers.ray_serve import Config, RayServe
from rebalancer.sim.peers.signals import SLOTS, GpuUtil, KvUse, Queue, Summed, Utilisation, WorkRate
from rebalancer.sim.peers.static import Static
from rebalancer.sim.peers.wva import Wva

TARGETS = tuple(round(0.025 * step, 3) for step in range(20, 41))  # 0.5 to 1: of a full replica, GPU_UTIL or KV use
DIGEST_LETTERS = 12
QUEUE_PER_REPLICA = 5.0  # waiting requests: what llm-d's WVA calls saturated


@dataclass(frozen=True, slots=True)
class Peer:
    """`signals`: how a controller is made for a target, by the signal it looks at; `modules` hold its code.

    `targets`: those that tuning tries; empty for what has none (`signals` then has one entry, its target is ignored).
    """

    name: str
    signals: Mapping[str, Callable[[float], Controller]]
    modules: tuple[ModuleType, ...]
    targets: tuple[float, ...] = TARGETS

    def make(self, tuning: str | None) -> Controller:
        """A new one. `tuning`: "signal@target" as committed; None for what is not tuned."""
        if tuning is None:
            return next(iter(self.signals.values()))(0.0)
        signal, _, target = tuning.partition("@")
        return self.signals[signal](float(target))

    @property
    def tunings(self) -> list[str]:
        """Every setting that tuning tries."""
        return [f"{signal}@{target:g}" for signal in self.signals for target in self.targets]

    @property
    def digest(self) -> str:
        """Of its code and grid: a tuning found with other code is stale."""
        source = "".join(inspect.getsource(module) for module in self.modules)
        return sha256((source + " ".join(self.tunings)).encode()).hexdigest()[:DIGEST_LETTERS]


PEERS: tuple[Peer, ...] = (
    Peer("static", {"none": lambda _: Static()}, (static,), ()),
    Peer(
        "hpa",
        {
            "work": lambda target: Hpa([Metric(Utilisation(), target)]),
            "gpu-util": lambda target: Hpa([Metric(GpuUtil(), target)]),
            "kv-queue": lambda target: Hpa([Metric(KvUse(), target), Metric(Queue(), QUEUE_PER_REPLICA)]),
        },
        (hpa, behaviour, signals),
    ),
    Peer(
        "keda",
        {
            "work": lambda target: Keda([Metric(WorkRate(), target)]),
            "gpu-util": lambda target: Keda([Metric(Summed(GpuUtil()), target)]),
            "kv-queue": lambda target: Keda([Metric(Summed(KvUse()), target), Metric(Queue(), QUEUE_PER_REPLICA)]),
        },
        (keda, hpa, behaviour, signals),
    ),
    Peer("kpa", {"concurrency": Kpa}, (kpa, signals)),
    Peer("ray-serve", {"ongoing": lambda target: RayServe(Config(target * SLOTS))}, (ray_serve, signals)),
    Peer("apa", {"kv": lambda target: Apa(ApaSettings(target))}, (apa, engine)),
    Peer("wva", {"saturation": lambda _: Wva()}, (wva, engine), ()),
    Peer("foresight", {"future": lambda _: Foresight()}, (foresight, lookahead), ()),
)
BY_NAME: Mapping[str, Peer] = {peer.name: peer for peer in PEERS}
LIMITS = frozenset({"foresight", "bound"})  # no peers: what nobody passes
