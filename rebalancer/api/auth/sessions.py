"""Sessions of the console: a cookie that says nothing, and behind it the token its owner logged in with.

The token is reviewed again each minute as any other; a session ends with it, when its owner says so, or after a day's
work. Sessions live in this process: after a restart people log in again.
"""

import base64
import hashlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import msgspec
from aiohttp import web

from rebalancer.domain.instant import Instant
from rebalancer.obs.clock import Clock

COOKIE: Final = "rebalancer-session"
SECONDS: Final = 8 * 3600.0
MOST: Final = 1000
JWT_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Session:
    """Until when, and by which token."""

    expires_at: Instant
    token: str = field(repr=False)


class Sessions:
    """At most `most`; the oldest goes first."""

    def __init__(self, clock: Clock, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._open: OrderedDict[bytes, Session] = OrderedDict()

    def open(self, token: str) -> tuple[str, Session]:
        """A session by `token`, which was found good, and the key to it."""
        session = Session(min(self._clock.now() + SECONDS, _expiry(token)), token)
        key = secrets.token_urlsafe(32)
        self._open[_hash(key)] = session
        while len(self._open) > self._most:
            self._open.popitem(last=False)
        return key, session

    def hand_over(self, response: web.StreamResponse, key: str, session: Session, *, secure: bool) -> None:
        """Send the session's key as a cookie; `secure`: by TLS alone."""
        age_seconds = max(0, int(session.expires_at - self._clock.now()))
        response.set_cookie(COOKIE, key, path="/", max_age=age_seconds, httponly=True, samesite="Strict", secure=secure)

    def of(self, request: web.Request) -> Session | None:
        """The session the request's cookie stands for, None without one that lasts."""
        key = _hash(request.cookies.get(COOKIE, ""))
        session = self._open.get(key)
        if session is not None and self._clock.now() >= session.expires_at:
            del self._open[key]
            return None
        return session

    def close(self, request: web.Request, response: web.StreamResponse) -> None:
        """End the request's session, if there is one."""
        self._open.pop(_hash(request.cookies.get(COOKIE, "")), None)
        response.del_cookie(COOKIE, path="/", httponly=True, samesite="Strict")


def _hash(key: str) -> bytes:
    """Found by hash, so that the time a look-up takes tells nothing about the key."""
    return hashlib.sha256(key.encode(errors="replace")).digest()


class _Claims(msgspec.Struct):
    exp: float = float("inf")


def _expiry(token: str) -> Instant:
    """When a JWT expires; infinity for a token that does not say. The API server has verified it."""
    parts = token.split(".")
    if len(parts) != JWT_PARTS:
        return float("inf")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims).exp
    except (ValueError, msgspec.DecodeError):
        return float("inf")
