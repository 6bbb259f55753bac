import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.domain.account import GoingReplica, NoticeAccount
from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.outcome import SHADOW, Intent, Outcome
from rebalancer.domain.plan import Plan, Refusal, Unmet
from rebalancer.domain.snapshot import NoticeView
from rebalancer.domain.starts import StartView
from rebalancer.ingest.rejected import Reason
from rebalancer.kube.errors import KubeError
from rebalancer.ledger.books import ALL_TIME, Books
from rebalancer.ledger.inventory import inventory, prices
from rebalancer.obs.metrics import Figure, Metrics
from rebalancer.obs.metrics.catalogue import KUBE_ERRORS, METRICS, REASONS
from rebalancer.obs.metrics.figures import latency_figures, ledger_figures, notice_figures, plan_figures, start_figures
from rebalancer.obs.metrics.metric import COUNTER, Metric
from rebalancer.planning import plan
from rebalancer.planning.guards.guards import EVERY_GUARD
from tests.builders import NOW, a_model, a_notice, a_policy, a_pool, a_snapshot

UNITS = {"seconds", "replicas", "gpus"}  # base units that a name may carry


def a_plan(*models: str) -> Plan:
    """Of models that hold two replicas each, of whose load nobody told."""
    policy = a_policy(*(a_model(model, min_replicas=1) for model in models))
    return plan(a_snapshot(policy, dict.fromkeys(models, 2)), policy, Memory()).plan


def shown(text: bytes, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by its labels' values."""
    families = text_string_to_metric_families(text.decode())
    return {tuple(one.labels.values()): one.value for each in families for one in each.samples if one.name == name}


def of_plan(decided: Plan, name: str) -> dict[tuple[str, ...], float]:
    return shown(Metrics().text(plan_figures(decided, NOW)), name)


def test_gpu_seconds_are_told_by_who_held_them_and_never_of_who_left_the_policy() -> None:
    policy = a_policy(a_model("a", team="red", cost_center="cc-7", entitlement=1), a_model("b"))
    books = Books(ALL_TIME)
    for at in (NOW, NOW + 10.0):
        seen = replace(a_snapshot(policy, {"a": 2, "b": 1}, work={"a": 1.0, "b": 0.5}), at=at)
        books.see(inventory(seen, policy), 60.0)
    told = shown(Metrics().text(ledger_figures(books, policy)), "rebalancer_gpu_seconds_total")
    assert told == {
        ("cc-7", "a", "a100", "owned-busy", "red"): 5.0,
        ("cc-7", "a", "a100", "owned-idle", "red"): 5.0,
        ("cc-7", "a", "a100", "borrowed", "red"): 10.0,
        ("", "b", "a100", "owned-busy", ""): 5.0,
        ("", "b", "a100", "owned-idle", ""): 5.0,
        ("", "", "a100", "free", ""): 50.0,
    }
    left = shown(Metrics().text(ledger_figures(books, a_policy(a_model("b")))), "rebalancer_gpu_seconds_total")
    assert {model for _, model, *_ in left} == {"b", ""}


def test_what_gpus_cost_is_told_where_their_pool_has_a_price() -> None:
    pools = (a_pool(price_per_gpu_hour=3.6), a_pool("b200"))
    policy = a_policy(a_model("a", team="red"), pools=pools)
    books = Books(ALL_TIME)
    for at in (NOW, NOW + 10.0):
        seen = inventory(replace(a_snapshot(policy, {"a": 2}, work={"a": 2.0}), at=at), policy)
        books.see(seen, 60.0, prices(seen.capacity, policy))
    told = shown(Metrics().text(ledger_figures(books, policy)), "rebalancer_gpu_cost_usd_total")
    of_a = (("owned-busy", 1), ("owned-idle", 0), ("borrowed", 1))
    cents = {("red", "a", "a100", state, "red"): usd for state, usd in of_a}  # charged to its team: no cost center
    assert {held: 100 * usd for held, usd in told.items()} == pytest.approx(cents | {("", "", "a100", "free", ""): 6})


def test_a_changed_price_counts_from_then_on_and_the_past_keeps_its_own() -> None:
    """A counter that falls is a reset to Prometheus: `increase` would count a month again as spent within the hour."""
    books, usd = Books(ALL_TIME), []
    for turn, price in enumerate((3.6, 3.6, 1.8, 1.8, 0.0, 0.0, 3.6)):  # USD; 0.0: none
        policy = a_policy(a_model("a"), pools=(a_pool(price_per_gpu_hour=price),))
        seen = inventory(replace(a_snapshot(policy), at=NOW + 10.0 * turn), policy)
        books.see(seen, 60.0, prices(seen.capacity, policy))
        usd.append(sum(one.value for one in ledger_figures(books, policy) if one.name.endswith("usd_total")))
    assert usd == pytest.approx([0.0, 0.08, 0.16, 0.2, 0.0, 0.0, 0.24])


def test_latency_is_told_while_it_may_vote_and_the_slo_by_every_name_that_engines_use() -> None:
    policy = a_policy(a_model("a", aliases=("meta/a",), slo={"latency_seconds": 2.0}, signals={"latency": True}))
    seen = a_snapshot(policy, {"a": 2}, {"a": {"latency": 1.5}})
    text = Metrics().text(latency_figures(seen, policy))
    assert shown(text, "rebalancer_model_latency_seconds") == {("a",): 1.5}
    slo = shown(text, "rebalancer_model_slo_seconds")
    assert slo == {("a", name, policy.models[0].namespace): 2.0 for name in ("a", "meta/a")}
    stale = Metrics().text(latency_figures(replace(seen, at=NOW + 600.0), policy))
    assert shown(stale, "rebalancer_model_latency_seconds") == {}


def test_before_the_first_plan_no_model_is_shown() -> None:
    assert shown(Metrics().text(), "rebalancer_model_replicas") == {}


def test_before_pods_are_listed_no_replica_is_counted_and_none_is_told_to_be_below_its_floor() -> None:
    text = Metrics().text(plan_figures(a_plan("a"), NOW, sees_replicas=False))
    assert shown(text, "rebalancer_model_replicas") == {}
    assert shown(text, "rebalancer_model_blind") == {("a",): 1.0}


def test_the_last_plan_is_shown_and_what_left_it_leaves_the_metrics() -> None:
    metrics = Metrics()
    text = metrics.text(plan_figures(a_plan("a", "b"), NOW))
    assert shown(text, "rebalancer_model_replicas")["b", "ready"] == 2
    assert shown(text, "rebalancer_pool_gpus")["a100", "promised"] == 4
    text = metrics.text(plan_figures(a_plan("a"), NOW))
    assert {model for model, _ in shown(text, "rebalancer_model_replicas")} == {"a"}
    assert shown(text, "rebalancer_pool_gpus")["a100", "promised"] == 2


def test_what_the_plan_does_not_know_is_absent_and_not_zero_and_the_model_is_blind() -> None:
    decided = a_plan("a")
    assert [model.model for model in decided.models if model.demand is None] == ["a"]
    states = {state for _, state in of_plan(decided, "rebalancer_model_replicas")}
    assert "demand" not in states
    assert "ready" in states
    assert of_plan(decided, "rebalancer_model_blind") == {("a",): 1}


def test_a_pool_of_unknown_budget_says_so() -> None:
    decided = a_plan("a")
    unknown = replace(decided, pools=tuple(replace(pool, budget=None) for pool in decided.pools))
    assert of_plan(decided, "rebalancer_pool_budget_known") == {("a100",): 1}
    assert of_plan(unknown, "rebalancer_pool_budget_known") == {("a100",): 0}


def test_a_short_model_says_by_how_many_and_for_how_long_and_the_others_say_zero() -> None:
    short = replace(a_plan("a", "b"), unmet=(Unmet("b", 3, "budget", "", since=NOW - 90.0),))
    assert of_plan(short, "rebalancer_unmet_replicas") == {("a",): 0, ("b",): 3}
    assert of_plan(short, "rebalancer_unmet_seconds") == {("a",): 0, ("b",): 90}


def test_doomed_replicas_count_until_a_replacement_is_asked_beside_them() -> None:
    policy = a_policy(a_model("a"), a_model("b"))
    world = a_snapshot(policy, {"a": 2}, notices=(a_notice("a100-1"),))
    doomed = [pod.uid for pod in world.models[0].targets[0].pods]

    def figures(*replaced: str) -> dict[tuple[str, tuple[str, ...]], float]:
        memory = Memory(models={"a": ModelMemory(replaced=tuple(f"a100/uid-a/2/{uid}" for uid in replaced))})
        return {(one.name, one.labels): one.value for one in notice_figures(world, memory)}

    unreplaced, left = "rebalancer_notice_unreplaced_replicas", "rebalancer_notice_left_seconds"
    assert figures() == {(unreplaced, ("a",)): 2, (left, ("a",)): 120, (unreplaced, ("b",)): 0}
    assert figures(doomed[0])[unreplaced, ("a",)] == 1
    assert figures(*doomed) == {(unreplaced, ("a",)): 0, (unreplaced, ("b",)): 0}


def test_a_persons_drain_has_no_instant_at_which_its_node_goes_and_hides_none_of_a_spot_node() -> None:
    world = a_snapshot(a_policy(a_model("a"), pools=(a_pool(gpus=16),)), {"a": 9})  # eight of them on the first node
    drain = a_notice("a100-1", kind="drain", since=NOW - 900.0, deadline=NOW - 900.0)

    def figures(*notices: NoticeView) -> list[float]:
        return [one.value for one in notice_figures(replace(world, notices=notices), Memory())]

    assert figures(drain) == [8]
    assert figures(drain, a_notice("a100-2")) == [9, 120]


def test_a_voluntary_disruption_brings_its_own_replacement() -> None:
    policy = a_policy(a_model("a"))
    world = a_snapshot(policy, {"a": 2}, notices=(a_notice("a100-1", voluntary=True),))
    assert [one.value for one in notice_figures(world, Memory())] == [0]


def test_before_a_notice_comes_to_its_time_nobody_is_missed() -> None:
    policy = a_policy(a_model("a"))
    world = a_snapshot(policy, {"a": 2}, notices=(a_notice("a100-1", deadline=NOW + 3600, doomed_at=NOW + 1),))
    assert [one.value for one in notice_figures(world, Memory())] == [0]


def test_starts_are_told_by_model_pool_and_kind_with_the_middle_and_the_slow_one() -> None:
    world = a_snapshot(a_policy(a_model("a")), {"a": 1})
    seen = StartView("a100", "pull", 12, median_seconds=80.0, slow_seconds=140.0)
    world = replace(world, models=(replace(world.models[0], starts=(seen,)),))
    assert {one.labels: one.value for one in start_figures(world)} == {
        ("a", "a100", "pull", "0.5"): 80.0,
        ("a", "a100", "pull", "0.9"): 140.0,
    }
    assert Metrics().text(start_figures(world))


def test_what_happened_is_counted_and_a_counter_begins_at_zero() -> None:
    metrics = Metrics()
    assert shown(metrics.text(), "rebalancer_cycles_total") == {("failed",): 0, ("ok",): 0}
    metrics.cycle(0.02, ok=True)
    metrics.cycle(0.02, ok=False)
    metrics.cycle(0.02, ok=True)
    text = metrics.text()
    assert shown(text, "rebalancer_cycles_total") == {("failed",): 1, ("ok",): 2}
    assert shown(text, "rebalancer_cycle_seconds_count") == {(): 3}


def wanted(name: str, to: int, status: str = SHADOW, kind: str = "grant") -> Outcome:
    """What became of asking target `name`, which has 2 replicas, for `to`."""
    intent = Intent(f"7-{name}", 7, NOW, kind, name, f"deployment/serving/{name}", 2, to, "demand")
    return Outcome(intent, NOW, status)


def test_in_shadow_a_wish_counts_when_it_appears_and_again_only_after_it_was_gone() -> None:
    metrics = Metrics()
    a, b, more = wanted("a", 3), wanted("b", 4), wanted("a", 4)
    counted = []
    for wishes in ([a], [a], [a, b], [more], [], [more]):
        metrics.outcomes(wishes)
        counted.append(shown(metrics.text(), "rebalancer_changes_total")["grant", SHADOW])
    assert counted == [1, 1, 2, 3, 3, 4]


def test_what_is_refused_counts_each_time() -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.outcomes([wanted("a", 3, "refused")])
    assert shown(metrics.text(), "rebalancer_changes_total")["grant", "refused"] == 3


@pytest.mark.parametrize(
    "figure",
    [Figure("rebalancer_unheard_of", 1), Figure("rebalancer_synced", 1, ("a",)), Figure("rebalancer_model_blind", 1)],
)
def test_a_figure_that_the_catalogue_does_not_know_is_an_error(figure: Figure) -> None:
    with pytest.raises(KeyError):
        Metrics().text([figure])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Metric) -> None:
    assert metric.name.startswith("rebalancer_")
    assert metric.name.endswith("_total") == (metric.kind == COUNTER)
    stem = metric.name.removesuffix("_total")
    for unit in UNITS:
        named, of_unit = stem.endswith(f"_{unit}"), metric.unit.lower() == unit
        assert named == of_unit or (metric.kind == COUNTER and of_unit)  # requests_total counts, seconds_total sums
    assert not any(word in metric.name for word in ("milli", "percent", "minutes"))
    assert metric.help.endswith(".")
    assert all(label.words or label.of for label in metric.labels)
    assert bool(metric.buckets) == (metric.kind == "histogram")


def test_no_two_metrics_share_a_name() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("guard", EVERY_GUARD)
def test_a_refusal_by_any_guard_is_counted(guard: str) -> None:
    refused = replace(a_plan("a"), refusals=(Refusal(guard, "a", 2, 3, "so it is"),))
    assert of_plan(refused, "rebalancer_refusals")[(guard,)] == 1.0


def test_the_words_of_labels_are_the_codes_own() -> None:
    assert set(REASONS) == {reason.value for reason in Reason}
    assert set(KUBE_ERRORS) == {name.lower() for name in _names(KubeError)} | {"timeout"}


def _names(error: type[Exception]) -> set[str]:
    own = [one for one in error.__subclasses__() if one.__module__ == KubeError.__module__]  # others ask no API server
    return {one.__name__ for one in own} | {name for one in own for name in _names(one)}


def test_a_notice_is_measured_once_when_its_node_is_empty() -> None:
    metrics, by_us = Metrics(), GoingReplica("u", "b", 3.0, gone_by="rebalancer", gone_at=NOW + 90)
    open_account = NoticeAccount("n1", "spot-interruption", "aws", "a100", "certain", NOW, NOW, NOW + 120, (by_us,))
    empty = replace(open_account, acted_at=NOW + 0.2, replaced_at=NOW + 50, drained_at=NOW + 90)
    for at, account in ((NOW, open_account), (NOW + 90, empty), (NOW + 100, replace(empty, over_at=NOW + 100))):
        metrics.accounts(Plan(cycle=1, at=at, accounts=(account,)))
    text = metrics.text()
    for name, value in (
        ("action_seconds", 0.2),
        ("replaced_seconds", 50.0),
        ("spare_seconds", 30.0),
        ("requests_in_flight", 3.0),
    ):
        assert shown(text, f"rebalancer_notice_{name}_count") == {(): 1.0}
        if name != "spare_seconds":  # the client sums up no histogram whose values may be negative
            assert shown(text, f"rebalancer_notice_{name}_sum")[()] == pytest.approx(value)
    assert shown(text, "rebalancer_notice_spare_seconds_bucket")["30.0",] == 1
    assert shown(text, "rebalancer_notice_spare_seconds_bucket")["20.0",] == 0
    assert shown(text, "rebalancer_notice_drained_total")["rebalancer",] == 1
