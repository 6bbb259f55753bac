"""Two roles of one in every world: no write takes them out of their ratio, whatever else is refused, lost or ruled."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.planning import oracle
from tests.planning.story import Story
from tests.planning.test_properties import live
from tests.planning.worlds import coupled_policies, feel, fewer, levels, offer, overrides, stories


@fewer(16)
@given(stories(coupled_policies()), st.data())
def test_no_write_takes_two_roles_out_of_their_ratio_nor_under_floors_nor_beyond_budgets(
    story: Story, data: st.DataObject
) -> None:
    for _ in range(3):
        offer(story, data.draw(st.sampled_from([model.id for model in story.policy.models])), data.draw(levels()))
        live(story, 3)


@fewer(16)
@given(stories(coupled_policies()), st.data())
def test_any_writes_of_a_plan_that_are_left_out_leave_two_roles_in_their_ratio(
    story: Story, data: st.DataObject
) -> None:
    """The gate may refuse any of them: whichever are written, in whatever order, the ratio holds at each."""
    for _ in range(4):
        offer(story, data.draw(st.sampled_from([model.id for model in story.policy.models[:2]])), data.draw(levels()))
        plan = story.plan()
        moving = [change for change in plan.changes if change.model in {"m0", "m1"}]
        written = data.draw(st.permutations(moving))[: data.draw(st.integers(0, len(moving)))]
        part = replace(plan, node_pools=(), changes=tuple(written))
        for model in (each for each in story.policy.models if each.ratio is not None):
            for change in part.changes:
                before = story.snapshot
                oracle.carry_out(story, replace(part, changes=(change,)))
                was, now = (
                    oracle.beyond(model, oracle.staying(each, story.policy)) for each in (before, story.snapshot)
                )
                assert change.kind == "settle" or now <= was + 1e-6
        story.settle()
        story.wait(10.0)
        feel(story)


@fewer(16)
@given(stories(coupled_policies()), st.data())
def test_overrides_notices_and_lost_nodes_of_one_role_move_the_other_within_the_ratio(
    story: Story, data: st.DataObject
) -> None:
    for _ in range(3):
        decided = data.draw(st.lists(overrides(story.policy, story.snapshot.at), max_size=3))
        story.override(*(replace(one, name=f"ov-{n}", uid=f"ov-{n}") for n, one in enumerate(decided)))
        nodes = [node.name for view in story.snapshot.pools for node in view.nodes]
        for node in data.draw(st.lists(st.sampled_from(nodes), max_size=1)) if nodes else []:
            story.notice(node, 0.0, kind=data.draw(st.sampled_from(["drain", "spot-interruption"])))
        live(story, 3)


@fewer(3)
@given(stories(coupled_policies()))
def test_two_roles_come_to_rest_under_constant_load(story: Story) -> None:
    live(story, 60, seconds=65.0)
    history = live(story, 6, seconds=65.0)
    assert history[0] == history[-1], "still moving after an hour of the same load"
