"""Shows the demo: a live picture in a terminal, plain lines in a pipe, the same table in the end."""

import sys
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_peers import SideTally
from rebalancer.sandbox.demo_picture import sums
from rebalancer.sandbox.demo_story import DemoStage
from rebalancer.sandbox.oracle import CheckResult
from rebalancer.sandbox.witness import Facts, ScaleWrite
from rebalancer.world import WorldNode

EVENTS_SHOWN = 3
WIDTH = 110  # of a table in a pipe
COLOURS = ("cyan", "magenta", "yellow", "green", "blue")


class PlainView:
    """One line per thing that happens."""

    def __init__(self, console: Console, clock: ScaledClock, facts: Facts) -> None:
        self._console = console
        self._clock = clock
        self._facts = facts
        self._shown = 0

    def act(self, number: int, total: int, title: str) -> None:
        """The next act begins."""
        self.refresh()
        self._line(f"{number}/{total} {title}")

    def show_finding(self, finding: CheckResult) -> None:
        """Something was seen, or was not seen in time."""
        self.refresh()
        self._line(f"    {_mark(finding)} {finding.what}: {finding.answer.words}{_times(finding, self._clock)}")

    def refresh(self) -> None:
        """Show what is new."""
        for write in self._facts.writes[self._shown :]:
            self._line(f"    {_event(write)}")
        self._shown = len(self._facts.writes)

    def close(self) -> None:
        """The show is over; what follows is printed below."""
        self.refresh()

    def _line(self, text: str) -> None:
        self._console.print(Text(f"{self._clock.monotonic():7.1f} s  {text}"), soft_wrap=True)


class LiveView:
    """A picture that is drawn again and again: acts, models, GPUs, late requests, the latest writes.

    It fits into 24 lines: of an act that is over its title stays.
    """

    def __init__(self, console: Console, clock: ScaledClock, facts: Facts, stage: DemoStage, tally: SideTally) -> None:
        self._clock = clock
        self._facts = facts
        self._stage = stage
        self._tally = tally
        self._acts: list[Text] = []
        self._checks: list[Text] = []
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    def act(self, number: int, total: int, title: str) -> None:
        """The next act begins."""
        self._checks.clear()
        self._acts = [Text(one.plain, style="dim") for one in self._acts]
        self._acts.append(Text(f"{number}/{total} {title}", style="bold", no_wrap=True, overflow="ellipsis"))
        self.refresh()

    def show_finding(self, finding: CheckResult) -> None:
        """Something was seen, or was not seen in time."""
        style = "green" if finding.answer.held else "bold red"
        words = f"    {_mark(finding)} {finding.what}: {finding.answer.words}{_times(finding, self._clock)}"
        self._checks.append(Text(words, style=style, no_wrap=True, overflow="ellipsis"))
        self.refresh()

    def refresh(self) -> None:
        """Show what is new."""
        self._live.update(self._picture(), refresh=True)

    def close(self) -> None:
        """The show is over; what follows is printed below."""
        self.refresh()
        self._live.stop()

    def _picture(self) -> RenderableType:
        passed = self._clock.monotonic()
        speed = 1.0 / self._clock.wall_seconds(1.0)
        seconds = f"world {passed:5.0f} s   wall {self._clock.wall_seconds(passed):4.0f} s"
        head = Text(f"rebalancer demo   clock {speed:g}x   {seconds}")
        events = [Text(_event(write), style="dim") for write in self._facts.writes[-EVENTS_SHOWN:]]
        story = [*self._acts, *self._checks]
        return Group(head, Text(), *story, Text(), self._models(), self._gpus(), self._late(), *events)

    def _late(self) -> Text:
        """How the sides stand, once the surge has begun."""
        begun = self._stage.marks.surge_at
        stretch = self._tally.between(begun, self._clock.now())
        return Text(sums(stretch), style="bold") if begun and stretch.looks else Text()

    def _models(self) -> Table:
        world, plan = self._stage.cluster.world, self._stage.service.plan
        decided = {each.model: each for each in plan.models} if plan else {}
        table = Table(box=None, pad_edge=False)
        for name in ("MODEL", "RUNNING", "WAITING", "DEMAND", "READY", "LOAD", "DOOM", "FLOOR", "LENT", "BORROWED"):
            table.add_column(name, justify="left" if name == "MODEL" else "right")
        for index, (name, lined) in enumerate(world.lines.items()):
            each = decided.get(name)
            numbers = [f"{lined.line.running:.0f}", f"{lined.line.waiting:.0f}"]
            if each is not None:
                demand = "?" if each.demand is None else str(each.demand)
                known = (each.ready, each.loading, each.doomed, each.floor, each.lent, each.borrowed)
                numbers += [demand, *map(str, known)]
            surging = " surge" if each is not None and each.surge else ""
            table.add_row(Text(name + surging, style=COLOURS[index % len(COLOURS)]), *numbers)
        return table

    def _gpus(self) -> Text:
        """One character per GPU: a model's first letter, small while its pod loads or ends, `.` when free."""
        world = self._stage.cluster.world
        colours = {model: COLOURS[index % len(COLOURS)] for index, model in enumerate(world.models)}
        text = Text("\n")
        for node in world.nodes.values():
            text.append(f"{node.name:<12}", style="dim" if node.taints else "")
            for letter, model in _letters(node):
                text.append(letter, style=colours.get(model, "dim"))
            text.append("  ")
        return text


def _letters(node: WorldNode) -> Iterable[tuple[str, str]]:
    for pod in node.pods.values():
        letter = pod.owner.model[0]
        yield from [(letter.upper() if pod.ready else letter, pod.owner.model)] * pod.gpus
    yield from [(".", "")] * node.free


View = PlainView | LiveView


def a_view(console: Console, clock: ScaledClock, facts: Facts, stage: DemoStage, tally: SideTally) -> View:
    """Live where somebody watches, plain where somebody reads."""
    if console.is_terminal:
        return LiveView(console, clock, facts, stage, tally)
    return PlainView(console, clock, facts)


def a_console() -> Console:
    """Standard output, wide enough for the table when it is a pipe."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def verdict(findings: Iterable[CheckResult], clock: ScaledClock) -> Table:
    """The table in the end, with times of the simulated world and of whoever watched."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("WHAT", no_wrap=True)
    table.add_column(f"{1.0 / clock.wall_seconds(1.0):g}x CLOCK", justify="right", no_wrap=True)
    table.add_column("YOURS", justify="right", no_wrap=True)
    table.add_column("SEEN")
    for finding in findings:
        seconds = finding.answer.seconds
        times = ["", ""] if seconds is None else [f"{seconds:.1f} s", f"{clock.wall_seconds(seconds):.2f} s"]
        mark = Text(_mark(finding), style="green" if finding.answer.held else "bold red")
        table.add_row(mark, finding.what, *times, Text(finding.answer.words))
    return table


def _mark(finding: CheckResult) -> str:
    return "ok" if finding.answer.held else "FAILED"


def _times(finding: CheckResult, clock: ScaledClock) -> str:
    seconds = finding.answer.seconds
    return "" if seconds is None else f"  ({seconds:.1f} s, {clock.wall_seconds(seconds):.2f} s wall)"


def _event(write: ScaleWrite) -> str:
    """The write as `rebalancer plan` marks changes."""
    return f"{'-' if write.after < write.before else '+'} {write.deployment} {write.before} -> {write.after}"
