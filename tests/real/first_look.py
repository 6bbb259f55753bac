"""What a first look needs on the testbed: six models under KEDA, and a Prometheus that has scraped them for a day."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from rebalancer.loop.clock import RealClock
from tests.obs.prometheus import Prometheus, prometheus
from tests.obs.vllm_past import DAY_SECONDS, Exposition, PastPod, exposition, text, write_past
from tests.testbed.kube import Kube

PROGRAM = Path(sys.executable).parent / "rebalancer"
ANSWER_SECONDS = 180.0
_RUNNING = {
    "chat": 20.0,
    "code": 4.0,
    "summary": 3.0,
    "embed": 6.0,
    "rerank": 2.0,
    "draft": 1.0,
}  # a pod, on the average


async def past_pods(kube: Kube, namespace: str) -> list[PastPod]:
    """The models' pods, each with what it ran on the average: those of `chat-b` as much as those of `chat`."""
    return [
        PastPod(namespace, pod["metadata"]["name"], f"example/{name}", _RUNNING[name.split("-")[0]])
        for pod in await kube.items("Pod", namespace)
        for name in [pod["metadata"]["name"].rsplit("-", 2)[0]]
        if name.split("-")[0] in _RUNNING
    ]


class _Exporters:
    """All pods' exporters in one server: each under its own path."""

    def __init__(self, pods: list[PastPod], tells: Exposition) -> None:
        by_path, clock = {f"/metrics/{pod.name}": pod for pod in pods}, RealClock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = text(by_path[self.path], clock.now(), tells).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(BrokenPipeError):  # Prometheus ends before its last scrape
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.targets = [
            {
                "targets": [self.address],
                "labels": {"namespace": pod.namespace, "pod": pod.name, "__metrics_path__": f"/metrics/{pod.name}"},
            }
            for pod in pods
        ]


def scraped(
    folder: Path, pods: list[PastPod], tells: Exposition = exposition, seconds: float = DAY_SECONDS
) -> Iterator[Prometheus]:
    """A Prometheus that has scraped these pods for a day, or as long as is said, and goes on."""
    now, exporters = RealClock().now(), _Exporters(pods, tells)
    write_past(folder, pods, now - seconds, now - 30, 60.0, exporters.address, tells)
    try:
        with prometheus(folder, {"vllm": exporters.targets}) as running:
            yield running
    finally:
        exporters.server.shutdown()
        exporters.server.server_close()


async def typed(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    command = [str(PROGRAM), *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    print(f"$ rebalancer {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


async def planned(environment: dict[str, str], folder: Path) -> bool:
    command = [str(PROGRAM), "status"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and "MODEL" in done.stdout
