"""Requests to the service's API over aiohttp; imported when a command reads, not when help is asked for."""

import asyncio
import os
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec

from rebalancer.api.http.json_codec import from_wire
from rebalancer.api.http.responses import LEADER, ErrorBody
from rebalancer.cli.failure import UNREACHABLE, USAGE, CannotSay, Failed, NoAnswer
from rebalancer.cli.remote.cluster import OpenedCluster, open_cluster
from rebalancer.cli.remote.tokens import Token, find
from rebalancer.cli.remote.where import Where
from rebalancer.kube.errors import KubeError
from rebalancer.kube.forward import Forward
from rebalancer.kube.resources import PODS, Object
from rebalancer.loop.clock import RealClock

TIMEOUT_SECONDS = 10.0
API_PORT = 8080
LABEL, SERVICE = "rebalancer.io/component", "service"  # whatever nameOverride says; placeholders have none
NOT_TRUSTED = {18, 19, 20, 21}  # OpenSSL's codes of a certificate that no CA which is trusted here stands for
GOOD = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED)


class Api:
    """One conversation with the service at `address` (what people are told; `base` is what is dialled).

    A read that finds nobody asks once more: by `forward` another replica, by an address whoever answers there now. By
    `forward` the replica that leads is asked, where it is known: one that stands by has no past. What that one answered
    stands where the leader gives no answer. All asks are reads.
    """

    def __init__(self, session: aiohttp.ClientSession, base: str, address: str, token: Token | None) -> None:
        self.address = address
        self.forward: Forward | None = None
        # To the replica of that name, False where it does not run; "": to another one. Raises NoAnswer where none runs.
        self.turn: Callable[[str], Awaitable[bool]] | None = None
        self._turned = False  # to who leads: once, for in a failover each may name the other
        self._session = session
        self._base = base
        self._token = token

    async def get(self, path: str) -> bytes:
        """The body at `path`. Raises Failed."""
        try:
            return await self._ask("GET", path)
        except NoAnswer as nobody:
            slow = isinstance(nobody.__cause__, TimeoutError) and self.turn is None  # who waited long enough
            if nobody.code != UNREACHABLE or slow:
                raise
            if self.turn is not None:
                await self.turn("")
            return await self._ask("GET", path)

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        """The answer to a JSON `body`. Raises Failed."""
        return await self._ask("POST", path, body, {"Content-Type": "application/json", **(headers or {})})

    async def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        try:
            async with self._session.request(
                method, self._base + path, data=body, headers=headers, allow_redirects=False
            ) as response:
                answer = await response.read()
                leader = response.headers.get(LEADER, "")
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise Failed(f"--server {self.address} is no http:// address", USAGE) from error
        except TimeoutError as error:
            what = f"no answer from {self.address} within {TIMEOUT_SECONDS:g} s; see its /livez"
            raise NoAnswer(what, UNREACHABLE) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._lost(error) from error
        replica = self.address.rpartition("/")[2]
        if self.turn is not None and not self._turned and leader not in {"", replica}:
            self._turned = True
            try:
                if await self.turn(leader):
                    return await self._ask(method, path, body, headers)
            except (NoAnswer, KubeError):  # its node may be lost
                with suppress(NoAnswer, KubeError):
                    await self.turn(replica)
        if response.status in GOOD:
            if answer.lstrip().startswith(b"<"):  # a proxy's login, the console
                fix = "--server names the service itself, as http://HOST:PORT"
                raise Failed(f"{self.address}{path} answers with a page, not with the API; {fix}")
            return answer
        raise self._refused(response, path, answer)

    def _lost(self, error: Exception) -> BaseException:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # Ctrl-C while it connected: the client tells of a lost connection
            return asyncio.CancelledError()
        if self.forward is not None:
            return NoAnswer(f"no answer from {self.address}: {self.forward.trouble or _why(error)}", UNREACHABLE)
        fix = "does the service run there? --server names another address"
        if isinstance(error.__cause__, ssl.SSLCertVerificationError) and error.__cause__.verify_code in NOT_TRUSTED:
            fix = "SSL_CERT_FILE names a file of the CAs to trust"
        return NoAnswer(f"no answer from {self.address} ({_why(error)}); {fix}", UNREACHABLE)

    def _refused(self, response: aiohttp.ClientResponse, path: str, body: bytes) -> Failed:
        reason = _refusal(body) or f"{self.address}{path} answered {response.status} {response.reason}"
        if response.status == HTTPStatus.UNAUTHORIZED:
            which = "there is none" if self._token is None else f"that of {self._token.account} is not accepted"
            return NoAnswer(f"{reason}; the service wants a token and {which}: run rebalancer login")
        if response.status == HTTPStatus.FORBIDDEN:
            return NoAnswer(f"{reason}; for more rights: rebalancer login --as operator")
        return CannotSay(reason) if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR else Failed(reason)


@asynccontextmanager
async def open_api(where: Where) -> AsyncIterator[Api]:
    """The service's API: at its address, else at a pod of it by the API server. Raises Failed."""
    async with AsyncExitStack() as open_:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        if (address := where.address) is not None:
            token = await asyncio.to_thread(_token, address)
            session = aiohttp.ClientSession(timeout=timeout, headers=_headers(token))
            yield Api(await open_.enter_async_context(session), address, address, token)
            return
        cluster = await open_.enter_async_context(open_cluster(where))
        pod, port = await _find_pod(cluster, where)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="rebalancer-")  # 0700
        open_.push_async_callback(asyncio.to_thread, shutil.rmtree, folder, ignore_errors=True)
        forward = Forward(cluster.access, cluster.clock, where.namespace, pod, port, Path(folder))
        await open_.enter_async_context(forward)
        token = await asyncio.to_thread(_token, place_of(cluster.access.server, where))
        connector = aiohttp.UnixConnector(str(forward.path), force_close=True)  # a turn is for new connections
        session = aiohttp.ClientSession(timeout=timeout, headers=_headers(token), connector=connector)
        api = Api(await open_.enter_async_context(session), "http://localhost", f"{where.namespace}/{pod}", token)
        api.forward = forward

        async def turn(to: str) -> bool:
            pod, port = await _find_pod(cluster, where, but=api.address.rpartition("/")[2], rather=to)
            if to not in {"", pod}:
                return False
            forward.turn_to(pod, port)
            api.address = f"{where.namespace}/{pod}"
            return True

        api.turn = turn
        yield api


def place_of(server: str, where: Where) -> str:
    """The name under which a token for the service in this cluster is kept."""
    return where.address or f"{server} namespace {where.namespace}"


async def _find_pod(cluster: OpenedCluster, where: Where, but: str = "", rather: str = "") -> tuple[str, int]:
    """A pod of the service and its API's port, `rather` or a ready one if there is, `but` last. Raises Failed.

    One that is not ready has lost Kafka, say: it is asked for that very reason, and what it says is true.
    """
    pods = (await cluster.kube.list(PODS, where.namespace)).items
    ours = [pod for pod in pods if pod["metadata"].get("labels", {}).get(LABEL) == SERVICE]
    running = {pod["metadata"]["name"]: pod for pod in ours if _runs(pod)}
    if not running:
        state = f"{len(ours)} pods, none runs" if ours else f"no pod with {LABEL}={SERVICE}"
        fix = "--service-namespace or --server names another place"
        raise NoAnswer(f"no service in namespace {where.namespace}: {state}; {fix}", UNREACHABLE)
    chosen = min(running, key=lambda name: (name != rather, name == but, not _is_ready(running[name]), name))
    ports = [port for each in running[chosen]["spec"]["containers"] for port in each.get("ports", [])]
    return chosen, next((port["containerPort"] for port in ports if port.get("name") == "api"), API_PORT)


def _runs(pod: Object) -> bool:
    """Whether it may answer. Deleted pods do not, whatever their status still says."""
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _token(place: str) -> Token | None:
    """The token for `place`, None when there is none or it has run out."""
    token = find(place)
    return None if token is None or token.expires_at <= RealClock().now() else token


def _headers(token: Token | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token.token}"}


def _why(error: Exception) -> str:
    """The system's own short words where it has a number (name look-ups have negative ones, and TLS others)."""
    if isinstance(error.__cause__, ssl.SSLError):
        return str(error.__cause__)
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else str(error)


def _refusal(body: bytes) -> str:
    """The service's own words in an error answer, "" when there are none."""
    try:
        error = from_wire(body, ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return "; ".join(part for part in (error.error, error.fix) if part)
