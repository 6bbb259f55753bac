"""The controllers that the suite plays on the fast path, with the settings over which each is tuned."""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from types import ModuleType
from typing import Literal, get_args

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fluid import fast, fleet, karpenter, serving
from rebalancer.sim.limits import foresight, lookahead
from rebalancer.sim.limits.foresight import PerfectForesight, Utility
from rebalancer.sim.peers import apa, behaviour, engine, hpa, keda, kpa, ray_serve, signals, spothedge, static, wva
from rebalancer.sim.peers.apa import Apa, ApaSettings
from rebalancer.sim.peers.faro import controllers, jobs, policy, queueing, reactive, solver
from rebalancer.sim.peers.faro.controllers import (
    OnFluid,
    OnRequests,
    ShowsLatency,
    faro_on_fluid,
    faro_on_requests,
)
from rebalancer.sim.peers.faro.policy import FaroPolicy
from rebalancer.sim.peers.faro.reactive import TICK_SECONDS, Aiad, Oneshot
from rebalancer.sim.peers.faro.solver import FaroSettings, Objective
from rebalancer.sim.peers.hpa import HpaMetric, HpaPeer
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.kpa import Kpa
from rebalancer.sim.peers.kueue import controller as kueue
from rebalancer.sim.peers.kueue import preemption, quota, scheduler
from rebalancer.sim.peers.kueue import settings as rationing
from rebalancer.sim.peers.kueue.controller import KedaKueue
from rebalancer.sim.peers.ray_serve import Config, RayServe
from rebalancer.sim.peers.signals import GpuUtil, KvUse, Queue, Summed, Utilisation, WorkRate
from rebalancer.sim.peers.spothedge import HedgeSettings, SpotHedge
from rebalancer.sim.peers.static import Static
from rebalancer.sim.peers.wva import Thresholds, Wva
from rebalancer.sim.scenario import BY_MINUTE

TARGETS = tuple(round(0.025 * step, 3) for step in range(20, 41))  # 0.5 to 1: of a full replica, GPU_UTIL or KV use
SHARE = (0.2, 1.0)  # what a gauge that cannot exceed 1 may be asked to be
RATE = (0.2, 1.2)  # work that arrives may exceed what replicas can do
IN_HAND = (0.2, 2.0)  # so may requests in service and in the queue; Ray's default is 2 for a replica that serves one
DIGEST_LETTERS = 12
WORLD = (fast, fleet, karpenter, serving)  # who is placed first, who goes, what waits
QUEUE_PER_REPLICA = 5.0  # waiting requests: what llm-d's WVA calls saturated


Knob = Callable[[str], Sequence[str]]
"""Of a signal: the signals that differ from it by one thing."""


class OnSight:
    """A controller that is made for the scenario which it first sees."""

    def __init__(self, make: Callable[[Seen], Controller], every_seconds: int) -> None:
        self.every_seconds = every_seconds
        self._make = make
        self._inner: Controller | None = None

    def decide(self, seen: Seen) -> Sequence[int]:
        """What the one inside decides."""
        if self._inner is None:
            self._inner = self._make(seen)
        return self._inner.decide(seen)


def _faro(objective: Objective) -> Callable[[float], Controller]:
    """Faro with one of its paper's objectives, planning for that percentile of latency."""

    def make(percentile: float) -> Controller:
        settings = FaroSettings(objective, percentile)

        def of(seen: Seen) -> Controller:
            if isinstance(seen, ShowsLatency):
                return faro_on_requests(seen.scenario, settings)
            return faro_on_fluid(seen.scenario, settings)

        return OnSight(of, TICK_SECONDS)

    return make


def _apa(window_seconds: int, cooldown: Literal["least", "most"]) -> Callable[[float], Controller]:
    """AIBrix's, with the window that its metric is averaged over, and what its cooldown makes of a decrease."""
    return lambda target: Apa(ApaSettings(target, window_seconds=window_seconds, cooldown=cooldown))


def _wva(every_seconds: int) -> Callable[[float], Controller]:
    """llm-d's, optimising so often; the target is the KV use from which a replica is saturated."""
    return lambda target: Wva(Thresholds(kv=target), every_seconds)


def _keda_metrics(signal: rationing.Signal, target: float) -> list[HpaMetric]:
    match signal:
        case "work":
            return [HpaMetric(WorkRate(), target)]
        case "gpu-util":
            return [HpaMetric(Summed(GpuUtil()), target)]
        case "kv-queue":
            return [HpaMetric(Summed(KvUse()), target), HpaMetric(Queue(), QUEUE_PER_REPLICA)]


def _keda(signal: rationing.Signal) -> Callable[[float], Controller]:
    return lambda target: Keda(_keda_metrics(signal, target))


def _kueue(settings: rationing.KueueSettings) -> Callable[[float], Controller]:
    """KEDA's replicas as far as Kueue admits them."""
    return lambda target: KedaKueue(_keda_metrics(settings.signal, target), settings)


def _rationed(knob: Callable[[rationing.KueueSettings], list[rationing.KueueSettings]]) -> Knob:
    """A knob of Kueue's, by the names of settings."""
    return lambda name: [settings.name for settings in knob(_RATIONED[name])]


def _baseline(make: Callable[[], FaroPolicy]) -> Callable[[float], Controller]:
    """A baseline of Faro's paper, which has nothing to tune."""

    def of(seen: Seen) -> Controller:
        return OnRequests(make()) if isinstance(seen, ShowsLatency) else OnFluid(make())

    return lambda _: OnSight(of, TICK_SECONDS)


def _foresight(seen: Seen) -> Controller:
    """It minimises what the scenario is about: utility in Faro's, late requests elsewhere."""
    return PerfectForesight(Utility() if seen.scenario.name in BY_MINUTE else None)


@dataclass(frozen=True, slots=True)
class Peer:
    """A controller that the suite plays, with the settings over which it is tuned.

    A target is a share of a full replica, Faro's a percentile of latency.

    name: its name in tables and commands.
    signals: what makes its controller for a target, by the signal that the controller looks at.
    modules: the modules that hold its code.
    targets: targets that tuning begins with, in equal steps; empty where there is nothing to tune: then `signals` has
        one entry, which ignores its target.
    reach: the least and the most target that tuning goes on to where the best one lies at an end of `targets`, by
        signal; SHARE for a signal that is not in it.
    default: target for who does not tune.
    most: the most target that may be asked for; of a share it is what two replicas do.
    scenarios: the scenarios that it is made for; empty: all of them.
    few: signals that tuning begins with where there are too many to try them all; empty: it tries all.
    knobs: knobs that tuning then turns one after the other, from the best signal so far; empty: it has none.
    """

    name: str
    signals: Mapping[str, Callable[[float], Controller]]
    modules: tuple[ModuleType, ...]
    targets: tuple[float, ...] = TARGETS
    reach: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    default: float = 0.7
    most: float = 2.0
    scenarios: frozenset[str] = frozenset()
    few: tuple[str, ...] = ()
    knobs: tuple[Knob, ...] = ()

    @property
    def begins(self) -> tuple[str, ...]:
        """The signals that tuning begins with."""
        return self.few or tuple(self.signals)

    def plays(self, scenario: str) -> bool:
        """Whether it is made for that scenario."""
        return not self.scenarios or scenario in self.scenarios

    def reach_of(self, signal: str) -> tuple[float, float]:
        """The least and the most target that means something."""
        return self.reach.get(signal, SHARE)

    def make(self, tuning: str | None) -> Controller:
        """A new one. `tuning`: "signal@target" as committed; None for what is not tuned."""
        if tuning is None:
            return next(iter(self.signals.values()))(0.0)
        signal, _, target = tuning.partition("@")
        return self.signals[signal](float(target))

    @property
    def tunings(self) -> list[str]:
        """Every setting that tuning may begin with."""
        return [f"{signal}@{target:g}" for signal in self.begins for target in self.targets]

    @property
    def digest(self) -> str:
        """A hash of the peer's code and of the world it is tuned in: a tuning found with others may be stale.

        Comments and docstrings do not count.
        """
        return _hash("".join(_code(module) for module in (*self.modules, *WORLD)))

    @property
    def grid(self) -> str:
        """A hash of the settings that its search begins with and can reach."""
        return _hash(" ".join([*self.tunings, *sorted(self.signals)]) + repr(sorted(self.reach.items())))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:DIGEST_LETTERS]


@cache
def _code(module: ModuleType) -> str:
    """What a module does, as a syntax tree; where it finds what it uses does not count."""
    tree = ast.parse(inspect.getsource(module))
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return ast.dump(tree)


_SIGNALS: tuple[rationing.Signal, ...] = get_args(rationing.Signal)
_RATIONED: Mapping[str, rationing.KueueSettings] = {settings.name: settings for settings in rationing.every()}
_FARO = (controllers, jobs, policy, queueing, reactive, solver)

PEERS: tuple[Peer, ...] = (
    Peer("static", {"none": lambda _: Static()}, (static,), ()),
    Peer(
        "hpa",
        {
            "work": lambda target: HpaPeer([HpaMetric(Utilisation(), target)]),
            "gpu-util": lambda target: HpaPeer([HpaMetric(GpuUtil(), target)]),
            "kv-queue": lambda target: HpaPeer([HpaMetric(KvUse(), target), HpaMetric(Queue(), QUEUE_PER_REPLICA)]),
        },
        (hpa, behaviour, signals, engine),
    ),
    Peer(
        "keda",
        {signal: _keda(signal) for signal in _SIGNALS},
        (keda, hpa, behaviour, signals, engine),
        reach={"work": RATE},
    ),
    Peer(
        "kueue",
        {name: _kueue(settings) for name, settings in _RATIONED.items()},
        (kueue, scheduler, preemption, quota, rationing, keda, hpa, behaviour, signals, engine),
        reach={name: RATE for name, settings in _RATIONED.items() if settings.signal == "work"},
        few=_SIGNALS,
        knobs=tuple(map(_rationed, rationing.KNOBS)),
    ),
    Peer("kpa", {"concurrency": Kpa}, (kpa, signals, engine), reach={"concurrency": IN_HAND}),
    Peer(
        "ray-serve",
        {"ongoing": lambda target: RayServe(Config(), target)},
        (ray_serve, signals, engine),
        reach={"ongoing": IN_HAND},
    ),
    Peer(
        "apa",
        {
            "kv": _apa(180, "least"),
            "kv-most": _apa(180, "most"),
            "kv-60": _apa(60, "least"),
            "kv-60-most": _apa(60, "most"),
        },
        (apa, engine),
    ),
    Peer(
        "wva",
        {"saturation": _wva(60), "saturation-30": _wva(30), "saturation-15": _wva(15)},
        (wva, engine),
        default=Thresholds().kv,
    ),
    Peer(
        "faro",
        {each.value: _faro(each) for each in (Objective.FAIR_SUM, Objective.SUM, Objective.FAIR)},
        _FARO,
        (FaroSettings().percentile,),
        default=FaroSettings().percentile,
        most=99.99,  # of a percentile
    ),
    Peer("aiad", {"latency": _baseline(Aiad)}, _FARO, (), scenarios=BY_MINUTE),  # its paper's own baselines
    Peer("oneshot", {"latency": _baseline(Oneshot)}, _FARO, (), scenarios=BY_MINUTE),
    Peer(
        "spothedge",
        {"work": lambda target: SpotHedge(HedgeSettings(target))},
        (spothedge,),
        reach={"work": RATE},
        scenarios=frozenset({"S6"}),  # elsewhere there is nothing to hedge
    ),
    Peer(
        "foresight",
        {"future": lambda _: OnSight(_foresight, PerfectForesight().every_seconds)},
        (foresight, lookahead),
        (),
    ),
)
BY_NAME: Mapping[str, Peer] = {peer.name: peer for peer in PEERS}
LIMITS = frozenset({"foresight", "bound"})  # no peers: what nobody passes
TOLD_THE_FUTURE = frozenset({"faro"})  # peers whose forecasts are perfect
