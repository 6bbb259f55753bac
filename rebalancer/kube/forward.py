"""A port of a pod by the API server, as `kubectl port-forward` reaches it: for people's machines, not for the service.

Each connection is a WebSocket of its own (`v4.channel.k8s.io`): a binary frame begins with its channel, 0 for data
and 1 for an error in words; the server's first frame on each channel holds the port, as two bytes, and nothing else.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import aiohttp
from yarl import URL

from rebalancer.kube.access import Access, KubeLogin
from rebalancer.kube.transport import CONNECT_SECONDS
from rebalancer.obs.clock import Clock

PROTOCOL: Final = "v4.channel.k8s.io"
_DATA: Final = 0
_CHUNK_BYTES: Final = 64 * 1024


class Forward:
    """Listens on a Unix socket of the caller's own folder, so that nobody else on the machine can use the way in.

    `trouble` says why the last connection failed, None while none did. An async context manager.
    """

    def __init__(  # noqa: PLR0913  # as whom, and from where to where
        self, access: Access, clock: Clock, namespace: str, pod: str, port: int, folder: Path
    ) -> None:
        self.path = folder / "forward.sock"
        self._server_url = access.server
        self._login = KubeLogin(access, clock)
        self._namespace = namespace
        self.turn_to(pod, port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def turn_to(self, pod: str, port: int) -> None:
        """Connections that begin from now on end at this pod."""
        self.trouble: str | None = None
        self._what = f"pods/portforward of {self._namespace}/{pod}"
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods/{quote(pod, safe='')}/portforward"
        self._url = URL(self._server_url + path, encoded=True).with_query(ports=str(port))

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )
        self._server = await asyncio.start_unix_server(self._accept, str(self.path))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._session.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._carry(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        try:
            socket = await self._opened()
            self.trouble = None
            try:
                await self._both_ways(socket, reader, writer)
            finally:
                await socket.close()
        except aiohttp.WSServerHandshakeError as error:
            self.trouble = f"the API server refused {self._what}: {error.status} {error.message}"
        except (aiohttp.ClientError, OSError) as error:
            self.trouble = f"{self._what}: {str(error) or type(error).__name__}"
        finally:
            writer.close()

    async def _opened(self) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket to the pod; it is asked for once more where the login was refused and can be renewed."""
        used = await self._login.access()
        try:
            return await self._connected(used)
        except aiohttp.WSServerHandshakeError as error:
            if error.status != HTTPStatus.UNAUTHORIZED or not await self._login.renewed(used):
                raise
        return await self._connected(await self._login.access())

    async def _connected(self, access: Access) -> aiohttp.ClientWebSocketResponse:
        return await self._session.ws_connect(
            self._url,
            protocols=(PROTOCOL,),
            headers={"Authorization": access.authorization} if access.authorization else {},
            proxy=access.proxy,
            ssl=access.tls or True,
            server_hostname=access.server_hostname,
            max_msg_size=0,
        )

    async def _both_ways(
        self, socket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        out = asyncio.create_task(_pump(reader, socket))
        try:
            await self._receive(socket, writer)
        finally:
            out.cancel()
            with suppress(asyncio.CancelledError, aiohttp.ClientError, OSError):
                await out

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
        opened: set[int] = set()
        async for frame in socket:
            if frame.type is not aiohttp.WSMsgType.BINARY or not frame.data:
                continue
            channel, data = frame.data[0], frame.data[1:]
            if channel not in opened:  # the port, as the protocol begins each channel
                opened.add(channel)
                data = data[2:]
            if channel == _DATA:
                writer.write(data)
                await writer.drain()
            elif data:
                self.trouble = f"{self._what}: {data.decode(errors='replace').strip()}"
                return


async def _pump(reader: asyncio.StreamReader, socket: aiohttp.ClientWebSocketResponse) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        await socket.send_bytes(bytes([_DATA]) + data)
