"""What the values put on pods reaches all that the service is run in."""

import pytest

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
