"""What the values put on pods reaches all that the service is run in."""

import pytest

from tests.chart.helm import EVERY_ACTUATION, Json, render


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job"])
def test_labels_and_annotations_of_yours_reach_the_pods_of_the_service_the_tier_and_the_hand_back(kind: str) -> None:
    """A mesh's sidecar that is kept out of the service only would keep the hand-back's Job from ever ending."""
    yours: Json = {"podAnnotations": {"sidecar.istio.io/inject": "false"}, "podLabels": {"team": "ml"}}
    metadata = render(EVERY_ACTUATION | yours | {"aggregate.enabled": True}).of(kind)[-1]["spec"]["template"][
        "metadata"
    ]
    assert metadata["labels"]["team"] == "ml"
    assert metadata["annotations"] == {"sidecar.istio.io/inject": "false"}
