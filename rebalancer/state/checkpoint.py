"""The checkpoint that a restart reads: entries of the compacted `state` topic, `memory` and one `rings/MODEL` each.

Every entry carries the offsets of the events it includes: a start seeks to the smallest of them, and an event that an
entry includes already is recognised when it comes again. A damaged entry is reported and skipped: an older one of its
key stands. Memory that is too large for a record comes in chunks (`state.chunks`); of those that are whole the newest
stands. The policy in force stands beside them, once per change: a start whose policy file is bad goes on from it.
"""

import struct
import zlib
from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec import Struct, field

from rebalancer.domain import codec
from rebalancer.domain.gpu_memory import MeasuredLoad
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.domain.starts import MeasuredStart
from rebalancer.state import chunks
from rebalancer.state.foreign import ForeignPast
from rebalancer.state.notices import NoticePast
from rebalancer.state.offered import OfferedPast
from rebalancer.state.rings import SPAN_SECONDS, checked, head_sum

MEMORY_KEY = b"memory"
RINGS_PREFIX = b"rings/"
POLICY_KEY = b"policy"

Offsets = Mapping[tuple[str, int], int]  # next offset per (topic, partition)
Entry = tuple[bytes, bytes]

_SIZE = struct.Struct("<I")
_PAST_SUM = b',"past_sum":'


class ModelPast(Struct, frozen=True):
    """One model's rings, and the figures that were measured beside them.

    rings: the rings as bytes.
    newest_at: event time of its newest sample.
    interval_seconds: seconds between two of its samples.
    seen: next offset of its own samples as an older version knew it, by partition alone.
    offsets: next offset of all events that this includes, by topic and partition.
    load_seconds: seconds of its last starts as an older version measured them, from pod creation to Ready.
    offered: how its work is known, what a request costs and what a replica carries, as learnt.
    starts: its last starts, oldest first.
    positions: next offset of its own samples, by topic and partition.
    loads: GPU memory of its last replicas once loaded, oldest first.
    caching: whether its engines have a KV cache of fixed size.
    head_sum: in an entry the checksum of the rings' head (`rings.head_sum`); None in one of an older version.
    """

    rings: bytes
    newest_at: float = 0.0
    interval_seconds: float = 0.0
    seen: dict[int, int] = {}
    offsets: dict[str, int] = {}
    load_seconds: tuple[float, ...] = ()
    offered: OfferedPast = OfferedPast()
    starts: tuple[MeasuredStart, ...] = ()
    positions: dict[str, int] = {}
    loads: tuple[MeasuredLoad, ...] = ()
    caching: bool = False
    head_sum: int | None = None

    def __post_init__(self) -> None:
        _check(self.offsets, self.positions)

    @property
    def seen_offsets(self) -> dict[tuple[str, int], int]:
        """Next offset of its own samples by (topic, partition); those of an older version are taken for every topic."""
        if self.positions:
            return parsed(self.positions)
        return {place: self.seen[place[1]] for place in parsed(self.offsets) if place[1] in self.seen}

    @property
    def known_starts(self) -> tuple[MeasuredStart, ...]:
        """The model's last starts; those that an older version wrote have no pool, and are of unknown kind."""
        return self.starts or tuple(
            MeasuredStart("", "unknown", seconds, seconds, 0.0) for seconds in self.load_seconds
        )

    def to_bytes(self) -> bytes:
        """The past as a JSON head with its length before it, then the rings as they are.

        The head's last field is the checksum of all that stands before it, whatever fields another version has.
        """
        body = msgspec.json.encode(msgspec.structs.replace(self, rings=b"", head_sum=head_sum(self.rings)))[:-1]
        head = body + _PAST_SUM + b"%d}" % zlib.crc32(body)
        return _SIZE.pack(len(head)) + head + self.rings

    @classmethod
    def from_bytes(cls, data: bytes) -> "ModelPast":
        """The past that `data` spells. Raises ValueError (msgspec's are such) when `to_bytes` did not make it."""
        if len(data) < _SIZE.size:
            raise ValueError(f"a past of {len(data)} bytes is cut short")
        (size,) = _SIZE.unpack_from(data)
        head = codec.from_bytes(_whole(data[_SIZE.size : _SIZE.size + size]), cls)
        if head.offered.capacity is not None:
            head.offered.capacity.check()
        rings = data[_SIZE.size + size :]
        checked(rings)
        if head.head_sum not in {None, head_sum(rings)}:
            raise ValueError("the head of the rings is damaged; they are rebuilt from the metrics topic")
        return msgspec.structs.replace(head, rings=rings, head_sum=None)


def _whole(head: bytes) -> bytes:
    """The head of a past, where its checksum is right; an older version wrote none. Raises ValueError."""
    body, named, value = head.rpartition(_PAST_SUM)
    if named and value != b"%d}" % zlib.crc32(body):
        raise ValueError("the past is damaged; it is rebuilt from the metrics topic")
    return head


class Restored(Struct, frozen=True):
    """The checkpoint as a start found it.

    memory: memory of the newest whole entry.
    cycle: number of the cycle that wrote it, 0 where none is found.
    at: instant of that cycle, None where none is found.
    offsets: next offset to read, by topic and partition.
    rings: the bytes of each model's past, by model id.
    foreign: the last changes by others to numbers that we write, by target.
    notices: knowledge of nodes that vanish or have vanished.
    problems: entries that were skipped, each as a sentence that says why.
    slot: number of the slot for the next memory that needs chunks, so that the one found stands until that is whole.
    writers: instant of the last memory of each installation that wrote one, by its name.
    """

    memory: Memory = Memory()
    cycle: int = 0
    at: float | None = None
    offsets: dict[tuple[str, int], int] = {}
    rings: dict[str, bytes] = {}
    foreign: tuple[ForeignPast, ...] = ()
    notices: tuple[NoticePast, ...] = ()
    problems: tuple[str, ...] = ()
    slot: int = 0
    writers: dict[str, float] = {}


class _MemoryEntry(Struct, frozen=True):
    """The entry `memory` of the topic; fields as of `Restored`.

    memory: memory after the cycle.
    cycle: number of the cycle.
    at: instant of the cycle.
    offsets: next offset of the events it includes, by topic and partition.
    foreign: the last changes by others to numbers that we write, by target.
    notices: knowledge of nodes that vanish or have vanished.
    installation: name of the installation that wrote it, "" of an older version.
    """

    memory: Memory
    cycle: int
    at: float
    offsets: dict[str, int] = field(default_factory=dict)
    foreign: tuple[ForeignPast, ...] = ()
    notices: tuple[NoticePast, ...] = ()
    installation: str = ""

    def __post_init__(self) -> None:
        _check(self.offsets)


def memory_entry(  # noqa: PLR0913  # what the entry is made of
    memory: Memory,
    cycle: int,
    at: float,
    offsets: Offsets,
    foreign: tuple[ForeignPast, ...] = (),
    notices: tuple[NoticePast, ...] = (),
    installation: str = "",
) -> Entry:
    """Key and value of the memory after cycle `cycle`, and of the `foreign` changes and open notices in the state."""
    entry = _MemoryEntry(memory, cycle, at, spelled(offsets), foreign, notices, installation)
    return MEMORY_KEY, codec.to_bytes(entry)


def rings_entry(model: str, past: bytes) -> Entry:
    """Key and value of one model's past."""
    return RINGS_PREFIX + model.encode(), past


def policy_entry(policy: Policy) -> Entry:
    """Key and value of the policy in force. Deflated, a file of 1 MiB (the most there is) fits a broker's record."""
    return POLICY_KEY, zlib.compress(codec.to_bytes(policy.to_mapping()))


def read_policy(entries: Iterable[tuple[bytes | None, bytes | None]]) -> Policy | None:
    """The policy that was in force last; None where none is kept, or none that this version understands."""
    value = next((value for key, value in reversed(list(entries)) if key == POLICY_KEY), None)
    try:
        return None if not value else Policy.model_validate(msgspec.json.decode(zlib.decompress(value)), strict=False)
    except (ValueError, zlib.error):
        return None


def read(entries: Iterable[tuple[bytes | None, bytes | None]], models: Collection[str], now: float) -> Restored:
    """What the entries, oldest first, say about `models`; an empty value forgets its key."""
    remembered = _Remembered()
    rings: dict[str, tuple[bytes, ModelPast]] = {}
    problems: list[str] = []
    for key, value in entries:
        model = (key or b"").removeprefix(RINGS_PREFIX).decode(errors="replace")
        try:
            if chunks.belongs(MEMORY_KEY, key or b""):
                remembered.take(key or b"", value)
            elif key == POLICY_KEY:
                continue
            elif not value:
                rings.pop(model, None)
            elif model in models:
                rings[model] = value, ModelPast.from_bytes(value)
        except ValueError as error:
            problems.append(f"state entry {(key or b'').decode(errors='replace')!r} is unreadable and ignored: {error}")
    memory = remembered.newest
    included = [memory.offsets] if memory else []
    included.extend(past.offsets for _, past in rings.values() if now - past.newest_at < SPAN_SECONDS)
    return Restored(
        memory=memory.memory if memory else Memory(),
        cycle=memory.cycle if memory else 0,
        at=memory.at if memory else None,
        offsets=_smallest(included),
        rings={model: value for model, (value, _) in rings.items()},
        foreign=memory.foreign if memory else (),
        notices=memory.notices if memory else (),
        problems=tuple(problems),
        slot=remembered.next_slot,
        writers=remembered.writers,
    )


class _Remembered:
    """Memory as its records give it: a single one, or chunks; the newest that is whole and can be read."""

    def __init__(self) -> None:
        self.newest: _MemoryEntry | None = None
        self.next_slot = 0
        self.writers: dict[str, float] = {}
        self._chunks = chunks.Gathering(MEMORY_KEY)

    def take(self, key: bytes, value: bytes | None) -> None:
        """The next record. Raises ValueError when it cannot be read."""
        if not value:
            if key == MEMORY_KEY:
                self.newest = None
            return
        whole = self._chunks.take(key, value)
        if whole is not None:
            entry = codec.from_bytes(whole.value, _MemoryEntry)
            if entry.installation:
                self.writers[entry.installation] = entry.at
            if self.newest is None or (entry.cycle, entry.at) >= (self.newest.cycle, self.newest.at):
                self.newest, self.next_slot = entry, whole.next_slot


def spelled(offsets: Offsets) -> dict[str, int]:
    """Offsets with `topic/partition` as key, as JSON wants it."""
    return {f"{topic}/{partition}": offset for (topic, partition), offset in sorted(offsets.items())}


def parsed(offsets: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """The offsets that `spelled` wrote. Raises ValueError for a partition that is no number."""
    places = {spelling: spelling.rpartition("/") for spelling in offsets}
    return {(topic, int(partition)): offsets[spelling] for spelling, (topic, _, partition) in places.items()}


def _check(*spellings: Mapping[str, int]) -> None:
    """Raises ValueError where one is not what `spelled` wrote: the entry is unreadable while an older one can stand."""
    for spelling in spellings:
        parsed(spelling)


def _smallest(included: Iterable[Mapping[str, int]]) -> dict[tuple[str, int], int]:
    smallest: dict[tuple[str, int], int] = {}
    for offsets in included:
        for place, offset in parsed(offsets).items():
            smallest[place] = min(offset, smallest.get(place, offset))
    return smallest
