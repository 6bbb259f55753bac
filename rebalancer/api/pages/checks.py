"""The Health page's findings: what `rebalancer doctor` asks the service, and the traps in objects it may read."""

from rebalancer.api.pages.values.checks import Checks
from rebalancer.api.ports.page_data import PageData, TrapLook
from rebalancer.api.text.checks import of_snapshot, of_status
from rebalancer.api.text.printed import printed
from rebalancer.survey.finding import FAIL, OK, STATES, WARN

MOST = 200  # findings on one page; a fleet with more in them has one cause, and the command tells all


def checked(data: PageData, looked: TrapLook) -> Checks:
    """The worst first; of what is well it counts how much there is."""
    findings = [*of_status(data.status), *of_snapshot(data.snapshot), *looked.findings]
    findings.sort(key=lambda each: (STATES.index(each.state), each.about, each.trap))
    bad = [each for each in findings if each.state in {FAIL, WARN}]
    return Checks(
        at=data.status.at,
        findings=tuple(printed(each) for each in bad[:MOST]),
        looked_at=looked.at,
        unread=looked.unread,
        well=sum(each.state == OK for each in findings),
    )
