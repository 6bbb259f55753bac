"""What the ledger keeps of one cycle: who held the GPUs, and what it takes to play the day again. Pure.

A report is made of these and of nothing else, whether they come from the journal or were kept when the journal had to
forget: both come to the same, to the last GPU-microsecond. Between two looks work is what the later one tells.
"""

from collections.abc import Mapping

from msgspec import Struct

from rebalancer.domain.outcome import WRITTEN
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import Carries, ModelLoad, Reading
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.ledger.inventory import Inventory, inventory, ready_replicas, told_work

LATENCY_AGE_SECONDS = 60.0  # of a reading that still tells of the seconds between two looks


class ModelLook(Struct, frozen=True, array_like=True):
    """What one cycle saw of a model's replicas and load.

    model: its id.
    ready: Ready replicas.
    work: replicas of work that are offered, by the shortest window that is known; None while that is unknown.
    minute: the same over the last minute, which says how busy they are; None where it was told too long ago.
    work_of_one: replica-seconds of one request, as the look-ahead learnt them; None where nobody counts requests.
    latency_seconds: p95 that users saw within the last minute; None where nobody told it.
    tokens: tokens in a second, read and written; None where nobody counts them.
    latency_is_above: whether the latency is more than `latency_seconds`, and nobody knows how much.
    """

    model: str
    ready: int
    work: float | None
    minute: float | None
    work_of_one: float | None
    latency_seconds: float | None
    tokens: float | None
    latency_is_above: bool = False


class ModelBounds(Struct, frozen=True, array_like=True):
    """Between which numbers a model's own autoscalers move it.

    model: its id.
    minimum: least replicas that they allow, all targets together, from before the first write of ours; where none has
        a target, the replicas that it asks for.
    maximum: most replicas, likewise.
    autoscalers: kinds of those that there are, sorted.
    """

    model: str
    minimum: int
    maximum: int
    autoscalers: tuple[str, ...]


class LedgerLook(Struct, frozen=True):
    """What the ledger keeps of one cycle.

    inventory: who held which GPUs.
    nodes: GPUs of each Ready node.
    models: by id, those that the policy names.
    bounds: by id, likewise.
    writes: our writes that were carried out since the look before.
    carries: by model what is known of a replica's requests.
    """

    inventory: Inventory
    nodes: tuple[int, ...]
    models: Mapping[str, ModelLook]
    bounds: Mapping[str, ModelBounds]
    writes: int = 0
    carries: Mapping[str, Carries] = {}

    @property
    def at(self) -> float:
        """The instant, in epoch seconds."""
        return self.inventory.at


def look(snapshot: Snapshot, policy: Policy) -> LedgerLook:
    """What the ledger keeps of `snapshot` under `policy`."""
    loads = {load.model: load for load in snapshot.loads}
    entries = {model.id for model in policy.models}
    views = [view for view in snapshot.models if view.id in entries]
    return LedgerLook(
        inventory=inventory(snapshot, policy),
        nodes=tuple(node.gpus for pool in snapshot.pools for node in pool.nodes if node.gpus and node.ready),
        models={view.id: _model(view, loads.get(view.id), policy, snapshot.at) for view in views},
        bounds={view.id: _bounds(view) for view in views},
        writes=sum(outcome.status == WRITTEN for outcome in snapshot.outcomes),
        carries={load.model: load.carries for load in snapshot.loads if load.carries is not None},
    )


def _model(view: ModelView, load: ModelLoad | None, policy: Policy, at: float) -> ModelLook:
    ready = ready_replicas(view)
    if load is None:
        return ModelLook(view.id, ready, None, None, None, None, None)
    reading = load.signals.get("latency")
    latency = reading if isinstance(reading, Reading) and at - reading.at <= LATENCY_AGE_SECONDS else None
    return ModelLook(
        view.id,
        ready,
        load.work.newest,
        told_work(load, policy, at),
        _work_of_one(load),
        None if latency is None else latency.value,
        None if load.tokens is None else load.tokens.prompt + load.tokens.generated,
        latency is not None and latency.above,
    )


def _work_of_one(load: ModelLoad) -> float | None:
    outlook = load.outlook
    counted = outlook is not None and not outlook.by_minute and outlook.work_of_one not in {0.0, 1.0}
    return outlook.work_of_one if outlook is not None and counted else None


def _bounds(view: ModelView) -> ModelBounds:
    least = most = 0
    kinds = set()
    for target in view.targets:
        autoscaler = target.autoscaler
        if autoscaler is None:
            least, most = least + target.replicas, most + target.replicas
            continue
        kinds.add(autoscaler.kind)
        own = autoscaler.originals
        least += autoscaler.minimum if own is None or own.minimum is None else own.minimum
        most += autoscaler.maximum if own is None or own.maximum is None else own.maximum
    return ModelBounds(view.id, least, most, tuple(sorted(kinds)))
