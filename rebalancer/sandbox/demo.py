"""The demo: the real service on an embedded Kafka and Kubernetes, a story it has to live through, and a verdict."""

import asyncio
import fcntl
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file
from pathlib import Path
from shlex import quote
from typing import Any, Literal, Protocol

import structlog
from rich.console import Console

from rebalancer.domain.people import LOCAL
from rebalancer.domain.plan import Plan
from rebalancer.loop.clock import ScaledClock
from rebalancer.loop.replay import replay
from rebalancer.obs.journal_files import SINGLE
from rebalancer.sandbox.demo_cluster import POLICY_FILE, DemoCluster, build, demo_policy
from rebalancer.sandbox.demo_loop import Loop, refuse
from rebalancer.sandbox.demo_peers import OURS, SideTally, peers
from rebalancer.sandbox.demo_picture import picture
from rebalancer.sandbox.demo_story import STORY, Act, DemoStage, tell
from rebalancer.sandbox.demo_trace import TracePlay
from rebalancer.sandbox.demo_view import View, a_console, a_view, verdict
from rebalancer.sandbox.oracle import CheckResult, Evidence, always
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.sandbox.witness import Witness
from rebalancer.settings.service import ServiceSettings
from rebalancer.world.traffic import Rows

ACCOUNT = "rebalancer"
OPERATOR = "operator"  # the kubeconfig for people
SHADOW = "Shadow: it decides and writes nothing, so no story is told; `rebalancer plan` says what it would do."
FRAME_SECONDS = 0.25  # of wall time, between two pictures


class Broke(Exception):
    """The demo cannot go on; the text says what ended."""


class AddressTaken(Exception):
    """Another demo has the folder; the text says which."""


class Listens(Protocol):
    """Where the service's read API is, on loopback."""

    api_port: int


class Serves(Protocol):
    """The service as the demo needs it: `app.Service`, which this room may not know."""

    failed: asyncio.Future[str]

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        ...

    @property
    def servers(self) -> Listens:
        """The ports that the service serves on."""
        ...

    async def start(self) -> None:
        """Come up."""
        ...

    async def stop(self) -> None:
        """Go down in order."""
        ...


Serve = Callable[[ServiceSettings, ScaledClock, Path], Serves]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was asked for.

    speed: how many times as fast as real time the demo's clock runs.
    keep: whether everything runs on after the story or the trace, until Ctrl-C.
    write_mode: the service's write mode; in `shadow` no story is played.
    trace: rows by model that take the story's place, None where the story is played.
    folder: where journal, logs and kubeconfigs go; one demo at a time has it.
    """

    speed: float
    keep: bool = False
    write_mode: Literal["act", "shadow"] = "act"
    trace: Mapping[str, Rows] | None = None
    folder: Path = Path("build/demo")

    @property
    def cluster_name(self) -> str:
        """The cluster's name on every surface: a reader of an instant must know that the demo's clock is not theirs."""
        return "demo" if self.speed == 1.0 else f"demo (clock {self.speed:g}x)"

    @property
    def journal(self) -> Path:
        """What the service journals, for `rebalancer replay`."""
        return self.folder / SINGLE


def run_demo(options: Options, serve: Serve) -> bool:
    """Play it and print the verdict; whether everything happened. Journal and logs stay in the folder.

    Raises Broke when the service ends before the story does, AddressTaken when another demo has the folder.
    """
    options.folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(options.folder):
        _log_to(options.folder)
        options.journal.unlink(missing_ok=True)  # of another world, and at 4x it may reach into this one's future
        console = a_console()
        clock = ScaledClock(options.speed)
        cluster = build(demo_policy(), clock.now())
        findings = asyncio.run(_perform(options, serve, clock, cluster, console))
        return _replays(options.journal, console) and all(finding.answer.held for finding in findings)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder, journal and logs of one demo; the lock goes with the process. Raises AddressTaken."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AddressTaken(
                f"another demo runs in {folder}: end it with Ctrl-C, or start this one elsewhere"
            ) from error
        yield


async def _perform(
    options: Options, serve: Serve, clock: ScaledClock, cluster: DemoCluster, console: Console
) -> list[CheckResult]:
    """Everything up, the story played and judged, everything down."""
    trace = None if options.trace is None else TracePlay(options.trace)
    beside = peers(cluster.policy, cluster.world.now)
    tally = SideTally({OURS: cluster.world, **{name: peer.world for name, peer in beside.items()}})
    async with Sandbox(clock, cluster.world) as sandbox:
        witness = Witness(sandbox.kubernetes.store, cluster.policy, clock)
        async with _service(options, serve, sandbox, clock) as service:
            console.print(f"Console: {_address(service)}/console/   (as long as this runs)", soft_wrap=True)
            stage = DemoStage(clock, sandbox, cluster, service, peers=beside)
            evidence = Evidence(witness.facts, sandbox.kubernetes.audit, cluster.policy, ACCOUNT, stage.marks)
            show = Show(clock, stage, evidence, a_view(console, clock, witness.facts, stage, tally), tally)
            sandbox.kubernetes.verbs.admit = refuse
            if options.write_mode == "shadow":
                show.view.close()
                console.print(SHADOW)
            else:
                await _play_and_judge(show, trace, sandbox, service, console)
            if options.keep:
                console.print(_how_to_go_on(options, sandbox, service), soft_wrap=True)
                loop = Loop(stage, tally, lambda line: console.print(f"{clock.monotonic():7.1f} s  {line}"))
                await _alive(loop.run() if trace is None else _for_ever(), sandbox, service)
    return show.findings


async def _play_and_judge(
    show: "Show", trace: TracePlay | None, sandbox: Sandbox, service: Serves, console: Console
) -> None:
    """The story, or what a trace has, and the verdict on it."""
    world = show.stage.cluster.world
    try:
        await _alive(show.play(trace.acts if trace else STORY), sandbox, service)
    finally:  # also when somebody has seen enough: what was seen until then
        show.view.close()
        show.findings += always(show.evidence)
        show.findings += trace.report(world, show.evidence) if trace else []
        marks = show.stage.marks
        begun = trace.started_at if trace else marks.surge_at
        stretch = show.tally.between(begun, marks.pin_at or show.clock.now())
        if begun and len(stretch.looks) > 1:
            console.print(picture(stretch, marks), "")
        console.print(verdict(show.findings, show.clock))


@dataclass(slots=True)
class Show:
    """A story being played: who shows it, what became of its requests, and what was found.

    clock: the demo's clock.
    stage: what the acts work with.
    evidence: what their checks judge by.
    view: what shows the story, a live picture or plain lines.
    tally: counts of the requests on all sides, taken at each picture.
    findings: lines of the verdict so far, in order.
    """

    clock: ScaledClock
    stage: DemoStage
    evidence: Evidence
    view: View
    tally: SideTally
    findings: list[CheckResult] = field(default_factory=list)

    async def play(self, acts: tuple[Act, ...]) -> None:
        """Act after act, with a fresh picture all the while."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch())
            await tell(acts, self.stage, self.evidence, self.view, self.findings)
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            self.tally.look(self.clock.now())
            self.view.refresh()
            await self.clock.sleep(FRAME_SECONDS / self.clock.wall_seconds(1.0))


@asynccontextmanager
async def _service(options: Options, serve: Serve, sandbox: Sandbox, clock: ScaledClock) -> AsyncIterator[Serves]:
    """The service against the sandbox, stopped in order."""
    kubeconfig = options.folder / "kubeconfig"
    await asyncio.to_thread(sandbox.kubernetes.write_kubeconfig, kubeconfig, ACCOUNT)
    await asyncio.to_thread(sandbox.kubernetes.write_kubeconfig, options.folder / OPERATOR, LOCAL)
    with as_file(POLICY_FILE) as policy:
        settings = ServiceSettings(
            cluster_name=options.cluster_name,
            kafka_bootstrap=sandbox.bootstrap,
            kafka_security_protocol="PLAINTEXT",
            kubeconfig=kubeconfig,
            policy_path=policy,
            write_mode=options.write_mode,
            write_deletion_cost=True,
            api_auth="none",
            api_port=0,
            probe_port=0,
            journal_dir=options.folder,
        )
        service = serve(settings, clock, options.journal)
        try:
            await service.start()
            yield service
        finally:
            await service.stop()


async def _alive(work: Coroutine[object, object, None], sandbox: Sandbox, service: Serves) -> None:
    """Do `work` as long as world and service live. Raises Broke when the service ends, and what ended the world."""
    task = asyncio.create_task(work)
    ends: set[asyncio.Future[Any]] = {task, sandbox.failed, service.failed}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if service.failed.done():
            raise Broke(f"the service ended: {service.failed.result()}")
        if sandbox.failed.done():
            sandbox.failed.result()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _for_ever() -> None:
    await asyncio.Event().wait()


def _replays(journal: Path, console: Console) -> bool:
    """Make every decision again from its recorded inputs; whether all came out byte by byte the same."""
    with journal.open("rb") as lines:
        result = replay(lines)
    same = result.cycles - len(result.differences)
    console.print(f"\nrebalancer replay {journal}: {result.cycles} cycles, {same} byte-equal")
    return result.cycles > 0 and same == result.cycles


def _address(service: Serves) -> str:
    return f"http://127.0.0.1:{service.servers.api_port}"


def _how_to_go_on(options: Options, sandbox: Sandbox, service: Serves) -> str:
    address, here = _address(service), Path.cwd()
    settings = f"REBALANCER_SERVER={address} KUBECONFIG={quote(str(options.folder.absolute() / OPERATOR))}"
    fast = options.speed != 1.0
    clock = (
        f"Its clock runs {options.speed:g} times as fast as yours: 5 minutes pass in {300.0 / options.speed:.0f} s.\n"
    )
    return f"""
Everything keeps running until Ctrl-C, with traffic in a loop. In a browser: {address}/console/
Each round's line has the late requests of all sides, and who is worst off: where KEDA shares the pool chat keeps for
good what it took in a surge. That makes fewer late in some rounds, all of them of code, which owns those GPUs.
{clock if fast else ""}\
In another terminal:
  cd {quote(str(here))}
  export PATH={quote(str(Path(sys.executable).parent))}:$PATH {settings}
  rebalancer status
  rebalancer explain chat
  rebalancer demo surge chat
  rebalancer override add cap code 4 --for 5m --reason "to see what happens" --yes
  rebalancer writes stop --reason "to see it stop"
  rebalancer writes resume --yes
  rebalancer report --journal {quote(str(options.folder))}
  kubectl get pods,overrides --namespace serving
The Kubernetes API is at {sandbox.kubernetes.url}, Kafka at {sandbox.bootstrap}, topics rebalancer.*"""


def _log_to(folder: Path) -> None:
    """What service and libraries say goes into files: the terminal is for the show."""
    logging.basicConfig(filename=folder / "libraries.log", filemode="w", level=logging.WARNING, force=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory((folder / "service.log").open("w")),
    )
