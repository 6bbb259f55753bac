"""What is other in one policy than in another, in words."""

from rebalancer.domain.policy import Policy
from rebalancer.settings.policy_differences import MOST, differences
from tests.builders import a_model, a_policy, a_pool, a_target_spec


def test_the_same_policy_has_no_differences() -> None:
    assert differences(a_policy(), a_policy()) == ()


def test_a_changed_number_is_told_with_both_values_and_the_model_by_its_id() -> None:
    before = a_policy(a_model("chat", 1, max_replicas=4), a_model("code", 1))
    after = a_policy(a_model("chat", 1, max_replicas=6), a_model("code", 1))
    assert differences(before, after) == ("models.chat.maxReplicas 4 -> 6",)


def test_what_came_and_what_went_is_told_by_name() -> None:
    before = a_policy(a_model("chat", 1), a_model("old", 1))
    after = a_policy(a_model("new", 1), a_model("chat", 1))
    assert set(differences(before, after)) == {"models.old is gone", "models.new is new"}


def test_another_pool_of_a_target_is_another_target() -> None:
    pools = a_pool("a100", 16), a_pool("h100", 16)
    before = a_policy(a_model("chat", 1, pools=("a100",)), pools=pools)
    after = a_policy(a_model("chat", 1, pools=("h100",)), pools=pools)
    assert set(differences(before, after)) == {
        "models.chat.targets.a100 is gone",
        "models.chat.targets.h100 is new",
    }


def test_another_order_of_targets_is_a_difference_for_the_first_is_preferred() -> None:
    targets, pools = (a_target_spec("a100"), a_target_spec("h100", "b-h100")), (a_pool("a100", 16), a_pool("h100", 16))
    before = a_policy(a_model("chat", 1, targets=targets), pools=pools)
    after = a_policy(a_model("chat", 1, targets=targets[::-1]), pools=pools)
    assert differences(before, after) == ("models.chat.targets is in another order",)


def test_of_a_sign_a_producer_or_a_reading_what_changed_is_told() -> None:
    """Two readings of one figure, an old name and a new one of its series, are told apart by their order."""

    def policy(seconds: float, per: float) -> Policy:
        readings = ({"reading": "running", "series": "old"}, {"reading": "running", "series": "new", "per": per})
        return a_policy(
            producers=({"topic": "metrics", "decoder": "prometheus", "intervalSeconds": seconds},),
            nodes={"signs": ({"taint": "example.com/leaving", "kind": "rebalance", "withinSeconds": seconds},)},
            metrics={"maps": ({"name": "ours", "readings": readings},)},
        )

    assert set(differences(policy(20.0, 1.0), policy(30.0, 100.0))) == {
        "producers.metrics.intervalSeconds 20.0 -> 30.0",
        "nodes.signs.example.com/leaving.withinSeconds 20.0 -> 30.0",
        "metrics.maps.ours.readings.running (2).per 1.0 -> 100.0",
    }


def test_of_many_differences_the_rest_is_counted() -> None:
    before = a_policy(*(a_model(f"m-{n}", 1, max_replicas=4) for n in range(MOST + 5)))
    after = a_policy(*(a_model(f"m-{n}", 1, max_replicas=6) for n in range(MOST + 5)))
    told = differences(before, after)
    assert len(told) == MOST + 1
    assert told[-1] == "and 5 more"
