"""Where a running service dials, held against the chart's NetworkPolicy: no network plugin is here to enforce it.

Python tells an audit hook of each address that a socket connects to, whoever in the process asked for it.
"""

import asyncio
import ipaddress
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import POLICY_FILE, build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from tests.chart.helm import render
from tests.testbed.process import free_port

Json = dict[str, Any]

_HOOK = """
import asyncio, os, sys
import uvloop

_dialled = os.open(os.environ["DIALLED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def _hook(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        os.write(_dialled, f"{arguments[1][0]} {arguments[1][1]}\\n".encode())

sys.addaudithook(_hook)
uvloop.run = asyncio.run
"""
"""uvloop connects in C and tells no hook, so the service runs on asyncio's own loop."""
_PROGRAM = Path(sys.executable).parent / "rebalancer"
_UP_SECONDS = 45.0


class Address(NamedTuple):
    """Where a connection goes."""

    host: str
    port: int


def lets_out(rule: Json, address: Address) -> bool:
    """Whether an egress rule of a NetworkPolicy has this address (TCP)."""
    if {"port": address.port, "protocol": "TCP"} not in rule["ports"]:
        return False
    host = ipaddress.ip_address(address.host)
    return any(
        host in ipaddress.ip_network(block["cidr"])
        and not any(host in ipaddress.ip_network(each) for each in block.get("except", ()))
        for block in (peer["ipBlock"] for peer in rule.get("to", ()))
    )


def of_the_chart(api: Address, kafka: Address, prometheus: Address, hosts: Sequence[str] = ()) -> list[Json]:
    """Its egress rules but that of DNS, with these ports; to anywhere, or to these `hosts` alone."""
    given = {
        "prometheus.url": f"http://{prometheus.host}:{prometheus.port}",
        "networkPolicy.apiServer": {"ports": [api.port], "cidrs": [f"{host}/32" for host in hosts]},
        **{
            f"networkPolicy.{name}": {
                "ports": [address.port],
                "to": [{"ipBlock": {"cidr": f"{host}/32"}} for host in hosts],
            }
            for name, address in (("kafka", kafka), ("prometheus", prometheus))
        },
    }
    egress: list[Json] = render(given).one("NetworkPolicy")["spec"]["egress"]
    dns, *others = egress
    assert {port["port"] for port in dns["ports"]} == {53}
    return others


@asynccontextmanager
async def a_prometheus() -> AsyncIterator[Address]:
    """It answers, and knows nothing."""

    async def nothing(_: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", nothing)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Address("127.0.0.1", int(runner.addresses[0][1]))
    finally:
        await runner.cleanup()


async def _asked(port: int, path: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return await response.text() if response.status == 200 else ""


async def _figures(probe_port: int) -> defaultdict[str, float]:
    """Its metrics, those of all labels together."""
    figures: defaultdict[str, float] = defaultdict(float)
    for line in (await _asked(probe_port, "/metrics")).splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            figures[series.partition("{")[0]] += float(value)
    return figures


async def _until_it_has_done_everything(probe_port: int) -> None:
    """It leads, Kafka has acknowledged a checkpoint, and Prometheus was asked."""
    async with asyncio.timeout(_UP_SECONDS):
        while True:
            with suppress(aiohttp.ClientError):
                figures = await _figures(probe_port)
                leads, polls = figures["rebalancer_leading"], figures["rebalancer_prometheus_polls_total"]
                if leads and polls and figures["rebalancer_checkpoint_age_seconds"] < 1.0:
                    return
            await asyncio.sleep(0.2)


async def test_every_address_that_it_dials_is_in_a_rule_and_no_rule_is_for_nothing(
    tmp_path: Path, may_block: None
) -> None:
    clock = ScaledClock(1.0)
    dialled, probe_port = tmp_path / "dialled", free_port()
    (tmp_path / "sitecustomize.py").write_text(_HOOK)
    (tmp_path / "policy.yaml").write_text(POLICY_FILE.read_text())
    async with Sandbox(clock, build(demo_policy(), clock.now()).world) as sandbox, a_prometheus() as prometheus:
        sandbox.kubernetes.write_kubeconfig(tmp_path / "kubeconfig", "rebalancer")
        api = Address("127.0.0.1", urlsplit(sandbox.kubernetes.url).port or 0)
        kafka = Address("127.0.0.1", int(sandbox.bootstrap.rpartition(":")[2]))
        settings = {
            "KAFKA_BOOTSTRAP": sandbox.bootstrap,
            "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "KUBECONFIG": tmp_path / "kubeconfig",
            "POLICY_PATH": tmp_path / "policy.yaml",
            "JOURNAL_DIR": tmp_path / "journal",
            "WRITE_MODE": "act",
            "LEASE_NAME": "rebalancer",
            "PROMETHEUS_URL": f"http://{prometheus.host}:{prometheus.port}",
            "CHECKPOINT_SECONDS": 1,
            "API_PORT": free_port(),
            "PROBE_PORT": probe_port,
        }
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("REBALANCER_")},
            **{f"REBALANCER_{name}": str(value) for name, value in settings.items()},
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
            "DIALLED": str(dialled),
        }
        process = await asyncio.create_subprocess_exec(_PROGRAM, "run", env=environment)
        try:
            await _until_it_has_done_everything(probe_port)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        finally:
            with suppress(ProcessLookupError):
                process.kill()
    went = {Address(host, int(port)) for host, port in map(str.split, dialled.read_text().splitlines())}
    assert went == {api, kafka, prometheus}
    for hosts in ((), ("127.0.0.1",)):
        rules = await asyncio.to_thread(of_the_chart, api, kafka, prometheus, hosts)
        assert [sum(lets_out(rule, address) for rule in rules) for address in went] == [1, 1, 1]
        assert all(any(lets_out(rule, address) for address in went) for rule in rules)


def test_a_rule_of_another_port_or_host_or_of_link_local_addresses_lets_nobody_out() -> None:
    api, kafka, prometheus = (Address("127.0.0.1", port) for port in (6443, 9092, 9090))
    rules = of_the_chart(api, kafka, prometheus)
    elsewhere = (Address("127.0.0.1", 22), Address("169.254.169.254", 6443), Address("fd00:ec2::254", 9092))
    assert not any(lets_out(rule, address) for rule in rules for address in elsewhere)
    closed = of_the_chart(api, kafka, prometheus, ("127.0.0.1",))
    assert not any(lets_out(rule, Address("10.0.0.1", 9092)) for rule in closed)
