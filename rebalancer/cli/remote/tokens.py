"""The tokens that `rebalancer login` got: one file each under the state folder, readable by their owner only.

A token is kept under the place it is for and sent nowhere else.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from rebalancer.domain.instant import Instant


class Token(Struct, frozen=True):
    """A bearer token for the service, as the cluster gave it.

    place: what it is for, and where alone it is sent: the service's address, else API server and namespace of its pods.
    account: name of the service account that it is a token of.
    token: the token itself, a secret.
    expires_at: UTC epoch seconds from which on it is refused.
    """

    place: str
    account: str
    token: str
    expires_at: Instant

    def __repr__(self) -> str:
        return f"Token(place={self.place!r}, account={self.account!r})"  # never the secret, in no traceback


def folder() -> Path:
    """Where tokens lie; follows XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / "rebalancer" / "tokens"


def keep(token: Token) -> Path:
    """Write the token's file, 0600 from its first byte on; its path. Raises OSError."""
    file = _file(token.place)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(msgspec.json.encode(token))
    fresh.replace(file)
    return file


def find(place: str) -> Token | None:
    """The token kept for `place`, expired or not; None without one that can be read."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        token = msgspec.json.decode(_file(place).read_bytes(), type=Token)
        return token if token.place == place else None
    return None


def forget(place: str) -> bool:
    """Remove the token of `place`; whether there was one."""
    try:
        _file(place).unlink()
    except FileNotFoundError:
        return False
    return True


def _file(place: str) -> Path:
    return folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"
