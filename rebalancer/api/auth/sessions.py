"""Sessions of the console: cookies that carry the token their owner logged in with, so that any replica knows them.

The token is good for our audience alone, so the cookie is worth no more than a session; no script of a page can read
it, and no other site's page can send it. Whichever replica is asked has the token reviewed each minute as any other. A
session ends with its token, after a day's work, or when its owner says so: then the browser forgets it, and the replica
that was told refuses it from then on. A copy that somebody took before is good at other replicas until the token ends.
"""

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from aiohttp import web

from rebalancer.domain.instant import Instant
from rebalancer.obs.clock import Clock

COOKIE: Final = "rebalancer-session"  # and a hash of the host: to a browser all ports of localhost are one place
SECONDS: Final = 8 * 3600.0
MOST: Final = 1000
JWT_PARTS: Final = 3
PIECE: Final = 3800
"""Characters of one cookie: browsers keep 4,096 bytes, name and attributes included, and drop what is longer."""
PIECES: Final = 2
"""Two of them stay below the 8,190 bytes of one header that servers and proxies commonly read."""
ALL_CHARACTERS: Final = 7500
"""Of all cookies of a browser: they come in one header, that of each console beside those of all others there."""
TOKEN_CHARACTERS: Final = 5600
"""The longest token that fits: in base64 it has a third more. Tokens of `rebalancer login` have some 1,000."""


@dataclass(frozen=True, slots=True)
class Session:
    """A person's session: the instant at which it ends, and the token by which it was opened."""

    expires_at: Instant
    token: str = field(repr=False)


class Sessions:
    """Remembers the last `most` sessions that were ended here."""

    def __init__(self, clock: Clock, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._ended: OrderedDict[bytes, None] = OrderedDict()

    def open(self, token: str) -> Session:
        """A session by `token`, which was found good."""
        return Session(float(int(min(self._clock.now() + SECONDS, _expiry(token)))), token)

    def hand_over(self, request: web.Request, response: web.StreamResponse, session: Session, *, secure: bool) -> None:
        """Send it as cookies of the request's host; `secure`: by TLS alone. Pieces of a longer one before it go.

        So do sessions at other ports for which the browser has no room beside it.
        """
        age_seconds = max(0, int(session.expires_at - self._clock.now()))
        value, host = f"{int(session.expires_at)}.{_wrapped(session.token)}", request.headers.get("Host", "")
        pieces = {cookie_name(host, number): value[number * PIECE : (number + 1) * PIECE] for number in range(PIECES)}
        for name, piece in pieces.items():
            if piece:
                response.set_cookie(
                    name, piece, path="/", max_age=age_seconds, httponly=True, samesite="Strict", secure=secure
                )
            else:
                _forget(response, name)
        for name in _crowded_out(request.cookies, pieces):
            _forget(response, name)

    def of(self, request: web.Request) -> Session | None:
        """The session that the request's cookies are, None without one that lasts."""
        host = request.headers.get("Host", "")
        value = "".join(request.cookies.get(cookie_name(host, number), "") for number in range(PIECES))
        session = _read(value)
        if session is None or self._clock.now() >= session.expires_at or _hash(session) in self._ended:
            return None
        return session

    def close(self, request: web.Request, response: web.StreamResponse) -> None:
        """End the request's session, if there is one."""
        if (session := self.of(request)) is not None:
            self._ended[_hash(session)] = None
            while len(self._ended) > self._most:
                self._ended.popitem(last=False)
        for number in range(PIECES):
            _forget(response, cookie_name(request.headers.get("Host", ""), number))


def cookie_name(host: str, number: int = 0) -> str:
    """The name of a session's cookie at `host`, port included: two clusters' consoles by port-forward share none."""
    place = host.lower().encode(errors="surrogateescape")  # as aiohttp keeps odd bytes
    name = f"{COOKIE}-{hashlib.sha256(place).hexdigest()[:8]}"
    return name if number == 0 else f"{name}-{number}"


def _forget(response: web.StreamResponse, name: str) -> None:
    response.del_cookie(name, path="/", httponly=True, samesite="Strict")


def _crowded_out(cookies: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
    """Names of other consoles' cookies that have no room beside `ours`: of whole sessions, the first to end first."""
    too_many = sum(_characters(*cookie) for cookie in {**cookies, **ours}.items()) - ALL_CHARACTERS
    sessions: dict[str, list[str]] = {}  # names of a session's pieces, by the name of its first
    for name in sorted(cookies.keys() - ours.keys()):
        if name.startswith(COOKIE):
            sessions.setdefault(name[: len(cookie_name(""))], []).append(name)
    for first in sorted(sessions, key=lambda first: _expires_at(cookies.get(first, "")) or 0.0):
        if too_many <= 0:
            return
        too_many -= sum(_characters(name, cookies[name]) for name in sessions[first])
        yield from sessions[first]


def _characters(name: str, value: str) -> int:
    """What a cookie adds to the header."""
    return len(f"{name}={value}; ") if value else 0


def _expires_at(value: str) -> Instant | None:
    """The instant at which the session of a cookie ends; None where the cookie is none of ours."""
    expires_at, dot, _ = value.partition(".")
    if not dot or not expires_at.isascii() or not expires_at.isdigit() or len(expires_at) > len(str(2**53)):
        return None
    return float(expires_at)


def _read(value: str) -> Session | None:
    """What a cookie says; None where it is none of ours."""
    expires_at, wrapped = _expires_at(value), value.partition(".")[2]
    if expires_at is None:
        return None
    try:
        token = base64.urlsafe_b64decode(wrapped + "=" * (-len(wrapped) % 4)).decode("ascii")
    except ValueError:
        return None
    return Session(expires_at, token)


def _wrapped(token: str) -> str:
    """In characters that any cookie may have."""
    return base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


def _hash(session: Session) -> bytes:
    """No token is kept in memory; who logs in again by the same token in another second has another session."""
    return hashlib.sha256(f"{session.expires_at} {session.token}".encode()).digest()


class _Claims(msgspec.Struct):
    exp: float = float("inf")


def _expiry(token: str) -> Instant:
    """The instant at which a JWT expires; infinity for a token that does not say. The API server has verified it."""
    parts = token.split(".")
    if len(parts) != JWT_PARTS:
        return float("inf")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)), type=_Claims).exp
    except (ValueError, msgspec.DecodeError):
        return float("inf")
