"""Values whose every text is safe to show: names, reasons and messages come from elsewhere."""

from typing import Any, TypeVar

from msgspec import Struct

from rebalancer.api.text.words import printable

T = TypeVar("T")


def printed(value: T) -> T:
    """`value` with every string in it in one line without control characters; the same object where nothing changes."""
    return _printed(value)  # type: ignore[no-any-return]  # of the kind that came in


def _printed(value: Any) -> Any:  # noqa: ANN401  any value of a page
    if isinstance(value, str):
        return value if value.isprintable() else printable(value)
    if isinstance(value, tuple):
        return tuple(_printed(each) for each in value)
    if isinstance(value, dict):
        return {_printed(key): _printed(each) for key, each in value.items()}
    if isinstance(value, Struct):
        return type(value)(*(_printed(getattr(value, name)) for name in value.__struct_fields__))
    return value
