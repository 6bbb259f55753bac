"""What `rebalancer simulate` does: reads what it was given, plays it, writes the page."""

import gzip
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.cli.talk import Talk
from rebalancer.domain.policy import Policy
from rebalancer.settings.policy_file import check_bytes
from rebalancer.sim import data
from rebalancer.sim.contenders import UnknownController, contender
from rebalancer.sim.contest import Result, Side, Tell, contest
from rebalancer.sim.demand import Demand
from rebalancer.sim.outcome import Run
from rebalancer.sim.page.bins import clock
from rebalancer.sim.recorded import Service, Terms, Unfit, read_demand, with_gpus
from rebalancer.sim.telling import rows
from rebalancer.sim.traces.folder import MissingTrace, traces_folder
from rebalancer.sim.traces.servegen import servegen
from rebalancer.world.traffic import BadTrace

SERVEGEN = {"servegen-0": 0, "servegen-1": 1}


@dataclass(frozen=True, slots=True)
class Speeds:
    """Values of [MODEL=]NUMBER options, as typed."""

    prefill_rate: Sequence[str]
    seconds_per_token: Sequence[str]
    batch: Sequence[str]
    patience: Sequence[str]
    release: Sequence[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line."""

    trace: str
    policy: Path | None
    gpus: Sequence[str]
    controller: str
    compare: str | None
    seed: int
    traces: Path | None
    speeds: Speeds
    gpus_per_node: int
    metrics_delay_seconds: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of it. `words`: sentences under the table."""

    title: str
    words: list[str]
    result: Result
    runs: tuple[Run, ...]


def simulate(asked: Asked, talk: Talk) -> Simulated:
    """Play what was asked for. Raises Failed."""
    try:
        demand = _demand(asked)
        policy, name = _policy(asked.policy, asked.trace)
        sides = _sides(asked, policy, name)
        terms = Terms(
            demand, _services(asked.speeds, policy), asked.gpus_per_node, asked.metrics_delay_seconds, asked.seed
        )
        with _progress(talk) as tell:
            result, runs = contest(sides, terms, tell)
    except (Unfit, UnknownController, MissingTrace) as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    for line in _notes(policy, demand):
        talk.say(f"note: {line}")
    words = [] if result.difference is None else [f"{result.difference.said}."]
    gpus = ", ".join(dict.fromkeys(str(run.record.scenario.gpus) for run in runs))
    title = f"{asked.trace}: {clock(demand.seconds)} h, {len(policy.models)} models on {gpus} GPUs"
    return Simulated(title, words, result, runs)


def written(path: Path, simulated: Simulated) -> None:
    """Write the page. Raises Failed."""
    from rebalancer.sim.page.html import page

    outcomes = simulated.result.runs
    text = page(simulated.title, simulated.words, rows(outcomes, wide=True), simulated.runs)
    try:
        path.write_text(text)
    except OSError as error:
        raise Failed(f"{path}: cannot be written ({error.strerror})") from error


def _demand(asked: Asked) -> Demand:
    name = asked.trace
    if name in SERVEGEN:
        return replace(servegen(traces_folder(asked.traces, os.environ), SERVEGEN[name]), name=name)
    try:
        content = data.trace(name) if name in data.TRACES else Path(name).read_bytes()
        if name not in data.TRACES and name.endswith(".gz"):
            content = gzip.decompress(content)
        return read_demand(content, name)
    except FileNotFoundError as error:
        known = ", ".join([*data.TRACES, *SERVEGEN])
        raise Failed(f"{name}: no such file, and no trace of that name; there are {known}", USAGE) from error
    except (OSError, EOFError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise Failed(f"{name}: cannot be read ({why})", USAGE) from error
    except BadTrace as wrong:
        raise Failed(f"{name}: {wrong}", USAGE) from wrong


def _policy(path: Path | None, trace: str) -> tuple[Policy, str]:
    if path is None and trace not in data.TRACES:
        raise Failed(f"no policy: give --policy FILE, the one that rules the models of {trace}", USAGE)
    if path is None:
        return _checked(data.policy(trace).encode(), f"{trace}.yaml"), f"{trace}.yaml"
    try:
        return _checked(path.read_bytes(), str(path)), path.name
    except OSError as error:
        raise Failed(f"{path}: cannot be read ({error.strerror})") from error


def _checked(content: bytes, name: str) -> Policy:
    policy, problems = check_bytes(content, name)
    if policy is None:
        raise Failed("\n".join(str(problem) for problem in problems))
    return policy


def _sides(asked: Asked, policy: Policy, policy_name: str) -> list[Side]:
    gpus = _gpus(asked.gpus)
    played = with_gpus(policy, gpus)
    who = contender(asked.controller)
    sides = [Side(who, played)]
    if asked.compare is None:
        return sides
    if not _is_file(asked.compare):
        return [*sides, Side(contender(asked.compare), played)]
    other, name = _policy(Path(asked.compare), asked.trace)
    names = (policy_name, name) if policy_name != name else (str(asked.policy or policy_name), asked.compare)
    return [Side(who, played, names[0]), Side(who, with_gpus(other, gpus), names[1])]


def _is_file(word: str) -> bool:
    return word.endswith((".yaml", ".yml", ".json")) or os.sep in word


def _gpus(words: Sequence[str]) -> dict[str | None, int]:
    return {name: round(_number(value, word, "--gpus", least=1)) for word in words for name, value in [_pair(word)]}


def _services(speeds: Speeds, policy: Policy) -> dict[str, Service]:
    """By model id; a value without a model is everybody's."""
    services = {model.id: Service() for model in policy.models}
    given: tuple[tuple[str, Sequence[str], float, Callable[[Service, float], Service]], ...] = (
        ("--prefill-rate", speeds.prefill_rate, 1e-9, lambda of, n: replace(of, prefill_tokens_per_second=n)),
        ("--seconds-per-token", speeds.seconds_per_token, 0, lambda of, n: replace(of, seconds_per_token=n)),
        ("--batch", speeds.batch, 1, lambda of, n: replace(of, batch=round(n))),
        ("--patience", speeds.patience, 0, lambda of, n: replace(of, patience_seconds=n)),
        ("--release", speeds.release, 0, lambda of, n: replace(of, release_seconds=round(n))),
    )
    for option, words, least, changed in given:
        for word in sorted(words, key=lambda each: "=" in each):
            name, value = _pair(word)
            if name is not None and name not in services:
                raise Failed(f"{option} {word}: no model {name} in the policy; it has {', '.join(services)}", USAGE)
            number = _number(value, word, option, least)
            for each in services if name is None else (name,):
                services[each] = changed(services[each], number)
    return services


def _pair(word: str) -> tuple[str | None, str]:
    name, separator, value = word.rpartition("=")
    return (name if separator else None), value


def _number(value: str, word: str, option: str, least: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number < float("inf"):
        raise Failed(f"{option} {word}: {value!r} is not a number from {least:g} on", USAGE)
    return number


def _notes(policy: Policy, demand: Demand) -> Iterator[str]:
    asked = {stream.model for stream in demand.streams}
    silent = [each.id for each in policy.models if not asked & {each.id, *each.aliases}]
    if silent:
        yield f"no requests in the trace for {', '.join(silent)}: played without any"
    if len(policy.pools) > 1:
        names = " and ".join(pool.name for pool in policy.pools)
        yield f"the pools {names} are played as one whose GPUs are always there"


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
