"""What the values put on pods reaches all that the service is run in."""

import pytest

from rebalancer.api.serving.server import ALL_ADDRESSES
from tests.chart.helm import EVERY_ACTUATION, Json, render


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_labels_and_annotations_of_yours_reach_the_pods_of_the_service_the_tier_and_the_hand_back(kind: str) -> None:
    yours: Json = {"podAnnotations": {"example.com/owner": "ml"}, "podLabels": {"team": "ml"}}
    metadata = render(EVERY_ACTUATION | yours | {"aggregate.enabled": True}).of(kind)[-1]["spec"]["template"][
        "metadata"
    ]
    assert metadata["labels"]["team"] == "ml"
    assert metadata["annotations"]["example.com/owner"] == "ml"


@pytest.mark.parametrize("told", ["podAnnotations", "podLabels"])
def test_the_hand_back_joins_no_mesh_that_the_service_joins(told: str) -> None:
    """A mesh's sidecar would keep its Job from ever ending."""
    joined = {"sidecar.istio.io/inject": "true", "linkerd.io/inject": "enabled"}
    chart = render(EVERY_ACTUATION | {told: joined})
    place = {"podAnnotations": "annotations", "podLabels": "labels"}[told]
    assert joined.items() <= chart.one("Deployment")["spec"]["template"]["metadata"][place].items()
    for job in chart.of("Job"):
        metadata = job["spec"]["template"]["metadata"]
        assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
        assert metadata["annotations"] == {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_where_a_pod_has_an_ipv6_address_alone_the_kubelet_is_answered_too(kind: str) -> None:
    (container,) = render({"aggregate.enabled": True}).one(kind)["spec"]["template"]["spec"]["containers"]
    hosts = [each["value"] for each in container["env"] if each["name"].endswith("_HOST")]
    assert set(hosts) == {ALL_ADDRESSES}


def test_on_openshift_no_pod_names_a_user_or_a_group_for_its_namespace_has_a_range_of_them() -> None:
    pools = [{"name": "a100", "nodeLabels": {"pool": "a100"}, "warmGpus": 1}]
    given: Json = EVERY_ACTUATION | {"aggregate.enabled": True, "writeMode": "act", "policy": {"pools": pools}}
    ids = {"runAsUser", "runAsGroup", "fsGroup"}
    kinds = ("Deployment", "StatefulSet", "Job")
    securities = [
        [each["spec"]["template"]["spec"]["securityContext"] for each in render(given | more).of(*kinds)]
        for more in ({}, {"openshift": True})
    ]
    usual, openshift = securities
    assert len(usual) == 4, "the service, the placeholders, the tier and the hand-back"
    assert all(security.keys() >= ids for security in usual)
    assert openshift == [{key: value for key, value in each.items() if key not in ids} for each in usual]
