"""What is allowed in a policy and does less than its author may believe is a warning, and the file is good."""

from rebalancer.settings.doubts import warnings_of
from rebalancer.settings.policy_file import checked_bytes
from rebalancer.settings.problem import Problem
from tests.settings.a_policy_text import line_of, spoilt


def warnings(text: str) -> tuple[Problem, ...]:
    return warnings_of(checked_bytes(text.encode(), "policy.yaml"), "policy.yaml")


def test_a_file_that_was_checked_needs_no_second_reading_for_its_warnings() -> None:
    text = spoilt(("name: sdxl}", "name: sdxl, kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1}"))
    (warning,) = warnings(text)
    assert (warning.file, warning.line) == ("policy.yaml", line_of(text, "name: sdxl, kind"))
    assert warnings("models: [") == ()
