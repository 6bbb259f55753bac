"""What commands that read from the service share: answers as bytes and as values."""

from typing import TypeVar

from rebalancer.cli.failure import Failed
from rebalancer.cli.remote.where import Where

T = TypeVar("T")


def read(where: Where, *paths: str) -> tuple[bytes, ...]:
    """The JSON bodies at `paths`. Raises Failed with the exit code for what went wrong."""
    import asyncio

    from rebalancer.cli.remote.client import open_api

    async def bodies() -> tuple[bytes, ...]:
        async with open_api(where) as api:
            return tuple([await api.get(path) for path in paths])

    return asyncio.run(bodies())


def decoded(body: bytes, kind: type[T]) -> T:
    """`body` as a value. Raises Failed when the service speaks another version's words."""
    import msgspec

    from rebalancer.api.http.json_codec import from_wire

    try:
        return from_wire(body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"the service answered what this version cannot read ({error}); use the command of its version"
        raise Failed(message) from error
