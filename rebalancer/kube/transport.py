"""One HTTP session to the API server: deadlines, bounded bodies, and every fault as a typed error.

The library's own transport takes proxies from the environment, logs bodies at DEBUG, has no deadline
and ends a watch at a line of 4 MiB; therefore only its logins are used, not its calls.
"""

import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
from yarl import URL

from rebalancer.kube.access import Access, KubeLogin
from rebalancer.kube.errors import KubeError, Silent, Temporary, Unauthorized, lost, refusal
from rebalancer.kube.resources import Call
from rebalancer.obs.clock import Clock

CONNECT_SECONDS: Final = 3.0
"""Part of a call's deadline after which an unconnected call is known never to have been sent."""

MAX_BODY_BYTES: Final = 128 * 1024 * 1024
_ERROR_BODY_BYTES: Final = 64 * 1024
_SUCCESS: Final = range(200, 300)


class Transport:
    """Carries calls. Make it inside a running event loop and close it."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        *,
        user_agent: str = "rebalancer",
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.user_agent = user_agent
        self.server_offset_seconds: float | None = None
        """Server's clock minus ours at the last reply, within a second; None before the first."""
        self.errors: Counter[str] = Counter()
        """Calls that failed, by the name of their error in lower case; `timeout`: no answer within the deadline."""
        self._clock = clock
        self._login = KubeLogin(access, clock)
        self._max_body_bytes = max_body_bytes
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=live_socket),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=[_sent_once],
            read_bufsize=2**20,
            trust_env=False,
        )

    @property
    def login_trouble(self) -> str | None:
        """Why our login could not be read again, None where it could; the one before stays in use."""
        return self._login.trouble

    async def close(self) -> None:
        """Close the connections; calls under way end with an error."""
        await self._session.close()

    async def ask(self, call: Call) -> bytes:
        """Body of the 2xx reply; a KubeError for any other. The deadline is the caller's to set.

        A call refused for its login is sent once more if the login can be renewed: it was not applied.
        """
        used = await self._login.access()
        with self._counted():
            try:
                return await self._exchange(call)
            except Unauthorized:
                if not await self._login.renewed(used):
                    raise
            return await self._exchange(call)

    @asynccontextmanager
    async def chunks(self, call: Call, idle_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Body of a reply that has no end, chunk by chunk.

        Raises Silent after `idle_seconds` without a byte, and the KubeErrors of a refusal.
        """
        used = await self._login.access()
        try:
            with self._counted():
                async with self._reply(call, idle_seconds) as reply:
                    yield reply.content.iter_any()
        except Unauthorized:
            await self._login.renewed(used)  # for the next try
            raise

    @contextmanager
    def _counted(self) -> Iterator[None]:
        try:
            yield
        except KubeError as error:
            self.errors[type(error).__name__.lower()] += 1
            raise

    async def _exchange(self, call: Call) -> bytes:
        async with self._reply(call, None) as reply:
            body = await _read(reply, self._max_body_bytes)
            if body is None:
                raise lost(call, f"the reply is longer than {self._max_body_bytes} bytes")
            return body

    @asynccontextmanager
    async def _reply(self, call: Call, idle_seconds: float | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """The reply to a call, if it is 2xx; what goes wrong until it is read becomes a KubeError."""
        access = await self._login.access()
        try:
            async with self._session.request(
                call.method,
                URL(access.server + call.full_path, encoded=True).with_query(call.query),
                data=call.body,
                headers=self._headers(call, access.authorization),
                timeout=aiohttp.ClientTimeout(connect=CONNECT_SECONDS, sock_read=idle_seconds),
                allow_redirects=False,
                proxy=access.proxy,
                ssl=access.tls or True,
                server_hostname=access.server_hostname,
            ) as reply:
                self._heed_date(reply)
                if reply.status not in _SUCCESS:
                    raise await self._refused(call, reply)
                yield reply
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Temporary(f"{call}: not connected: {error}") from error
        except aiohttp.SocketTimeoutError as error:
            raise Silent(f"{call}: the API server has said nothing for {idle_seconds or 0.0:.0f} s") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise lost(call, str(error) or type(error).__name__) from error

    def _headers(self, call: Call, authorization: str | None) -> dict[str, str]:
        headers = {"User-Agent": self.user_agent}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if authorization:
            headers["Authorization"] = authorization
        return headers

    async def _refused(self, call: Call, reply: aiohttp.ClientResponse) -> KubeError:
        body = await _read(reply, _ERROR_BODY_BYTES) or b""
        if token := reply.request_info.headers.get("Authorization", "").rpartition(" ")[2]:
            body = body.replace(token.encode(), b"(our login)")  # what a refusal says is shown to people
        error = refusal(call, reply.status, reply.headers, body)
        if self._login.trouble:
            error.add_note(f"the login could not be renewed: {self._login.trouble}")
        return error

    def stepped(self, seconds: float) -> None:
        """Our clock was set by so many seconds."""
        if self.server_offset_seconds is not None:
            self.server_offset_seconds -= seconds

    def _heed_date(self, reply: aiohttp.ClientResponse) -> None:
        """The header has whole seconds, cut off: half a second is the best guess at the rest."""
        try:
            date = parsedate_to_datetime(reply.headers["Date"])
        except (KeyError, ValueError):
            return
        self.server_offset_seconds = date.timestamp() + 0.5 - self._clock.now()


async def _sent_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Rename the errors after which aiohttp would send a PUT or DELETE a second time.

    The first may have been applied: the second then meets its own change and reads it as a conflict.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError(f"{type(error).__name__} {error}".rstrip()) from error


async def _read(reply: aiohttp.ClientResponse, limit_bytes: int) -> bytes | None:
    """The whole body, or None if it is longer than the limit."""
    chunks: list[bytes] = []
    left = limit_bytes
    async for chunk in reply.content.iter_any():
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            return None
    return b"".join(chunks)


def live_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket whose kernel notices within 30 s that the other end is gone without a word.

    A load balancer may drop a connection silently; a watch would then look quiet for ever. When it is closed, what was
    not delivered is dropped: a write that was given up must not arrive when the network is back.
    """
    family, kind, protocol, _, _ = address
    live = socket.socket(family=family, type=kind, proto=protocol)
    live.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    live.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_AT_CLOSE)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # Linux has all of them
            live.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return live


_DROP_AT_CLOSE: Final = struct.pack("ii", 1, 0)
_KEEPALIVE: Final = {
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,
}
