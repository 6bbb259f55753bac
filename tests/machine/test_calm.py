"""A world in which nothing has happened for minutes is judged as if it were at rest."""

from rebalancer.act.originals import ANNOTATION
from tests.machine.calm import CALM_SECONDS, EVERY_SECONDS, PINNED_SECONDS, Calm
from tests.machine.test_oracle import Bench, a_model


def lived(bench: Bench, seconds: float, *, hindered: bool = False) -> str:
    calm = Calm(bench.world, bench.oracle)
    until = bench.world.now + seconds
    while bench.world.now < until:
        bench.live(5.0)
        calm.judge(bench.oracle.policy, hindered=hindered)
    return bench.rules


def under_its_floor() -> Bench:
    """`a` lost what it served with to a machine that died; `b` holds more than its floor."""
    bench = Bench(a_model("a"), a_model("b", floor=1))
    for pod in bench.world.ready_pods("a")[:3]:
        bench.world.faults.stick(pod)
    return bench


def test_who_stays_under_its_floor_beside_others_above_theirs_is_seen() -> None:
    assert lived(under_its_floor(), CALM_SECONDS - 10.0) == ""
    assert lived(under_its_floor(), CALM_SECONDS + 10.0 + EVERY_SECONDS) == "d"


def test_what_is_wrong_at_one_look_only_is_on_its_way() -> None:
    assert lived(under_its_floor(), CALM_SECONDS + 10.0) == ""


def test_what_keeps_the_service_from_acting_excuses_it() -> None:
    assert lived(under_its_floor(), CALM_SECONDS + 10.0 + EVERY_SECONDS, hindered=True) == ""


def test_numbers_of_ours_on_what_the_policy_does_not_name_are_seen() -> None:
    bench = Bench(a_model("a", owner="hpa"), a_model("b"))
    hpa = next(iter(bench.world.hpas.values()))
    bench.world.set_bounds(hpa, 4, 4, {ANNOTATION: '{"min":1,"max":6,"by":"machine"}'})
    assert lived(bench, PINNED_SECONDS + 30.0) == ""
    first, *rest = bench.oracle.policy.models
    assert first.id == "a"
    bench.oracle.policy = bench.oracle.policy.model_copy(update={"models": tuple(rest)})
    assert set(lived(bench, PINNED_SECONDS + 30.0)) == {"d"}
