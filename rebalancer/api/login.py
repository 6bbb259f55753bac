"""/v1/session: the console logs in, asks who it is and what it may do, logs out."""

import asyncio
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from rebalancer.api.access import PRINCIPAL, Principal
from rebalancer.api.keys import VIEW
from rebalancer.api.reception import RECEPTION
from rebalancer.api.replies import ApiError, answer, read_body
from rebalancer.api.reviews import TOKEN_CHARACTERS
from rebalancer.api.route import READ, Permission, Route
from rebalancer.domain.instant import Instant

OVERRIDE = Permission("create", "overrides")
STOP = Permission("create", "writestops")
RESUME = Permission("delete", "writestops")
NAMESPACES = 64  # what is asked of the API server at one login


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """A token made for audience `rebalancer`."""

    token: Annotated[str, Meta(min_length=1, max_length=TOKEN_CHARACTERS)]

    def __repr__(self) -> str:
        return "Login()"  # never the secret, in no traceback


class May(Struct, frozen=True):
    """What the caller may do. `override`: the namespaces where, of the policy's models and our own."""

    read: bool
    override: tuple[str, ...]
    stop: bool
    resume: bool


class SessionPage(Struct, frozen=True):
    """Who the caller is. `expires_at`: when a console's session ends (None: a bearer token, or none is needed)."""

    user: str
    may: May
    expires_at: Instant | None = None


async def login(request: web.Request) -> web.Response:
    """Open a session by a token."""
    reception = request.app[RECEPTION]
    asked = await read_body(request, Login)
    principal = await reception.bearer(request, asked.token)
    if principal is None:
        raise ApiError(401, "this token is not good here", "rebalancer login gets one", "body.token")
    may = await _may(request, principal)
    if reception.authority.trusting:
        return await answer(SessionPage(principal.user, may))
    key, session = reception.sessions.open(asked.token)
    response = await answer(SessionPage(principal.user, may, session.expires_at))
    secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
    reception.sessions.hand_over(response, key, session, secure=secure)
    return response


async def whoami(request: web.Request) -> web.Response:
    """Who calls, and what they may do."""
    principal = request[PRINCIPAL]
    session = request.app[RECEPTION].sessions.of(request)
    expires_at = session.expires_at if session else None
    return await answer(SessionPage(principal.user, await _may(request, principal), expires_at))


async def logout(request: web.Request) -> web.Response:
    """End the session."""
    response = web.Response(status=204)
    request.app[RECEPTION].sessions.close(request, response)
    return response


async def _may(request: web.Request, principal: Principal) -> May:
    reception, models = request.app[RECEPTION], request.app[VIEW].snapshot().models
    namespaces = {target.namespace for model in models for target in model.targets} | {reception.namespace} - {""}
    asked = sorted(namespaces)[:NAMESPACES]
    may = reception.authority.may
    read, stop, resume, *override = await asyncio.gather(
        may(principal, READ),
        may(principal, STOP),
        may(principal, RESUME),
        *(may(principal, OVERRIDE, namespace) for namespace in asked),
    )
    return May(read, tuple(name for name, allowed in zip(asked, override, strict=True) if allowed), stop, resume)


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
