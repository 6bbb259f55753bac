"""Where an application keeps what its handlers need."""

from aiohttp import web

from rebalancer.api.view import View

VIEW: web.AppKey[View] = web.AppKey("view", View)
