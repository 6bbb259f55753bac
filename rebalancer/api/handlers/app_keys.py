"""Where an application keeps what its handlers need."""

from typing import Final

from aiohttp import web

from rebalancer.api.pages.renderer import PageRenderer
from rebalancer.api.ports.operator import OperatorPort
from rebalancer.api.ports.status import ProbePort, StatusPort

PROBE_PORT: Final[web.AppKey[ProbePort]] = web.AppKey("probes", ProbePort)
STATUS_PORT: Final[web.AppKey[StatusPort]] = web.AppKey("status", StatusPort)
RENDERER: Final[web.AppKey[PageRenderer]] = web.AppKey("renderer", PageRenderer)
OPERATOR: Final[web.AppKey[OperatorPort]] = web.AppKey("operator", OperatorPort)
