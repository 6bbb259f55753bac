"""What commands that read from the service share: its address, and answers as values."""

from typing import Annotated, TypeVar

import typer

from rebalancer.cli.failure import Failed

T = TypeVar("T")

DEFAULT_SERVER = "http://127.0.0.1:8080"

ServerOption = Annotated[str, typer.Option("--server", help="Address of the service's API.", metavar="URL")]


def read(server: str, *paths: str) -> tuple[bytes, ...]:
    """The JSON bodies at `paths`. Raises Failed with the exit code for what went wrong."""
    from rebalancer.cli.fetch import fetch

    return fetch(server, paths)


def decoded(body: bytes, kind: type[T], server: str) -> T:
    """`body` as a value. Raises Failed when the service speaks another version's words."""
    import msgspec

    from rebalancer.domain.codec import from_bytes

    try:
        return from_bytes(body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"{server} answered what this version cannot read ({error}); use the command of the service's version"
        raise Failed(message) from error
