"""Requests a minute to the API server of a leader and a standby while nothing moves: `python -m tests.bench.api_calls`.

Both replicas of the service, in act mode, on an embedded Kafka and Kubernetes API with so many models of ten replicas.
The API counts what it is asked: requests by replica and verb, after the lists of the start. A move costs besides what
docs/cost.md says.
"""

import asyncio
import json
import sys
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import web

from rebalancer.app import Service
from rebalancer.kafka.broker import TOPICS
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.settings.service import ServiceSettings
from tests.bench.kubernetes import fill
from tests.bench.scale import Scale

SETTLED_SECONDS, COUNTED_SECONDS = 20.0, 60.0
TOPICS_MADE = {f"rebalancer.{name}": 1 for name in TOPICS}
READY_SECONDS = 180.0


class Counting(EmbeddedKubernetes):
    """Counts requests by who asks, verb and what about."""

    calls: Counter[tuple[str, str]]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        watch = request.query.get("watch") in {"1", "true", "True"}
        user = request.headers.get("Authorization", "").rpartition("sandbox-")[2]
        self.calls[user, "watch" if watch else request.method] += 1
        return await super()._serve(request)


async def measured(models: int) -> dict[tuple[str, str], float]:
    """Requests a minute by replica and verb."""
    clock, store = RealClock(), Store(RealClock())
    fill(store, models, 1)
    scale = Scale(models, pools=1)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        policy = scale.policy().model_dump(mode="json", by_alias=True, exclude_unset=True)
        (folder / "policy.yaml").write_text(json.dumps(policy))
        broker = await stack.enter_async_context(EmbeddedBroker(TOPICS_MADE))
        api = Counting(clock, store)
        api.calls = Counter()
        await stack.enter_async_context(api)
        services = []
        for name in ("leader", "standby"):
            api.write_kubeconfig(folder / name, name)
            settings: dict[str, Any] = {
                "kafka_bootstrap": broker.bootstrap,
                "kafka_security_protocol": "PLAINTEXT",
                "kubeconfig": folder / name,
                "policy_path": folder / "policy.yaml",
                "journal_dir": folder / f"journal-{name}",
                "write_mode": "act",
                "instance": name,
                "lease_name": "rebalancer",
                "api_auth": "none",
                "api_port": 0,
                "probe_port": 0,
            }
            service = Service(ServiceSettings(**settings), clock)
            services.append(service)
            stack.push_async_callback(service.stop)
            async with asyncio.timeout(READY_SECONDS):
                await service.start()
                while service.plan is None:
                    await clock.sleep(0.2)
        await clock.sleep(SETTLED_SECONDS)
        before = api.calls.copy()
        await clock.sleep(COUNTED_SECONDS)
        return {key: count * 60.0 / COUNTED_SECONDS for key, count in sorted((api.calls - before).items())}


async def main() -> None:
    """Print both sizes."""
    for models in (20, 200):
        calls = await measured(models)
        said = ", ".join(f"{who} {verb} {count:g}" for (who, verb), count in calls.items())
        sys.stdout.write(f"{models} models: {sum(calls.values()):g} requests a minute ({said})\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
