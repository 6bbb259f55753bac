"""An entry that is larger than a broker's record, as several: they are believed when all of one writing are there.

A compacted topic keeps the last record of each key, so a new writing must not go over the one that stands until it is
whole: two slots of keys take turns, `KEY/0/INDEX` and `KEY/1/INDEX`. What is small stays one record under `KEY`.
"""

import hashlib
from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain import codec

CHUNK_BYTES = 512 * 1024  # brokers take 1 MiB by default, keys and heads included
SLOTS = 2
_LINE = b"\n"

Entry = tuple[bytes, bytes]


class _Head(Struct, frozen=True):
    """Goes before each chunk, on a line of its own. `digest`: of the whole value; it tells one writing from another."""

    digest: str
    index: int
    count: int


def entries(key: bytes, value: bytes, slot: int, most: int = CHUNK_BYTES) -> list[Entry]:
    """The records of one writing of `value`, to be written in this order."""
    if len(value) <= most:
        return [(key, value)]
    pieces = [value[start : start + most] for start in range(0, len(value), most)]
    heads = (_Head(_digest(value), index, len(pieces)) for index in range(len(pieces)))
    return [
        (b"%s/%d/%d" % (key, slot, head.index), codec.to_bytes(head) + _LINE + piece)
        for head, piece in zip(heads, pieces, strict=True)
    ]


class Whole(NamedTuple):
    """A writing that is whole; `next_slot`: where the next one goes, so that this one stands meanwhile."""

    value: bytes
    next_slot: int


class Gathering:
    """The records of one entry as they are read, oldest first."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._slots: dict[int, dict[int, tuple[_Head, bytes]]] = {slot: {} for slot in range(SLOTS)}

    def take(self, name: bytes, record: bytes) -> Whole | None:
        """The writing that this record makes whole, if it does. Raises ValueError for what is no record of ours."""
        if name == self._key:
            return Whole(record, 0)
        slot, head, piece = _chunk(self._key, name, record)
        parts = self._slots[slot]
        parts[head.index] = head, piece
        pieces = sorted((one.index, text) for one, text in parts.values() if one.digest == head.digest)
        if len(pieces) < head.count:
            return None
        value = b"".join(text for _, text in pieces)
        return Whole(value, (slot + 1) % SLOTS) if _digest(value) == head.digest else None


def belongs(key: bytes, name: bytes) -> bool:
    """Whether a record of that name is one of the entry `key`."""
    return name == key or name.startswith(key + b"/")


def _chunk(key: bytes, name: bytes, value: bytes) -> tuple[int, _Head, bytes]:
    slot, _, index = name.removeprefix(key + b"/").partition(b"/")
    head, line, piece = value.partition(_LINE)
    if not line or slot not in {b"%d" % one for one in range(SLOTS)}:
        raise ValueError("no chunk of an entry")
    parsed = codec.from_bytes(head, _Head)
    if index != b"%d" % parsed.index or not 0 <= parsed.index < parsed.count:
        raise ValueError(f"chunk {index.decode(errors='replace')} says that it is {parsed.index} of {parsed.count}")
    return int(slot), parsed, piece


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]
