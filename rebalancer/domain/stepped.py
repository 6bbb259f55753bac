"""Corrects all remembered instants when the clock was set: a state that has lasted 10 s has lasted 10 s after it, too.

All instants that are remembered are readings of our own clock. Set forward half an hour it would end every cooldown and
forget every guard's window at once; set back, nothing could fall and nobody could borrow for half an hour more.
"""

from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.codec import quantise
from rebalancer.domain.instant import Instant

S = TypeVar("S", bound=Struct)
INSTANTS: Final = (Instant, Instant | None, tuple[Instant, ...])


def stepped(part: S, seconds: float) -> S:
    """`part`, of memory or of what was seen, with every instant as much later as the clock is."""
    if not seconds:
        return part
    changed: dict[str, Any] = {}
    for name, is_instant in _fields(type(part)).items():
        value = getattr(part, name)
        moved = _later(value, seconds) if is_instant else _inside(value, seconds)
        if moved is not value:
            changed[name] = moved
    return replace(part, **changed) if changed else part


@cache
def _fields(kind: type[Struct]) -> MappingProxyType[str, bool]:
    """Field names, and whether what they hold are instants."""
    hints = get_type_hints(kind, include_extras=True)
    return MappingProxyType({name: hints[name] in INSTANTS for name in kind.__struct_fields__})


def _later(value: float | tuple[float, ...] | None, seconds: float) -> float | tuple[float, ...] | None:
    if isinstance(value, tuple):
        return tuple(quantise(at + seconds) for at in value)
    return None if value is None else quantise(value + seconds)


def _inside(value: Any, seconds: float) -> Any:  # noqa: ANN401  whatever memory is made of
    if isinstance(value, Struct):
        return stepped(value, seconds)
    if isinstance(value, dict):
        return {name: _inside(each, seconds) for name, each in value.items()}
    if isinstance(value, tuple) and any(isinstance(each, Struct) for each in value):
        return tuple(_inside(each, seconds) for each in value)
    return value
