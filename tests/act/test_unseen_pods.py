"""A decrease that counts on replicas that are no pods yet waits while the API server knows of pods nobody has seen."""

from tests.act.rig import Rig, change, deployment, refused


def _stands(rig: Rig, pods: int) -> None:
    rig.store.put(deployment("b", 5) | {"status": {"replicas": pods}})


async def test_a_pod_that_no_watch_has_shown_is_not_taken_for_one_that_is_not_there(rig: Rig) -> None:
    rig.show("b", pods=rig.target("b").pods[:4])
    _stands(rig, 5)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert refused(outcome, "unseen")
    assert outcome.detail == "unseen: deployment/serving/b has 5 pods, and watches have shown 4 of them"
    assert rig.writes == []


async def test_a_replica_that_is_no_pod_yet_goes(rig: Rig) -> None:
    rig.show("b", pods=rig.target("b").pods[:4])
    _stands(rig, 4)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert outcome.status == "written"


async def test_what_the_watches_have_shown_since_the_plan_counts(rig: Rig) -> None:
    pods = rig.target("b").pods
    planned = change(rig.show("b", pods=pods[:4]), 4)
    rig.show("b", pods=pods)
    _stands(rig, 5)

    (outcome,) = await rig.apply(planned)

    assert outcome.status == "written"


async def test_where_every_replica_is_a_pod_that_was_seen_nothing_is_asked(rig: Rig) -> None:
    """One more than asked for is that of a rollout, or about to end."""
    _stands(rig, 6)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert outcome.status == "written"


async def test_a_raise_waits_for_no_pod(rig: Rig) -> None:
    rig.show("b", replicas=4, pods=rig.target("b").pods[:3])
    rig.store.put(deployment("b", 4) | {"status": {"replicas": 4}})

    (outcome,) = await rig.apply(change(rig.target("b"), 5))

    assert outcome.status == "written"
