"""What surrounds every request: its host, its caller, its limits; and whatever goes wrong as an answer for people."""

import asyncio
import secrets
from typing import Final

import structlog
from aiohttp import web

from rebalancer.api.auth.authentication import AUTHENTICATION, CALLER, authorise
from rebalancer.api.auth.authority import PRINCIPAL
from rebalancer.api.auth.rate_limits import HEADER_BYTES, REQUEST_SECONDS, STREAM_SECONDS
from rebalancer.api.handlers.app_keys import STATUS_PORT
from rebalancer.api.http.query_params import QUERY, read_query
from rebalancer.api.http.responses import BODY_BYTES, LEADER, ApiError
from rebalancer.api.http.route import Handler, Route
from rebalancer.api.text.words import printable

CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        *(f"{kind} 'self'" for kind in ("script-src", "style-src", "img-src", "connect-src", "form-action")),
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

log = structlog.get_logger()


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Dress every answer as it leaves; whoever may ask hears who leads, for a standby lacks the past."""
    set_headers(response)
    if PRINCIPAL in request and (leader := request.app[STATUS_PORT].leader()):
        response.headers[LEADER] = printable(leader)


def set_headers(response: web.StreamResponse) -> None:
    """The headers of every answer; a handler may have set its own Cache-Control."""
    response.headers["Server"] = "rebalancer"
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what goes wrong. What nobody expected is logged under an id, and the answer names it."""
    try:
        _check_size(request)
        request.app[AUTHENTICATION].check_host(request)
        return await handler(request)
    except ApiError as error:
        return error.response()
    except web.HTTPException as error:
        return _plain(request, error).response()
    except ConnectionError:
        raise  # the client is gone, or its stream has lasted its time
    except Exception as error:
        mark = secrets.token_hex(4)
        log.exception("a request failed", id=mark, method=request.method, path=request.path)
        if request.writer.output_size:  # a stream broke off: it is too late for an answer
            raise ConnectionResetError(f"stream failed, id {mark}") from error
        fix = "try again; if it stays, its cause is in the service's log under that id"
        return ApiError(503, f"this could not be answered (id {mark})", fix, retry_after_seconds=5).response()


def protected(route: Route) -> Handler:
    """The route's handler, reached only by who may, as often and as long as they may."""

    async def handle(request: web.Request) -> web.StreamResponse:
        authentication = request.app[AUTHENTICATION]
        if route.open:
            authentication.meet(request)
        else:
            request[PRINCIPAL] = await authentication.admit(request, urgent=route.urgent)
            if route.permission is not None:
                await authorise(request, route.permission.verb, route.permission.resource)
        request[QUERY] = read_query(request, route.query)
        if not route.streams:
            return await _in_time(request, route.handler)
        with authentication.streams.opened(request[CALLER]):
            return await _for_a_while(request, route.handler)

    return handle


async def _in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            return await handler(request)
    except TimeoutError as error:
        what = f"not answered within {REQUEST_SECONDS:g} s"
        raise ApiError(503, what, "try again; /v1/status tells whether the service is well") from error


async def _for_a_while(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            return await handler(request)
    except TimeoutError as error:
        raise ConnectionResetError("a stream has lasted its time") from error


def _check_size(request: web.Request) -> None:
    header_bytes = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    if header_bytes > HEADER_BYTES:
        raise ApiError(431, f"the headers have {header_bytes} bytes", f"send at most {HEADER_BYTES}")
    if (request.content_length or 0) > BODY_BYTES:
        raise too_large()


def too_large() -> ApiError:
    """The answer to a body that is too long."""
    return ApiError(413, "the body is too long", f"send at most {BODY_BYTES} bytes", "body")


def _plain(request: web.Request, error: web.HTTPException) -> ApiError:
    """Refusals of aiohttp in our words; a path is not repeated: it may be of any length and kind."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        return ApiError(
            405, f"{request.method[:16]} is not for this path", f"use {allowed}", headers={"Allow": allowed}
        )
    if error.status == web.HTTPNotFound.status_code:
        return ApiError(404, "there is nothing at this path", "/v1/openapi.json lists what there is", "path")
    if error.status == web.HTTPRequestEntityTooLarge.status_code:
        return too_large()
    return ApiError(error.status, error.reason)
