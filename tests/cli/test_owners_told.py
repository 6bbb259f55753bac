"""Who owns a target's numbers, where people look: `explain`, `status`, `doctor` and the console, in shadow too."""

from msgspec.structs import replace

from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.overview import overview
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.text.checks import of_snapshot, of_status
from rebalancer.api.text.explain import render_explain
from rebalancer.cli.render import render_status
from rebalancer.domain.snapshot import AppliedView, OwnerView
from rebalancer.survey.finding import FAIL, WARN
from tests.builders import an_autoscaler
from tests.cli.scene import STATUS
from tests.planning.story import Story
from tests.planning.test_scenarios_guards import a_donor_and_a_needy

KSERVE = OwnerView("serving.kserve.io", "InferenceService", "a", of_kind="Deployment", of_name="a")
ARGO = AppliedView("argocd-controller", ("replicas",), "serving", of_kind="Deployment", of_name="b")


def story() -> Story:
    """A is an InferenceService's, and Argo CD applies the replicas of b."""
    found = a_donor_and_a_needy()
    found.target("a", owners=(KSERVE,))
    found.target("b", applied=(ARGO,))
    return found


def test_explain_says_by_what_a_target_is_moved_and_who_else_writes_there() -> None:
    seen = story()
    plan = seen.plan()
    said = render_explain(plan, seen.snapshot, "a")
    assert "moved   not at all: guard owner" in said
    assert "refused a " in said
    assert "serving.kserve.io/autoscalerClass: external" in said
    said = render_explain(plan, seen.snapshot, "b")
    assert "moved   by the rebalancer, through the replicas of Deployment b" in said
    assert "owner   Argo CD (serving) applies replicas of Deployment b from a manifest" in said
    assert "jsonPointers /spec/replicas" in said
    seen.target("b", autoscaler=an_autoscaler())
    assert "moved   by the rebalancer, through the bounds of ScaledObject b" in render_explain(plan, seen.snapshot, "b")


def test_status_names_the_refused_and_counts_the_rest() -> None:
    plan = story().plan()
    text = render_status(replace(STATUS, plan=plan, write_mode="shadow"))
    (line,) = [each for each in text.splitlines() if each.startswith("Not written: ")]
    assert line.startswith("Not written: a: Deployment a belongs to InferenceService a, which")
    (refusal,) = [each for each in plan.refusals if each.guard == "owner"]
    text = render_status(replace(STATUS, plan=replace(plan, refusals=(refusal,) * 7)))
    assert text.count("Not written: ") == 4
    assert "And 3 more targets of others." in text


def test_doctor_fails_on_the_refused_and_warns_of_the_told() -> None:
    seen = story()
    of_a = [each for each in of_status(replace(STATUS, plan=seen.plan())) if each.about == "model/a"]
    assert [(each.state, "InferenceService a" in each.said) for each in of_a] == [(FAIL, True)]
    of_b = [each for each in of_snapshot(seen.snapshot) if each.about == "model/b" and each.fix]
    assert [(each.state, each.said.partition(" applies")[0]) for each in of_b] == [(WARN, "Argo CD (serving)")]
    assert "RespectIgnoreDifferences=true" in of_b[0].fix


def test_the_console_lists_both_among_what_needs_a_person() -> None:
    seen = story()
    status = replace(STATUS, plan=seen.plan(), write_mode="shadow")
    page = overview(PageData("e1", status, seen.snapshot, seen.policy), ModelsQuery(), {})
    told = {item.model: item.text for item in page.attention if "Inference" in item.text or "Argo" in item.text}
    assert told.keys() == {"a", "b"}
    assert "stand-up" not in told["a"]
    assert told["b"].startswith("b: Argo CD (serving) applies")


def test_doctor_warns_of_bounds_that_keda_does_not_pass_on() -> None:
    seen = a_donor_and_a_needy()
    passed_on, not_yet, paused = an_autoscaler(1, 4), an_autoscaler(1, 3), an_autoscaler(1, 3, paused=True)
    for scaler, words in (
        (passed_on, []),
        (replace(not_yet, effective_maximum=6), [f"ScaledObject {not_yet.name} allows 3, its HPA 6: where that lasts"]),
        (replace(paused, effective_maximum=6), []),
    ):
        seen.target("b", autoscaler=scaler)
        warnings = [each for each in of_snapshot(seen.snapshot) if "its HPA" in each.said]
        assert [each.said.partition(" longer")[0] for each in warnings] == words
        assert all((each.about, each.state) == ("model/b", WARN) for each in warnings)
