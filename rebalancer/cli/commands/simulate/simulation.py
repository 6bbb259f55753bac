"""What `rebalancer simulate` does: reads what it was given, plays it, writes the page."""

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from rebalancer.cli.commands.bundle.archive import POLICY, TRAFFIC, is_bundle, read
from rebalancer.cli.commands.simulate.speeds import Speeds, gpus_of, services
from rebalancer.cli.failure import USAGE, Failed
from rebalancer.cli.terminal.talk import Talk
from rebalancer.domain.policy import Policy
from rebalancer.drawing.bins import clock
from rebalancer.settings.policy_file import check_bytes
from rebalancer.sim import data
from rebalancer.sim.contest.contest import Result, Side, Tell, contest, told_last
from rebalancer.sim.contest.named import GENERATED, named_cases, no_trace, ruling, ruling_notes
from rebalancer.sim.contest.one_pool import one_pool, one_pool_notes, signal_notes
from rebalancer.sim.contest.outcome import ContestRun
from rebalancer.sim.contest.recorded import ContestTerms, Unfit, paid, read_demand, scenario_of, with_gpus
from rebalancer.sim.contest.telling import headline, rows
from rebalancer.sim.data.generate import text
from rebalancer.sim.demand import DemandStreams
from rebalancer.sim.product import default_policy
from rebalancer.sim.suite.cases import SuiteCase
from rebalancer.sim.suite.names import BEST, Entry, Ours, UnknownController, contender
from rebalancer.sim.traces.folder import MissingTrace, traces_folder
from rebalancer.sim.traces.servegen import servegen
from rebalancer.world.traffic import BadTrace

TUNED, ALONE = "keda@best", "none"  # what the service is compared with unless told otherwise; nothing
SERVEGEN = {"servegen-0": 0, "servegen-1": 1}


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """The command line of `rebalancer simulate`.

    trace: traffic to play: a CSV file, a bundle, or the name of a trace or of a case of the benchmarks.
    row_seconds: seconds that one row of the CSV speaks of.
    policy: policy file to play under; None: the one that comes with the trace.
    gpus: GPUs there are, each as `[POOL=]N`; empty: as the policy says.
    controller: name of the controller to play.
    compare: name of another controller, another policy file, or `none`; None: keda@best where the service plays, else
        none.
    seed: seed of everything random; other than 0 it draws a trace of the package anew.
    traces: folder of public traces, None where none was named.
    speeds: how fast replicas work, as typed.
    gpus_per_node: GPUs of one node.
    metrics_delay_seconds: seconds by which metrics lag; None: 1, or as the case of the benchmarks has it.
    """

    trace: str
    row_seconds: int
    policy: Path | None
    gpus: Sequence[str]
    controller: str
    compare: str | None
    seed: int
    traces: Path | None
    speeds: Speeds
    gpus_per_node: int
    metrics_delay_seconds: int | None


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of a simulation.

    title: trace, hours, models and GPUs, in one line.
    words: sentences under the title, the headline first; empty where only one run was played.
    result: outcomes and their difference, the runs in the order in which they were named.
    runs: the runs as people read them, the one that is judged last.
    """

    title: str
    words: list[str]
    result: Result
    runs: tuple[ContestRun, ...]


def simulate(request: SimulationRequest, talk: Talk) -> Simulated:
    """Play what was asked for. Raises Failed."""
    case = named_cases().get(request.trace)
    try:
        sides, notes = _recorded(request) if case is None else _of_suite(request, case)
        delay = 1 if case is None and request.metrics_delay_seconds is None else request.metrics_delay_seconds
        with _progress(talk) as tell:
            result, runs = contest(request.trace, sides, tell, metrics_delay_seconds=delay, seed=request.seed)
    except (Unfit, UnknownController, MissingTrace) as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    for line in notes:
        talk.say(f"note: {line}")
    difference = result.difference
    if told_last(sides) and difference is not None:
        sides, runs, difference = sides[::-1], runs[::-1], difference.other_way
    words = [] if difference is None else [*_words(sides, runs), f"{difference.sentence}."]
    gpus = ", ".join(dict.fromkeys(str(run.record.scenario.gpus) for run in runs))
    title = f"{request.trace}: {clock(result.seconds)} h, {len(sides[0].policy.models)} models on {gpus} GPUs"
    return Simulated(title, words, result, runs)


def _words(sides: Sequence[Side], runs: Sequence[ContestRun]) -> Iterator[str]:
    """What it comes to, and against whom."""
    first, second = runs
    yield f"{headline(first.outcome, second.outcome, (first.record.scenario.gpus, second.record.scenario.gpus))}."
    for side, run in zip(sides, runs, strict=True):
        if isinstance(side.who, Entry) and side.who.tuning == BEST:
            yield f"{run.outcome.name} is {side.who.peer.name} with its best setting for this very trace, in hindsight."


def written(path: Path, simulated: Simulated) -> None:
    """Write the page. Raises Failed."""
    from rebalancer.sim.page.html import page

    outcomes = [run.outcome for run in simulated.runs]
    text = page(simulated.title, simulated.words, rows(outcomes, wide=True), simulated.runs)
    try:
        path.write_text(text)
    except OSError as error:
        raise Failed(f"{path}: cannot be written ({error.strerror})") from error


def _recorded(request: SimulationRequest) -> tuple[list[Side], list[str]]:
    """Recorded traffic under one or two policies, and what is to be said of it. Raises Failed, Unfit, MissingTrace."""
    demand = _demand(request)
    policy, name = _policy(request.policy, request.trace)
    recorded, notes = policy, dict[str, None]()
    if is_bundle(Path(request.trace)):
        try:
            recorded = _policy(None, request.trace)[0]
        except Failed as error:  # of another version, or made without: the one that is played is at hand
            why = str(error).splitlines()[0]
            notes[f"how fast replicas are is as {name} says, since the bundle's policy cannot be read: {why}"] = None
    terms = ContestTerms(demand, services(request.speeds, policy, recorded), request.gpus_per_node)
    gpus = gpus_of(request.gpus)

    def side(who: Ours | Entry, of: Policy, called: str | None) -> Side:
        limited = with_gpus(of, gpus)
        scenario = scenario_of(limited, terms)
        slots = {model.name: model.slots for model in scenario.models}
        notes.update(dict.fromkeys(_notes(limited, demand, request.row_seconds)))
        return Side(who, scenario, one_pool(limited), called, slots, paid(limited))

    return _sides(request, policy, name, side), list(notes)


def _of_suite(request: SimulationRequest, case: SuiteCase) -> tuple[list[Side], list[str]]:
    """A scenario of the benchmarks, under the one policy that they use or another. Raises as `_recorded`."""
    speeds = [word for field in fields(request.speeds) for word in getattr(request.speeds, field.name)]
    if speeds or request.gpus or request.row_seconds != 1:
        raise Failed(f"{request.trace} says itself what arrives, on how many GPUs and how fast replicas are", USAGE)
    folder = Path() if case.day == GENERATED else traces_folder(request.traces, os.environ)
    scenario = case.build(folder, request.seed)
    notes: dict[str, None] = {}

    def side(who: Ours | Entry, of: Policy, called: str | None) -> Side:
        notes.update(dict.fromkeys(ruling_notes(scenario, of)))
        return Side(who, scenario, ruling(scenario, of), called)

    if request.policy is None:
        return _sides(request, default_policy(scenario), "the benchmarks' policy", side), list(notes)
    return _sides(request, *_policy(request.policy, request.trace), side), list(notes)


def _demand(request: SimulationRequest) -> DemandStreams:
    name = request.trace
    if name in SERVEGEN:
        return replace(servegen(traces_folder(request.traces, os.environ), SERVEGEN[name]), name=name)
    try:
        if name in data.TRACES:
            content = text(name, request.seed).encode() if request.seed else data.trace(name)
        elif is_bundle(Path(name)):
            content = read(Path(name), TRAFFIC)
        else:
            content = Path(name).read_bytes()
            content = gzip.decompress(content) if name.endswith(".gz") else content
        return read_demand(content, name, request.row_seconds)
    except FileNotFoundError as error:
        known = ", ".join([*data.TRACES, *SERVEGEN])
        unknown = (
            f"{name}: no such file, and no trace of that name; there are {known},"
            f" and the benchmarks' cases such as {next(iter(named_cases()))}"
        )
        raise Failed(no_trace(name) or unknown, USAGE) from error
    except (OSError, EOFError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise Failed(f"{name}: cannot be read ({why})", USAGE) from error
    except BadTrace as wrong:
        raise Failed(f"{name}: {wrong}", USAGE) from wrong


def _policy(path: Path | None, trace: str) -> tuple[Policy, str]:
    if path is None and is_bundle(Path(trace)):
        return _checked(read(Path(trace), POLICY), POLICY), POLICY
    if path is None and trace not in data.TRACES:
        raise Failed(f"no policy: give --policy FILE, the one that rules the models of {trace}", USAGE)
    if path is None:
        return _shipped(trace)
    if path.stem in data.TRACES and path.suffix == ".yaml" and path.parent == Path() and not path.exists():
        return _shipped(path.stem)  # by the name that it was told under
    try:
        return _checked(path.read_bytes(), str(path)), path.name
    except OSError as error:
        raise Failed(f"{path}: cannot be read ({error.strerror})") from error


def _shipped(trace: str) -> tuple[Policy, str]:
    """The policy that comes with a trace."""
    name = f"{trace}.yaml"
    return _checked(data.policy(trace).encode(), name), name


def _checked(content: bytes, name: str) -> Policy:
    policy, problems = check_bytes(content, name)
    if policy is None:
        raise Failed("\n".join(str(problem) for problem in problems))
    return policy


Sided = Callable[[Ours | Entry, Policy, str | None], Side]


def is_alone(request: SimulationRequest) -> bool:
    """Whether one run is asked for. Raises Failed."""
    try:
        return _against(request, contender(request.controller)) == ALONE
    except UnknownController as wrong:
        raise Failed(str(wrong), USAGE) from wrong


def _against(request: SimulationRequest, who: Ours | Entry) -> str:
    return request.compare or (TUNED if isinstance(who, Ours) else ALONE)


def _sides(request: SimulationRequest, policy: Policy, policy_name: str, side: Sided) -> list[Side]:
    who = contender(request.controller)
    compare = _against(request, who)
    if compare == ALONE:
        return [side(who, policy, None)]
    if not _is_file(compare):
        return [side(who, policy, None), side(contender(compare), policy, None)]
    other, name = _policy(Path(compare), request.trace)
    names = (policy_name, name) if policy_name != name else (str(request.policy or policy_name), compare)
    first = side(who, policy, names[0])
    try:
        return [first, side(who, other, names[1])]
    except Unfit as wrong:
        raise Unfit(f"{names[1]}: {wrong}") from wrong


def _is_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml", ".json")) or os.sep in word


def _notes(policy: Policy, demand: DemandStreams, row_seconds: int) -> Iterator[str]:
    apart = _seconds_apart(demand)
    if row_seconds == 1 and apart > 1:
        yield (
            f"no two rows are less than {apart} s apart, and each was played as the traffic of one second, which hides"
            f" waits; if they speak of {apart} s: --row-seconds {apart}"
        )
    free = [
        each.model
        for each in demand.streams
        if each.requests.any() and not (each.prompt_tokens.any() or each.generated_tokens.any())
    ]
    if free:
        yield (
            f"no tokens in the trace for {', '.join(free)}: their requests cost a replica nothing, so none of them is"
            " late and no number about them means anything; where a request has none, give it the output_tokens that"
            " take a replica as long"
        )
    loaded = {stream.model for stream in demand.streams}
    silent = [each.id for each in policy.models if not loaded & {each.id, *each.aliases}]
    if silent:
        yield f"no requests in the trace for {', '.join(silent)}: played without any"
    yield from one_pool_notes(policy)
    yield from signal_notes(policy)


def _seconds_apart(demand: DemandStreams) -> int:
    """The least between two seconds in which something came."""
    came = np.flatnonzero(np.sum([stream.requests[: demand.seconds] for stream in demand.streams], axis=0))
    return int(np.diff(came).min()) if len(came) > 1 else 1


@contextmanager
def _progress(talk: Talk) -> Iterator[Tell]:
    """A bar on a terminal, nothing elsewhere."""
    if talk.quiet or not sys.stderr.isatty():
        yield lambda _name, _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {}

        def tell(name: str, share: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(f"simulate {name}", total=1.0)
            bar.update(tasks[name], completed=share)

        yield tell
