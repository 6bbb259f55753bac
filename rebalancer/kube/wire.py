"""Bytes to values: lists, watch lines and the cutting of a stream into lines. Pure."""

from collections.abc import Callable
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, cast

import msgspec
from typing_extensions import TypeVar

from rebalancer.kube.errors import ErrorStatus as _Status
from rebalancer.kube.errors import Gone, Temporary
from rebalancer.kube.resources import Object

T = TypeVar("T", default=Object)

RAW: Final[Any] = dict
"""Decode into plain dicts: what a call does unless it is told a type."""

_UNFIT: Final = (msgspec.ValidationError, UnicodeDecodeError, RecursionError)
"""What an object raises that cannot be read: a value of another type, text that is no UTF-8, a thousand levels."""

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_GONE: Final = 410


class Page(NamedTuple, Generic[T]):
    """One page of a list.

    items: the objects.
    resource_version: version of the list, from which a watch goes on.
    continue_token: token that the next page is asked for by, "" on the last one.
    malformed: items that were left out because `into` does not fit them, each as `NAMESPACE/NAME: WHY`.
    """

    items: list[T]
    resource_version: str
    continue_token: str
    malformed: list[str]


class WatchEvent(NamedTuple, Generic[T]):
    """One line of a watch.

    kind: what happened to the object; a bookmark tells of none.
    obj: the object, None in a bookmark, and where `into` does not fit it.
    resource_version: version from which a watch that breaks off goes on.
    malformed: the object that `into` does not fit, as `NAMESPACE/NAME: WHY`; "" where there is none.
    """

    kind: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    obj: T | None
    resource_version: str
    malformed: str = ""


Changes: TypeAlias = list[WatchEvent[T]]
"""What one chunk of bytes completed, in the server's order."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[T]):
    """Both fields are required: a body without them is no empty list but no list at all."""

    metadata: _ListMeta
    items: list[T] | None


class _Meta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    namespace: str = ""
    name: str = ""


class _Identity(msgspec.Struct, gc=False):
    metadata: _Meta


class _Line(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


def decode_list(body: bytes, into: type[T] = RAW) -> Page[T]:
    """Decode the answer to a list call; objects that `into` does not fit lose no neighbour.

    Raises msgspec.DecodeError when the body is no Kubernetes list.
    """
    try:
        page = _list_decoder(into).decode(body)
    except _UNFIT:
        return _decode_one_by_one(body, into)
    return Page(page.items or [], page.metadata.resource_version, page.metadata.continue_, [])


def _decode_one_by_one(body: bytes, into: type[T]) -> Page[T]:
    """Slower by half; only for a list that does not decode as a whole."""
    try:
        page = _list_decoder(msgspec.Raw).decode(body)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
    one = msgspec.json.Decoder(into)
    items: list[T] = []
    malformed: list[str] = []
    for raw in page.items or []:
        try:
            items.append(one.decode(raw))
        except _UNFIT as error:
            malformed.append(f"{_name(raw)}: {error}")
    return Page(items, page.metadata.resource_version, page.metadata.continue_, malformed)


def _name(raw: msgspec.Raw) -> str:
    try:
        meta = msgspec.json.decode(raw, type=_Identity).metadata
    except _UNFIT:
        return "an object without a name"
    return "/".join(filter(None, (meta.namespace, meta.name)))


def _list_decoder(into: type[T]) -> msgspec.json.Decoder[_List[T]]:
    return msgspec.json.Decoder(_List[into])  # type: ignore[valid-type]  # a run-time type


def change_decoder(into: type[T] = RAW) -> Callable[[bytes], WatchEvent[T]]:
    """A function that decodes one watch line.

    It raises Gone when the line cannot be read or says 410, Temporary for the server's other errors. An object that
    `into` does not fit costs no list, unless it was deleted: only a list says then that it is gone.
    """
    line_of = msgspec.json.Decoder(_Line).decode
    identity_of = msgspec.json.Decoder(_Identity).decode
    object_of = msgspec.json.Decoder(into).decode

    def decode(data: bytes) -> WatchEvent[T]:
        line, version = None, ""
        try:
            line = line_of(data)
            if line.type == "ERROR":
                raise _watch_error(line.object)
            version = identity_of(line.object).metadata.resource_version
            if line.type not in _KINDS or not version:
                raise Gone(f"a watch line of type {line.type[:20]!r}, resourceVersion {version!r}")
            if line.type == "BOOKMARK":
                return WatchEvent("BOOKMARK", None, version)
            return WatchEvent(cast("_Kind", line.type), object_of(line.object), version)
        except _UNFIT as error:
            if version and line is not None and line.type in {"ADDED", "MODIFIED"}:
                return WatchEvent(cast("_Kind", line.type), None, version, f"{_name(line.object)}: {error}")
            raise _unreadable(data, error) from error
        except msgspec.DecodeError as error:
            raise _unreadable(data, error) from error

    return decode


def _unreadable(data: bytes, error: Exception) -> Gone:
    return Gone(f"a watch line of {len(data)} bytes cannot be read: {error}")


def name_in(malformed: str) -> str:
    """`NAMESPACE/NAME` (or `NAME`) of the object that a text in `malformed` is about."""
    return malformed.partition(": ")[0]


_Kind = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_KINDS: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


def _watch_error(raw: msgspec.Raw) -> Gone | Temporary:
    status = msgspec.json.decode(raw, type=_Status)
    text = f"the watch ended with {status.code} {status.message}"
    return Gone(text) if status.code == _GONE else Temporary(text)


class LineSplitter:
    """Cuts chunks into lines. A line may span any number of chunks and has no limit but its own."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._parts: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Lines that this chunk completed. Raises Gone when an unfinished line outgrows the limit."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._held_bytes = 0
        self._parts.append(rest)
        self._held_bytes += len(rest)
        if self._held_bytes > self._max_line_bytes:
            raise Gone(f"a watch line is longer than {self._max_line_bytes} bytes")
        return [line for line in lines if line]
