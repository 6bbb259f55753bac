"""Who may run on two pools moves to the one with idle GPUs, where who may run on the other alone needs its place."""

from tests.builders import a_model, a_policy, a_pool, an_elastic_pool
from tests.planning.story import Story, change_of, moves
from tests.planning.test_scenarios_shares import a_story, flat, late


def movers(*names: str, saves: float = 50.0, gpus: int = 1, beside: str = "b", most: int = 100) -> Story:
    """Pool x is full with a replica of each of these, which may run on spot as well; a runs on x alone.

    A node of spot has room for 6. A replica of `gpus` GPUs saves a that many requests, a second one each mover 1,
    as `beside`, which has its own on spot, if it is none of them. They may have `most`.
    """
    policy = a_policy(
        a_model("a", 0, pools=("x",), gpus_per_replica=gpus),
        *(a_model(name, 0, max_replicas=most, pools=("x", "spot")) for name in {**dict.fromkeys(names), beside: None}),
        a_model("c", pools=("spot",)),
        pools=(a_pool("x", len(names)), an_elastic_pool(gpus=8)),
    )
    held = {beside: {"x": 0, "spot": 1}} | {name: {"x": 1, "spot": 0} for name in names}
    curves = dict.fromkeys(held, late(0, 40, 20, 19))
    return a_story(
        policy,
        {"a": {"x": 0}, **held, "c": {"spot": 1}},
        {"a": late(0, saves, 0), **curves, "c": flat(1, 2)},
    )


class TestMovers:
    def test_who_can_run_elsewhere_moves_to_a_node_that_costs_money_where_whoever_comes_gains_that(self) -> None:
        # A GPU on spot costs 3, a second replica saves b 1: it is worth the 50 that a saves with the one on x.
        story = movers("b")
        plan = story.turn()
        assert moves(plan) == {"b": (0, 1)}
        assert change_of(plan, "b").reason.startswith("gets 1 replica on spot-1, to make room for a on pool x: it has ")
        assert story.replicas("b", "spot") == 1
        assert moves(story.turn()) == {"b": (1, 0)}
        assert moves(story.turn()) == {"a": (0, 1)}
        assert all(plan.empty for plan in story.turns(20))
        assert (story.replicas("a"), story.replicas("b", "x"), story.replicas("b", "spot")) == (1, 0, 1)

    def test_nobody_moves_where_room_costs_more_than_whoever_comes_gains(self) -> None:
        assert all(plan.empty for plan in movers("b", saves=2.5).turns(5))

    def test_nobody_moves_where_its_place_would_be_too_small(self) -> None:
        assert all(plan.empty for plan in movers("b", "d", gpus=2).turns(5))

    def test_nobody_moves_who_has_no_place_to_give(self) -> None:
        assert moves(movers("z", beside="d").turn()) == {"z": (0, 1)}

    def test_nobody_moves_who_has_the_most_that_the_policy_allows(self) -> None:
        assert all(plan.empty for plan in movers("b", most=1).turns(5))

    def test_who_has_one_place_to_give_moves_once_however_many_are_missing(self) -> None:
        story = movers("b", "d")
        models = [
            each.model_copy(update={"max_replicas": 1}) if each.id == "d" else each for each in story.policy.models
        ]
        story.policy = story.policy.model_copy(
            update={"models": tuple(models)}
        )  # d may not have two, so it cannot move
        story.foresee("a", late(0, 150, 75, 0))
        assert moves(story.plan()) == {"b": (0, 1)}

    def test_no_more_of_them_move_than_there_is_room_needed(self) -> None:
        story = movers("b", "d")
        plan = story.plan()
        assert moves(plan) == {"b": (0, 1)}
        story.write(plan)
        story.kubernetes()
        story.wait(10.0)
        assert story.plan().empty  # one is on its way

    def test_the_replica_that_moves_is_no_surplus_however_long_it_loads(self) -> None:
        story = movers("b")
        story.write(story.plan())
        story.kubernetes()
        for _ in range(30):
            story.wait(10.0)
            assert story.plan().empty
        story.settle()
        assert moves(story.turn()) == {"b": (1, 0)}
