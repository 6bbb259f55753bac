"""Schedules that broke a rule once: where its mend is undone each breaks it again, and with it none does.

Those that a page lists (`results/schedules.md`). Some are cut down to what did it, the others are played as drawn.
"""

import re
from collections.abc import Callable
from dataclasses import replace as replaced
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from rebalancer.kube.resources import Call
from rebalancer.leader.candidate import Candidate, LeaseClaim
from rebalancer.leader.elector import Elector
from rebalancer.planning.actions import drains, evictions
from rebalancer.planning.allocation import unmarked
from rebalancer.world import WorldNode, WorldPod
from tests.machine.disturbed import nodes
from tests.machine.oracle import Oracle
from tests.machine.scene import Scene
from tests.schedules.faults import Fault
from tests.schedules.judge import Terms, View
from tests.schedules.play import BRIEF, LONG, a_schedule, play
from tests.schedules.stage import Stage
from tests.schedules.watching import Watching

pytestmark = pytest.mark.slow  # a minute

PAGE = Path(__file__).parent / "results" / "schedules.md"
TESTS = Path(__file__).parents[1]
Undo = Callable[[pytest.MonkeyPatch], None]

# --- the service's mends


def _counts_terms_by_its_own_clock(patch: pytest.MonkeyPatch) -> None:
    claims, begins = Candidate.claim, Elector.__init__
    electors: dict[str, Elector] = {}

    def begin(elector: Elector, *args: object) -> None:
        begins(elector, *args)  # type: ignore[arg-type]  # as it is made
        electors[elector.identity] = elector

    def claim(one: Candidate, now_monotonic: float) -> LeaseClaim | None:
        claimed = claims(one, now_monotonic)
        if claimed is None or claimed.version is None or one.epoch is not None:
            return claimed
        now = electors[one.identity]._clock.now()  # noqa: SLF001  # a mutant
        return replaced(claimed, epoch=max(one.highest_epoch + 1, int(now)))

    patch.setattr(Elector, "__init__", begin)
    patch.setattr(Candidate, "claim", claim)


def _one_donor_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unmarked, "_together", lambda *_: iter(()))


def _a_deadline_ends_whoever_serves(patch: pytest.MonkeyPatch) -> None:
    """And the judge goes by what the watch showed: each of the two mends holds the schedule alone."""
    for room in (drains, evictions):
        patch.setattr(room, "outlasts", lambda *_: False)
    _no_notice_is_heard(patch)


# --- the judge's and the world's


def _no_notice_is_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(View, "_announced", lambda *_: False)


def _forgets_a_notice_that_is_taken_back(patch: pytest.MonkeyPatch) -> None:
    def spared(stage: Stage, node: WorldNode) -> None:
        for view in stage._views():  # noqa: SLF001  # a mutant
            view.deadlines.pop(node.name, None)

    patch.setattr(Stage, "spared", spared)


def _counts_who_crashed_unseen(patch: pytest.MonkeyPatch) -> None:
    def serving(view: View, model: str, gone: list[WorldPod]) -> tuple[int, int]:
        return Oracle._serving(view, model, [pod for pod in gone if not view._announced(pod)])  # noqa: SLF001  # a mutant

    patch.setattr(View, "_serving", serving)


def _always(name: str, value: object) -> Undo:
    def undo(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(View, name, property(lambda _: value, lambda *_: None), raising=False)

    return undo


def _events_are_changed(patch: pytest.MonkeyPatch) -> None:
    takes = Terms.taken

    def taken(terms: Terms, who: str, call: Call, epoch: int, now: float) -> None:
        takes(terms, who, replaced(call, verb="patch"), epoch, now)

    patch.setattr(Terms, "taken", taken)


def _new_nodes_have_old_names(patch: pytest.MonkeyPatch) -> None:
    def another(stage: Scene, node: WorldNode) -> None:
        if f"{node.name}n" not in stage.world.nodes:
            stage.world.add_node(f"{node.name}n", node.gpus, node.labels)

    patch.setattr(nodes, "another", another)


def _late_is_what_is_late_now(patch: pytest.MonkeyPatch) -> None:
    late = property(lambda watching: bool(watching._pending) and watching._link.watch_seconds > 0.0)  # noqa: SLF001  # a mutant
    patch.setattr(Watching, "behind", late)


def _rollouts_wait_for_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Oracle, "_surging", lambda *_: 0)


class Found(NamedTuple):
    """A schedule that broke a rule once.

    seed: of the page.
    undo: undoes its mend.
    rule: the one that it breaks then, by its letter.
    faults: what of it does so; (): all of it is played.
    """

    seed: int
    undo: Undo
    rule: str
    faults: tuple[Fault, ...] = ()


FOUND = [
    Found(100028, _counts_terms_by_its_own_clock, "w"),
    Found(1023426, _one_donor_alone, "d"),
    Found(
        1014801,
        _a_deadline_ends_whoever_serves,
        "a",
        (
            Fault(30.064, "clock set", "standby", 0.6110071906606896, 0.28018836906136635),
            Fault(43.273, "watches silent", "standby", 0.056593581928145564, 0.17226840452289605),
            Fault(44.756, "machine is taken", "standby", 0.9874968979115311, 0.6138100145845474),
            Fault(49.547, "ended in order", "leader", 0.17515678218212583, 0.6656583903946787),
        ),
    ),
    Found(1016402, _no_notice_is_heard, "a"),
    Found(302579, _forgets_a_notice_that_is_taken_back, "a"),
    Found(
        300718,
        _counts_who_crashed_unseen,
        "a",
        (
            Fault(37.717, "node goes before its pods", "leader", 0.8566153459426905, 0.8636688012241566),
            Fault(41.224, "node goes before its pods", "leader", 0.19506685992030526, 0.5058479293714272),
            Fault(63.352, "watches silent", "standby", 0.7479029174240862, 0.9285923949637115),
            Fault(73.653, "clock set", "leader", 0.8701363027527269, 0.6919050465599064),
            Fault(147.134, "pod is stuck loading", "leader", 0.5761991585932185, 0.686225062512474),
            Fault(159.585, "Lease unanswered", "leader", 0.1110193668068874, 0.9658408782941694),
        ),
    ),
    Found(995, _always("sent_at", None), "b"),
    Found(
        301171,
        _always("saw_more", value=False),
        "b",
        (
            Fault(32.096, "node falls silent", "standby", 0.8187094502012375, 0.23752261442159672),
            Fault(36.461, "everybody is busy", "leader", 0.21988565894920953, 0.9033859085672108),
            Fault(37.267, "API server answers badly", "standby", 0.7126817528766839, 0.3342799712320561),
            Fault(51.086, "ended in order", "leader", 0.17577705706618374, 0.8559026947276338),
            Fault(57.07, "API server slow", "leader", 0.5423157504544424, 0.6297684432987029),
            Fault(61.151, "pod hangs in Terminating", "standby", 0.2852059542744777, 0.3878304405459959),
        ),
    ),
    Found(301847, _events_are_changed, "w"),
    Found(302079, _new_nodes_have_old_names, "b"),
    Found(
        1006138,
        _late_is_what_is_late_now,
        "b",
        (
            Fault(22.459, "several pods crash", "standby", 0.8384517764410008, 0.9483888651668136),
            Fault(31.57, "watches late", "leader", 0.8784675228855495, 0.5607189348257736),
        ),
    ),
    Found(1008649, _late_is_what_is_late_now, "b"),
    Found(1008356, _rollouts_wait_for_nothing, "d"),
]


def test_what_the_page_says_tests_a_seed_is_there() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if re.match(r"\| \d", line)]
    assert rows
    assert all(len(row) == 4 for row in rows), "seed, what, whose, test"
    for seeds, *_, test in rows:
        named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", test)
        assert named or test.startswith("none:"), seeds
        for path, name in named:
            assert f"def {name}" in (TESTS / path).read_text(), (seeds, path, name)
            replayed = {str(one.seed) for one in FOUND} & {*re.findall(r"\d+", seeds)}
            assert path != "schedules/test_found.py" or replayed, f"{seeds} is not replayed"


@pytest.mark.timeout(240)  # full ones, beside others
@pytest.mark.parametrize("one", FOUND, ids=lambda one: str(one.seed))
def test_what_a_schedule_found_breaks_the_rule_again_where_its_mend_is_undone(
    one: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = a_schedule(one.seed, BRIEF if one.seed > 1_000_000 else LONG)  # as brief ones are numbered on the page
    if one.faults:
        schedule = replace(schedule, faults=one.faults)
    assert play(schedule).verdict is None
    one.undo(monkeypatch)
    verdict = play(schedule).verdict
    assert verdict is not None
    assert verdict.rule == one.rule
