"""What the service and the observer answer over HTTP: the pages, the API and the probes."""

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.handlers.app_keys import OPERATOR
from rebalancer.api.handlers.event_stream import page_parts
from rebalancer.api.ports.operator import OperatorPort
from rebalancer.api.serving.server import Servers
from rebalancer.app.page_data import ServicePageData
from rebalancer.app.status_reporter import StatusReporter
from rebalancer.settings.service import ServiceSettings


def servers_of(
    settings: ServiceSettings,
    reporter: StatusReporter,
    page_data: ServicePageData,
    operator: OperatorPort,
    authentication: Authentication,
) -> Servers:
    """The servers of API and probes, at the settings' addresses; neither listens yet."""
    return Servers(
        reporter,
        authentication,
        (settings.api_host, settings.api_port),
        (settings.probe_host, settings.probe_port),
        parts={**page_parts(page_data), OPERATOR: operator},
    )
