"""The tier of `rebalancer aggregate` on the real Kafka: a process for each member."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.kafka import Kafka
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port

_PROGRAM = Path(sys.executable).parent / "rebalancer"


class Tier:
    """Processes `rebalancer aggregate` by the name of the member."""

    def __init__(self, kafka: Kafka, prefix: str, folder: Path) -> None:
        self.processes: dict[str, Process] = {}
        self.ports: dict[str, int] = {}
        self.settings = {
            "REBALANCER_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "REBALANCER_KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "REBALANCER_TOPIC_PREFIX": prefix,
        }
        self._folder = folder
        self._reaper = Reaper()

    def launch(self, member: str) -> None:
        port = self.ports[member] = free_port()
        self.processes[member] = Process(
            [str(_PROGRAM), "aggregate", "--member", member],
            log=self._folder / f"{member}.log",
            healthy=lambda: answers(port, "/readyz"),
            reaper=self._reaper,
            environment={**self.settings, "REBALANCER_PROBE_PORT": str(port)},
        )
        self.processes[member].launch()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        self._reaper.close()


@pytest.fixture
def tier(kafka: Kafka, topic_prefix: str, tmp_path: Path) -> Iterator[Tier]:
    running = Tier(kafka, topic_prefix, tmp_path)
    yield running
    running.close()
