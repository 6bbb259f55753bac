"""After a restart the history is made again from the journal, and what nobody wrote down stays unknown."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from rebalancer.app.refilled import refilled
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from tests.builders import NOW, a_load, a_policy, a_snapshot
from tests.cli.scene import decided

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


def test_a_spoiled_number_in_a_line_costs_its_file_alone(tmp_path: Path) -> None:
    spoiled = file(tmp_path / "1", (1, 2))
    lines = spoiled.read_bytes().splitlines(keepends=True)
    at = f'"at":{NOW + 120.0}'.encode()
    assert at in lines[-2]
    spoiled.write_bytes(b"".join([*lines[:-2], lines[-2].replace(at, b'"at":1e999', 1)]))
    assert ready([spoiled, file(tmp_path / "2", (4,))]) == [1, None, None, 4]
