"""Kueue's preemption against the project's own cases: facts of `preemption_test.go` and `preemption_fair_test.go`.

Left out of pkg/scheduler/preemption: what is about several resources or flavours, pod groups, cohorts of cohorts, and
preemption strategies other than the default.
"""

import re
from dataclasses import replace

import pytest

from rebalancer.sim.peers.kueue.preemption import victims
from rebalancer.sim.peers.kueue.quota import CohortQuota, QueuedWorkload, QueueQuota

ALONE = {"s": QueueQuota(6, within_queue="LowerPriority")}
STARVING = {"p": QueueQuota(6, within_queue="LowerOrNewerEqualPriority")}
C1 = QueueQuota(6, borrowing_limit=6, within_queue="LowerPriority", reclaim="LowerPriority")
C2 = QueueQuota(6, borrowing_limit=6, within_queue="Never", reclaim="Any")
PAIR = {"c": C1, "d": C2}
UNLIMITED = {"c": replace(C1, borrowing_limit=None), "d": replace(C2, borrowing_limit=None)}
LEGION = {"l": replace(C1, borrowing_limit=12)}
LENDING = {
    "l": replace(C1, borrowing_limit=None, lending_limit=4),
    "m": replace(C1, borrowing_limit=None, lending_limit=2),
}
BEST_EFFORT = QueueQuota(
    1, borrowing_limit=12, within_queue="Never", reclaim="LowerPriority", while_borrowing=True, threshold=0
)
BORROWING = {  # two standard queues, two for best effort, and one that only lends
    "a": BEST_EFFORT,
    "b": replace(BEST_EFFORT, within_queue="LowerPriority", reclaim="Any"),
    "e": BEST_EFFORT,
    "f": replace(BEST_EFFORT, nominal=0, borrowing_limit=13),
    "s": QueueQuota(10, within_queue="Never", reclaim="Never"),
}
SILENT = QueueQuota(2, within_queue="Never", reclaim="Never")
THREE = {"a": QueueQuota(2, within_queue="LowerPriority"), "b": SILENT, "c": SILENT}

FAIR = QueueQuota(3, within_queue="LowerPriority", while_borrowing=True, threshold=-3)
EACH_3 = {"a": FAIR, "b": FAIR, "c": FAIR, "z": QueueQuota(0, within_queue="Never", reclaim="Never")}
HEAVY_A = {"a": replace(FAIR, weight=2.0), "b": FAIR, "c": FAIR}
LIGHT_B = {"a": FAIR, "b": replace(FAIR, weight=0.0), "c": FAIR}


def cohort(queues: dict[str, QueueQuota], held: str) -> tuple[CohortQuota, dict[str, QueuedWorkload]]:
    """`held`: "b 2 3x1 4@-1+5": in queue b one of 2 GPUs, three of 1, one of 4 with priority -1 admitted 5 s later.

    Workloads are named after their queue and numbered: b1, b2, b3 ...
    """
    made = CohortQuota(list(queues.values()))
    names: dict[str, QueuedWorkload] = {}
    for queue, *words in (part.split() for part in held.split("; ") if part):
        count = 0
        for word in words:
            found = re.fullmatch(r"(?:(\d+)x)?([\d.]+)(?:@(-?\d+))?(?:\+(\d+))?", word)
            assert found is not None, word
            many, size, priority, later = found.groups("0")
            for _ in range(int(many) or 1):
                count += 1
                index = list(queues).index(queue)
                names[f"{queue}{count}"] = each = QueuedWorkload(
                    index, float(size), int(priority), admitted=float(later), number=len(names)
                )
                made.admit(each)
    return made, names


def gone(queues: dict[str, QueueQuota], held: str, asks: str, *, fair: bool) -> str:
    """Who goes. `asks`: "c 3@1-15": 3 GPUs in queue c with priority 1, created 15 s before all others."""
    found = re.fullmatch(r"(\w) ([\d.]+)(?:@(-?\d+))?(?:-(\d+))?", asks)
    assert found is not None, asks
    queue, size, priority, sooner = found.groups("0")
    incoming = QueuedWorkload(list(queues).index(queue), float(size), int(priority), created=-float(sooner))
    made, names = cohort(queues, held)
    before = list(made.used)
    going = victims(made, incoming, fair=fair)
    assert made.used == before  # it was only asked who would go
    return " ".join(name for name, each in names.items() if each in going)


@pytest.mark.parametrize(
    ("queues", "held", "asks", "expected"),
    [
        pytest.param(ALONE, "s 2@-1 2 2@1", "s 2@1", "s1", id="preempt lowest priority"),
        pytest.param(ALONE, "s 2@-1 2 2@1", "s 3@1", "s1 s2", id="preempt multiple"),
        pytest.param(ALONE, "s 3@-1 3", "s 1@-1", "", id="no preemption for low priority"),
        pytest.param(ALONE, "s 3@-1 3", "s 4", "", id="not enough low priority workloads"),
        pytest.param(ALONE, "s 1@-1 1 3@1", "s 2@1", "s1", id="some free quota, preempt low priority"),
        pytest.param(ALONE, "s 1@-1 2 3@1", "s 2@1", "s2", id="minimal set excludes low priority"),
        pytest.param(PAIR, "c 3@-1; d 3 6@1", "c 3@1", "d1", id="reclaim quota from borrower"),
        pytest.param(PAIR, "c 4@1; d 4@-1", "c 4@1", "", id="no workloads borrowing"),
        pytest.param(PAIR, "c 4@1; d 4@-1 4@-1", "c 4@1", "", id="not enough workloads borrowing"),
        pytest.param(PAIR, "c 4 4@-1; d 4@-1", "c 4@1", "c2", id="preempting locally and borrowing same resource"),
        pytest.param(UNLIMITED, "c 4 4@-1; d 4@-1", "c 4@1", "c2", id="the same without a borrowing limit"),
        pytest.param(LEGION, "l 4 2@-1", "l 4@1", "l1", id="not borrowing in 1-queue cohort"),
        pytest.param(PAIR, "c 2; d 4 4", "c 4", "", id="do not reclaim from same priority"),
        pytest.param(PAIR, "c 4 4@1; d 2", "d 4", "c1", id="reclaim from same priority, ReclaimFromAny"),
        pytest.param(PAIR, "c 3@-1 2; d 3@-1 4", "c 4", "c1 d1", id="preempt from all ClusterQueues in cohort"),
        pytest.param(PAIR, "d 3@-1", "d 4@1", "", id="withinClusterQueue=Never"),
        pytest.param(STARVING, "p 2@2 2@1+1 2@1", "p 2@1-15", "p2", id="newer workloads with the same priority"),
        pytest.param(BORROWING, "e 10@-1; f 1@-1", "a 10", "e1", id="lower priority while borrowing"),
        pytest.param(BORROWING, "b 10@1", "a 10@2", "", id="above the threshold, borrowing needed"),
        pytest.param(BORROWING, "b 13@1", "a 1@2", "b1", id="above the threshold, no borrowing needed"),
        pytest.param(BORROWING, "a 13@1", "a 1@2", "", id="not from the same ClusterQueue"),
        pytest.param(BORROWING, "a 10@1 1@1; b 1@1 1@2", "b 1@3", "b1", id="only from its own, above nominal"),
        pytest.param(BORROWING, "b 10@2 1@1; e 1@-1 1@-2", "b 2@2", "b2 e2", id="its own and below the threshold"),
        pytest.param(LENDING, "l 3@-1; m 3 4@1", "l 3@1", "m1", id="reclaim quota from lender"),
        pytest.param(LENDING, "l 3@-1 2; m 3@-1 4", "l 4", "l1 m1", id="preempt from all in cohort-lend"),
        pytest.param(LENDING, "m 10@-1", "l 9", "", id="exceeds requestable quota with lending limit"),
        pytest.param(THREE, "a 1@-2 1@-2 1@-1; b 3x1", "a 2", "a1 a2", id="from cq when its queue is exhausted"),
        pytest.param(THREE, "a 1@-1; b 4x1 1@-1", "a 2", "a1 b5", id="from others when it is not exhausted"),
    ],
)
def test_goes_who_goes_in_the_project(queues: dict[str, QueueQuota], held: str, asks: str, expected: str) -> None:
    assert gone(queues, held, asks, fair=False) == expected


FIVE_OF_B = "a 3x1; b 5x1; c 1"


@pytest.mark.parametrize(
    ("queues", "held", "asks", "expected"),
    [
        pytest.param(EACH_3, FIVE_OF_B, "c 1", "b1", id="reclaim nominal from user using the most"),
        pytest.param(EACH_3, "a 3 1; b 2 3", "c 3", "a1", id="reclaim from queue using less"),
        pytest.param(EACH_3, FIVE_OF_B, "a 1", "b1", id="reclaim borrowable quota from user using the most"),
        pytest.param(EACH_3, "a 0.5 0.5 3; b 0.5 0.5 3", "c 2", "a1 b1", id="preempt one from each CQ borrowing"),
        pytest.param(EACH_3, "a 3x1; b 3x1; c 3x1", "c 1", "", id="everyone under nominal"),
        pytest.param(EACH_3, "a 3x1; b 5x1", "a 2", "", id="it would switch the imbalance"),
        pytest.param(EACH_3, "a 2x1@-1 1 1; b 5x1", "a 2", "a1 a2", id="lower priority from same CQ"),
        pytest.param(EACH_3, "a 1@-1 1 1; b 6x1", "a 2", "a1 b1", id="same CQ and highest user"),
        pytest.param(EACH_3, "b 9", "a 2", "b1", id="huge workload if there is no other option"),
        pytest.param(EACH_3, "a 2; b 7", "a 5", "", id="not huge if the incoming is also huge"),
        pytest.param(EACH_3, "b 2 2 3", "a 6", "", id="not 2 smaller if the incoming is huge"),
        pytest.param(EACH_3, "a 2@-1 1@-1; b 3 3", "a 4", "a1 b1", id="from target and others even if over nominal"),
        pytest.param(EACH_3, "b 2 1 2; c 1", "a 3.5", "b2", id="whose queue does not get the biggest share"),
        pytest.param(EACH_3, "b 2 2.5; c 2 2.5", "a 3.5", "b1 c1", id="different queues for a smaller max share"),
        pytest.param(EACH_3, "a 3.5; b 2.5; c 2.5", "b 2", "", id="scenario above does not flap"),
        pytest.param(EACH_3, "b 3 3; c 3", "a 4", "", id="candidate CQ would go under nominal"),
        pytest.param(EACH_3, "a 3x1; b 3x1; z 3x1@-3", "a 2", "", id="threshold not capriciously preempted"),
        pytest.param(HEAVY_A, "a 3x1; b 6x1", "a 2", "b1 b2", id="CQ with higher weight can preempt more"),
        pytest.param(LIGHT_B, "a 3x1; b 6x1", "a 3", "b1 b2 b3", id="anything borrowing from CQ with 0 weight"),
        pytest.param(LIGHT_B, "a 3x1; b 3x1; c 3x1", "a 1", "", id="not nominal from CQ with 0 weight"),
        pytest.param({"a": replace(FAIR, nominal=1)}, "a 1", "a 1@1000", "a1", id="within cluster queue, no cohort"),
    ],
)
def test_goes_who_goes_in_the_project_with_fair_sharing(
    queues: dict[str, QueueQuota], held: str, asks: str, expected: str
) -> None:
    assert gone(queues, held, asks, fair=True) == expected
