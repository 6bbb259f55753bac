"""After a restart the history is made again from the journal, and what nobody wrote down stays unknown."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.api.ports.day import Figures
from rebalancer.app.history import History
from rebalancer.app.refilled import refilled
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.readings import Reading, Work
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from tests.builders import NOW, a_load, a_model, a_model_view, a_node, a_policy, a_snapshot, a_target
from tests.cli.scene import decided
from tests.planning.outlooks import an_outlook

POLICY = a_policy()
SINCE = NOW - 86_400.0


def seen(cycle: int) -> Snapshot:
    """Cycle `cycle`, a minute after the one before."""
    return replace(a_snapshot(), cycle=cycle, at=NOW + 60.0 * cycle, loads=(a_load(work=float(cycle)),))


def file(path: Path, cycles: Iterable[int]) -> Path:
    """A journal file: a keyframe of the first cycle, then each as the difference to the one before, with a grant."""
    lines: list[journal.Line] = [journal.policy_line(POLICY, NOW, "code-1")]
    before = journal.EMPTY
    for cycle in cycles:
        now = seen(cycle)
        if before is journal.EMPTY:
            lines += journal.keyframe(now, Memory())
            before = now
        plan = Plan(cycle=cycle, at=now.at, models=(decided("b", 1, 1, cycle, 0, 0, 0, why=""),))
        lines.append(journal.cycle_line(before, now, Decision(plan, Memory()), "digest"))
        intent = Intent(f"{cycle}-b", cycle, now.at, "grant", "b", "deployment/serving/b", 2, 3, f"in {cycle}")
        lines.append(journal.OutcomeLine(Outcome(intent, now.at, WRITTEN)))
        before = now
    path.write_bytes(b"".join(journal.encode(line) for line in lines))
    return path


def ready(files: list[Path], first_cycle: int = 100, since: float = SINCE) -> list[int | None]:
    """Ready replicas by minute, from the first that is known."""
    history = refilled(files, POLICY, since, first_cycle)
    return [point.ready for point in history.chart("b", NOW + 60.0 * 20)]


def test_figures_and_entries_of_before_are_there_again(tmp_path: Path) -> None:
    files = [file(tmp_path / "1", (1, 2, 3)), file(tmp_path / "2", (6, 7))]
    assert ready(files) == [1, 2, 3, None, None, 6, 7]
    history = refilled(files, POLICY, SINCE, 100)
    assert [(row.cycle, row.timeline[0].text) for row in history.rows()][-1] == (7, "in 7 (2 -> 3)")
    assert len(history.rows()) == 5


def test_cycles_of_this_run_and_of_another_day_are_left_to_others(tmp_path: Path) -> None:
    files = [file(tmp_path / "1", range(1, 9))]
    assert ready(files, first_cycle=6, since=NOW + 180.0) == [3, 4, 5]


def test_a_damaged_line_ends_its_file_and_the_next_one_is_read(tmp_path: Path) -> None:
    damaged = file(tmp_path / "1", (1, 2))
    damaged.write_bytes(damaged.read_bytes() + b"{rubbish}\n")
    files = [damaged, tmp_path / "rotated-away", file(tmp_path / "2", (4,))]
    assert ready(files) == [1, 2, None, 4]


def test_what_follows_a_cycle_that_is_missing_stays_unknown_until_the_next_keyframe(tmp_path: Path) -> None:
    gap = file(tmp_path / "1", (1, 2, 3, 4))
    lines = gap.read_bytes().splitlines(keepends=True)
    third = next(line for line in lines if line.startswith(b'{"delta"') and b'"cycle":3,' in line[:96])
    gap.write_bytes(b"".join(line for line in lines if line != third))
    assert ready([gap, file(tmp_path / "2", (5,))]) == [1, 2, None, None, 5]


def test_what_follows_a_cycle_that_failed_and_left_its_number_out_is_known(tmp_path: Path) -> None:
    assert ready([file(tmp_path / "1", (1, 2, 4, 5))]) == [1, 2, None, 4, 5]


def test_a_spoiled_number_in_a_line_costs_its_file_alone(tmp_path: Path) -> None:
    spoiled = file(tmp_path / "1", (1, 2))
    lines = spoiled.read_bytes().splitlines(keepends=True)
    at = f'"at":{NOW + 120.0}'.encode()
    assert at in lines[-2]
    spoiled.write_bytes(b"".join([*lines[:-2], lines[-2].replace(at, b'"at":1e999', 1)]))
    assert ready([spoiled, file(tmp_path / "2", (4,))]) == [1, None, None, 4]


class Heard(NamedTuple):
    """One cycle: seconds since the one before, what was known of each model, and replicas.

    models: (id, work, p95 seconds, demand, Ready replicas) of those that the policy has then.
    """

    seconds: float
    models: tuple[tuple[str, float | None, float | None, int | None, int], ...]


SLO = a_policy(*(a_model(name, slo={"latency_seconds": 2.0}) for name in ("a", "b")))
COUNTS = st.integers(0, 9)
AMOUNTS = st.none() | st.floats(0.0, 20.0, width=32)
HEARD = st.builds(
    Heard,
    st.sampled_from((0.5, 2.0, 9.0, 31.0, 150.0)),
    st.sets(st.sampled_from(("a", "b")), min_size=1).flatmap(
        lambda names: st.tuples(
            *(st.tuples(st.just(each), AMOUNTS, AMOUNTS, st.none() | COUNTS, COUNTS) for each in sorted(names))
        )
    ),
)


def told(heard: Sequence[Heard]) -> list[tuple[Snapshot, Decision]]:
    """What the wheel saw and decided in these cycles, from `NOW` on; each model's pods hold a GPU each."""
    cycles, at = [], NOW
    for cycle, each in enumerate(heard, 1):
        at += each.seconds
        loads = tuple(
            a_load(
                name,
                {} if latency is None else {"latency": Reading(latency, at, 1.0)},
                Work() if work is None else work,
                outlook=an_outlook({1: 9.0, 2: 3.0}, 1),
            )
            for name, work, latency, _, _ in each.models
        )
        pools = (PoolView(name="a100", nodes=(a_node("n1", gpus=8),)),)
        views = tuple(a_model_view(name, a_target(name, ready)) for name, *_, ready in each.models)
        snapshot = replace(a_snapshot(SLO), cycle=cycle, at=at, loads=loads, models=views, pools=pools)
        models = tuple(
            decided(name, demand, ready, ready, 0, 0, 0, why="") for name, _, _, demand, ready in each.models
        )
        cycles.append((snapshot, Decision(Plan(cycle=cycle, at=at, models=models), Memory())))
    return cycles


def journalled(path: Path, cycles: Sequence[tuple[Snapshot, Decision]]) -> Path:
    lines: list[journal.Line] = [journal.policy_line(SLO, NOW, "code-1")]
    before = cycles[0][0] if cycles else journal.EMPTY
    lines += journal.keyframe(before, Memory()) if cycles else ()
    for snapshot, decision in cycles:
        lines.append(journal.cycle_line(before, snapshot, decision, "digest"))
        before = snapshot
    path.write_bytes(b"".join(journal.encode(line) for line in lines))
    return path


def the_same(mine: Mapping[Any, Figures], theirs: Mapping[Any, Figures]) -> None:
    assert mine.keys() == theirs.keys()
    for key, ring in mine.items():
        np.testing.assert_allclose(ring, np.array(theirs[key]), rtol=1e-5, atol=1e-5)


@given(st.lists(HEARD, min_size=1, max_size=24), st.integers(0, 24), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_the_last_day_is_the_same_after_a_restart_as_without_one(heard: list[Heard], stop: int, late: int) -> None:
    """`stop`: the cycle after which the service restarts; `late`: cycles of the new one before the journal is read."""
    cycles = told(heard)
    whole, reborn = History(), History()
    for snapshot, decision in cycles:
        whole.cycle(snapshot, decision, SLO)
    before, after = cycles[:stop], cycles[stop:]
    for snapshot, decision in after[:late]:
        reborn.cycle(snapshot, decision, SLO)
    with TemporaryDirectory() as folder:
        reborn.put_before(refilled([journalled(Path(folder, "1"), before)], SLO, SINCE, 1_000))
    for snapshot, decision in after[late:]:
        reborn.cycle(snapshot, decision, SLO)
    one, other = whole.day(), reborn.day()
    assert one.minutes.tolist() == other.minutes.tolist()
    assert one.tens.tolist() == other.tens.tolist()
    the_same(one.models, other.models)
    the_same(one.fine, other.fine)
    the_same(one.gpus, other.gpus)
    assert whole.chart("b", cycles[-1][0].at) == reborn.chart("b", cycles[-1][0].at)
