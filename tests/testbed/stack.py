"""The stack: the pieces of the testbed in one place, started on demand, taken down together."""

import atexit
import tempfile
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from tests.testbed.audit import AuditLog
from tests.testbed.build import build
from tests.testbed.control_plane import ControlPlane, Timing
from tests.testbed.kafka import Kafka
from tests.testbed.karpenter import INSTANCE_TYPES, Karpenter
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.kwok import Kwok
from tests.testbed.place import Access, Place
from tests.testbed.process import Failed, Process, Reaper, start_together

# Each piece with what it stands on, in the order in which they start.
PIECES: dict[str, tuple[str, ...]] = {
    "kafka": (),
    "kubernetes": (),
    "kwok": ("kubernetes",),
    "karpenter": ("kubernetes", "kwok"),
    "keda": ("kubernetes",),
}


_SERVERS = ("kafka", "etcd", "apiserver")


class Piece(Protocol):
    """One piece: the processes it is made of, and how it starts (blocking, until it serves)."""

    @property
    def processes(self) -> list[Process]: ...

    def start(self) -> None: ...


P = TypeVar("P", bound=Piece)


class Stack:
    """Real Kafka and Kubernetes on loopback, without containers.

        with Stack() as stack:
            stack.start("kafka", "keda")
            stack.kafka.bootstrap, stack.kubeconfig()

    Everything blocks but `kube()`: from an async test use `asyncio.to_thread`. Whatever happens to
    this process, its children end with it. Data and logs lie in `folder`, which goes with the stack
    unless the caller named it or `keep` is set.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        timing: Timing | None = None,
        instance_types: Iterable[Json] = INSTANCE_TYPES,
        keep: bool = False,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rebalancer-testbed-"))
        scrap = self.folder if folder is None and not keep else None
        self._timing = timing or Timing()
        self._instance_types = list(instance_types)
        self._place = Place(self.folder, Reaper(scrap))
        self._pieces: dict[str, Piece] = {}
        atexit.register(self.stop)

    def start(self, *pieces: str) -> None:
        """Build, start and wait for these pieces and what they stand on; those that run are left alone.

        Raises `Missing` when the machine cannot build them, `Failed` when one does not come up.
        """
        for name in with_foundations(pieces):
            if name not in self._pieces:
                self._pieces[name] = self._make(name)
                self._pieces[name].start()

    def stop(self) -> None:
        """Take everything down; a second call does nothing."""
        atexit.unregister(self.stop)
        for process in self.processes:
            process.kill()
        self._place.reaper.close()
        self._pieces.clear()

    @property
    def kafka(self) -> Kafka:
        return self._started("kafka", Kafka)

    @property
    def control_plane(self) -> ControlPlane:
        return self._started("kubernetes", ControlPlane)

    @property
    def kwok(self) -> Kwok:
        return self._started("kwok", Kwok)

    @property
    def karpenter(self) -> Karpenter:
        return self._started("karpenter", Karpenter)

    @property
    def keda(self) -> Keda:
        return self._started("keda", Keda)

    @property
    def apiserver(self) -> Process:
        return self.control_plane.apiserver

    @property
    def audit(self) -> AuditLog:
        return AuditLog(self.control_plane.audit_log)

    @property
    def access(self) -> Access:
        return self.control_plane.access

    def kube(self, token: str | None = None) -> AbstractAsyncContextManager[Kube]:
        """A client for the holder of `token`, else for the admin: `async with stack.kube() as kube`."""
        return Kube.connect(self.access, token)

    def kubeconfig(self, name: str = "admin", token: str | None = None) -> Path:
        """A kubeconfig file for the holder of `token`, else for the admin."""
        return self._place.write(f"kubeconfigs/{name}", self.access.kubeconfig(token))

    def restart_controllers(self) -> None:
        """Restart all that watches the API server, so that it sees the present at once.

        After an outage they wait out a back-off instead: up to 50 s, and fake nodes may be NotReady meanwhile.
        """
        watchers = [process for process in self.processes if process.name not in _SERVERS]
        for process in watchers:
            process.stop()
        start_together(watchers)

    @property
    def processes(self) -> list[Process]:
        """All processes of the started pieces."""
        return [process for piece in self._pieces.values() for process in piece.processes]

    def log_tails(self, lines: int = 40) -> str:
        """The end of every log, for the report of a failed test."""
        return "\n".join(process.log_tail(lines) for process in self.processes if process.log.exists())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _make(self, piece: str) -> Piece:
        built = build(piece)
        match piece:
            case "kafka":
                return Kafka(self._place, built)
            case "kubernetes":
                return ControlPlane(self._place, built, self._timing)
            case "kwok":
                return Kwok(self._place, built, self.control_plane)
            case "karpenter":
                return Karpenter(self._place, built, self.control_plane, self._instance_types)
            case _:
                return Keda(self._place, built, self.control_plane)

    def _started(self, name: str, kind: type[P]) -> P:
        piece = self._pieces.get(name)
        if not isinstance(piece, kind):
            raise Failed(f"{name} is not started: stack.start({name!r})")
        return piece


def with_foundations(pieces: Iterable[str]) -> list[str]:
    """The pieces and all they stand on, in the order in which they start."""
    wanted = set(pieces)
    if unknown := wanted - set(PIECES):
        raise ValueError(f"no such pieces: {sorted(unknown)}; there are {list(PIECES)}")
    for piece in reversed(PIECES):
        if piece in wanted:
            wanted.update(PIECES[piece])
    return [piece for piece in PIECES if piece in wanted]
