"""One visit to a Prometheus: who we are, what it may answer, and what our questions cost it. Blocks.

Files with secrets are read anew at each visit: they rotate.
"""

import io
import ipaddress
import socket
from base64 import b64encode
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import msgspec
import requests
from msgspec import Struct
from prometheus_api_client import PrometheusConnect
from urllib3.exceptions import ReadTimeoutError
from urllib3.util import Retry

from rebalancer.aws.sigv4 import SigV4
from rebalancer.ingest.promql import matchers_of
from rebalancer.obs.clock import Clock

MAX_ANSWER_BYTES = 32 * 1024 * 1024  # 10,000 pods answer with about 8 MB
CHUNK_BYTES = 64 * 1024


class LateError(Exception):
    """The answer did not come within the deadline."""


class LinkLocalError(Exception):
    """The address is one where clouds keep their secrets, and no Prometheus lives."""


class Server(NamedTuple):
    """Which Prometheus, and how it is asked.

    url: http(s)://HOST:PORT, with a path where it has one.
    token_file: file with a bearer token.
    ca_file: PEM file with its CA, None for the usual ones.
    username: user of basic authentication, "" for none.
    password_file: file with that user's password.
    certificate_file: PEM file with our own certificate, None where it asks for none.
    key_file: PEM file with its key, None where the certificate's file has it.
    sigv4_region: region for which AWS wants requests signed, "" where they are not.
    matchers: labels of this cluster's series, as `cluster=prod-eu,region=eu`; "" where it has no other cluster's.
    """

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None
    username: str = ""
    password_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    sigv4_region: str = ""
    matchers: str = ""


class QueryCost(Struct, frozen=True):
    """What questions cost: how many, the seconds until their answers were read, samples that Prometheus looked at.

    Who does not tell the samples (Prometheus before 2.35, and some that speak its language) adds none.
    """

    queries: int = 0
    seconds: float = 0.0
    samples: int = 0

    def __add__(self, other: "QueryCost") -> "QueryCost":
        return QueryCost(self.queries + other.queries, self.seconds + other.seconds, self.samples + other.samples)


class _Samples(Struct, frozen=True, rename="camel"):
    total_queryable_samples: int = 0


class _Stats(Struct, frozen=True):
    samples: _Samples = _Samples()


class _Data(Struct, frozen=True):
    stats: _Stats = _Stats()


class _Body(Struct, frozen=True):
    data: _Data = _Data()


class PrometheusSession(requests.Session):
    """No redirects, no proxies or logins from the environment, answers of bounded size, all within a deadline.

    `secrets`: what we log in with. A refusal that repeats it is shown to people without it.
    """

    def __init__(self, clock: Clock, until_monotonic: float) -> None:
        super().__init__()
        self.trust_env = False
        self.headers["Accept-Encoding"] = "identity"
        self.cost = QueryCost()
        self.secrets: tuple[str, ...] = ()
        self._clock = clock
        self._until_monotonic = until_monotonic

    def send(self, request: requests.PreparedRequest, **rest: Any) -> requests.Response:  # noqa: ANN401  requests' own
        """Sends as `requests` does, and reads the whole answer. Raises LateError, ValueError when it is too long."""
        began = self._clock.monotonic()
        left_seconds = self._until_monotonic - began
        if left_seconds <= 0.0:
            raise LateError
        rest |= {"allow_redirects": False, "stream": True, "timeout": left_seconds}
        samples = 0
        try:
            response = super().send(request, **rest)
            with closing(response.raw) as raw:
                body = self._body(raw)
            samples = _samples(body)
        except ReadTimeoutError as error:  # within an answer; before it began it is one of requests' own
            raise LateError from error
        except requests.Timeout:
            raise
        except requests.ConnectionError as error:
            # Its own words repeat the question with all its names, 2,500 letters, before they come to the point.
            raise requests.ConnectionError(f"no connection: {_cause(error)}") from error
        finally:
            self.cost += QueryCost(1, self._clock.monotonic() - began, samples)
        if not response.ok:
            for secret in self.secrets:
                body = body.replace(secret.encode(), b"(our login)")
        response.raw = io.BytesIO(body)
        return response

    def _body(self, raw: Any) -> bytes:  # noqa: ANN401  urllib3's response
        body = bytearray()
        while chunk := raw.read1(CHUNK_BYTES):
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
            if self._clock.monotonic() > self._until_monotonic:
                raise LateError
        return bytes(body)


class Visit:
    """Questions to one server within one deadline; use as a context manager.

    `matchers`: what is to be asked of each series beside, as PromQL.

    Everything raises LateError, LinkLocalError, requests' errors, and PrometheusApiClientException for what it refuses.
    """

    def __init__(self, server: Server, clock: Clock, deadline_seconds: float) -> None:
        refuse_link_local(server.url)
        self.matchers = matchers_of(server.matchers)
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._session = PrometheusSession(clock, clock.monotonic() + deadline_seconds)
        _identified(self._session, server)
        self._client = PrometheusConnect(server.url.rstrip("/"), retry=Retry(0, read=False), session=self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def cost(self) -> QueryCost:
        """The cost of all questions so far."""
        return self._session.cost

    def query(self, text: str) -> Any:  # noqa: ANN401  whatever it answers
        """`data.result` of an instant query, which it gives up itself at our deadline."""
        return self._client.custom_query(text, {"stats": "all", "timeout": f"{self._deadline_seconds:g}s"})

    def query_range(self, text: str, begin: float, end: float, step_seconds: float) -> Any:  # noqa: ANN401  as above
        """`data.result` of a range query: a value each step from `begin` to `end`, whole epoch seconds."""
        since, until = (datetime.fromtimestamp(instant, UTC) for instant in (begin, end))
        return self._client.custom_query_range(text, since, until, f"{step_seconds:g}", {"stats": "all"})

    def label_values(self, label: str, selector: str, last_seconds: float) -> frozenset[str]:
        """The values that a label had lately on the series of a selector. Raises msgspec.ValidationError as well."""
        values = self._client.get_label_values(label, self._lately(selector, last_seconds))
        return frozenset(msgspec.convert(values, list[str]))

    def label_names(self, selector: str, last_seconds: float) -> frozenset[str]:
        """The labels that the series of a selector had lately. Raises msgspec.ValidationError as well."""
        names = self._client.get_label_names(self._lately(selector, last_seconds))
        return frozenset(msgspec.convert(names, list[str]))

    def _lately(self, selector: str, last_seconds: float) -> dict[str, str]:
        now = self._clock.now()
        return {"match[]": selector, "start": f"{now - last_seconds:.3f}", "end": f"{now:.3f}"}


def answers(server: Server, questions: Iterable[str], clock: Clock, deadline_seconds: float) -> list[Any]:
    """`data.result` of each instant query, all within the deadline. Raises as `Visit` does."""
    with Visit(server, clock, deadline_seconds) as visit:
        return [visit.query(one) for one in questions]


def refuse_link_local(url: str) -> None:
    """Raise LinkLocalError when the host is, or resolves to, a link-local address."""
    parts = urlsplit(url)
    for *_, address in socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM):
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_link_local:
            raise LinkLocalError(f"{parts.hostname} is link-local ({address[0]})")


def _identified(session: PrometheusSession, server: Server) -> None:
    """Tell who we are as the server wants it."""
    if server.ca_file is not None:
        session.verify = str(server.ca_file)
    if server.token_file is not None:
        token = server.token_file.read_text().strip()
        session.headers["Authorization"] = f"Bearer {token}"
        session.secrets = (token,)
    if server.username and server.password_file is not None:
        password = server.password_file.read_text().rstrip("\r\n")
        session.auth = (server.username, password)
        session.secrets = (password, b64encode(f"{server.username}:{password}".encode()).decode())
    if server.sigv4_region:
        signs = SigV4(server.sigv4_region)
        session.auth, session.secrets = signs, signs.secrets
    if server.certificate_file is not None:
        key = server.key_file or server.certificate_file
        session.cert = (str(server.certificate_file), str(key))


def _cause(error: BaseException) -> str:
    """What the innermost error says: a refused connection, a certificate that nobody knows."""
    within = (getattr(error, "reason", None), error.__cause__, *error.args)
    inner = next((one for one in within if isinstance(one, BaseException)), None)
    return (getattr(error, "strerror", None) or str(error)) if inner is None else _cause(inner)


def _samples(body: bytes) -> int:
    try:
        return msgspec.json.decode(body, type=_Body).data.stats.samples.total_queryable_samples
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0  # it told none, or its answer is no such thing: who reads it says so
