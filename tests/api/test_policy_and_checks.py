"""The policy's page and the Health page's findings, as the API answers them."""

import msgspec

from rebalancer.api.pages.checks import checked
from rebalancer.api.pages.policy_page import policy_page
from rebalancer.api.ports.page_data import PageData, PolicyChange, TrapLook
from rebalancer.domain.policy import Policy
from rebalancer.domain.sync import Sync
from rebalancer.survey.finding import FAIL, OK, WARN, Finding
from tests.api.scenes import PAGE_DATA, POLICY
from tests.builders import NOW


def data_with(**changed: object) -> PageData:
    status = msgspec.structs.replace(PAGE_DATA.status, **changed)
    return PageData(PAGE_DATA.epoch, status, PAGE_DATA.snapshot, POLICY, PAGE_DATA.loans)


def test_the_policys_text_is_the_policy_without_what_is_default() -> None:
    page = policy_page(data_with())
    assert Policy.model_validate_json(page.text) == POLICY
    assert len(page.text) < len(msgspec.json.encode(POLICY.to_mapping()))
    assert (page.since, page.before, page.differences) == (None, "", ())


def test_the_last_change_is_told_with_its_instant_and_what_was_other() -> None:
    change = PolicyChange(NOW - 60.0, "0123", ("models.chat.maxReplicas 4 -> 6",), "/etc/policy.yaml")
    data = PageData(PAGE_DATA.epoch, PAGE_DATA.status, PAGE_DATA.snapshot, POLICY, policy_change=change)
    page = policy_page(data)
    assert (page.since, page.before, page.file) == (NOW - 60.0, "0123", "/etc/policy.yaml")
    assert page.differences == change.differences


def test_findings_come_worst_first_and_what_is_well_is_counted() -> None:
    trap = Finding(WARN, "scaledobject/serving/chat", "its trigger never scales", "metricType: Value", "average-of-one")
    fine = Finding(OK, "nodepool/spot", "", trap="consolidation")
    page = checked(data_with(sync=Sync(missing=("pods",))), TrapLook(NOW - 30.0, (trap, fine), ("ResourceQuota: no",)))
    assert [each.state for each in page.findings] == sorted(
        (each.state for each in page.findings), key=[FAIL, WARN].index
    )
    assert page.findings[0] == Finding(
        FAIL, "service", "not read yet: pods", "its log says which right or CRD it lacks"
    )
    assert trap in page.findings
    assert all(each.state != OK for each in page.findings)
    assert page.well > 0
    assert (page.looked_at, page.unread) == (NOW - 30.0, ("ResourceQuota: no",))


def test_before_the_first_look_no_trap_is_said_not_to_be_there() -> None:
    assert checked(data_with(), TrapLook()).looked_at is None
