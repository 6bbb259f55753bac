"""/v1/session: the console logs in, asks who it is and what it may do, logs out."""

import asyncio
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from rebalancer.api.auth.authentication import AUTHENTICATION
from rebalancer.api.auth.authority import PRINCIPAL, Principal
from rebalancer.api.auth.sessions import TOKEN_CHARACTERS as SESSION_CHARACTERS
from rebalancer.api.auth.token_reviews import TOKEN_CHARACTERS
from rebalancer.api.handlers.app_keys import STATUS_PORT
from rebalancer.api.http.responses import ApiError, answer, read_body
from rebalancer.api.http.route import READ, Route, RoutePermission
from rebalancer.domain.instant import Instant

OVERRIDE = RoutePermission("create", "overrides")
END = RoutePermission("delete", "overrides")
STOP = RoutePermission("create", "writestops")
RESUME = RoutePermission("delete", "writestops")
NAMESPACES = 64  # what is asked of the API server at one login


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """A token made for audience `rebalancer`."""

    token: Annotated[str, Meta(min_length=1, max_length=TOKEN_CHARACTERS)]

    def __repr__(self) -> str:
        return "Login()"  # never the secret, in no traceback


class May(Struct, frozen=True):
    """What the caller may do.

    read: whether they may read what the service knows and decided.
    override: namespaces where they may make overrides.
    stop: whether they may stop the writes.
    resume: whether they may resume the writes.
    end: namespaces where they may take overrides back.
    asked: namespaces that were asked about for `override` and `end`: those of the models' targets and the service's
        own, the first 64 by name; of others nothing is known.
    """

    read: bool
    override: tuple[str, ...]
    stop: bool
    resume: bool
    end: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


class SessionPage(Struct, frozen=True):
    """The caller, and what they may do.

    user: name of the caller, as Kubernetes knows it.
    may: what the caller may do.
    expires_at: when the console's session ends; None where the caller has a bearer token, or no token is needed.
    """

    user: str
    may: May
    expires_at: Instant | None = None


async def login(request: web.Request) -> web.Response:
    """Open a session by a token."""
    authentication = request.app[AUTHENTICATION]
    body = await read_body(request, Login)
    principal = await authentication.bearer(request, body.token)
    if principal is None:
        raise ApiError(401, "this token is not good here", "rebalancer login gets one", "body.token")
    may = await _may(request, principal)
    if authentication.authority.trusting:
        return await answer(SessionPage(principal.user, may))
    if len(body.token) > SESSION_CHARACTERS:
        what = f"a token of {len(body.token)} characters fits into no cookie"
        raise ApiError(422, what, f"rebalancer login gets a shorter one; at most {SESSION_CHARACTERS}", "body.token")
    session = authentication.sessions.open(body.token)
    response = await answer(SessionPage(principal.user, may, session.expires_at))
    secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
    authentication.sessions.hand_over(request, response, session, secure=secure)
    return response


async def whoami(request: web.Request) -> web.Response:
    """The caller, and what they may do."""
    principal = request[PRINCIPAL]
    session = request.app[AUTHENTICATION].sessions.of(request)
    expires_at = session.expires_at if session else None
    return await answer(SessionPage(principal.user, await _may(request, principal), expires_at))


async def logout(request: web.Request) -> web.Response:
    """End the session."""
    response = web.Response(status=204)
    request.app[AUTHENTICATION].sessions.close(request, response)
    return response


async def _may(request: web.Request, principal: Principal) -> May:
    authentication, models = request.app[AUTHENTICATION], request.app[STATUS_PORT].snapshot().models
    namespaces = {target.namespace for model in models for target in model.targets} | {authentication.namespace} - {""}
    looked_at = tuple(sorted(namespaces)[:NAMESPACES])
    may = authentication.authority.may
    read, stop, resume, *here = await asyncio.gather(
        may(principal, READ),
        may(principal, STOP),
        may(principal, RESUME),
        *(may(principal, permission, namespace) for permission in (OVERRIDE, END) for namespace in looked_at),
    )
    override = tuple(name for name, allowed in zip(looked_at, here[: len(looked_at)], strict=True) if allowed)
    end = tuple(name for name, allowed in zip(looked_at, here[len(looked_at) :], strict=True) if allowed)
    return May(read, override, stop, resume, end, looked_at)


ROUTES = (
    Route("GET", "/v1/session", whoami, "Who you are, and what you may do.", SessionPage, permission=None),
    Route(
        "POST",
        "/v1/session",
        login,
        "Open a console session by a token; the answer sets its cookie.",
        SessionPage,
        accepts=Login,
        permission=None,
        open=True,
    ),
    Route("DELETE", "/v1/session", logout, "End the console session.", permission=None, status=204),
)
