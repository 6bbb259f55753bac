"""AWS's logins by their own libraries, without AWS: keys from an endpoint as a pod has one, signatures checked by us.

What no test shows is that AWS agrees: neither a real MSK nor a real Managed Prometheus was asked.
"""

import asyncio
import base64
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.demo_cluster import build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from tests.house.repository import ROOT
from tests.testbed.aws import AwsKeys, Signed, extras_python, keys_endpoint, signature
from tests.testbed.build import Missing

KEYS, BEARER, REGION = AwsKeys(), "of-the-account", "eu-west-1"
SHOWN = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\S+), SignedHeaders=(\S+), Signature=(\w+)")
CLI = "import sys; from rebalancer.cli import main; sys.exit(main())"
TOKEN = """
import asyncio
from rebalancer.kafka.tokens import MskToken
print(asyncio.run(MskToken("eu-west-1").token()))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    try:
        return extras_python()
    except Missing as missing:
        pytest.skip(missing.reason)


@pytest.fixture
async def identity() -> AsyncIterator[dict[str, str]]:
    """Environment of a pod that EKS gives keys to."""
    async with TestServer(keys_endpoint(KEYS, BEARER)) as endpoint:
        yield {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": "/nonexistent",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": str(endpoint.make_url("/v1/credentials")),
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": BEARER,
        }


class ManagedPrometheus:
    """Answers requests whose signature is the one that AWS would come to, and no other."""

    def __init__(self) -> None:
        self.let_in: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/workspaces/ws-1/{rest:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        shown = SHOWN.fullmatch(request.headers.get("Authorization", ""))
        if shown is None or not self._right(request, await request.read(), *shown.groups()):
            return web.json_response({"message": f"no such signature: {dict(request.headers)}"}, status=403)
        self.let_in.append(request.path_qs)
        names = "label" in request.path
        data = ["vllm:num_requests_running"] if names else {"resultType": "vector", "result": []}
        return web.json_response({"status": "success", "data": data})

    @staticmethod
    def _right(request: web.Request, body: bytes, key_id: str, scope: str, names: str, shown: str) -> bool:
        headers = {name.lower(): value for name, value in request.headers.items()}
        _, _, query = request.raw_path.partition("?")
        sent = Signed(request.method, request.raw_path.partition("?")[0], query, headers, body)
        instant = headers["x-amz-date"]
        return (
            key_id == KEYS.key_id
            and scope == f"{instant[:8]}/{REGION}/aps/aws4_request"
            and {"host", "x-amz-date", "x-amz-security-token"} <= set(names.split(";"))
            and headers["x-amz-security-token"] == KEYS.token
            and shown == signature(sent, names, scope, instant, KEYS.secret)
        )


async def run(python: Path, identity: Mapping[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    whole = [str(python), "-c", *command]
    return await asyncio.to_thread(
        subprocess.run, whole, env=identity, cwd="/", capture_output=True, text=True, check=False
    )


async def read_until(python: Path, identity: Mapping[str, str], *command: str, ends: str) -> str:
    """The line of a command's output with these words, at which it is ended as by Ctrl-C."""
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(str(python), "-c", *command, env=identity, cwd="/", stdout=pipe)
    assert running.stdout is not None
    async for line in running.stdout:
        if ends in line.decode():
            running.send_signal(signal.SIGINT)
            await running.communicate()
            return line.decode()
    raise AssertionError(f"it ended with {await running.wait()}")


async def doctor(python: Path, identity: Mapping[str, str], url: str) -> "subprocess.CompletedProcess[str]":
    away = ("--server", "http://127.0.0.1:1", "--kubeconfig", "/nonexistent")
    return await run(python, identity, CLI, "doctor", "--prometheus", url, "--sigv4-region", REGION, *away)


async def test_a_hosted_prometheus_is_asked_by_requests_that_aws_would_take(
    python: Path, identity: dict[str, str]
) -> None:
    prometheus = ManagedPrometheus()
    async with TestServer(prometheus.app()) as server:
        done = await doctor(python, identity, str(server.make_url("/workspaces/ws-1")))
    assert done.returncode == 1, done.stderr  # neither a service nor a cluster is there; Prometheus answered
    assert "--prometheus" not in done.stderr
    asked, answered = prometheus.let_in
    assert "/api/v1/label/__name__/values" in asked
    assert "query=count%20by%20" in answered, "a query with spaces was signed, too"


async def test_whoever_asks_a_hosted_prometheus_signs(python: Path, identity: dict[str, str], tmp_path: Path) -> None:
    prometheus, clock, signs = ManagedPrometheus(), RealClock(), ("--sigv4-region", REGION)
    asked = dict[str, int]()
    world = await asyncio.to_thread(lambda: build(demo_policy(), clock.now()).world)
    async with TestServer(prometheus.app()) as server, Sandbox(clock, world) as sandbox:
        url = str(server.make_url("/workspaces/ws-1"))
        await asyncio.to_thread(sandbox.kubernetes.write_kubeconfig, tmp_path / "kubeconfig", "me")
        environment = {
            **identity,
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
            "REBALANCER_KAFKA_BOOTSTRAP": sandbox.bootstrap,
            "REBALANCER_KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "REBALANCER_PROMETHEUS_URL": url,
            "REBALANCER_PROMETHEUS_SIGV4_REGION": REGION,
        }
        policy = str(tmp_path / "policy.yaml")
        done = await run(python, environment, CLI, "init", "--prometheus", url, *signs, "--out", policy)
        assert done.returncode == 0, done.stderr
        asked["init"] = len(prometheus.let_in)
        journal = ("--folder", str(tmp_path / "observed"), "--port", "0")
        words = ("observe", "--prometheus", url, *signs, "--policy", policy, *journal)
        assert "nothing of the policy's pods" in await read_until(
            python, environment, CLI, *words, ends="in Prometheus:"
        )
        asked["observe"] = len(prometheus.let_in)
        done = await run(python, environment, CLI, "bridge", "--namespace", "serving", "--once")
        asked["bridge"] = len(prometheus.let_in)
    assert done.returncode == 1, "there was nothing to write"
    assert 0 < asked["init"] < asked["observe"] < asked["bridge"], (asked, done.stderr)


async def test_a_signature_by_another_key_is_refused_and_the_refusal_does_not_repeat_our_login(
    python: Path, identity: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prometheus = ManagedPrometheus()
    monkeypatch.setattr(f"{__name__}.KEYS", KEYS._replace(secret="another"))
    async with TestServer(prometheus.app()) as server:
        done = await doctor(python, identity, str(server.make_url("/workspaces/ws-1")))
    assert (done.returncode, prometheus.let_in) == (4, [])
    assert "403" in done.stderr
    assert KEYS.token not in done.stderr


async def test_who_is_nobody_to_aws_reads_so(python: Path, identity: dict[str, str]) -> None:
    nobody = {name: value for name, value in identity.items() if not name.startswith("AWS_CONTAINER")}
    done = await doctor(python, nobody, "http://127.0.0.1:1/workspaces/ws-1")
    assert done.returncode == 4
    assert "no AWS identity" in done.stderr


async def test_msk_gets_a_token_that_aws_would_take(python: Path, identity: dict[str, str]) -> None:
    done = await run(python, identity, TOKEN)
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert (url.hostname, url.path) == ("kafka.eu-west-1.amazonaws.com", "/")
    given = {name: values[0] for name, values in parse_qs(url.query).items()}
    key_id, _, scope = given["X-Amz-Credential"].partition("/")
    instant = given["X-Amz-Date"]
    assert (key_id, scope) == (KEYS.key_id, f"{instant[:8]}/{REGION}/kafka-cluster/aws4_request")
    assert (given["Action"], given["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert given["X-Amz-Security-Token"] == KEYS.token
    query = "&".join(part for part in url.query.split("&") if not part.startswith(("X-Amz-Signature=", "User-Agent=")))
    sent = Signed("GET", "/", query, {"host": url.netloc})
    assert given["X-Amz-Signature"] == signature(sent, given["X-Amz-SignedHeaders"], scope, instant, KEYS.secret)


async def test_msk_without_an_identity_is_an_absent_broker_with_a_reason(
    python: Path, identity: dict[str, str]
) -> None:
    nobody = {name: value for name, value in identity.items() if not name.startswith("AWS_CONTAINER")}
    done = await run(python, nobody, TOKEN)
    assert "NoToken: no AWS identity for MSK in eu-west-1" in done.stderr
