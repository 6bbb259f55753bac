"""A real Prometheus on loopback that scrapes what it is told to, each second."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.build import Missing
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port
from tests.testbed.system import program

ANSWER_SECONDS = 5.0


class Prometheus:
    """Blocks: from an async test call it by `asyncio.to_thread`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401  any JSON
        """`data` of an API answer; a question that it refuses fails the test with its words."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        url = f"{self.url}/api/v1/{path}{query}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as reply:  # noqa: S310  our own http address
                return json.load(reply)["data"]
        except urllib.error.HTTPError as refused:
            pytest.fail(f"{parameters or path}: {refused.read().decode()}")

    def query(self, expr: str) -> list[dict[str, Any]]:
        """An instant query's samples."""
        found: list[dict[str, Any]] = self.ask("query", query=expr)["result"]
        return found

    def ready(self) -> bool:
        """Whether it answers: while it starts it says 503."""
        return answers(urllib.parse.urlsplit(self.url).port or 0, "/-/ready")


@contextmanager
def prometheus(
    folder: Path,
    targets: Mapping[str, Sequence[Mapping[str, object]]],
    rules: Sequence[Path] = (),
    honoring: Collection[str] = (),
) -> Iterator[Prometheus]:
    """Started with `static_configs` by job; skips the test where there is none. Blocks.

    `honoring`: jobs of which the exporter's labels are kept where Prometheus has the same.
    """
    try:
        binary = program("prometheus")
    except Missing as missing:
        pytest.skip(str(missing))
    port = free_port()
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {"job_name": job, "static_configs": list(static), "honor_labels": job in honoring}
            for job, static in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))
    found = Prometheus(f"http://127.0.0.1:{port}")
    reaper = Reaper()
    process = Process(
        [
            str(binary),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        log=folder / "prometheus.log",
        healthy=found.ready,
        reaper=reaper,
    )
    try:
        process.start()
        yield found
    finally:
        process.stop()
        reaper.close()
