"""Guard foreign: who else writes what we write is not fought with, and is named."""

from rebalancer.domain.cluster import Originals
from rebalancer.domain.snapshot import ForeignChange
from tests.builders import NOW, an_autoscaler, an_override
from tests.planning.story import moves, refusal_of, refused, unmet_of
from tests.planning.test_scenarios_bounds import on_a_fixed_pool
from tests.planning.test_scenarios_guards import a_donor_and_a_needy


def by(*ages_seconds: float, manager: str = "argocd-controller") -> tuple[ForeignChange, ...]:
    return tuple(ForeignChange(NOW - age, manager) for age in ages_seconds)


class TestForeign:
    def test_after_two_changes_in_ten_minutes_a_target_is_neither_donor_nor_is_it_fought_over(self) -> None:
        story = a_donor_and_a_needy()
        story.target("a", foreign=by(580.0, 5.0))
        plan = story.plan()
        assert moves(plan) == {}
        refusal = refusal_of(plan, "foreign", "a")
        assert refusal.numbers == {"manager": "argocd-controller", "changes": 2, "window_seconds": 600.0}
        assert refusal.why == "argocd-controller changed Deployment a 2 times within 600 s"
        assert refusal.until == NOW + 20.0

    def test_nor_is_it_a_recipient_and_its_need_says_why(self) -> None:
        story = a_donor_and_a_needy()
        story.target("b", foreign=by(60.0, 5.0))
        plan = story.plan()
        assert moves(plan) == {}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "foreign"

    def test_bounds_stay_as_they_are(self) -> None:
        story = on_a_fixed_pool(4, 6, an_autoscaler(2, 9, originals=Originals(1, 10)))
        assert not story.plan().empty
        story.target("b", foreign=(*by(60.0), *by(5.0, manager="kubectl-edit")))
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "foreign", "b").why == (
            "argocd-controller, kubectl-edit changed ScaledObject b 2 times within 600 s"
        )

    def test_an_autoscaler_that_another_installation_holds_is_left_alone_and_it_is_named(self) -> None:
        story = on_a_fixed_pool(4, 6, an_autoscaler(2, 9, other="search/rebalancer"))
        plan = story.plan()
        assert plan.empty
        refusal = refusal_of(plan, "foreign", "b")
        assert refusal.numbers == {"manager": "search/rebalancer"}
        assert refusal.why == (
            "ScaledObject b is held by installation search/rebalancer: take the model out of one of the two policies"
        )

    def test_a_drain_and_a_person_do_not_pass_it(self) -> None:
        story = a_donor_and_a_needy(held=4, gpus=5)
        story.target("a", foreign=by(60.0, 5.0))
        story.notice("a100-1", karpenter=True)
        assert "a" not in moves(story.plan())
        story = a_donor_and_a_needy()
        story.target("a", foreign=by(60.0, 5.0))
        story.override(an_override("pin", "a", 3))
        assert moves(story.plan()) == {}

    def test_one_change_is_none_and_two_are_forgotten_after_ten_minutes(self) -> None:
        for changes in (by(5.0), by(600.0, 5.0)):
            story = a_donor_and_a_needy()
            story.target("a", foreign=changes)
            plan = story.plan()
            assert moves(plan) != {}
            assert "foreign" not in {guard for guard, _ in refused(plan)}

    def test_the_other_models_go_on(self) -> None:
        story = a_donor_and_a_needy()
        expected = moves(story.plan())
        story.target("b", foreign=by(5.0))
        assert moves(story.plan()) == expected
