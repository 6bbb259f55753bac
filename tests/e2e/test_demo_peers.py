"""KEDA alone beside the demo: the same requests, in clusters like its own, and sums that are those of the worlds."""

import pytest

from rebalancer.sandbox.demo_cluster import DemoCluster, build, demo_policy
from rebalancer.sandbox.demo_peers import MAXIMUMS, OURS, Count, SideTally, Stretch, TallyLook, peers
from rebalancer.sandbox.demo_picture import verdict, worst_off
from rebalancer.sandbox.demo_story import BACK_RATE, SURGE_RATE

pytestmark = pytest.mark.slow  # 5 s

START = 1_800_000_000.0
POLICY = demo_policy()


def live(clusters: dict[str, DemoCluster], tally: SideTally, seconds: int) -> None:
    """Ours is moved here, as the sandbox does; the tally moves the others."""
    now = clusters[OURS].world.now
    for second in range(1, seconds + 1):
        clusters[OURS].world.advance(now + second)
        tally.look(now + second)


@pytest.fixture
def clusters() -> dict[str, DemoCluster]:
    return {OURS: build(POLICY, START), **peers(POLICY, START)}


@pytest.fixture
def tally(clusters: dict[str, DemoCluster]) -> SideTally:
    return SideTally({name: cluster.world for name, cluster in clusters.items()})


def turn(clusters: dict[str, DemoCluster], model: str, rate: float) -> None:
    for cluster in clusters.values():
        cluster.dials[model].turn(rate, clusters[OURS].world.now, 3.0)


def test_the_same_requests_come_on_every_side(clusters: dict[str, DemoCluster], tally: SideTally) -> None:
    live(clusters, tally, 10)
    turn(clusters, "chat", SURGE_RATE)
    live(clusters, tally, 60)
    stretch = tally.between(START + 10, START + 70)
    for model in POLICY.models:
        came = [stretch.arrived(side, model.id) for side in stretch.sides]
        assert came == [came[0]] * len(MAXIMUMS) + [came[0]]
    assert stretch.arrived(OURS, "chat") == pytest.approx(60 * SURGE_RATE, rel=0.1)


def test_keda_keeps_each_model_within_the_maximum_that_it_was_given(
    clusters: dict[str, DemoCluster], tally: SideTally
) -> None:
    turn(clusters, "chat", SURGE_RATE)
    live(clusters, tally, 90)
    chat = next(model for model in POLICY.models if model.id == "chat")
    replicas = {name: len(cluster.world.ready_pods("chat")) for name, cluster in clusters.items()}
    assert replicas == {OURS: 3, "KEDA, own GPUs": chat.entitlement, "KEDA, shared": chat.max_replicas}


def test_where_any_model_may_take_idle_gpus_their_owner_waits_for_them(
    clusters: dict[str, DemoCluster], tally: SideTally
) -> None:
    turn(clusters, "chat", SURGE_RATE)
    live(clusters, tally, 60)
    turn(clusters, "code", BACK_RATE)
    live(clusters, tally, 60)
    after = tally.between(START + 60, START + 120)
    assert after.late("KEDA, shared", "code") > 2 * after.late("KEDA, own GPUs", "code")
    assert after.late("KEDA, own GPUs", "chat") > 2 * after.late("KEDA, shared", "chat")


def test_gpus_that_karpenter_brought_are_counted_over_time(clusters: dict[str, DemoCluster], tally: SideTally) -> None:
    live(clusters, tally, 20)
    stretch = tally.between(START, START + 20)
    assert [stretch.rented(side) for side in stretch.sides] == [
        2.0,
        4.0,
        4.0,
    ]  # KEDA's third replica of image has a node
    looks = [TallyLook(START + at, {OURS: {}}, {OURS: gpus}) for at, gpus in ((0, 2), (10, 4), (40, 9))]
    assert Stretch(looks).rented(OURS) == pytest.approx((10 * 2 + 30 * 4) / 40)
    assert Stretch(looks[:1]).rented(OURS) == 0.0


def test_the_picture_adds_up_to_the_sums(clusters: dict[str, DemoCluster], tally: SideTally) -> None:
    turn(clusters, "chat", SURGE_RATE)
    live(clusters, tally, 45)
    stretch = tally.between(START + 5, START + 45)
    for side in stretch.sides:
        late = sum(stretch.late(side, model.id) for model in POLICY.models)
        assert sum(stretch.late_by(side, 7)) == pytest.approx(late)
        assert max(stretch.waiting_by(side, 7)) == pytest.approx(stretch.longest_queue(side), rel=0.01)


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ((25.0, 100.0, 20.0), "25 late of 1,000\n75 % fewer than with KEDA, own GPUs\n5 more than with KEDA, shared"),
        ((0.0, 0.0, 8.0), "0 late of 1,000\nno fewer than with KEDA, own GPUs\n100 % fewer than with KEDA, shared"),
    ],
)
def test_the_verdict_says_who_was_late_less_and_who_was_not(late: tuple[float, ...], says: str) -> None:
    sides = (OURS, *MAXIMUMS)
    before = {side: {"chat": Count(0.0, 0.0, 0.0, 0.0)} for side in sides}
    after = {side: {"chat": Count(1000.0, count, 0.0, 0.0)} for side, count in zip(sides, late, strict=True)}
    assert verdict(Stretch([TallyLook(START, before, {}), TallyLook(START + 60, after, {})])) == says


def test_fewer_late_in_all_may_be_all_of_one_models() -> None:
    before = {side: dict.fromkeys(("chat", "code"), Count(0.0, 0.0, 0.0, 0.0)) for side in (OURS, "KEDA, shared")}
    after = {
        OURS: {"chat": Count(1000.0, 300.0, 0.0, 0.0), "code": Count(100.0, 5.0, 0.0, 0.0)},
        "KEDA, shared": {"chat": Count(1000.0, 0.0, 0.0, 0.0), "code": Count(100.0, 99.0, 0.0, 0.0)},
    }
    assert worst_off(Stretch([TallyLook(START, before, {}), TallyLook(START + 60, after, {})])) == [
        "chat: 30%",
        "code: 99%",
    ]
