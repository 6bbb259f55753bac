"""A Prometheus behind a login: each command that asks one is let in by it, and the past is read with a bar."""

import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api.resources import PODS
from rebalancer.sandbox.demo_cluster import build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from tests.certificates import self_signed
from tests.cli.terminal import terminal
from tests.obs.answering import Answering, answering

pytestmark = pytest.mark.slow  # 15 s

BEARER, BASIC = "Bearer of-the-tenant", "Basic dXM6c2VjcmV0"  # us:secret
OF_KAFKA = {"REBALANCER_KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"}
OPTIONS = {
    "bearer": {"token-file": "token"},
    "basic": {"username": "us", "password-file": "password"},
    "certificate": {"certificate-file": "tls.crt", "key-file": "tls.key", "ca-file": "tls.crt"},
}
FULL_BAR = "Reading Prometheus' past [" + 24 * "#" + "] "


def door(wanted: str) -> Middleware:
    """Nobody passes who does not show this."""

    @web.middleware
    async def passes(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != wanted:
            return web.Response(status=401, text="who are you?")
        return await handler(request)

    return passes


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder of the logins' files; its certificate is its own CA, good for either side."""
    (tmp_path / "token").write_text("of-the-tenant\n")
    (tmp_path / "password").write_text("secret\n")
    self_signed(tmp_path)
    return tmp_path


@asynccontextmanager
async def behind(login: str, files: Path, pods: Callable[[], list[tuple[str, str]]]) -> AsyncIterator[Answering]:
    """A Prometheus that lets in by one login only."""
    if login == "certificate":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(files / "tls.crt", files / "tls.key")
        tls.load_verify_locations(files / "tls.crt")
        tls.verify_mode = ssl.CERT_REQUIRED
        async with answering(pods, tls=tls) as prometheus:
            yield prometheus
    else:
        async with answering(pods, doors=[door(BEARER if login == "bearer" else BASIC)]) as prometheus:
            yield prometheus


async def typed(arguments: list[str], environment: Mapping[str, str], ending: str = "") -> tuple[int, str]:
    """(exit code, all that stands on the terminal); with `ending` it is ended by Ctrl-C once that is shown."""
    async with terminal(*arguments, **environment) as shown:
        if ending:
            await shown.shows(ending)
            shown.type(chr(3))
        return await shown.ends(), shown.screen


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "login", ["certificate", *(pytest.param(each, marks=pytest.mark.proof) for each in ("bearer", "basic"))]
)
async def test_every_command_that_asks_a_prometheus_is_let_in_by_a_login_and_only_by_it(
    login: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    clock = RealClock()
    given = {name: str(files / value) if name != "username" else value for name, value in OPTIONS[login].items()}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    async with Sandbox(clock, build(demo_policy(), clock.now()).world) as sandbox:
        sandbox.kubernetes.write_kubeconfig(files / "kubeconfig", "me")

        def pods() -> list[tuple[str, str]]:
            metadata = [each["metadata"] for each in sandbox.kubernetes.store.list(PODS)]
            return [(each["namespace"], each["name"]) for each in metadata]

        async with behind(login, files, pods) as prometheus:
            here = {"KUBECONFIG": str(files / "kubeconfig"), "COLUMNS": "80"}
            asks = ["--prometheus", prometheus.url]
            bridging = {
                **OF_KAFKA,
                "REBALANCER_KAFKA_BOOTSTRAP": sandbox.bootstrap,
                "REBALANCER_PROMETHEUS_URL": prometheus.url,
            }
            settings = {f"REBALANCER_PROMETHEUS_{name.upper().replace('-', '_')}": each for name, each in given.items()}
            doctor = ["doctor", *asks, "--server", "http://127.0.0.1:1"]
            bridge = ["bridge", "--once", *[word for name in {each for each, _ in pods()} for word in ("-n", name)]]

            refused, said = await typed(doctor, here)
            assert "401" in said or "ertificate" in said or "connection" in said, said
            refused, _ = await typed(bridge, bridging)
            assert (refused, prometheus.asked) == (1, []), "nobody else is let in"

            assert (await typed(["init", *asks, *options], here))[0] == 0
            after_init = len(prometheus.asked)
            code, screen = await typed(["observe", *asks, *options, "--port", "0"], here, "questions to Prometheus")
            after_observe = len(prometheus.asked)
            _, diagnosed = await typed([*doctor, *options], here)
            after_doctor = len(prometheus.asked)
            bridged, written = await typed(bridge, bridging | settings)
            report, told = await typed(["report", "--last", "7d"], here)
    assert code == 0
    assert FULL_BAR in screen
    assert not [line for line in re.split(r"[\r\n]+", screen) if len(line) > int(here["COLUMNS"])]
    assert 0 < after_init < after_observe < after_doctor < len(prometheus.asked)
    assert "none of the metrics" not in diagnosed
    assert bridged == 0, written
    assert report == 0, told
    assert "in Prometheus:" in told
    assert not any(os.environ.get(name) for name in settings)
