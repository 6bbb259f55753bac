"""All traps there are, and the look for all of them."""

from collections.abc import Iterator
from typing import Final

from rebalancer.survey.case import Case
from rebalancer.survey.finding import OK, SKIP, Finding
from rebalancer.survey.objects import address
from rebalancer.survey.traps import apis, budgets, growth, nodes, pods, scaling, telemetry, triggers

PAGE: Final = "docs/reference/traps.md"

CHAPTERS: Final = (
    ("Triggers of ScaledObjects", triggers.TRAPS),
    ("Bounds, and who else writes replicas", scaling.TRAPS),
    ("Workloads and their pods", pods.TRAPS),
    ("Disruption budgets and quotas", budgets.TRAPS),
    ("Karpenter and nodes", nodes.TRAPS),
    ("What adds and removes nodes", growth.TRAPS),
    ("Versions and fields", apis.TRAPS),
    ("Alerts and exporters", telemetry.TRAPS),
)
"""The traps by what they are in, in the order of the page about them."""

TRAPS: Final = tuple(trap for _, traps in CHAPTERS for trap in traps)


def judged(case: Case) -> Iterator[Finding]:
    """Every trap looked for in every object that can have it, then the kinds of what none was looked for in."""
    seen: set[int] = set()
    for trap in TRAPS:
        for about, problem, fix in trap.look(case):
            seen.add(id(about))
            file = case.survey.file_of(about)
            if problem:
                yield Finding(trap.state, address(about), problem, fix, trap.key, f"{PAGE}#{trap.key}", file)
            else:
                yield Finding(OK, address(about), "", "", trap.key, "", file)
    left = {str(each.get("kind")) for each in case.survey.objects if id(each) not in seen}
    for kind in sorted(left):
        yield Finding(SKIP, f"kind/{kind}", "no GPUs in them, or no trap is known for them")
