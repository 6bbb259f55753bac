"""The policy changes between two cycles: what was written, seen and remembered under the old one stops nobody."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.snapshot import ModelView, Snapshot, TargetView
from rebalancer.planning import plan
from rebalancer.planning.memory.outcomes import stranger
from tests.builders import NOW, a_load, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story
from tests.planning.test_scenarios_lending import a_lender
from tests.planning.worlds import fewer, overrides, policies, stories


def edited(before: Policy, other: Policy, keep: int) -> Policy:
    """Models of both, some of the old ones renamed and some moved onto other pools; `keep`: of which old ones."""
    pools = {pool.name: pool for pool in (*other.pools, *(before.pools if keep & 1 else ()))}
    models: dict[str, Model] = {}
    for number, model in enumerate(before.models):
        targets = tuple(target for target in model.targets if target.pool in pools)
        if not targets or not keep >> (number + 1) & 1:
            continue
        name = f"{model.id}-renamed" if keep >> (number + 6) & 1 else model.id
        fields = {"id": name, "targets": targets, "entitlement": 0, "min_replicas": 0}
        models[name] = model.model_copy(update=fields)
    for model in other.models:
        models.setdefault(model.id, model)
    return a_policy(*models.values(), pools=_in_order(pools))


def _in_order(pools: dict[str, Pool]) -> tuple[Pool, ...]:
    return tuple(pools[name] for name in sorted(pools))


def seen_under(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The same cluster as the state shows it once it has taken `policy` over."""
    pools = {view.name: view for view in snapshot.pools}
    targets = {(each.name, each.pool): each for view in snapshot.models for each in view.targets}
    loads = {load.model: load for load in snapshot.loads}
    models = [
        ModelView(model.id, tuple(_target(targets, model, spec.name, spec.pool) for spec in model.targets))
        for model in policy.models
    ]
    return replace(
        snapshot,
        pools=tuple(pools.get(name, PoolView(name)) for name in sorted(pool.name for pool in policy.pools)),
        models=tuple(sorted(models, key=lambda view: view.id)),
        loads=tuple(loads.get(name) or a_load(name) for name in sorted(model.id for model in policy.models)),
    )


def _target(targets: dict[tuple[str, str], TargetView], model: Model, name: str, pool: str) -> TargetView:
    found = targets.get((name, pool))
    return found or TargetView(pool=pool, namespace=model.namespace, kind="Deployment", name=name, missing=True)


@fewer(40)
@given(stories(), policies(), st.integers(0, 2**11 - 1), st.booleans(), st.booleans(), st.data())
def test_no_edit_of_the_policy_between_two_cycles_stops_the_wheel(
    story: Story,
    other: Policy,
    keep: int,
    follows: bool,  # noqa: FBT001  drawn
    settles: bool,  # noqa: FBT001  drawn
    data: st.DataObject,
) -> None:
    """Memory and outcomes go on, and the snapshot may still be the old policy's, as in a replay by another one."""
    story.override(*data.draw(st.lists(overrides(story.policy, NOW), max_size=2, unique_by=lambda one: one.name)))
    nodes = [node.name for view in story.snapshot.pools for node in view.nodes]
    for node in data.draw(st.lists(st.sampled_from(nodes), max_size=1) if nodes else st.just([])):
        story.notice(node, karpenter=True)
    for _ in range(2):
        story.write(story.plan())
        if settles:
            story.settle()
            story.wait(10.0)
    before = story.policy
    for policy in (edited(before, other, keep), before):
        story.policy = policy
        if follows:
            story.snapshot = seen_under(story.snapshot, policy)
        for _ in range(2):
            found = story.plan()
            assert [each.model for each in found.models] == sorted(model.id for model in policy.models)
            if follows:
                story.write(found)
        story.wait(10.0)


def a_grant_of(model: str, cycle: int = 7) -> Outcome:
    """A node grant to `model` that was written a moment ago."""
    intent = Intent(
        id=f"{cycle}-{model}-a100",
        cycle=cycle,
        at=NOW,
        kind="grant",
        subject=model,
        object=f"deployment/serving/{model}",
        replicas_from=1,
        replicas_to=2,
        reason="test",
        pool="a100",
        grant=f"g{cycle}-{model}",
        node_pool="spot",
    )
    return Outcome(intent, NOW, WRITTEN)


def a_release_of(model: str, cycle: int = 7) -> Outcome:
    """A replica that `model` lost a moment ago and that the window of `step` counts."""
    grant = a_grant_of(model, cycle)
    lost = replace(grant.intent, kind="release", grant=None, node_pool=None, counts="step", counted=1)
    return replace(grant, intent=replace(lost, replicas_from=2, replicas_to=1))


def test_an_outcome_of_a_model_that_left_the_policy_is_skipped_alone() -> None:
    policy = a_policy()
    outcomes = (a_grant_of("left"), a_release_of("left"), a_release_of("a"))
    snapshot = replace(a_snapshot(policy, {"a": 2, "b": 2}), outcomes=outcomes)
    memory = plan(snapshot, policy, Memory()).memory
    assert [loss.replicas for loss in memory.models["a"].losses] == [1]
    assert memory.node_grants == ()
    assert sorted(memory.models) == ["a", "b"]


def test_why_an_outcome_is_skipped_is_said() -> None:
    known = a_grant_of("a").intent
    assert stranger(known, {"a"}) is None
    assert stranger(known, {"b"}) == "a is no model of the policy any more"
    assert stranger(replace(known, kind="teleport"), {"a"}) == "teleport is no kind of change that this version knows"
    assert stranger(replace(known, kind="limit", subject="spot"), {"a"}) is None


def test_grants_and_loans_in_a_pool_that_left_the_policy_are_forgotten() -> None:
    policy = a_policy()
    snapshot = replace(a_snapshot(policy, {"a": 2, "b": 2}), outcomes=(a_grant_of("a"),))
    memory = plan(snapshot, policy, Memory()).memory
    assert [grant.pool for grant in memory.node_grants] == ["a100"]
    other = a_policy(
        *(model.model_copy(update={"targets": _moved(model)}) for model in policy.models), pools=(a_pool("h100"),)
    )
    found = plan(seen_under(replace(snapshot, outcomes=()), other), other, memory)
    assert found.memory.node_grants == ()
    assert found.memory.loans == ()


def test_a_pool_that_is_renamed_keeps_the_node_that_is_on_its_way() -> None:
    """Its raised replicas are not taken back, nor the NodePool's limit, to ask for the same node a plan later."""

    def called(name: str) -> Policy:
        pool = an_elastic_pool(name, node_pools=("karpenter",), gpus_per_node=8)
        return a_policy(a_model("chat", 0, entitlement=0, max_replicas=8, pools=(name,)), pools=(pool,))

    policy = called("spot")
    story = Story(policy, a_snapshot(policy, {"chat": 0}, {"chat": {"concurrency": 12.0}}, {"chat": 3.0}))
    story.turns(3)
    (grant,) = story.memory.node_grants
    story.policy, view = called("burst"), story.snapshot
    models = (replace(each, targets=(replace(each.targets[0], pool="burst"),)) for each in view.models)
    pools = (replace(each, name="burst") for each in view.pools)
    story.snapshot = replace(view, models=tuple(models), pools=tuple(pools))
    found = story.turn()
    assert (found.changes, found.node_pools) == ((), ())
    assert story.memory.node_grants == (replace(grant, pool="burst"),)


def _moved(model: Model) -> tuple[object, ...]:
    return tuple(target.model_copy(update={"pool": "h100"}) for target in model.targets)


def test_loans_have_the_size_that_the_borrowers_replicas_have_now() -> None:
    def story_of(gpus: int) -> Story:
        models = a_model("a", 0, entitlement=8), a_model("b", 1, gpus_per_replica=gpus, entitlement=1)
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        loads = {"a": {"concurrency": 0.0}, "b": {"concurrency": 16.0}}
        return Story(policy, a_snapshot(policy, {"a": 0, "b": 4}, loads, {"a": 0.0, "b": 3.5}))

    story = story_of(1)
    story.plan()
    since = story.snapshot.at
    story.policy, story.snapshot = story_of(2).policy, replace(story_of(2).snapshot, cycle=2)
    story.wait(600.0)
    story.plan()
    assert [(loan.borrower, loan.owner, loan.gpus, loan.at) for loan in story.memory.loans] == [
        ("b", "a", 2, since)
    ] * 3


def test_what_a_lender_lent_comes_home_though_the_policy_calls_it_otherwise_now() -> None:
    story = a_lender(a=6, b=2, in_flight=0.0)
    story.turns(3)
    assert [loan.owner for loan in story.memory.loans].count("b") == 3
    models = (model.model_copy(update={"id": "c"}) if model.id == "b" else model for model in story.policy.models)
    story.policy = story.policy.model_copy(update={"models": tuple(models)})
    story.snapshot = seen_under(story.snapshot, story.policy)
    story.turn()
    assert [loan.owner for loan in story.memory.loans].count("c") == 3
    assert story.replicas("a") == 6
    story.load("c", {"concurrency": 40.0}, work=5.0)
    story.turns(3)
    assert (story.replicas("a"), story.replicas("c")) == (3, 5)
