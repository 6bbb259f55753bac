"""Routes by which people decide: overrides, the write stop, and what either would do.

`Idempotency-Key` makes a repeat of a request the same request: its object is found, not made again.
"""

import secrets
from collections.abc import Awaitable
from typing import Final, TypeVar

from aiohttp import web

from rebalancer.api.auth.authentication import authorise
from rebalancer.api.auth.authority import PRINCIPAL
from rebalancer.api.handlers.app_keys import OPERATOR
from rebalancer.api.http.responses import ApiError, ErrorBody, answer, read_body
from rebalancer.api.http.route import READ, Route, RoutePermission
from rebalancer.api.ports.operator import Accepted, Declined, Overrides, RequestOrigin, Writes
from rebalancer.api.ports.requests import OverrideRequest, Preview, ResumeRequest, StopRequest

KEY_HEADER: Final = "Idempotency-Key"
MOST_KEY_CHARACTERS: Final = 200

T = TypeVar("T")


class Changed(ErrorBody, frozen=True):
    """409: the plan has changed since the preview that was agreed to; `preview` is the new one."""

    preview: Preview | None = None


async def overrides(request: web.Request) -> web.Response:
    """All overrides."""
    return await answer(await _done(request.app[OPERATOR].overrides()))


async def preview_override(request: web.Request) -> web.Response:
    """What an override would do now."""
    body = await read_body(request, OverrideRequest)
    return await answer(await _done(request.app[OPERATOR].preview(body, _requester(request))))


async def create_override(request: web.Request) -> web.Response:
    """201 when the object is new, 200 when this key made it before."""
    body = await read_body(request, OverrideRequest)
    await authorise(request, "create", "overrides", request.app[OPERATOR].namespace_of(body))
    made = await _done(request.app[OPERATOR].create(body, _requester(request)))
    return await answer(made, 201 if made.created else 200)


async def delete_override(request: web.Request) -> web.Response:
    """Take one back."""
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    await authorise(request, "delete", "overrides", namespace)
    await _done(request.app[OPERATOR].delete(namespace, name, request[PRINCIPAL].user))
    return web.Response(status=204)


async def preview_end(request: web.Request) -> web.Response:
    """What would come without one."""
    namespace, name = request.match_info["namespace"], request.match_info["name"]
    return await answer(await _done(request.app[OPERATOR].end_preview(namespace, name, request[PRINCIPAL].user)))


async def writes(request: web.Request) -> web.Response:
    """Whether writes are stopped, by whom, since when."""
    return await answer(await _done(request.app[OPERATOR].writes()))


async def stop(request: web.Request) -> web.Response:
    """The red button."""
    body = await read_body(request, StopRequest)
    return await answer(await _done(request.app[OPERATOR].stop(body, _requester(request))))


async def resume(request: web.Request) -> web.Response:
    """Take every write stop away."""
    body = await read_body(request, ResumeRequest)
    return await answer(await _done(request.app[OPERATOR].resume(body, request[PRINCIPAL].user)))


async def preview_resume(request: web.Request) -> web.Response:
    """The first plan that would be written."""
    return await answer(await _done(request.app[OPERATOR].resume_preview(request[PRINCIPAL].user)))


def _requester(request: web.Request) -> RequestOrigin:
    """The caller; a request without a key is like no other."""
    key = request.headers.get(KEY_HEADER) or secrets.token_hex(16)
    if len(key) > MOST_KEY_CHARACTERS or not key.isprintable():
        raise ApiError(400, "the key is too long or not printable", f"at most {MOST_KEY_CHARACTERS}", KEY_HEADER)
    return RequestOrigin(request[PRINCIPAL].user, key)


class _Stale(ApiError):
    """409 with the new preview."""

    def __init__(self, declined: Declined) -> None:
        super().__init__(declined.status, declined.error, declined.fix, "body.preview")
        self.body = Changed(declined.error, declined.fix, "body.preview", preview=declined.preview)


async def _done(work: Awaitable[T]) -> T:
    try:
        return await work
    except Declined as declined:
        if declined.preview is not None:
            raise _Stale(declined) from declined
        wait = declined.retry_after_seconds
        raise ApiError(
            declined.status,
            declined.error,
            declined.fix,
            declined.where,
            retry_after_seconds=None if wait is None else max(1, round(wait)),
        ) from declined


ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/overrides", overrides, "All overrides, with what each is told.", Overrides),
    Route(
        "POST",
        "/v1/overrides",
        create_override,
        "Decide: create an Override. 200 instead of 201 when this Idempotency-Key made it before.",
        Accepted,
        OverrideRequest,
        permission=None,  # create overrides, in the namespace that the body names
        status=201,
        also=(200,),
        errors=(404, 409, 422),
    ),
    Route(
        "POST",
        "/v1/overrides/preview",
        preview_override,
        "What an override would do now. Nothing is written.",
        Preview,
        OverrideRequest,
        permission=READ,
        errors=(404, 422),
    ),
    Route(
        "DELETE",
        "/v1/overrides/{namespace}/{name}",
        delete_override,
        "Take an override back.",
        permission=None,  # delete overrides, in the namespace of the path
        status=204,
        errors=(404, 409, 422),
    ),
    Route(
        "GET",
        "/v1/overrides/{namespace}/{name}/preview",
        preview_end,
        "What would come if an override were taken back now. Nothing is written.",
        Preview,
        errors=(404,),
    ),
    Route("GET", "/v1/writes", writes, "Whether writes are stopped, by whom, since when.", Writes, errors=(404,)),
    Route(
        "POST",
        "/v1/writes/stop",
        stop,
        "The red button: nothing is written from within 2 s on, until somebody resumes.",
        Writes,
        StopRequest,
        permission=RoutePermission("create", "writestops"),
        errors=(404, 409, 422),
        urgent=True,
    ),
    Route(
        "POST",
        "/v1/writes/resume",
        resume,
        "Take every write stop away.",
        Writes,
        ResumeRequest,
        permission=RoutePermission("delete", "writestops"),
        errors=(404, 409, 422),
    ),
    Route("GET", "/v1/writes/preview", preview_resume, "The first plan that would be written on resume.", Preview),
)
