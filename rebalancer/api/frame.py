"""What surrounds every request: errors become answers for people."""

from aiohttp import web

from rebalancer.api.replies import ApiError
from rebalancer.api.route import Handler


@web.middleware
async def framed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what handlers raise."""
    try:
        return await handler(request)
    except ApiError as error:
        return error.response()
