"""The API under test with its authority: the embedded API server, asked through the real client."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
from multidict import CIMultiDict

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Authority
from rebalancer.api.auth.token_reviews import Reviews
from rebalancer.api.handlers.event_stream import page_parts
from rebalancer.api.serving.server import Servers
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.sandbox.api import EmbeddedKubernetes
from tests.api.decided import SomeStatusPort, some_status_port
from tests.api.page_data import SomePageData
from tests.sandbox.hand_clock import HandClock

HOST = "rebalancer.example"
NAMESPACE = "rebalancer"


def token(user: str) -> dict[str, str]:
    """The header by which the embedded API server knows a user."""
    return {"Authorization": f"Bearer sandbox-{user}"}


@dataclass(frozen=True)
class Answer:
    """One answer, its body read."""

    status: int
    headers: CIMultiDict[str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  any JSON
        return msgspec.json.decode(self.body)

    @property
    def said(self) -> str:
        """An error's words."""
        return " | ".join(self.json[key] for key in ("error", "fix", "where"))


@dataclass(frozen=True)
class Asked:
    """The running API: `status_port` behind it, `kubernetes` its authority, `clock` its time."""

    status_port: SomeStatusPort
    clock: HandClock
    kubernetes: EmbeddedKubernetes
    servers: Servers

    async def __call__(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, data: bytes | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        url = f"http://127.0.0.1:{self.servers.api_port}{path}"
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(method, url, headers=headers, data=data, allow_redirects=False) as response,
        ):
            return Answer(response.status, CIMultiDict(response.headers), await response.read())

    def reviews(self, kind: str) -> int:
        """How often the API server was asked for such a review."""
        return sum(entry.path.endswith(f"/{kind}") for entry in self.kubernetes.audit)


@asynccontextmanager
async def asking(authority: Authority | None = None) -> AsyncIterator[Asked]:
    """The API, by default with the API server as its authority."""
    clock = HandClock()
    async with EmbeddedKubernetes(clock) as kubernetes, replica(clock, kubernetes, authority) as asked:
        yield asked


@asynccontextmanager
async def replica(
    clock: HandClock, kubernetes: EmbeddedKubernetes, authority: Authority | None = None
) -> AsyncIterator[Asked]:
    """One process with the API; two by one API server are two replicas."""
    status_port = some_status_port()
    access = Access(kubernetes.url, "Bearer sandbox-rebalancer")
    async with KubeClient(access, clock, random.Random(1)) as kube:
        reviews = Reviews(clock)
        reviews.kube = kube
        authentication = Authentication(authority or reviews, clock, {HOST}, NAMESPACE)
        parts = page_parts(SomePageData(status_port))
        servers = Servers(status_port, authentication, ("127.0.0.1", 0), ("127.0.0.1", 0), parts)
        await servers.start()
        try:
            yield Asked(status_port, clock, kubernetes, servers)
        finally:
            await servers.stop()
