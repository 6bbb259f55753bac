"""The journal: each cycle's inputs as a difference to the last, its plan, what became of it. JSON lines, sorted keys.

A reader starts at any keyframe (`Frame` lines, chunked so that one fits a Kafka record) and applies `Cycle` deltas;
with the policy in force that is all `plan` needs, so a decision can be re-made and compared byte by byte.
Size: a cycle costs about 250 bytes a model whose readings changed (planning's explanation included about 1 KB), a
keyframe about 1.5 KB a model; files rotate at an eighth of the budget and the oldest go.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rebalancer import __version__
from rebalancer.domain.codec import digest, from_bytes, to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.node_groups import NodeGroupView
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import NodePoolView, NodeView, PoolView
from rebalancer.domain.quota_view import Holder, PodRank, QuotaView
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import ModelView, NoticeView, Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.ledger.look_lines import LookLine

CHUNK = 200  # models (or nodes) per keyframe line: about 300 KB, under Kafka's default 1 MiB record

T = TypeVar("T")


class PoolDelta(Struct, frozen=True, omit_defaults=True):
    """Nodes of one pool that changed or went; None = unchanged.

    name: name of the pool.
    nodes: those that came or changed.
    nodes_gone: names of those that went.
    node_pools: all of its NodePools.
    others: who holds GPUs of it besides the models.
    node_groups: all node groups of the pool.
    preemptible: who holds GPUs of it that a replica gets by preemption.
    not_preemptible: why others are not preempted.
    """

    name: str
    nodes: tuple[NodeView, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    node_pools: tuple[NodePoolView, ...] | None = None
    others: tuple[Holder, ...] | None = None
    node_groups: tuple[NodeGroupView, ...] | None = None
    preemptible: tuple[Holder, ...] | None = None
    not_preemptible: str | None = None


_PARTS = ("node_pools", "others", "node_groups", "preemptible", "not_preemptible")
"""Of a pool, beside its nodes: each is told whole where it changed."""


class Delta(Struct, frozen=True, omit_defaults=True):
    """What differs from the previous snapshot; small parts are repeated whole.

    cycle: number of the cycle.
    at: UTC epoch seconds at which the snapshot was taken.
    sync: whether all sources are listed and fresh, whole.
    write_stop: the WriteStop in force, whole; None where there is none.
    overrides: all overrides, whole.
    notices: all nodes under notice, whole.
    outcomes: outcomes of our writes since the cycle before, whole.
    pools: of pools that came or changed, what did.
    pools_gone: names of pools that went.
    models: models that came or changed, each whole.
    models_gone: ids of models that went.
    loads: loads of models that came or changed, each whole.
    loads_gone: ids of models whose load went.
    marks_victims: whether a release marks the pods that shall go.
    quotas: all quotas, None = unchanged.
    drains_nodes: whether nodes may be cordoned and their replicas evicted, where the policy wants it.
    ranks: all PriorityClasses of targets' pods, None = unchanged.
    """

    cycle: int
    at: float
    sync: Sync = Sync()
    write_stop: WriteStop | None = None
    overrides: tuple[Override, ...] = ()
    notices: tuple[NoticeView, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    pools: tuple[PoolDelta, ...] = ()
    pools_gone: tuple[str, ...] = ()
    models: tuple[ModelView, ...] = ()
    models_gone: tuple[str, ...] = ()
    loads: tuple[ModelLoad, ...] = ()
    loads_gone: tuple[str, ...] = ()
    marks_victims: bool = True
    quotas: tuple[QuotaView, ...] | None = None
    drains_nodes: bool = False
    ranks: tuple[PodRank, ...] | None = None


class PolicyLine(Struct, frozen=True, tag="policy", tag_field="line"):
    """The policy in force from here on, and the code that decides.

    at: UTC epoch seconds from which on it is in force.
    digest: digest of the policy, by which lines of cycles name it.
    code: hash of the source that decides, by `code_digest`.
    version: version of the package.
    policy: the policy, as the mapping that its file has.
    """

    at: float
    digest: str
    code: str
    version: str
    policy: dict[str, object]


class FrameLine(Struct, frozen=True, tag="frame", tag_field="line"):
    """One chunk of a keyframe: together a difference from nothing.

    cycle: number of the cycle.
    part: number of the chunk, from 0 on.
    parts: how many chunks the keyframe has.
    delta: what the chunk has of the snapshot.
    memory: memory before the cycle, in the first chunk; None in the others.
    """

    cycle: int
    part: int
    parts: int
    delta: Delta
    memory: Memory | None = None


class CycleLine(Struct, frozen=True, omit_defaults=True, tag="cycle", tag_field="line"):
    """One decision.

    delta: what differs from the snapshot of the cycle before, or of this cycle's own keyframe.
    plan: the exact bytes of the plan.
    memory: digest of what was remembered after it.
    policy: digest of the policy in force.
    differs_from: number of the cycle whose snapshot that was; None where an earlier version wrote the line.
    """

    delta: Delta
    plan: msgspec.Raw
    memory: str
    policy: str
    differs_from: int | None = None

    def follows(self, snapshot: Snapshot) -> bool:
        """Whether its delta is to `snapshot`, which is False where a full disk took a line between them.

        Numbers alone do not say so: a cycle that failed has left its own out. Lines that do not say are believed.
        """
        return self.differs_from in {None, snapshot.cycle}


class IntentLine(Struct, frozen=True, tag="intent", tag_field="line"):
    """About to be written."""

    intent: Intent


class OutcomeLine(Struct, frozen=True, tag="outcome", tag_field="line"):
    """What became of it."""

    outcome: Outcome


LedgerLine = PolicyLine | LookLine
Line = PolicyLine | FrameLine | CycleLine | IntentLine | OutcomeLine

EMPTY = Snapshot(cycle=0, at=0.0)

# How a frame's or a cycle's line begins, keys being sorted: (a frame's own cycle), instant, cycle. Who looks for one
# cycle of 32 MiB of them decodes a few.
MARK = re.compile(rb'^\{("cycle":\d+,)?"delta":\{"at":([-+.0-9e]+),"cycle":(\d+)[,}]')
MARK_BYTES = 96


def code_digest() -> str:
    """Hash of the source that decides (domain, planning): a replay under other code says so."""
    digest = hashlib.sha256()
    for name, source in code_sources():
        digest.update(name.encode() + b"\0" + source)
    return digest.hexdigest()[:16]


def code_sources() -> Iterator[tuple[str, bytes]]:
    """Every module that decides, as its path below the package and its text; ordered by path."""
    package = resources.files("rebalancer")
    for room in ("domain", "planning"):
        yield from _below(room, package / room)


def _below(path: str, folder: Traversable) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        inner = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _below(inner, entry)
        elif entry.name.endswith(".py"):
            yield inner, entry.read_bytes()


def policy_line(policy: Policy, at: float, code: str) -> PolicyLine:
    """The line that puts `policy` in force."""
    mapping = policy.to_mapping()
    return PolicyLine(at=at, digest=digest(mapping), code=code, version=__version__, policy=mapping)


def difference(before: Snapshot, after: Snapshot) -> Delta:
    """What `apply(before, ...)` needs to become `after`. Unchanged parts are the same objects, so this is cheap."""
    models, models_gone = _changed(before.models, after.models, "id")
    loads, loads_gone = _changed(before.loads, after.loads, "model")
    old_pools = {pool.name: pool for pool in before.pools}
    pools = tuple(
        delta for pool in after.pools if (delta := _pool_difference(old_pools.get(pool.name), pool)) is not None
    )
    return Delta(
        cycle=after.cycle,
        at=after.at,
        sync=after.sync,
        write_stop=after.write_stop,
        overrides=after.overrides,
        notices=after.notices,
        outcomes=after.outcomes,
        pools=pools,
        pools_gone=tuple(sorted(old_pools.keys() - {pool.name for pool in after.pools})),
        models=models,
        models_gone=models_gone,
        loads=loads,
        loads_gone=loads_gone,
        marks_victims=after.marks_victims,
        quotas=None if before.quotas == after.quotas else after.quotas,
        drains_nodes=after.drains_nodes,
        ranks=None if before.ranks == after.ranks else after.ranks,
    )


def _pool_difference(before: PoolView | None, after: PoolView) -> PoolDelta | None:
    if before is not None and (before is after or before == after):
        return None
    nodes, gone = _changed(before.nodes if before else (), after.nodes, "name")
    was = before or PoolView(name=after.name)
    parts = {name: part for name in _PARTS if (part := getattr(after, name)) != getattr(was, name)}
    return PoolDelta(after.name, nodes, gone, **parts)


def _changed(before: tuple[T, ...], after: tuple[T, ...], key: str) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """(new or changed values, keys that are gone)."""
    old = {getattr(each, key): each for each in before}
    changed = tuple(
        each for each in after if (known := old.pop(getattr(each, key), None)) is not each and known != each
    )
    return changed, tuple(sorted(old))


def apply(before: Snapshot, delta: Delta) -> Snapshot:
    """The snapshot that `delta` describes, given the one before it."""
    pools = {pool.name: pool for pool in before.pools if pool.name not in delta.pools_gone}
    for change in delta.pools:
        old = pools.get(change.name, PoolView(name=change.name))
        nodes = _merged(old.nodes, change.nodes, change.nodes_gone, "name")
        parts = {name: part for name in _PARTS if (part := getattr(change, name)) is not None}
        pools[change.name] = replace(old, nodes=nodes, **parts)
    return Snapshot(
        cycle=delta.cycle,
        at=delta.at,
        sync=delta.sync,
        write_stop=delta.write_stop,
        overrides=delta.overrides,
        notices=delta.notices,
        outcomes=delta.outcomes,
        pools=tuple(pools[name] for name in sorted(pools)),
        models=_merged(before.models, delta.models, delta.models_gone, "id"),
        loads=_merged(before.loads, delta.loads, delta.loads_gone, "model"),
        marks_victims=delta.marks_victims,
        quotas=before.quotas if delta.quotas is None else delta.quotas,
        drains_nodes=delta.drains_nodes,
        ranks=before.ranks if delta.ranks is None else delta.ranks,
    )


def _merged(before: tuple[T, ...], changed: tuple[T, ...], gone: tuple[str, ...], key: str) -> tuple[T, ...]:
    merged = {getattr(each, key): each for each in before}
    for name in gone:
        merged.pop(name, None)
    merged.update((getattr(each, key), each) for each in changed)
    return tuple(merged[name] for name in sorted(merged))


def keyframe(snapshot: Snapshot, memory: Memory) -> Iterator[FrameLine]:
    """`snapshot` from nothing, in chunks, with the memory that goes into its cycle."""
    whole = difference(EMPTY, snapshot)
    small = replace(whole, pools=(), models=(), loads=(), quotas=None, ranks=None)
    pieces: list[Delta] = [replace(small, pools=(_bare(pool),)) for pool in whole.pools]
    for pool in whole.pools:
        pieces += [replace(small, pools=(PoolDelta(name=pool.name, nodes=chunk),)) for chunk in _chunks(pool.nodes)]
    pieces += [replace(small, models=chunk) for chunk in _chunks(whole.models)]
    pieces += [replace(small, loads=chunk) for chunk in _chunks(whole.loads)]
    pieces += [replace(small, quotas=whole.quotas, ranks=whole.ranks)] if whole.quotas or whole.ranks else []
    pieces = pieces or [small]
    for part, delta in enumerate(pieces):
        yield FrameLine(
            cycle=snapshot.cycle, part=part, parts=len(pieces), delta=delta, memory=None if part else memory
        )


def _bare(pool: PoolDelta) -> PoolDelta:
    return replace(pool, nodes=(), nodes_gone=())


def _chunks(values: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


def cycle_line(before: Snapshot, snapshot: Snapshot, decision: Decision, policy_digest: str) -> CycleLine:
    """The line of one cycle."""
    return CycleLine(
        delta=difference(before, snapshot),
        plan=msgspec.Raw(to_bytes(decision.plan)),
        memory=digest(decision.memory),
        policy=policy_digest,
        differs_from=before.cycle,
    )


def decode(data: bytes) -> Line:
    """One line of a journal. Raises msgspec.DecodeError or ValidationError when it is not one."""
    return from_bytes(data, Line)  # type: ignore[arg-type]  # a union of structs is a valid msgspec type


def decode_ledger(data: bytes) -> LedgerLine:
    """One line of a ledger. Raises msgspec.DecodeError or ValidationError when it is not one."""
    return from_bytes(data, LedgerLine)  # type: ignore[arg-type]  # a union of structs is a valid msgspec type


def encode(line: Line | LedgerLine) -> bytes:
    """The line as bytes, with the newline."""
    return to_bytes(line) + b"\n"


def decode_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, Line]]:
    """(line number from 1, line) of a journal's lines; an unfinished last line (the process was killed) is skipped."""
    for number, raw in enumerate(lines, 1):
        if raw.endswith(b"\n"):
            yield number, decode(raw)
