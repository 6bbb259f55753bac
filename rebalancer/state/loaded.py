"""GPU memory that replicas take once they are loaded: the first plateau of what their GPUs have in use.

A pod is measured once, soon after it became Ready: later its engine holds caches that it could do without. Engines that
have a KV cache of fixed size, or that take most of the GPUs' memory, reserve it whatever they need: of these the figure
says nothing about need, and is told as such.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.codec import quantise
from rebalancer.domain.events import MetricSample
from rebalancer.domain.gpu_memory import LoadedMemory, MeasuredLoad
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import ModelView

REMEMBERED = 5  # of each model: what a new version of its weights takes counts within as many starts
SOON_SECONDS = 300.0  # after Ready; two scrapes of a minute may go by before the first reading
STILL_SAMPLES = 3
STILL_SECONDS = 20.0
STILL_SHARE = 0.02  # of the first reading: allocations of a request come and go within it
# vLLM takes 0.9, SGLang and TensorRT-LLM as much; weights that fill so much leave no room for work.
RESERVED_SHARE = 0.8
MIB_PER_GIB = 1024.0


@dataclass(slots=True)
class _Plateau:
    """Readings of one pod that stand still so far; `done`: it is measured, or it is too late for that."""

    since: float
    until: float
    first_mib: float
    most_mib: float
    samples: int = 1
    done: bool = False


class MeasuredLoads:
    """What was measured, by model: `take` has samples of its Ready pods, `onto` puts it on the models' views."""

    def __init__(self, policy: Policy) -> None:
        self._measured: dict[str, deque[MeasuredLoad]] = {}
        self._caching: set[str] = set()  # models whose engines have a KV cache of fixed size
        self._plateaus: dict[str, _Plateau] = {}  # by UID
        self._seen: tuple[ModelView, ...] = ()
        self._shown: tuple[ModelView, ...] | None = None
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Forget models that are not in it any more."""
        self._pods = {model.id: model.pods_per_replica for model in policy.models}
        self._measured = {name: loads for name, loads in self._measured.items() if name in self._pods}
        self._caching &= self._pods.keys()
        self._shown = None

    def take(self, model: str, sample: MetricSample, ready_at: float) -> None:
        """A sample of a pod of `model` that is Ready since then."""
        gauges = sample.gauges
        if gauges.kv_cache_use is not None and model not in self._caching:
            self._caching.add(model)
            self._shown = None
        used, free = gauges.fb_used_mib, gauges.fb_free_mib
        if used is None or free is None or used <= 0 or sample.pod is None:
            return
        plateau = self._plateaus.get(sample.pod)
        if plateau is None or (not plateau.done and ready_at > plateau.since):
            self._plateaus[sample.pod] = _begun(sample.at, used, ready_at)
        elif not plateau.done and sample.at > plateau.until:
            self._follow(model, sample.pod, plateau, (sample.at, used, free), ready_at)

    def _follow(
        self, model: str, pod: str, plateau: _Plateau, reading: tuple[float, float, float], ready_at: float
    ) -> None:
        at, used, free = reading
        if abs(used - plateau.first_mib) > STILL_SHARE * plateau.first_mib:
            self._plateaus[pod] = _begun(at, used, ready_at)
            return
        plateau.until, plateau.samples = at, plateau.samples + 1
        plateau.most_mib = max(plateau.most_mib, used)
        if plateau.samples >= STILL_SAMPLES and at - plateau.since >= STILL_SECONDS:
            plateau.done = True
            most = plateau.most_mib
            self._remember(model, MeasuredLoad(quantise(most / MIB_PER_GIB), quantise(most / (used + free)), at))

    def _remember(self, model: str, load: MeasuredLoad) -> None:
        self._measured.setdefault(model, deque(maxlen=REMEMBERED)).append(load)
        self._shown = None

    def gone(self, pod: str) -> None:
        """The pod with this UID is no more."""
        self._plateaus.pop(pod, None)

    # --- what goes out

    def memory(self, model: str) -> LoadedMemory | None:
        """What was measured of the model's last replicas; None before the first."""
        loads = self._measured.get(model)
        if not loads:
            return None
        share = max(load.share for load in loads)
        reserved = share if model in self._caching or share >= RESERVED_SHARE else None
        return LoadedMemory(min(load.gib for load in loads) * self._pods[model], len(loads), reserved)

    def onto(self, views: tuple[ModelView, ...]) -> tuple[ModelView, ...]:
        """The views, each with what was measured; what did not change is the same value as last time."""
        if self._shown is None or views is not self._seen:
            known = {view.id: view for view in self._shown or ()}
            self._seen = views
            self._shown = tuple(_unchanged(known.get(view.id), view, self.memory(view.id)) for view in views)
        return self._shown

    # --- the checkpoint

    def past(self, model: str) -> tuple[tuple[MeasuredLoad, ...], bool]:
        """What is remembered, oldest first, and whether its engines have a KV cache of fixed size."""
        return tuple(self._measured.get(model, ())), model in self._caching

    def restore(self, model: str, loads: Iterable[MeasuredLoad], *, caching: bool) -> None:
        """Put back what `past` gave."""
        for load in loads:
            self._remember(model, load)
        if caching:
            self._caching.add(model)


def _begun(at: float, used_mib: float, ready_at: float) -> _Plateau:
    """One that begins too long after Ready is none of a load."""
    return _Plateau(at, at, used_mib, used_mib, done=at - ready_at > SOON_SECONDS)


def _unchanged(known: ModelView | None, view: ModelView, memory: LoadedMemory | None) -> ModelView:
    made = view if memory is None else replace(view, loaded=memory)
    return known if known == made else made
