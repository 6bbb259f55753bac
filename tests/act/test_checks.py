"""What the checks let through, for any plan."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.act.checks import Ground, check, decreases
from rebalancer.act.deletion_cost import costs
from rebalancer.act.driver import Refused
from rebalancer.act.unseen_writes import UnseenWrites
from rebalancer.domain.autoscalers import Originals
from tests.act.rig import SteppingClock, change
from tests.builders import (
    a_model,
    a_policy,
    a_pool,
    a_snapshot,
    an_autoscaler,
    an_elastic_pool,
)

MOST_SECONDS = 1.5


@given(
    asks=st.lists(st.tuples(st.sampled_from(["a", "b", "b-spot"]), st.integers(0, 12)), min_size=1, max_size=8),
    held=st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 8)),
    bound=st.booleans(),
)
def test_whatever_is_let_through_keeps_floors_and_budgets(
    asks: list[tuple[str, int]], held: tuple[int, int, int], *, bound: bool
) -> None:
    """Change after change over facts that never learn of them: the unseen alone must hold the line."""
    policy = a_policy(
        a_model("a", min_replicas=1),
        a_model("b", min_replicas=3, pools=("a100", "spot")),
        pools=(a_pool(gpus=8), an_elastic_pool(gpus=8)),
    )
    facts = a_snapshot(policy, replicas={"a": held[0], "b": {"a100": held[1], "spot": held[2]}}, nodes={"spot": 1})
    targets = {target.name: target for model in facts.models for target in model.targets}
    if bound:  # b's first target is bounded by an autoscaler that we took over
        own = an_autoscaler(targets["b"].replicas, max(1, targets["b"].replicas), originals=Originals(1, 9))
        targets["b"] = replace(targets["b"], autoscaler=own)
        models = tuple(
            replace(model, targets=tuple(targets[target.name] for target in model.targets)) for model in facts.models
        )
        facts = replace(facts, models=models)
    least = {name: target.replicas for name, target in targets.items()}  # if only the decreases happened
    most = dict(least)  # if only the raises did
    ground, unseen = Ground(policy, ()), UnseenWrites()
    for name, to in asks:
        one = change(targets[name], to, model="a" if name == "a" else "b")
        try:
            check(one, facts, ground, unseen)
        except Refused:
            continue
        with unseen.booked(one, SteppingClock()):
            pass  # the reply was lost: it may have happened or not
        asked = max(1, to) if one.target.autoscaler else to
        if asked < least[name]:
            least[name] = asked
            assert least["a"] >= 1 if name == "a" else least["b"] + least["b-spot"] >= 3
        if asked > most[name]:
            most[name] = asked
            assert most["b-spot"] <= 8 if name == "b-spot" else most["a"] + most["b"] <= 8


@given(asks=st.lists(st.tuples(st.sampled_from(["prefill", "decode"]), st.integers(1, 8)), min_size=1, max_size=8))
def test_whatever_is_let_through_keeps_two_roles_in_their_ratio(asks: list[tuple[str, int]]) -> None:
    """Each reply is lost: whichever of the writes happened, the ratio of 0.5 to 2 holds."""
    policy = a_policy(
        a_model("prefill", ratio={"to": "decode", "min": 0.5, "max": 2.0}), a_model("decode"), pools=(a_pool(gpus=32),)
    )
    facts = a_snapshot(policy, replicas={"prefill": 3, "decode": 3})
    targets = {model.id: model.targets[0] for model in facts.models}
    may_have = {"prefill": {3}, "decode": {3}}
    ground, unseen = Ground(policy, ()), UnseenWrites()
    for name, to in asks:
        one = change(targets[name], to, model=name)
        try:
            check(one, facts, ground, unseen)
        except Refused:
            continue
        with unseen.booked(one, SteppingClock()):
            pass
        may_have[name].add(to)
        for prefill in may_have["prefill"]:
            assert all(0.5 * decode <= prefill <= 2.0 * decode for decode in may_have["decode"])


def test_a_write_that_would_leave_the_ratio_is_refused_with_both_numbers() -> None:
    policy = a_policy(a_model("prefill", ratio={"to": "decode", "min": 0.5, "max": 2.0}), a_model("decode"))
    facts = a_snapshot(policy, replicas={"prefill": 2, "decode": 1})
    with pytest.raises(Refused, match="prefill would have 3 replicas, and its replicas are"):
        check(change(facts.models[1].targets[0], 3, model="prefill"), facts, Ground(policy, ()), UnseenWrites())
    check(change(facts.models[0].targets[0], 3, model="decode"), facts, Ground(policy, ()), UnseenWrites())


def test_a_change_is_a_decrease_by_its_numbers() -> None:
    facts = a_snapshot(a_policy(a_model("b")), replicas={"b": 4})
    target = facts.models[0].targets[0]
    owned = replace(target, autoscaler=an_autoscaler(2, 4, originals=Originals(1, 9)))

    assert decreases(change(target, 3, kind="release"))
    assert decreases(change(target, 3, kind="grant", replicas_from=2))
    assert decreases(change(owned, 3, kind="grant", replicas_from=2, minimum=2))
    assert decreases(change(target, 5, kind="release", replicas_from=6))  # the HPA has not followed a lower maximum yet
    assert decreases(change(owned, 4, kind="bounds", minimum=1))
    assert not decreases(change(target, 5))
    assert not decreases(change(owned, 4, kind="bounds", minimum=2))
    assert not decreases(change(target, 3, kind="settle"))
    assert not decreases(change(target, 3, kind="withdraw"))


def test_the_gate_looks_once_at_each_of_many_victims() -> None:
    """Of 20,000 that go each looked up among all is 400 million looks: 5 s of a processor, where this takes 0.1 s."""
    facts = replace(a_snapshot(a_policy(a_model("b")), replicas={"b": 20_000}), marks_victims=True)
    target = facts.models[0].targets[0]
    victims = tuple(pod.uid for pod in target.pods if pod.node is None)
    many = change(target, len(target.pods) - len(victims), model="b", victims=victims, victim_names=victims)

    began = time.thread_time()
    check(many, facts, Ground(a_policy(a_model("b")), ()), UnseenWrites())
    assert len(set(costs(many))) == len(victims)
    assert time.thread_time() - began < MOST_SECONDS
