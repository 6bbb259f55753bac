"""Scheduled floors that hold at the same time must fit; which window does not is told."""

import sys
from collections import Counter
from dataclasses import dataclass

from rebalancer.settings.problems import Problem, check_text

POLICY = """\
apiVersion: rebalancer.io/v1alpha1
kind: Policy
pools:
  - {name: a100, kind: primary, nodeLabels: {pool: a100}, gpuLimit: 16}
  - {name: spot, kind: elastic, nodeLabels: {pool: spot}, gpuLimit: 8}
models:
"""


@dataclass(frozen=True)
class Served:
    """One model of the policy; `schedules` as flow mappings."""

    id: str
    schedules: tuple[str, ...] = ()
    pools: tuple[str, ...] = ("a100",)
    gpus: int = 1
    floor: int = 1

    def __str__(self) -> str:
        targets = ", ".join(f"{{pool: {pool}, name: {self.id}-{pool}}}" for pool in self.pools)
        return (
            f"  - {{id: {self.id}, namespace: serving, targets: [{targets}], gpusPerReplica: {self.gpus},"
            f" minReplicas: {self.floor}, entitlement: {self.floor}, maxReplicas: 30,"
            f" signals: {{queue: {{high: 4}}}}, schedules: [{', '.join(self.schedules)}]}}\n"
        )


def a_window(name: str, begin: str, until: str, floor: int, zone: str = "Europe/Berlin", more: str = "") -> str:
    return f"{{name: {name}, from: '{begin}', until: '{until}', timeZone: {zone}, minReplicas: {floor}{more}}}"


def problems(*models: Served) -> tuple[Problem, ...]:
    return check_text(POLICY + "".join(map(str, models)), "policy.yaml")[1]


def test_floors_that_overlap_and_cannot_fit_are_refused_with_the_window_and_the_sums() -> None:
    (found,) = problems(
        Served("chat", (a_window("rush", "07:30", "10:00", 6),), gpus=2),
        Served("code", (a_window("batch", "09:00", "11:00", 5),)),
    )
    assert found.path == "models.code.schedules.batch.minReplicas"
    assert found.what == (
        "when window batch begins (Fri 2027-01-01 09:00 Europe/Berlin) floors need 17 GPUs of a100, gpuLimit is 16"
        " (chat 12, code 5)"
    )


def test_the_same_floors_one_after_the_other_are_fine() -> None:
    chat = Served("chat", (a_window("rush", "07:30", "10:00", 6),), gpus=2)
    assert problems(chat, Served("code", (a_window("batch", "10:00", "11:00", 5),))) == ()


def test_the_policys_floors_of_others_count() -> None:
    chat = Served("chat", (a_window("rush", "07:30", "10:00", 12),))
    assert problems(chat, Served("code", floor=4)) == ()
    assert "17 GPUs of a100" in problems(chat, Served("code", floor=5))[0].what


def test_of_one_model_the_highest_floor_counts_and_not_the_sum() -> None:
    windows = a_window("rush", "07:30", "10:00", 9), a_window("day", "07:00", "19:00", 9)
    assert problems(Served("chat", windows)) == ()


def test_zones_that_meet_only_while_one_has_changed_its_clocks_are_seen() -> None:
    # From 2027-03-14 to 2027-03-28 New York is 5 h behind Berlin, else 6 h.
    berlin = Served("chat", (a_window("rush", "12:00", "13:00", 9),))
    york = Served("code", (a_window("early", "07:00", "08:00", 9, "America/New_York"),))
    (found,) = problems(berlin, york)
    assert "Sun 2027-03-14" in found.what


def test_dates_of_another_year_are_looked_at() -> None:
    chat = Served(
        "chat", (a_window("sale", "00:00", "00:00", 12, more=", firstDate: 2031-11-28, lastDate: 2031-11-28"),)
    )
    assert "2031-11-28" in problems(chat, Served("code", (a_window("rush", "07:30", "10:00", 9),)))[0].what
    monday = a_window("rush", "07:30", "10:00", 9, more=", days: [mon]")  # that day is a Friday
    assert problems(chat, Served("code", (monday,))) == ()


def test_a_model_that_may_use_two_pools_is_counted_in_both_together() -> None:
    both = ("a100", "spot")
    chat = Served("chat", (a_window("rush", "07:30", "10:00", 12),), both)
    assert problems(chat, Served("code", floor=12)) == ()
    assert "of a100 and spot, gpuLimit is 24" in problems(chat, Served("code", floor=13))[0].what


def test_a_last_day_that_has_passed_is_no_problem() -> None:
    # The same file must be good when the service starts again next year.
    past = a_window("sale", "07:30", "10:00", 9, more=", firstDate: 2020-11-27, lastDate: 2020-11-30")
    assert problems(Served("chat", (past,))) == ()


def test_a_window_that_clocks_skip_on_its_only_day_never_happens() -> None:
    spring = a_window("night", "02:10", "02:50", 9, more=", firstDate: 2027-03-28, lastDate: 2027-03-28")
    (found,) = problems(Served("chat", (spring,)))
    assert (found.path, found.what) == (
        "models.chat.schedules.night",
        "the window never happens: it begins on no day from 2027-03-28 to 2027-03-28",
    )


def calls_to_fit(models: int) -> int:
    """Function calls to find fit `models` of which each second one has a higher floor by day, the others by night."""
    day, night = a_window("day", "08:00", "19:00", 3), a_window("night", "20:00", "07:00", 3)
    gpus = POLICY.replace("gpuLimit: 16", f"gpuLimit: {2 * models}")
    served = "".join(str(Served(f"m{n}", (day if n % 2 else night,))) for n in range(models))
    calls = Counter[str]()
    sys.setprofile(lambda _frame, event, _of: calls.update((event,)))
    try:
        found = check_text(gpus + served, "policy.yaml")[1]
    finally:
        sys.setprofile(None)
    assert found == ()
    return calls["call"]


def test_four_times_the_models_take_no_more_than_some_four_times_the_calls_to_check() -> None:
    # Judged by each window against every other, as by four times four, a few hundred outlast the startup probe.
    assert calls_to_fit(48) < 5 * calls_to_fit(12)
