"""The checks of every request: the host asked for, the caller's token or session, the pace, the right.

A browser sends its cookie with whatever page asks it to; a request that relies on one must come from our own pages.
"""

import ipaddress
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from rebalancer.api.auth.authority import PRINCIPAL, Authority, Principal, forbidden
from rebalancer.api.auth.rate_limits import URGENT_BURST, URGENT_PER_SECOND, ApiCaller, Buckets, Streams
from rebalancer.api.auth.sessions import Sessions
from rebalancer.api.http.responses import ApiError
from rebalancer.api.http.route import RoutePermission
from rebalancer.api.text.words import printable
from rebalancer.obs.clock import Clock

SAFE: Final = frozenset({"GET", "HEAD"})
LOCALHOST: Final = "localhost"
OF_CLUSTER: Final = (".svc", ".svc.cluster.local")  # names that only a cluster's own DNS gives


class Authentication:
    """`hosts`: names under which people reach us, besides localhost and addresses. `namespace`: our own."""

    def __init__(self, authority: Authority, clock: Clock, hosts: Collection[str] = (), namespace: str = "") -> None:
        self.authority = authority
        self.sessions = Sessions(clock)
        self.streams = Streams()
        self.namespace = namespace
        self._hosts = frozenset(host.lower() for host in hosts)
        self._logins = Buckets(clock)
        self._peers = Buckets(clock)
        self._urgent_peers = Buckets(clock, URGENT_PER_SECOND, URGENT_BURST)

    def check_host(self, request: web.Request) -> None:
        """Refuse names that are not ours: a foreign name that was made to point here is another site's page.

        Addresses need no list: a page cannot be under one that is not where it came from. Raises ApiError.
        """
        host = request.headers.get("Host", "")
        name = _name(host)
        if not name:
            raise ApiError(400, "the request names no host", "send a Host header", "Host")
        if name not in self._hosts and not _is_harmless(name):
            raise ApiError(
                421, f"{printable(name[:253])} is not this service", "REBALANCER_API_HOSTS lists its names", "Host"
            )

    def meet(self, request: web.Request, *, urgent: bool = False) -> None:
        """Count a request of somebody unknown against its address; an `urgent` one apart. Raises ApiError 429."""
        peers = self._urgent_peers if urgent else self._peers
        peers.take(ApiCaller(f"address {request.remote}"))

    async def admit(self, request: web.Request, *, urgent: bool = False) -> Principal:
        """The principal whose token it is; `urgent`: however often they asked.

        With a token that this replica does not know yet, `urgent` waits for no other request of the address. Raises
        ApiError 401, 403 for a foreign page, 429, or 503 when nobody can tell.
        """
        if self.authority.trusting:
            _check_origin(request, by_cookie=False)
        token = self._token(request)
        principal = await self.bearer(request, token, urgent=urgent)
        if principal is None:
            raise ApiError(
                401,
                "no token that is good here",
                "run rebalancer login, or send Authorization: Bearer with a token made for audience rebalancer",
                "Authorization",
                headers={"WWW-Authenticate": 'Bearer realm="rebalancer"'},
            )
        request[CALLER] = ApiCaller(principal.user, hash(token))
        if not urgent:
            self._logins.take(request[CALLER])
        return principal

    async def bearer(self, request: web.Request, token: str, *, urgent: bool = False) -> Principal | None:
        """The user of a token, None when it is nobody's; what is not known yet counts against the caller's address."""
        if not token.isascii() or not self.authority.knows(token):
            self.meet(request, urgent=urgent)
        return await self.authority.who(token) if token.isascii() else None  # aiohttp keeps odd bytes as surrogates

    def _token(self, request: web.Request) -> str:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return token.strip()
        if (session := self.sessions.of(request)) is None:
            return ""
        _check_origin(request, by_cookie=True)
        return session.token


AUTHENTICATION: Final = web.AppKey("authentication", Authentication)
CALLER: Final = web.RequestKey("caller", ApiCaller)


async def authorise(request: web.Request, verb: str, resource: str, namespace: str = "") -> None:
    """Raise ApiError 403 unless the caller may, in the namespace or (empty) in the whole cluster; 503 if unknown."""
    principal, permission = request[PRINCIPAL], RoutePermission(verb, resource)
    if not await request.app[AUTHENTICATION].authority.may(principal, permission, namespace):
        raise forbidden(principal, permission, namespace)


def _check_origin(request: web.Request, *, by_cookie: bool) -> None:
    """Whether a page of ours asks for this change. Browsers say so in two headers; `by_cookie`: in one at least.

    A proxy may pass on a Host without the port, or its own. A cookie comes only with requests to the name that it was
    given to, so there the browser's word that page and address are of one origin is enough.
    """
    if request.method in SAFE:
        return
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    ours = origin is None or urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()
    ours = ours or (by_cookie and site == "same-origin")
    if not ours or site not in (None, "same-origin", "none") or (by_cookie and origin is None and site is None):
        raise ApiError(403, "this change was asked for by another site's page", "use the console", "Origin")


def _name(host: str) -> str:
    """The name or address of a Host header, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().rstrip(".")
    except ValueError:
        return ""


def _is_harmless(name: str) -> bool:
    if name == LOCALHOST or name.endswith(OF_CLUSTER):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
