"""What the service says of itself is a verdict where it is not true, and only there."""

from collections import Counter

from rebalancer.act.originals import ANNOTATION
from rebalancer.domain.plan import ModelDecision, Plan, PoolDecision, Refusal
from rebalancer.domain.sync import Sync
from tests.machine.said import Said
from tests.machine.test_oracle import Bench, a_model
from tests.machine.worlds import START


def a_plan(ready: int = 4, budget: int | None = 8, refusals: tuple[Refusal, ...] = ()) -> Plan:
    model = ModelDecision("a", 3, 4, 4, ready, 0, 0, 2, surge=False, lent=0, borrowed=0, why="")
    return Plan(1, START, refusals=refusals, models=(model,), pools=(PoolDecision("x", budget, 8, 8, 0, 0, 0, 0, 0),))


def judged(bench: Bench, plan: Plan, sync: Sync | None = None, failing: set[str] | None = None) -> str:
    said = Said(bench.world, bench.oracle, Counter())
    said.look()
    said.judge(plan, bench.oracle.policy, sync or Sync(), failing or set())
    return bench.rules


def test_the_truth_is_no_verdict() -> None:
    assert judged(Bench(), a_plan()) == ""


def test_replicas_that_do_not_serve_are_not_ready() -> None:
    bench = Bench()
    bench.world.faults.crash(bench.world.ready_pods("a")[0])
    bench.live(5.0)
    assert judged(bench, a_plan(ready=4)) == "f"


def test_replicas_that_serve_are_ready() -> None:
    assert judged(Bench(), a_plan(ready=3)) == "f"


def test_a_source_that_cannot_be_watched_is_named_and_no_other() -> None:
    assert judged(Bench(), a_plan(), Sync(stale=("pods",)), {"pods"}) == ""
    assert judged(Bench(), a_plan(), Sync(stale=("pods",))) == "f"
    assert judged(Bench(), a_plan(), Sync(), {"pods"}) == "f"


def test_a_budget_is_unknown_only_where_nodes_show_no_gpus() -> None:
    assert judged(Bench(), a_plan(budget=None)) == "f"


def test_a_budget_is_not_known_where_pods_run_and_no_node_shows_any_gpu() -> None:
    bench = Bench()
    for node in bench.world.nodes.values():
        bench.world.faults.show_devices(node, 0)
    assert judged(bench, a_plan(budget=8)) == "f"
    assert judged(Bench(), a_plan(budget=8)) == ""


def test_pods_whose_node_goes_before_they_could_be_replaced_do_not_count() -> None:
    bench = Bench()
    bench.oracle.deadlines["x1"] = bench.world.now + 50.0
    bench.live(5.0)
    assert judged(bench, a_plan(ready=4)) == "f"


def test_a_template_of_other_gpus_than_the_policys_is_told() -> None:
    bench, refusal = Bench(), Refusal("gpus", "a", 4, 5, "2 GPUs per pod in the policy, 1 in the template")
    bench.world.deployments[bench.ref("a")].gpus = 2
    assert judged(bench, a_plan(refusals=(refusal,))) == ""
    assert judged(bench, a_plan()) == "f"


def test_a_target_that_another_installation_holds_is_told() -> None:
    bench, refusal = Bench(a_model(owner="hpa"), a_model("b")), Refusal("foreign", "a", 4, 5, "held by elsewhere")
    hpa = next(iter(bench.world.hpas.values()))
    bench.world.set_bounds(hpa, 4, 4, {ANNOTATION: '{"min":1,"max":2,"by":"elsewhere"}'}, "elsewhere")
    assert judged(bench, a_plan(refusals=(refusal,))) == ""
    assert judged(bench, a_plan()) == "f"


def test_nobody_is_said_to_write_who_does_not() -> None:
    refusal = Refusal("foreign", "a", 4, 5, "kubectl changed Deployment a 2 times within 120 s")
    assert judged(Bench(), a_plan(refusals=(refusal,))) == "f"


def test_a_stand_down_outlasts_its_window_only_by_as_much_as_a_clock_was_set_back_before_a_start() -> None:
    refusal = Refusal("foreign", "a", 4, 5, "kubectl changed Deployment a 2 times within 120 s")
    bench = Bench()
    said = Said(bench.world, bench.oracle, Counter())
    said.look()
    bench.world.scale(bench.ref("a"), 5, "kubectl")
    said.look()
    bench.live(150.0)
    said.restarted(kept_at=bench.world.now, younger_seconds=60.0)
    plan, policy = a_plan(refusals=(refusal,)), bench.oracle.policy
    said.judge(plan, policy, Sync(), set())
    assert bench.rules == ""
    bench.live(60.0)
    said.judge(plan, policy, Sync(), set())
    assert bench.rules == "f"


def test_what_others_did_since_the_checkpoint_is_as_young_as_the_start_which_sees_it_first() -> None:
    refusal = Refusal("foreign", "a", 4, 5, "kubectl changed Deployment a 2 times within 120 s")
    bench = Bench()
    said, kept_at = Said(bench.world, bench.oracle, Counter()), bench.world.now
    said.look()
    bench.world.scale(bench.ref("a"), 5, "kubectl")
    said.look()
    bench.live(90.0)
    said.restarted(kept_at, younger_seconds=0.0)
    for seconds, rules in ((100.0, ""), (60.0, "f")):
        bench.live(seconds)
        said.judge(a_plan(refusals=(refusal,)), bench.oracle.policy, Sync(), set())
        assert bench.rules == rules


def test_a_release_under_way_counts_though_the_cycles_own_write_calls_it_off() -> None:
    bench = Bench(a_model(owner="hpa"), a_model("b"))
    said, hpa = Said(bench.world, bench.oracle, Counter()), next(iter(bench.world.hpas.values()))
    bench.world.set_bounds(hpa, 3, 3, {}, "rebalancer")
    said.look()
    bench.world.set_bounds(hpa, 6, 6, {}, "rebalancer")  # its HPA had raised it to so many, of which four serve
    said.judge(a_plan(ready=3), bench.oracle.policy, Sync(), set())
    assert bench.rules == ""
