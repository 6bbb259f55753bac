"""Guard foreign: who else writes what we write is not fought with, and is named."""

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.snapshot import ForeignChange
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_autoscaler, an_override
from tests.planning.story import Story, moves, refusal_of, refused, unmet_of
from tests.planning.test_scenarios_bounds import on_a_fixed_pool
from tests.planning.test_scenarios_guards import a_donor_and_a_needy
from tests.planning.test_scenarios_overrides import state_of
from tests.planning.test_scenarios_shares import flat, steep


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
        assert unmet.why == (
            "stand-down until 08:09:00: argocd-controller changed Deployment b 2 times within 600 s; "
            "`rebalancer stand-up b` ends it"
        )

    def test_nor_are_its_pods_under_notice_replaced_in_the_middle_of_a_rollout(self) -> None:
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}))
        story.target("b", rolling=True)
        story.notice("a100-1")
        assert moves(story.plan()) == {"b": (4, 8)}
        story.target("b", foreign=by(60.0, 5.0))
        assert moves(story.plan()) == {}
        story.target("b", foreign=(), autoscaler=an_autoscaler(4, 4, other="search/rebalancer"))
        assert moves(story.plan()) == {}

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


def fought(*ages_seconds: float) -> Story:
    """B wants what a has, and somebody else changed a's numbers so long before NOW, which is 10 s ago."""
    story = a_donor_and_a_needy()
    story.target("a", foreign=by(*ages_seconds))
    return story


class TestRepair:
    def test_our_numbers_that_others_put_back_end_it_once_they_stood_for_30_s(self) -> None:
        story = fought(60.0, 40.0)
        story.target("a", repaired_at=NOW - 19.0)
        plan = story.plan()
        assert moves(plan) == {}
        assert refusal_of(plan, "foreign", "a").until == NOW + 11.0
        story.target("a", repaired_at=NOW - 20.0)
        plan = story.plan()
        assert moves(plan) != {}
        assert "foreign" not in {guard for guard, _ in refused(plan)}


class TestStandup:
    def test_a_person_ends_it_and_what_was_changed_before_counts_no_more(self) -> None:
        story = fought(60.0, 5.0)
        story.override(an_override("standUp", "a"))
        plan = story.plan()
        assert moves(plan) != {}
        assert (
            state_of(plan, "standUp-a").message
            == "what others change on a counts from the start anew; in force since 08:00:10"
        )

    def test_one_more_change_is_no_fight_and_two_more_are_told(self) -> None:
        story = fought(60.0, 5.0)
        story.override(an_override("standUp", "a"))
        story.plan()
        story.wait(20.0)
        story.target("a", foreign=by(5.0, -15.0))  # one from before, one from after
        assert moves(story.plan()) != {}
        story.target("a", foreign=by(-15.0, -20.0))
        plan = story.plan()
        assert moves(plan) == {}
        assert state_of(plan, "standUp-a").message.startswith("stand-down until 08:10:15: argocd-controller changed")

    def test_a_restart_remembers_since_when_the_persons_word_counts(self) -> None:
        story = fought(60.0, 5.0)
        story.override(an_override("standUp", "a"))
        story.plan()
        story.wait(30.0)
        story.target("a", foreign=by(-15.0, -20.0))
        story.kept = type(story.kept)()
        assert moves(story.plan()) == {}  # memory, which the checkpoint keeps, says that both came after it

    def test_taken_back_or_over_it_ends_nothing_any_more(self) -> None:
        story = fought(60.0, 5.0)
        story.override(an_override("standUp", "a"))
        story.plan()
        story.override()
        assert moves(story.plan()) == {}

    def test_of_two_the_one_that_we_saw_last_counts_whatever_the_clock_said_that_made_them(self) -> None:
        story = fought(60.0, 5.0)
        first = an_override("standUp", "a", created_at=NOW + 600.0, expires_at=NOW + 1200.0)
        story.override(first)
        story.plan()
        story.wait(30.0)
        story.target("a", foreign=by(-15.0, -20.0))
        assert moves(story.plan()) == {}
        second = an_override("standUp", "a", name="again", uid="uid-again", expires_at=NOW + 1200.0)
        story.override(first, second)
        plan = story.plan()
        assert moves(plan) != {}
        assert {state_of(plan, name).phase for name in ("standUp-a", "again")} == {"InForce"}

    def test_of_one_model_it_says_nothing_about_another(self) -> None:
        story = fought(60.0, 5.0)
        story.override(an_override("standUp", "b"))
        assert moves(story.plan()) == {}


class TestOverridesMeanwhile:
    def test_an_override_says_why_it_changes_nothing(self) -> None:
        story = fought(60.0, 5.0)
        story.override(an_override("pin", "a", 3))
        assert state_of(story.plan(), "pin-a").message == (
            "it waits: stand-down until 08:09:00: argocd-controller changed Deployment a 2 times within 600 s; "
            "`rebalancer stand-up a` ends it"
        )
        story.target("a", foreign=())
        assert state_of(story.plan(), "pin-a").message.startswith("a has 7 replicas and goes to 3; in force since")


class TestBorrower:
    """Of 8 GPUs a owns 2 and holds 5, b owns 6 and holds 3; we stand down on a."""

    WORDS = (
        "a keeps 3 GPUs beyond its own: stand-down until 08:09:00: argocd-controller changed Deployment a 2 times "
        "within 600 s; `rebalancer stand-up a` ends it"
    )

    def story(self, work: float = 0.0) -> Story:
        policy = a_policy(a_model("a", 1, entitlement=2), a_model("b", 1, entitlement=6), pools=(a_pool(gpus=8),))
        readings = {"a": {"concurrency": 4.0}, "b": {"concurrency": 24.0}}
        story = Story(policy, a_snapshot(policy, {"a": 5, "b": 3}, readings, {"b": work}))
        story.target("a", foreign=by(60.0, 5.0))
        return story

    def test_an_owner_is_told_who_keeps_what_it_lent(self) -> None:
        story = self.story()
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert (unmet.replicas, unmet.constraint, unmet.why) == (3, "foreign", self.WORDS)
        story.target("a", foreign=())
        assert moves(story.plan()) == {"a": (5, 2)}

    def test_so_it_is_where_shares_are_by_what_they_are_worth(self) -> None:
        story = self.story(work=2.0)
        story.foresee("a", flat(1, 8))
        story.foresee("b", steep(1, 8), level=2.0)  # its votes are not owed yet: its share is what is left
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert (unmet.constraint, unmet.why) == ("foreign", self.WORDS)

    def test_who_keeps_only_its_own_keeps_nothing_from_anybody(self) -> None:
        story = self.story()
        story.policy = a_policy(a_model("a", 1, entitlement=5), a_model("b", 1, entitlement=3), pools=(a_pool(gpus=8),))
        story.turn()
        unmet = unmet_of(story.plan(), "b")
        assert unmet is not None
        assert unmet.constraint == "budget"
