"""The oracle sees what must not happen, and takes nobody's word for what did."""

from collections.abc import Sequence

import pytest

from rebalancer.sandbox import demo_checks, oracle
from rebalancer.sandbox.oracle import CheckResult, Evidence, Look, Marks
from rebalancer.sandbox.witness import Facts, PodLife, TargetPlace
from tests.e2e.stages import SERVICE, Cluster, two_models_and_spot


def verdict(cluster: Cluster) -> dict[str, CheckResult]:
    return {finding.what: finding for finding in oracle.always(cluster.evidence)}


async def test_a_release_then_a_grant_into_the_freed_gpus_is_fine(cluster: Cluster) -> None:
    await cluster.scale("b", 1)
    cluster.step(5)
    await cluster.scale("a", 3)
    assert [finding.answer.held for finding in oracle.always(cluster.evidence)] == [True, True]
    assert verdict(cluster)["floors held"].answer.words == "2 writes, 0 below a floor"


async def test_a_write_below_the_floor_is_seen(cluster: Cluster) -> None:
    await cluster.scale("b", 0)
    finding = verdict(cluster)["floors held"]
    assert not finding.answer.held
    assert finding.answer.words.endswith("b 2 -> 0")


async def test_a_grant_into_gpus_that_a_pod_still_holds_is_seen(cluster: Cluster) -> None:
    await cluster.scale("b", 1)
    cluster.step(3.9)
    await cluster.scale("a", 3)
    finding = verdict(cluster)["grants into free GPUs"]
    assert not finding.answer.held
    assert finding.answer.words.endswith("a 2 -> 3 found no room")


async def test_gpus_granted_twice_before_a_pod_shows_are_seen(cluster: Cluster) -> None:
    await cluster.scale("b", 1)
    cluster.step(5)
    await cluster.scale("a", 3)
    await cluster.scale("b", 2)
    assert not verdict(cluster)["grants into free GPUs"].answer.held


async def test_nodes_to_come_may_be_granted_up_to_the_pools_limit_and_not_beyond(cluster: Cluster) -> None:
    await cluster.scale("c", 4)
    finding = verdict(cluster)["grants into free GPUs"]
    assert finding.answer.held
    assert "1 more into nodes to come" in finding.answer.words
    await cluster.scale("c", 5)
    assert not verdict(cluster)["grants into free GPUs"].answer.held


async def test_replicas_on_a_node_that_is_being_taken_do_not_hold_a_floor(cluster: Cluster) -> None:
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    await cluster.request("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [taint]}}, user="karpenter")
    await cluster.scale("a", 1)
    assert not verdict(cluster)["floors held"].answer.held


async def test_what_others_write_is_not_judged(cluster: Cluster) -> None:
    await cluster.scale("b", 0, user="somebody")
    assert verdict(cluster)["floors held"].answer.words == "0 writes, 0 below a floor"
    assert len(cluster.witness.facts.writes) == 1


async def test_a_pods_life_is_seen_from_birth_to_end(cluster: Cluster) -> None:
    start = cluster.clock.now()
    await cluster.scale("b", 1)
    cluster.step(1)
    cluster.step(3)
    await cluster.scale("a", 3)
    cluster.step(1)
    cluster.step(30)
    fresh = next(pod for pod in cluster.witness.facts.of("a") if pod.born_at > start)
    assert (fresh.born_at, fresh.bound_at, fresh.ready_at) == (start + 5, start + 5, start + 35)
    gone = next(pod for pod in cluster.witness.facts.of("b") if pod.gone_at is not None)
    assert (gone.deleted_at, gone.gone_at) == (start + 1, start + 4)


# --- the story's checks, on facts made by hand

A, B, C = TargetPlace("a", "a100", 2, 1), TargetPlace("b", "a100", 2, 1), TargetPlace("c", "spot", 1, 0)


def a_life(place: TargetPlace, born: float, ready: float | None = None, **instants: object) -> PodLife:
    fields = {"node": "n1", "bound_at": born, "ready_at": ready} | instants
    return PodLife(f"{place.model}-{born}", place, born, **fields)  # type: ignore[arg-type]  # a pod's instants


def told(look: Look, lives: Sequence[PodLife], **marks: object) -> oracle.CheckAnswer | None:
    facts = Facts(pods={str(number): life for number, life in enumerate(lives)})
    evidence = Evidence(facts, (), two_models_and_spot(), SERVICE, Marks(**marks))  # type: ignore[arg-type]  # marks
    return look(evidence)


def test_gpus_are_home_when_the_owner_serves_with_all_its_own_and_the_borrower_holds_none_of_them() -> None:
    lives = [a_life(A, 0, 10), a_life(A, 1, 10), a_life(A, 2, 10, gone_at=70.0), a_life(B, 3, 10)]
    look = demo_checks.brought_home("b", "a")
    assert told(look, lives, back_at=60.0) is None
    said = told(look, [*lives, a_life(B, 72, 90)], back_at=60.0)
    assert said is not None
    assert (said.words, said.seconds) == ("2 GPUs, b has its 2 replicas", 30.0)


def test_gpus_are_not_home_while_the_borrower_holds_them() -> None:
    lives = [a_life(A, 0, 10), a_life(A, 1, 10), a_life(A, 2, 10), a_life(B, 3, 10), a_life(B, 72, 90)]
    assert told(demo_checks.brought_home("b", "a"), lives, back_at=60.0) is None


DOOMED = [a_life(C, 0, 10, node="spot-1"), a_life(C, 1, 10, node="spot-1")]
NOTICE: dict[str, object] = {"notice_at": 100.0, "deadline": 220.0, "doomed": "spot-1"}


@pytest.mark.parametrize(("node", "ready"), [("spot-1", 150.0), ("spot-2", None)])
def test_a_replacement_counts_when_it_serves_elsewhere(node: str, ready: float | None) -> None:
    fresh = [a_life(C, 101, 140, node="spot-2"), a_life(C, 102, ready, node=node)]
    assert told(demo_checks.replacement_ready("c"), [*DOOMED, *fresh], **NOTICE) is None


def test_a_replacement_that_nobody_asked_for_was_not_the_services_doing() -> None:
    fresh = [a_life(C, 101, 140, node="spot-2"), a_life(C, 102, 150, node="spot-2")]
    said = told(demo_checks.replacement_ready("c"), [*DOOMED, *fresh], **NOTICE)
    assert said is not None
    assert not said.held
    assert said.words == "70 s before the node's end, 0 asked for 2 doomed"
