"""How values are spelled over HTTP: camelCase keys, instants as RFC 3339 UTC, unknown as null. All of it by types.

Every Struct has a twin, made once from its annotations: the same fields with camelCase names and `datetime` where an
`Instant` stands. The twin is what bodies are checked against and what the OpenAPI document describes; the journal
keeps its own spelling (domain/codec.py). Keys of dicts are data and stay as they are.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from rebalancer.domain.instant import Instant

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_SECONDS: Final = 253_402_300_799  # 9999-12-31T23:59:59Z: RFC 3339 ends there
_MILLISECOND: Final = timedelta(milliseconds=1)
_WHEN: Final = Annotated[datetime, Meta(tz=True)]


def to_wire(value: object) -> bytes:
    """JSON of `value`: a Struct, or lists, tuples and dicts of them."""
    return msgspec.json.encode(_spelled(value))


def from_wire(data: bytes | str, kind: type[T]) -> T:
    """The value of type `kind` that JSON `data` spells. Raises msgspec.DecodeError, whose text names keys as sent."""
    return _native(msgspec.json.decode(data, type=twin(kind)))  # type: ignore[no-any-return]  # the twin's own kind


def from_text(values: Mapping[str, str], kind: type[T]) -> T:
    """The Struct `kind` of which `values` are the fields, each as text. Raises msgspec.ValidationError."""
    return _native(msgspec.convert(values, twin(kind), strict=False))  # type: ignore[no-any-return]  # as above


def schemas(kinds: Iterable[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """JSON schemas of `kinds` in their order, and the named components to which they refer."""
    return msgspec.json.schema_components([twin(kind) for kind in kinds], ref_template="#/components/schemas/{name}")


def instant_text(at: float) -> str | None:
    """`2027-01-16T03:12:07Z`, with milliseconds where there are any; None for what is no instant."""
    if not math.isfinite(at):
        return None
    seconds, milliseconds = divmod(round(at * 1000), 1000)
    if not 0 <= seconds <= _LATEST_SECONDS:
        return None
    return f"{_second_text(seconds)}.{milliseconds:03}Z" if milliseconds else f"{_second_text(seconds)}Z"


def instant_of(text: str) -> float:
    """The instant that RFC 3339 `text` names. Raises msgspec.ValidationError."""
    return _seconds(msgspec.convert(text, _WHEN))


@lru_cache(maxsize=4096)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def _seconds(when: datetime) -> float:
    return (when - _EPOCH).total_seconds()


def twin(kind: Any) -> Any:  # noqa: ANN401  annotations are of any shape
    """What `kind` is on the wire."""
    if kind == Instant:
        return _WHEN
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct_twin(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return Annotated[(twin(parts[0]), *parts[1:])]
    if origin in (Union, UnionType):
        return reduce(or_, [twin(part) for part in parts])
    return origin[tuple(twin(part) for part in parts)] if origin in (tuple, list, dict, frozenset) else kind


@cache
def _struct_twin(kind: type[Struct]) -> type[Struct]:
    hints, config = get_type_hints(kind, include_extras=True), kind.__struct_config__
    keys = {each.name: _key(each) for each in msgspec.structs.fields(kind)}
    whole, _ = _described(kind, keys)
    bases = [base for base in reversed(kind.__mro__) if issubclass(base, Struct)]
    about = {name: line for base in bases for name, line in _described(base, keys)[1].items()}
    made = msgspec.defstruct(
        kind.__name__,
        [_field(field, hints[field.name], about.get(field.name)) for field in msgspec.structs.fields(kind)],
        module=kind.__module__,
        rename=keys,
        frozen=True,
        kw_only=True,
        tag=config.tag,
        tag_field=config.tag_field,
        forbid_unknown_fields=config.forbid_unknown_fields,
    )
    made.__doc__ = whole
    _NATIVE[made] = kind
    return made


_NATIVE: Final[dict[type, type[Struct]]] = {}


def _key(field: msgspec.structs.FieldInfo) -> str:
    """The key that the field names, else its name: `last_60s` is last60s, where the library's own rule makes 60S."""
    first, *others = field.encode_name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _described(kind: type[Struct], keys: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The docstring without its lines for fields, and those lines by field; fields and None are called as in JSON."""
    text = inspect.cleandoc(kind.__doc__ or "")
    for name, key in keys.items():
        text = text.replace(f"`{name}`", f"`{key}`")
    text = re.sub(r"\b(True|False)(?= where\b)", lambda word: word[0].lower(), re.sub(r"\bNone\b", "null", text))
    lines = re.compile(rf"^({'|'.join(keys)}): (.*(?:\n[ ]+\S.*)*)\n?", re.MULTILINE)
    about = {name: " ".join(line.split()) for name, line in lines.findall(text)} if keys else {}
    return (lines.sub("", text) if about else text).strip(), about


def _field(field: msgspec.structs.FieldInfo, hint: object, about: str | None) -> tuple[str, Any, Any]:
    """A field as `defstruct` takes it. The default of a Struct field is a Struct: only `_native` values come of it."""
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    kind = twin(hint) if about is None else Annotated[twin(hint), Meta(description=about)]
    return (field.name, kind, default if default is msgspec.NODEFAULT else _twin_default(default))


def _twin_default(value: Any) -> Any:  # noqa: ANN401  defaults are of any type
    if isinstance(value, Struct):
        return msgspec.convert(_spelled(value), _struct_twin(type(value)))
    return msgspec.field(default_factory=type(value)) if isinstance(value, (dict, list)) else value


def _native(value: Any) -> Any:  # noqa: ANN401  any value of a body
    """The twin's value as one of the kind it stands for."""
    kind = type(value)
    if native := _NATIVE.get(kind):
        return native(**{name: _native(getattr(value, name)) for name in kind.__struct_fields__})
    if kind is datetime:
        return _seconds(value)
    if kind in (tuple, list, frozenset):
        return kind(map(_native, value))
    return {key: _native(each) for key, each in value.items()} if kind is dict else value


def _spelled(value: Any) -> Any:  # noqa: ANN401  any value of an answer
    """`value` as what msgspec encodes as it stands."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind is dict:
        return {key: _spelled(each) for key, each in value.items()}
    if kind in (tuple, list, frozenset):
        return [_spelled(each) for each in value]
    if not isinstance(value, Struct):
        return value
    tag, fields = _spelling(type(value))
    members = ((key, spell, getattr(value, name)) for name, key, spell in fields)
    return {**tag, **{key: spell(each) for key, spell, each in members if each is not msgspec.UNSET}}


@cache
def _spelling(kind: type[Struct]) -> tuple[dict[str, Any], tuple[tuple[str, str, Callable[[Any], Any]], ...]]:
    """The tag, and of each field its name, its key and what spells its value."""
    made, hints = _struct_twin(kind), get_type_hints(kind, include_extras=True)
    tag = {str(made.__struct_config__.tag_field): made.__struct_config__.tag} if made.__struct_config__.tag else {}
    names = zip(made.__struct_fields__, made.__struct_encode_fields__, strict=True)
    return tag, tuple((name, key, _instant if _has_instant(hints[name]) else _spelled) for name, key in names)


def _has_instant(hint: object) -> bool:
    return hint == Instant or any(_has_instant(part) for part in get_args(hint))


def _instant(value: Any) -> Any:  # noqa: ANN401  an instant, None, or a collection of them
    if isinstance(value, (float, int)):
        return instant_text(value)
    return None if value is None else [_instant(each) for each in value]
