"""What a pool's models had at work at one time, beside what each has at its own busiest."""

from rebalancer.domain.policy import Policy
from rebalancer.ingest.past.minutes import ModelMinute
from rebalancer.ingest.past.together import PoolTogether, pools_together
from tests.builders import a_model, a_policy, a_pool, a_target_spec

HOUR = 3600.0
POLICY = a_policy(
    a_model("day", gpus_per_replica=2),
    a_model("night"),
    a_model("silent"),
    a_model("other", targets=(a_target_spec("l40s", "other"),)),
    pools=(a_pool(price_per_gpu_hour=2.0), a_pool("l40s")),
)


def hours(model: str, replicas: int, *busy: float | None) -> list[ModelMinute]:
    return [ModelMinute(model, hour * HOUR, HOUR, replicas, share) for hour, share in enumerate(busy)]


def test_models_that_are_busy_at_different_hours_need_fewer_gpus_together_than_one_by_one() -> None:
    looks = [*hours("day", 2, 1.0, 0.25), *hours("night", 4, 0.0, 1.0), *hours("silent", 1, None, None)]
    assert pools_together(POLICY, looks) == (
        PoolTogether("a100", together=5.0, alone=8.0, idle_usd=2.0 * (3.0 + 4.0), unknown=("silent",)),
    )


def test_models_that_are_busy_at_the_same_hour_spare_nothing_and_what_has_no_price_has_no_cost() -> None:
    policy: Policy = a_policy(a_model("day"), a_model("night"), pools=(a_pool(),))
    (pool,) = pools_together(policy, [*hours("day", 4, 0.5, 0.0), *hours("night", 4, 1.0, 0.0)])
    assert pool == PoolTogether("a100", together=6.0, alone=6.0)


def test_a_model_that_is_alone_in_its_pool_shares_with_nobody() -> None:
    assert pools_together(POLICY, hours("other", 2, 1.0)) == ()
