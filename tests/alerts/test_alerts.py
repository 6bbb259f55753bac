"""Each alert in promtool: on its symptom it fires with these words, on the near miss it does not, and it ends."""

import json
import subprocess
from pathlib import Path

import pytest

from rebalancer.obs.metrics.alerts import ALERTS, RUNBOOKS
from rebalancer.obs.metrics.catalogue import METRICS
from tests.alerts.cases import CASES
from tests.alerts.story import Case, story_file
from tests.house.repository import ROOT
from tests.testbed.build import Missing
from tests.testbed.system import program

RULES = ROOT / "charts/rebalancer/files/alerts.yaml"
BY_NAME = {alert.name: alert for alert in ALERTS}


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return program("promtool")
    except Missing as missing:
        pytest.skip(str(missing))


def run(promtool: Path, *arguments: str | Path) -> str:
    """What it says; a failure of promtool is the test's."""
    command = [promtool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)  # noqa: S603  our own command
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.real
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_it_fires_on_its_symptom_with_the_numbers_not_on_the_near_miss_and_ends(
    promtool: Path, tmp_path: Path, case: Case
) -> None:
    alert = BY_NAME[case.alert]
    annotations = {
        "summary": alert.summary,
        "description": case.fired.description,
        "runbook_url": f"{RUNBOOKS}/{alert.name}.md",
    }
    fired = {"exp_labels": {**case.fired.labels, "severity": alert.severity}, "exp_annotations": annotations}
    stories = story_file(
        str(RULES), case.alert, [(case.symptom, [fired]), *((near, []) for near in case.near)], case.step_seconds
    )
    file = tmp_path / "story.yaml"
    file.write_text(json.dumps(stories))
    run(promtool, "test", "rules", file)


@pytest.mark.real
def test_promtool_accepts_the_rules(promtool: Path) -> None:
    assert f"{len(ALERTS)} rules found" in run(promtool, "check", "rules", RULES)


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == set(BY_NAME)


def test_a_description_says_what_is_affected() -> None:
    for alert in ALERTS:
        about_one = alert.name in {
            "RebalancerFailedOver",
            "RebalancerNotLeading",
            "RebalancerPolicyRefused",
            "RebalancerTwoLead",
            "RebalancerWritesStopped",
        }
        assert about_one or "$labels" in alert.description or "query" in alert.description, alert.name
        assert alert.description.endswith((".", "{{ end }}")), alert.name


def test_rules_name_only_metrics_that_exist() -> None:
    known = {metric.name for metric in METRICS}
    for alert in ALERTS:
        asked = {word for word in _words(f"{alert.expr} {alert.description}") if word.startswith("rebalancer_")}
        assert asked <= known, alert.name


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c in "_:" else " " for c in text).split())
