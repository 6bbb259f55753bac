"""The switch of a drain: it brings its own rights and policies, and says on which nodes."""

import pytest

from tests.chart.helm import EVERYWHERE, Json, Refused, Right, render
from tests.chart.test_rendered import EVENTS, OWN, environment

DRAIN: Json = {"drain": {"enabled": True, "nodeLabels": [{"pool": "a100"}, {"pool": "h100", "zone": "a"}]}}


def test_a_drain_brings_cordons_evictions_and_deletions_each_with_its_policy() -> None:
    off, on = render(), render(DRAIN)
    assert on.rights - off.rights == {
        Right(EVERYWHERE, "", "nodes", "get"),
        Right(EVERYWHERE, "", "nodes", "patch"),
        Right(EVERYWHERE, "", "pods/eviction", "create"),
        Right(EVERYWHERE, "", "pods", "delete"),
        Right(EVERYWHERE, "", "pods", "patch"),
        EVENTS,
        OWN,
        OWN._replace(verb="update"),
    }
    before, after = ({each["metadata"]["name"] for each in one.of("ValidatingAdmissionPolicy")} for one in (off, on))
    assert after - before == {f"rebalancer.gpu.{name}" for name in ("nodes", "evictions", "deletions", "pods")}
    assert {each["spec"]["policyName"] for each in on.of("ValidatingAdmissionPolicyBinding")} == after
    assert (environment(off)["DRAIN_NODES"], environment(on)["DRAIN_NODES"]) == ("false", "true")


def test_with_namespaces_named_pods_are_evicted_in_these_alone() -> None:
    rights = render(DRAIN | {"namespaces": ["serving"]}).rights
    assert {right.where for right in rights if right.resource == "pods/eviction"} == {"serving"}
    assert {right.where for right in rights if (right.resource, right.verb) == ("pods", "delete")} == {"serving"}


def test_with_namespaces_named_events_about_nodes_go_where_what_has_no_namespace_has_its_events() -> None:
    rights = render(DRAIN | {"namespaces": ["serving"]}).rights
    assert {right.where for right in rights if right.resource == "events"} == {"serving", "default"}


def test_a_drain_without_a_word_on_which_nodes_is_refused() -> None:
    with pytest.raises(Refused, match="/drain/nodeLabels"):
        render({"drain": {"enabled": True}})
