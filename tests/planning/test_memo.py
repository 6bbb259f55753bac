"""What stands from plan to plan: made once, made anew when something else goes in, never another decision."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.codec import to_bytes
from rebalancer.planning import Memo, plan
from rebalancer.planning.allocation.fits import Fits
from tests.bench.fleet import Fleet
from tests.builders import a_model, a_policy, a_snapshot
from tests.planning.story import Story, decision_of


class Counted:
    """A function that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, one: int, other: tuple[int, ...]) -> int:
        self.asked += 1
        return one + sum(other)


def test_a_result_stands_while_equal_values_go_in() -> None:
    kept, total = Memo(), Counted()
    assert [kept.of("a", total, 1, (2, 3)) for _ in range(3)] == [6, 6, 6]
    assert total.asked == 1
    assert kept.of("a", total, 1, (2, 4)) == 7
    assert kept.of("b", total, 1, (2, 4)) == 7
    assert total.asked == 3


def test_functions_do_not_get_each_others_results() -> None:
    kept, total, other = Memo(), Counted(), Counted()
    kept.of("a", total, 1, ())
    kept.of("a", other, 1, ())
    assert (total.asked, other.asked) == (1, 1)


def test_another_policy_ends_what_stands() -> None:
    kept, total, policy = Memo(), Counted(), a_policy()
    for seen in (policy, policy, a_policy()):
        kept.follow(seen)
        kept.of("a", total, 1, ())
    assert total.asked == 2


class Bag(dict[str, int]):
    """A sum that goes on."""


def test_a_sum_goes_on_until_the_policy_is_another() -> None:
    kept = Memo()
    kept.follow(a_policy())
    kept.sums(Bag)["a"] = 1
    assert kept.sums(Bag) == {"a": 1}
    kept.follow(a_policy())
    assert kept.sums(Bag) == {}


def test_what_stands_does_not_outlive_the_readings_it_was_made_from() -> None:
    # Nothing comes in any more: the same load for ever. 4 requests in flight were seen a second before.
    story = Story(a_policy(a_model("b")), a_snapshot(a_policy(a_model("b")), {"b": 2}, {"b": {"concurrency": 4.0}}))
    story.foresee("b", {1: 3.0, 2: 0.0}, level=0.5)
    demands = []
    for _ in range(4):
        demands.append(decision_of(story.plan(), "b").demand)
        story.snapshot = replace(story.snapshot, at=story.snapshot.at + 5.0)
    assert demands == [2, 2, 2, None]  # 1, 6, 11 and 16 s old; at 15 s it is stale


def test_a_fleet_in_motion_is_planned_the_same_with_and_without() -> None:
    # `Story` asserts it for one pool or two at a time; here models share pools, nodes fill, and curves are real ones.
    world = Fleet(40, 3).world()
    moved = 0
    for turn in range(8):
        fresh = plan(world.snapshot, world.policy, world.memory)
        assert to_bytes(world.turn()) == to_bytes(fresh.plan)
        assert to_bytes(world.memory) == to_bytes(fresh.memory)
        moved += turn > 0 and len(fresh.plan.changes)
        world.go_on((0.0, 0.05, 0.25)[turn % 3], turn)
    assert moved > 3, "something stands, something moves"


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 5), min_size=1),
    st.lists(st.tuples(st.sampled_from("abcdefghi"), st.integers(-1, 5)), max_size=12),
    st.integers(1, 6),
    st.sets(st.sampled_from("abc")),
)
def test_the_best_fit_is_the_fullest_node_with_room_then_the_first_by_name(
    free: dict[str, int], then: list[tuple[str, int]], gpus: int, excluded: set[str]
) -> None:
    fits = Fits(free)
    for node, left in [("a", 3), *then]:
        fits.set(node, left)
        free |= {node: left} if node in free else {}
        enough = [(own, name) for name, own in free.items() if own >= gpus and name not in excluded]
        assert fits.best(gpus, excluded) == (min(enough)[1] if enough else None)
