"""Each alert has a page, and each page's commands do what the page says while the alert's fault is there."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from rebalancer.app import Service
from tests.runbooks.faults import FAULTS, Fault
from tests.runbooks.page import FOLDER, SECTIONS, page
from tests.runbooks.stage import ACCOUNT, ALERTS, Said, Stage, a_stage
from tests.testbed.build import Missing
from tests.testbed.system import program

NAMES = sorted({fault.alert for fault in FAULTS})


def alerts() -> set[str]:
    """The names of all our alerts."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}


def test_every_alert_has_a_page_and_a_fault_and_every_page_an_alert() -> None:
    assert alerts() == {file.stem for file in FOLDER.glob("*.md")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_meaning_impact_diagnosis_and_mitigation_in_this_order(name: str) -> None:
    read = page(name)
    assert read.heading == name
    assert tuple(read.sections) == SECTIONS
    assert all(text.strip() for text in read.sections.values())
    assert read.commands("Diagnosis"), "a diagnosis begins with a command"


@pytest.fixture
async def stage(tmp_path: Path, may_block: None, fault: Fault) -> AsyncIterator[Stage]:
    try:
        program("prometheus")
    except Missing as missing:
        pytest.skip(missing.reason)
    async with a_stage(tmp_path, fault.times, fault.speed) as stage:
        yield stage


async def run(stage: Stage, section: str, name: str, service: Service | None = None) -> list[Said]:
    """Run what a section tells to run; each command is one that exists, with arguments it takes."""
    lines = [command.line for command in page(name).commands(section) if not command.not_run]
    said = [await stage.run(line, service) for line in lines]
    assert all(each.code != 2 and "Traceback" not in each.text for each in said), said
    return said


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
async def test_the_page_names_what_is_broken_and_its_mitigation_or_the_repair_ends_the_alert(
    fault: Fault, stage: Stage
) -> None:
    await fault.inject(stage)

    async def ended() -> bool:
        return not await stage.firing(fault.alert)

    await stage.until(lambda: stage.firing(fault.alert), f"{fault.alert} fires")
    replicas = [replica for replica in (stage.service, stage.second) if replica is not None]
    said = [each for replica in replicas for each in await run(stage, "Diagnosis", fault.alert, replica)]
    diagnosis = "\n".join(each.text for each in said)
    assert re.search(fault.cause, diagnosis), diagnosis
    mitigation = await run(stage, "Mitigation", fault.alert)
    assert all(each.code == 0 for each in mitigation), mitigation
    if fault.repair is not None:
        await fault.repair(stage)
    if fault.lasts:
        return
    await stage.until(ended, f"{fault.alert} ends")


def scaled(stage: Stage, since: int) -> list[str]:
    """What the service, whichever of them, has scaled since that many entries were in the audit log."""
    ours = [entry for entry in stage.sandbox.kubernetes.audit[since:] if entry.user == ACCOUNT and entry.code < 300]
    return [entry.path for entry in ours if entry.path.endswith("/scale")]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.alert == "RebalancerTwoLead"])
async def test_after_the_stop_that_the_page_tells_neither_of_two_writes_until_writes_are_resumed(
    fault: Fault, stage: Stage
) -> None:
    await fault.inject(stage)
    assert stage.second is not None
    both = (stage.service, stage.second)
    stop, resume = [command.line for command in page(fault.alert).commands("Mitigation") if not command.not_run]

    async def moves() -> bool:
        return bool(scaled(stage, since))

    async def heard() -> bool:
        return all(one.reporter.snapshot().write_stop is not None for one in both)

    async def want() -> bool:
        refused = [one.plan.refusals if one.plan is not None else () for one in both]
        return all(any(each.guard == "stop" for each in refusals) for refusals in refused)

    assert (await stage.run(stop)).code == 0
    await stage.until(heard, "both have heard of the stop")
    since = len(stage.sandbox.kubernetes.audit)
    stage.cluster.dials["chat"].turn(52.0, stage.clock.now(), 3.0)
    await stage.until(want, "both would write")
    assert scaled(stage, since) == []
    assert (await stage.run(resume)).code == 0
    await stage.until(moves, "they write again")
