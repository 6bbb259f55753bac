"""HPA's numbers against kubernetes/kubernetes `pkg/controller/podautoscaler/replica_calculator_test.go`.

Every case of a replica count is here (44). Left out: the four that expect an error of the metrics or request lookup
(no lookup is simulated, an unknown metric is None), expected utilisations and timestamps (for the status only), and
TestGroupPods (which CPU samples are too young: no CPU metric is simulated; its pending and missing pods are cases of
`test_signals`). Failed and deleted pods never reach a reading. One container is 1000 milli, of two as in the cases.
"""

from dataclasses import dataclass

import pytest

from rebalancer.sim.peers.hpa import PodReading, by_average_value, by_pods, by_value


@dataclass(frozen=True)
class Case:
    """A resource's case: levels (milli) of the pods that count and have a metric, all requests 1000 unless given."""

    current: int
    expected: int
    levels: tuple[int, ...]
    target_percent: int
    missing: int = 0
    unready: int = 0
    requests: tuple[int, ...] = ()

    @property
    def reading(self) -> PodReading:
        requested = sum(self.requests) if self.requests else 1000 * len(self.levels)
        return PodReading(sum(self.levels), requested, len(self.levels), self.missing, self.unready, 1000, 1000)


SPREAD = (400, 200, 310, 290, 302, 298, 301, 299, 300, 300)

RESOURCE = {
    "ScaleUp": Case(3, 5, (300, 500, 700), 30),
    "ScaleUpUnreadyLessScale": Case(3, 4, (500, 700), 30, unready=1),
    "ScaleUpHotCpuLessScale": Case(3, 4, (500, 700), 30, unready=1),
    "ScaleUpUnreadyNoScale": Case(3, 3, (400,), 30, unready=2),
    "ScaleHotCpuNoScale": Case(3, 3, (400,), 30, unready=2),
    "ScaleUpIgnoresFailedPods": Case(2, 4, (500, 700), 30),
    "ScaleUpIgnoresDeletionPods": Case(2, 4, (500, 700), 30),
    "ScaleDown": Case(5, 3, (100, 300, 500, 250, 250), 50),
    "ScaleDownIncludeUnreadyPods": Case(5, 2, (100, 300, 500), 50, unready=2),
    "ScaleDownExcludeUnscheduledPods": Case(5, 1, (100,), 50, unready=4),
    "ScaleDownIgnoreHotCpuPods": Case(5, 2, (100, 300, 500), 50, unready=2),
    "ScaleDownIgnoresFailedPods": Case(5, 3, (100, 300, 500, 250, 250), 50),
    "ScaleDownIgnoresDeletionPods": Case(5, 3, (100, 300, 500, 250, 250), 50),
    "Tolerance": Case(3, 3, (1010, 1030, 1020), 100, requests=(900, 1000, 1100)),
    "SuperfluousMetrics": Case(4, 24, (4000, 9500, 3000, 7000), 100),
    "MissingMetrics": Case(4, 3, (400, 95), 100, missing=2),
    "MissingMetricsNoChangeEq": Case(2, 2, (1000,), 100, missing=1),
    "MissingMetricsNoChangeGt": Case(2, 2, (1900,), 100, missing=1),
    "MissingMetricsNoChangeLt": Case(2, 2, (600,), 100, missing=1),
    "MissingMetricsUnreadyChange": Case(3, 3, (450,), 50, missing=1, unready=1),
    "MissingMetricsHotCpuNoChange": Case(3, 3, (450,), 50, missing=1, unready=1),
    "MissingMetricsUnreadyScaleUp": Case(3, 4, (2000,), 50, missing=1, unready=1),
    "MissingMetricsHotCpuScaleUp": Case(3, 4, (2000,), 50, missing=1, unready=1),
    "MissingMetricsUnreadyScaleDown": Case(4, 3, (100, 100), 50, missing=1, unready=1),
    "DuringRollingUpdateWithMaxSurge": Case(2, 2, (100, 100), 50, missing=1),
    "ComputedToleranceAlgImplementation": Case(10, 9, (150,) * 10, 56, requests=SPREAD),
    "ComputedToleranceAlgImplementation, unscaling": Case(10, 10, (150,) * 10, 55, requests=SPREAD),
}


@pytest.mark.parametrize("case", RESOURCE.values(), ids=RESOURCE.keys())
def test_a_resources_utilisation_gives_the_projects_replicas(case: Case) -> None:
    assert by_pods(case.current, case.reading, case.target_percent / 100) == case.expected


@pytest.mark.parametrize(
    ("current", "levels", "target", "expected"),
    [
        pytest.param(3, (20_000, 10_000, 30_000), 15_000, 4, id="ScaleUpCM"),
        pytest.param(3, (50_000, 10_000, 30_000), 15_000, 6, id="ScaleUpCMUnreadyHotCpuNoLessScale"),
        pytest.param(3, (50_000, 15_000, 30_000), 15_000, 7, id="ScaleUpCMUnreadyHotCpuScaleWouldScaleDown"),
        pytest.param(1, (8_600,), 4_400, 2, id="ScaleUpCMExternal"),
        pytest.param(1, (8_600,), 4_400, 2, id="ScaleUpCMExternalNoLabels"),
        pytest.param(5, (12_000,) * 5, 20_000, 3, id="ScaleDownCM"),
        pytest.param(3, (20_000, 21_000, 21_000), 20_000, 3, id="ToleranceCM"),
    ],
)
def test_an_average_value_of_pods_gives_the_projects_replicas(
    current: int, levels: tuple[int, ...], target: float, expected: int
) -> None:
    assert by_pods(current, PodReading(sum(levels), len(levels), len(levels)), target) == expected


@pytest.mark.parametrize(
    ("current", "ready", "value", "target", "expected"),
    [
        pytest.param(3, 3, 20_000, 15_000, 4, id="ScaleUpCMObject"),
        pytest.param(3, 1, 50_000, 10_000, 5, id="ScaleUpCMObjectIgnoresUnreadyPods"),
        pytest.param(3, 1, 8_600, 4_400, 2, id="ScaleUpCMExternalIgnoresUnreadyPods"),
        pytest.param(5, 5, 12_000, 20_000, 3, id="ScaleDownCMObject"),
        pytest.param(5, 5, 8_600, 14_334, 3, id="ScaleDownCMExternal"),
        pytest.param(3, 3, 20_666, 20_000, 3, id="ToleranceCMObject"),
        pytest.param(3, 3, 8_600, 8_888, 3, id="ToleranceCMExternal"),
        pytest.param(0, 0, 10_500, 10_000, 2, id="from nothing, which no case of the project's begins at"),
    ],
)
def test_a_value_gives_the_projects_replicas(
    current: int, ready: int, value: float, target: float, expected: int
) -> None:
    assert by_value(current, ready, value, target) == expected


@pytest.mark.parametrize(
    ("current", "total", "target", "expected"),
    [
        pytest.param(3, 20_000, 5_000, 4, id="ScaleUpCMPerPodObject"),
        pytest.param(3, 8_600, 2_150, 4, id="ScaleUpPerPodCMExternal"),
        pytest.param(5, 6_000, 2_000, 3, id="ScaleDownPerPodCMObject"),
        pytest.param(5, 8_600, 2_867, 3, id="ScaleDownPerPodCMExternal"),
        pytest.param(4, 20_166, 5_000, 4, id="TolerancePerPodCMObject"),
        pytest.param(3, 8_600, 2_900, 3, id="TolerancePerPodCMExternal"),
    ],
)
def test_an_average_value_of_a_total_gives_the_projects_replicas(
    current: int, total: float, target: float, expected: int
) -> None:
    assert by_average_value(current, total, target) == expected


def test_missing_pods_never_turn_a_decrease_into_an_increase_or_the_reverse() -> None:
    assert by_pods(5, PodReading(400, 1000, 1, missing=4, each=1000, full=1000), 0.5) == 5
    assert by_pods(5, PodReading(600, 1000, 1, missing=4, each=1000, full=1000), 0.5) == 5
