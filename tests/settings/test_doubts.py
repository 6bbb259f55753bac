"""What is allowed in a policy and does less than its author may believe is a warning, and the file is good."""

import pytest

from rebalancer.settings.doubts import warnings_of
from rebalancer.settings.policy_file import checked_bytes
from rebalancer.settings.problem import Problem
from tests.settings.a_policy_text import line_of, spoilt


def warnings(text: str) -> tuple[Problem, ...]:
    return warnings_of(checked_bytes(text.encode(), "policy.yaml"), "policy.yaml", own_topics=())


def test_a_file_that_was_checked_needs_no_second_reading_for_its_warnings() -> None:
    text = spoilt(("name: sdxl}", "name: sdxl, kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1}"))
    (warning,) = warnings(text)
    assert (warning.file, warning.line) == ("policy.yaml", line_of(text, "name: sdxl, kind"))
    assert warnings("models: [") == ()


ONLY_A100 = ("      - {pool: spot, name: qwen-spot}\n", "")
A100_IS_SPOT = ("kind: primary\n", "kind: primary\n    capacityType: spot\n")
A100_IS_TYPED = ("{pool: a100}", "{node.kubernetes.io/instance-type: p4d.24xlarge}")
SPOT_IS_TYPED = ("{pool: spot}", "{node.kubernetes.io/instance-type: g6.12xlarge}")


def capped(cap: str) -> tuple[str, str]:
    return "entitlement: 4\n", f"entitlement: 4\n    {cap}\n"


@pytest.mark.parametrize(
    ("changes", "floors"),
    [
        ((A100_IS_SPOT, ONLY_A100, capped("spotReplicas: 0")), ["minReplicas", "schedules.rush.minReplicas"]),
        ((A100_IS_SPOT, ONLY_A100, capped("spotReplicas: 2")), ["schedules.rush.minReplicas"]),
        ((A100_IS_SPOT, ONLY_A100, capped("spotReplicas: 3")), []),
        ((A100_IS_SPOT, capped("spotReplicas: 0")), []),  # the other target has no cap
        ((A100_IS_SPOT, capped("spotReplicas: 1\n    elasticReplicas: 1")), ["schedules.rush.minReplicas"]),
        ((A100_IS_SPOT, capped("spotReplicas: 1\n    elasticReplicas: 2")), []),
        ((A100_IS_TYPED, ONLY_A100, capped("placeReplicas: 2")), ["schedules.rush.minReplicas"]),
        ((A100_IS_TYPED, SPOT_IS_TYPED, capped("placeReplicas: 2")), []),  # in two places
    ],
)
def test_a_floor_that_the_model_s_own_caps_forbid_is_a_warning(
    changes: tuple[tuple[str, str], ...], floors: list[str]
) -> None:
    assert [each.path for each in warnings(spoilt(*changes))] == [f"models.qwen-32b.{floor}" for floor in floors]


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ((capped("spotReplicas: 4"),), ["models.qwen-32b.spotReplicas"]),
        ((ONLY_A100, capped("elasticReplicas: 4")), ["models.qwen-32b.elasticReplicas"]),
        ((capped("placeReplicas: 4"),), ["models.qwen-32b.placeReplicas"]),
        ((capped("elasticReplicas: 4"),), []),
    ],
)
def test_a_cap_on_pools_that_the_model_does_not_have_is_a_warning(
    changes: tuple[tuple[str, str], ...], paths: list[str]
) -> None:
    assert [each.path for each in warnings(spoilt(*changes))] == paths


@pytest.mark.parametrize(("gpus", "doubted"), [(16, False), (32, True)])
def test_a_node_of_more_gpus_than_its_pool_may_have_is_a_warning(gpus: int, *, doubted: bool) -> None:
    text = spoilt(("gpusPerNode: 8\n", f"gpusPerNode: {gpus}\n"))
    assert bool(warnings(text)) == doubted
