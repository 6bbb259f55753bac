"""Guard owner: a number that somebody else owns is found before the first write, and named with the way out."""

from rebalancer.domain.snapshot import AppliedView, OwnerView
from tests.builders import an_autoscaler, an_override
from tests.planning.story import Story, moves, refusal_of, refused, unmet_of
from tests.planning.test_scenarios_bounds import on_a_fixed_pool, ours
from tests.planning.test_scenarios_guards import a_donor_and_a_needy


def kserve(of_kind: str = "Deployment", name: str = "a", mode: str = "") -> tuple[OwnerView, ...]:
    return (OwnerView("serving.kserve.io", "InferenceService", name, mode, of_kind=of_kind, of_name=name),)


class TestOwner:
    def test_what_a_controller_writes_back_is_neither_donor_nor_recipient_and_it_is_named(self) -> None:
        story = a_donor_and_a_needy()
        assert moves(story.plan()) != {}
        story.target("a", owners=kserve())
        plan = story.plan()
        assert moves(plan) == {}
        refusal = refusal_of(plan, "owner", "a")
        assert refusal.numbers == {"by": "InferenceService a"}
        assert refusal.until is None
        assert refusal.why.startswith("Deployment a belongs to InferenceService a, which writes its HPA")
        assert "autoscalerClass: external" in refusal.why

    def test_its_own_need_says_what_it_waits_for(self) -> None:
        story = a_donor_and_a_needy()
        story.target("b", owners=kserve(name="b"))
        plan = story.plan()
        assert moves(plan) == {}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "owner"
        assert "autoscalerClass: external" in unmet.why

    def test_with_kserves_consent_it_is_moved_like_any_other(self) -> None:
        story = a_donor_and_a_needy()
        expected = moves(story.plan())
        story.target("a", owners=kserve(mode="external"))
        assert moves(story.plan()) == expected

    def test_bounds_of_an_autoscaler_that_a_controller_writes_back_are_not_taken_over(self) -> None:
        story = on_a_fixed_pool(4, 6, an_autoscaler(2, 9, kind="HorizontalPodAutoscaler", originals=None))
        assert not story.plan().empty
        story.target("b", owners=kserve("HorizontalPodAutoscaler", "b"))
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "owner", "b").why.startswith("HorizontalPodAutoscaler b belongs to InferenceService b")

    def test_nor_is_anything_replaced_there_in_the_middle_of_a_rollout_and_no_person_passes_it(self) -> None:
        story = a_donor_and_a_needy(held=4, gpus=5)
        story.target("a", owners=kserve(), rolling=True)
        story.notice("a100-1", karpenter=True)
        assert "a" not in moves(story.plan())
        story = a_donor_and_a_needy()
        story.target("a", owners=kserve())
        story.override(an_override("pin", "a", 3))
        assert moves(story.plan()) == {}

    def test_who_is_only_told_changes_no_plan(self) -> None:
        story = a_donor_and_a_needy()
        expected = moves(story.plan())
        story.target(
            "a",
            applied=(AppliedView("argocd-controller", ("replicas",), "serving", of_kind="Deployment", of_name="a"),),
        )
        story.target("b", owners=(OwnerView("example.com", "Thing", "b", of_kind="Deployment", of_name="b"),))
        plan = story.plan()
        assert moves(plan) == expected
        assert "owner" not in {guard for guard, _ in refused(plan)}

    def test_two_of_one_target_are_refused_with_both_names(self) -> None:
        story = on_a_fixed_pool(4, 6, ours(2, 9, beside=("HorizontalPodAutoscaler mine",)))
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "owner", "b").why == (
            "ScaledObject b and HorizontalPodAutoscaler mine scale Deployment b, and each sets its own number; delete "
            "all but one of them"
        )

    def test_a_scaled_object_that_somebody_paused_is_named_also_while_nothing_is_short(self) -> None:
        story: Story = on_a_fixed_pool(2, 2, an_autoscaler(1, 10, paused=True))
        plan = story.plan()
        assert plan.empty
        assert "remove its annotation `autoscaling.keda.sh/paused`" in refusal_of(plan, "owner", "b").why
        story = on_a_fixed_pool(2, 2, an_autoscaler(1, 10, paused=True), actuation="scale")
        assert "owner" not in {guard for guard, _ in refused(story.plan())}
