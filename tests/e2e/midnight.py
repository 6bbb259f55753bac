"""A service without Kafka, beside an embedded Kubernetes API and a Prometheus, for some minutes of any clock.

`python -m tests.e2e.midnight FOLDER SECONDS [DAY]` under `faketime` is a service that runs over a midnight: for so
long, or until that day is predicted. FOLDER/metrics has what it showed last, FOLDER/log what it logs.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import aiohttp

from rebalancer.loop.clock import RealClock
from rebalancer.obs.predictions import NAME
from rebalancer.sandbox.api import EmbeddedKubernetes
from rebalancer.sandbox.api.resources import PODS
from rebalancer.sandbox.demo_cluster import POLICY_FILE, build, demo_policy
from rebalancer.sandbox.puppet import Puppet
from tests.obs.answering import answering, steady
from tests.testbed.process import free_port

LOOK_SECONDS = 30.0  # of the clock: between two looks at the metrics
HEARD_SECONDS = 150.0  # of the clock: the service looks at its predictions each minute, and we look after it
SLOW_SECONDS = 8.0  # of the first token, for one minute in ten: above every SLO of the demo's policy


def values(pod: str, at: float) -> Mapping[str, float]:
    """A steady load whose users wait for a minute in ten, of which the work says nothing."""
    return {**steady(pod, at), "ttftP95Seconds": SLOW_SECONDS if at % 600 < 60 else 0.3}


async def live(folder: Path, seconds: float, day: str = "") -> None:
    """Run the service for so long by the clock, or until that day is predicted."""
    clock, probe_port = RealClock(), free_port()
    policy = folder / "policy.yaml"
    policy.write_text(POLICY_FILE.read_text())
    async with EmbeddedKubernetes(clock) as kubernetes:
        world = build(demo_policy(), clock.now()).world
        world.advance(clock.now())
        Puppet(world, kubernetes.store).show()
        kubernetes.write_kubeconfig(folder / "kubeconfig", "me")

        def pods() -> list[tuple[str, str]]:
            metadata = [each["metadata"] for each in kubernetes.store.list(PODS)]
            return [(each["namespace"], each["name"]) for each in metadata]

        async with answering(pods, values) as prometheus:
            environment = {
                **os.environ,
                "REBALANCER_KAFKA_ENABLED": "false",
                "REBALANCER_API_AUTH": "none",
                "REBALANCER_API_HOST": "127.0.0.1",
                "REBALANCER_API_PORT": "0",
                "REBALANCER_PROBE_PORT": str(probe_port),
                "REBALANCER_KUBECONFIG": str(folder / "kubeconfig"),
                "REBALANCER_POLICY_PATH": str(policy),
                "REBALANCER_PROMETHEUS_URL": prometheus.url,
                "REBALANCER_PROMETHEUS_INTERVAL_SECONDS": "15",
                "REBALANCER_BACKFILL_HOURS": "1",
                "REBALANCER_JOURNAL_DIR": str(folder / "journal"),
                "REBALANCER_PREDICT_DAYS": "true",
                "REBALANCER_WRITE_MODE": "shadow",
                "REBALANCER_LEASE_NAME": "",
            }
            program = [str(Path(sys.executable).parent / "rebalancer"), "run"]
            with (folder / "log").open("a") as log:
                service = subprocess.Popen(  # noqa: ASYNC220, S603  our own command, started in no time
                    program, env=environment, stdout=log, stderr=log
                )
            until = clock.now() + seconds
            try:
                while clock.now() < until and service.poll() is None:
                    await clock.sleep(LOOK_SECONDS)
                    await _look(f"http://127.0.0.1:{probe_port}/metrics", folder / "metrics")
                    if day and _predicted(folder / "journal" / NAME, day):
                        until, day = clock.now() + HEARD_SECONDS, ""
            finally:
                service.terminate()
                service.wait()


def _predicted(file: Path, day: str) -> bool:
    return file.exists() and day in file.read_text()


async def _look(url: str, into: Path) -> None:
    with suppress(aiohttp.ClientError, TimeoutError):
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            await asyncio.to_thread(into.write_text, await answer.text())


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
