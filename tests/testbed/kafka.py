"""One Kafka broker in KRaft mode: broker and controller in one process."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress

from tests.testbed.build import Built
from tests.testbed.place import Place
from tests.testbed.process import Failed, Process, free_port

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:{plain},PROXIED://127.0.0.1:{proxied},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},PROXIED://127.0.0.1:{proxy}
listener.security.protocol.map=PLAIN:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAIN
log.dirs={data}
auto.create.topics.enable=true
num.partitions=1
# A broker killed is fenced, and may register anew, after this and not after 9 s.
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class Kafka:
    """The broker. `bootstrap` is its address.

    For faults on the wire there is a second listener: a proxy of the test's own that listens on
    `proxy_port` and forwards to `proxied_port` sees all traffic of clients that bootstrap through it,
    because that listener advertises the proxy's port.
    """

    def __init__(self, place: Place, built: Built) -> None:
        self.port, self.proxied_port, self.proxy_port = free_port(), free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._data = place.subfolder("kafka")
        properties = _PROPERTIES.format(
            plain=self.port, proxied=self.proxied_port, proxy=self.proxy_port, controller=free_port(), data=self._data
        )
        self._file = place.write("kafka.properties", properties)
        # C1 alone halves what a start costs; the broker's rate is not what tests are about.
        self._java = [
            "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{built.jars}/*",
            "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        ]  # fmt: skip
        self.process = place.process("kafka", [*self._java, "kafka.Kafka", str(self._file)], self._started)

    @property
    def processes(self) -> list[Process]:
        return [self.process]

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes on disk of each topic whose name begins so, by the rest of it; all partitions."""
        sizes: dict[str, int] = {}
        for folder in self._data.glob(f"{prefix}*"):
            name = folder.name.removeprefix(prefix).rpartition("-")[0]
            with suppress(FileNotFoundError):  # a segment that is deleted just now
                sizes[name] = sizes.get(name, 0) + sum(file.stat().st_size for file in folder.glob("*.log"))
        return sizes

    def start(self) -> None:
        """Start it and wait until it serves; its records are those it had."""
        if not (self._data / "meta.properties").exists():
            self._format()
        self.process.start()

    def kill(self) -> None:
        """End it at once, as a crash would. Unacknowledged records may be lost, acknowledged ones not."""
        self.process.kill()

    def stop(self) -> None:
        self.process.stop()

    def _format(self) -> None:
        # An id that began with a dash would be read as an option, once in 64 times.
        cluster = "A" + urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()[1:]
        done = subprocess.run(
            [*self._java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._file)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"kafka storage was not formatted:\n{done.stderr}{done.stdout}")

    def _started(self) -> bool:
        # Logged once the broker is registered, unfenced and listens; an open port comes seconds earlier.
        return "Kafka Server started" in self.process.log_since_start()
