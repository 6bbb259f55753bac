"""A secret is planted in every place where the service is given one, and looked for in all that it says.

Whoever it logs in to is hostile here: they refuse, and repeat all that they were sent in their refusals.
"""

import asyncio
import json
import logging
import struct
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import structlog
from aiohttp import web
from aiokafka import AIOKafkaProducer
from prometheus_api_client.exceptions import PrometheusApiClientException

from rebalancer.api.auth.sessions import cookie_name
from rebalancer.api.serving.routes import ROUTES
from rebalancer.app import Service
from rebalancer.app.topics import broker_of
from rebalancer.aws.address import QueueAddress
from rebalancer.aws.queue import SESSION_HEADER, NoQueue, SqsQueue
from rebalancer.ingest.prometheus_session import Server, answers
from rebalancer.ingest.signed import signed_record
from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.kafka.tokens import ClientToken, NoToken
from rebalancer.kafka.topic_past import read_past
from rebalancer.loop.clock import RealClock, ScaledClock
from rebalancer.obs.log import configure
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import BadSettings, ServiceSettings, read_settings
from tests.app.conftest import Started, until

CANARY = "canary-7f3a91"
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, SASL_AUTHENTICATION_FAILED = 18, 17, 36, 58  # Kafka's numbers
KUBE_TOKEN = "sandbox-rebalancer"  # the embedded API's, which names its user
PATHS = {"{model}": "chat", "{pool}": "a100", "{node}": "a100-1", "{cycle}": "1", "{namespace}": "serving"}


def planted(folder: Path, name: str) -> Path:
    """A file with a secret of its own in it."""
    path = folder / f"{name}.file"
    path.write_text(f"{CANARY}-{name}-0123456789abcdef0123456789\n")
    return path


@pytest.fixture
def log(capfd: pytest.CaptureFixture[str]) -> Iterator[pytest.CaptureFixture[str]]:
    """The service's own log, at its most talkative."""
    before = structlog.get_config()
    thread = configure("debug", "json")
    yield capfd
    thread.flush()
    structlog.configure(**before)


@asynccontextmanager
async def parrot() -> AsyncIterator[str]:
    """The URL of a server that refuses everybody, and says back what it was sent."""
    asked: list[str] = []

    async def refuse(request: web.Request) -> web.Response:
        headers = request.headers
        sent = f"{headers.get(SESSION_HEADER)} {headers.get('Authorization')} {await request.text()} {request.path_qs}"
        asked.append(sent)
        refusal = {"status": "error", "error": sent, "errorType": sent, "message": sent}
        return web.json_response(refusal, status=401, reason="no")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await (site := web.TCPSite(runner, "127.0.0.1", 0)).start()
    try:
        yield site.name
        assert any(asked), "somebody logged in"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def kafka_parrot() -> AsyncIterator[str]:
    """Where a broker listens that lets nobody in by OAUTHBEARER, and says back in its refusal what it was sent."""
    tokens: list[bytes] = []

    def answer(api: int, body: bytes) -> bytes:
        if api == API_VERSIONS:
            served = [(API_VERSIONS, 0, 0), (SASL_HANDSHAKE, 0, 1), (SASL_AUTHENTICATE, 0, 0)]
            return struct.pack(">hi", 0, len(served)) + b"".join(struct.pack(">hhh", *each) for each in served)
        if api == SASL_HANDSHAKE:
            return struct.pack(">hih", 0, 1, 11) + b"OAUTHBEARER"
        tokens.append(sent := body[4:].replace(b"\x01", b" "))
        return struct.pack(">hh", SASL_AUTHENTICATION_FAILED, len(sent)) + sent + struct.pack(">i", 0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError), closing(writer):
            while True:
                request = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                api, _, correlation, client = struct.unpack(">hhih", request[:10])
                body = struct.pack(">i", correlation) + answer(api, request[10 + client :])
                writer.write(struct.pack(">i", len(body)) + body)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert any(CANARY.encode() in token for token in tokens), "somebody logged in"


class TokenSigner:
    """Signs with the token of a session, which is as good as the role until it ends."""

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return {**headers, SESSION_HEADER: f"{CANARY}-aws"}


async def all_that_is_read(service: Service, token: str) -> dict[str, str]:
    """What each address answers to a reader, by its path."""
    found = {"/metrics": service.reporter.metrics().decode(), "/readyz": str(service.reporter.unready())}
    headers = {"Authorization": f"Bearer {token}"}
    base = f"http://127.0.0.1:{service.servers.api_port}"
    async with aiohttp.ClientSession(headers=headers) as session:
        for route in ROUTES:
            if route.method != "GET" or route.streams:
                continue
            path = route.path
            for name, value in PATHS.items():
                path = path.replace(name, value)
            async with session.get(base + path) as response:
                found[path] = f"{dict(response.headers)} {await response.text()}"
    return found


async def all_that_is_kept(sandbox: Sandbox, journal: Path) -> dict[str, str]:
    """The topics that the service writes, and its local journal."""
    broker = Broker(sandbox.bootstrap)
    found: dict[str, str] = {}
    for name in TOPICS:
        if name in {"metrics", "notices", "overrides"}:
            continue
        past = await read_past(sandbox.bootstrap, broker.topic(name), {})
        found[name] = " ".join(f"{each.key!r} {each.value!r}" for each in past)
    return found | await asyncio.to_thread(lambda: {file.name: file.read_text() for file in journal.glob("*")})


def leaks(said: dict[str, str], *more: str) -> list[str]:
    return [f"{where}: {secret}" for where, text in said.items() for secret in (CANARY, *more) if secret in text]


async def test_no_secret_that_works_is_ever_told(
    started: Started,
    sandbox: Sandbox,
    clock: ScaledClock,
    tmp_path: Path,
    log: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    (keys := tmp_path / "keys").mkdir()
    secret = f"{CANARY}-signing-0123456789abcdef012345".encode()
    (keys / "runbook").write_bytes(secret)
    caller = f"sandbox-{CANARY}-caller"
    async with (
        parrot() as prometheus,
        started(
            write_mode="act",
            api_auth="kubernetes",
            cluster_name="demo",
            override_keys_dir=keys,
            prometheus_url=prometheus,
            prometheus_token_file=planted(tmp_path, "prometheus"),
        ) as service,
    ):
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready")
        await _sign(sandbox, clock, secret)
        await until(lambda: service.reporter.snapshot().overrides, "the signed override is there")
        await until(lambda: service.reporter.prometheus and service.reporter.prometheus.trouble, "it is refused")
        cookie = await _log_in(service, caller)
        read = await all_that_is_read(service, "sandbox-viewer")
        read |= {"wrong token": str(await all_that_is_read(service, f"wrong-{CANARY}"))}
        told = {"log": log.readouterr().err, "libraries": caplog.text}
    kept = await all_that_is_kept(sandbox, tmp_path / "journal")
    told["the end"] = log.readouterr().err
    # The caller's own name is no secret, and stands in the canary of its token alone.
    assert leaks(read | kept | told, KUBE_TOKEN, cookie) == []
    assert sum(map(len, kept.values())) > 1000
    assert len(read) > 10


async def _sign(sandbox: Sandbox, clock: ScaledClock, secret: bytes) -> None:
    at = datetime.fromtimestamp(clock.now(), UTC).isoformat()
    pin = {"kind": "pin", "target": {"model": "chat"}, "value": 3, "reason": "a test", "forSeconds": 600}
    async with AIOKafkaProducer(bootstrap_servers=sandbox.bootstrap) as producer:
        for key, number in ((secret, 1), (b"x" * 32, 2)):
            headers, value = signed_record("runbook", key, "demo", f"evt-{number}", at, pin)
            await producer.send_and_wait("rebalancer.overrides", value, headers=headers)


async def _log_in(service: Service, token: str) -> str:
    """A session of the console; its cookie."""
    base = f"http://127.0.0.1:{service.servers.api_port}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base}/v1/session", json={"token": token}, headers={"Origin": base}) as response,
    ):
        assert response.status < 300, await response.text()  # it is logged in
        cookie = response.cookies[cookie_name(base.removeprefix("http://"))]
        return cookie.value


async def test_no_secret_that_is_refused_is_told_with_the_refusal(
    started: Started, tmp_path: Path, log: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    kubeconfig = tmp_path / "wrong-kubeconfig"
    caplog.set_level(logging.INFO)
    async with parrot() as hostile:
        cluster = {"name": "c", "cluster": {"server": hostile}}
        user = {"name": "u", "user": {"token": f"{CANARY}-kubeconfig"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        whole = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **whole}))
        async with started(
            kubeconfig=kubeconfig,
            kafka_security_protocol="SASL_PLAINTEXT",
            kafka_sasl_mechanism="PLAIN",
            kafka_username="client",
            kafka_password_file=planted(tmp_path, "kafka"),
        ) as service:
            await until(lambda: "cannot be" in (service.outbox.trouble or ""), "Kafka's login is refused")
            read = await all_that_is_read(service, "any")
            told = {"log": log.readouterr().err, "libraries": caplog.text, "outbox": service.outbox.trouble or ""}
        for url in (f"{hostile}/token?secret={CANARY}", f"http://127.0.0.1:1/?secret={CANARY}"):
            with pytest.raises(NoToken, match="gave no token") as refused:
                await ClientToken(url, "client", planted(tmp_path, "client").read_text).token()
            told[f"token by {url[:20]}"] = str(refused.value)
        server = Server(hostile, None, None, "user", planted(tmp_path, "basic"))
        with pytest.raises(PrometheusApiClientException) as turned_away:
            await asyncio.to_thread(answers, server, ["up"], RealClock(), 5.0)
        told["Prometheus"] = str(turned_away.value)
        queue = SqsQueue(QueueAddress(f"{hostile}/1/notices", "eu-west-1"), TokenSigner())
        with pytest.raises(NoQueue, match="ReceiveMessage of queue notices: 401") as unread:
            await queue.take()
        await queue.close()
        told["SQS"] = str(unread.value)
    told["the end"] = log.readouterr().err
    assert (
        leaks(read | told, b64encode(f"user:{(tmp_path / 'basic.file').read_text().strip()}".encode()).decode()) == []
    )


async def test_a_token_that_a_broker_refuses_and_repeats_is_told_nowhere_by_us(
    started: Started, tmp_path: Path, log: pytest.CaptureFixture[str]
) -> None:
    """But for the lines of the client's own log, which have the broker's words as they came."""
    async with (
        kafka_parrot() as bootstrap,
        started(
            kafka_bootstrap=bootstrap,
            kafka_security_protocol="SASL_PLAINTEXT",
            kafka_sasl_mechanism="OAUTHBEARER",
            kafka_token_file=planted(tmp_path, "token"),
        ) as service,
    ):
        await until(lambda: service.servers.api_port and service.outbox.trouble, "Kafka's login is refused")
        told = await all_that_is_read(service, "any")
        told |= {"outbox": service.outbox.trouble or "", "log": log.readouterr().err}
    assert leaks(told | {"the end": log.readouterr().err}) == []


async def test_a_key_that_is_none_is_told_without_a_word_of_it(tmp_path: Path) -> None:
    certificate, key = planted(tmp_path, "certificate"), planted(tmp_path, "key")
    settings = ServiceSettings(kafka_bootstrap="k:9093", kafka_cert_file=certificate, kafka_key_file=key)
    with pytest.raises(OSError, match="PEM") as of_kafka:
        await broker_of(settings).connection()
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as listens:
        url = f"https://127.0.0.1:{listens.sockets[0].getsockname()[1]}"
        server = Server(url, certificate_file=certificate, key_file=key)
        with pytest.raises(OSError, match="PEM") as of_prometheus:
            await asyncio.to_thread(answers, server, ["up"], RealClock(), 5.0)
    assert leaks({"Kafka": repr(of_kafka.value), "Prometheus": repr(of_prometheus.value)}) == []


@pytest.mark.parametrize("name", ["PROMETHEUS_URL", "KAFKA_TOKEN_URL"])
@pytest.mark.parametrize("url", ["https://user:{}@host/", "ftp://{}@host"])
def test_a_setting_with_a_secret_where_none_belongs_is_refused_without_repeating_it(
    name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", "localhost:9092")
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    monkeypatch.setenv(f"REBALANCER_{name}", url.format(CANARY))
    with pytest.raises(BadSettings, match=f"REBALANCER_{name}") as refused:
        read_settings()
    assert CANARY not in str(refused.value)
