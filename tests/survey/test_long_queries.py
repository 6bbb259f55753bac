"""What tenants write into their queries, whatever it is, costs the doctor no time: the service looks at it, too."""

import pytest

from rebalancer.survey.case import Case
from rebalancer.survey.finding import OK
from rebalancer.survey.objects import Survey
from rebalancer.survey.traps.table import judged
from tests.survey.manifests import a_deployment, a_rule, a_scaled_object, a_trigger

LENGTH = 200_000


def used_over_free(query: str) -> int:
    """How often the trap of that name is in a rule and a ScaledObject with `query`, among all other traps."""
    case = Case(Survey((a_deployment(), a_rule(query), a_scaled_object(a_trigger(query=query)))))
    return sum(each.trap == "used-over-free" and each.state != OK for each in judged(case))


@pytest.mark.parametrize(
    "query",
    [f"DCGM_FI_DEV_FB_USED{LENGTH * ' '}x", LENGTH * "DCGM_FI_DEV_FB_USED{", f"queued_requests{LENGTH * ' '}x"],
    ids=["spaces", "braces", "bare"],
)
def test_no_query_keeps_the_doctor_from_ending(query: str) -> None:
    assert used_over_free(query) == 0


def test_a_trap_is_seen_through_any_number_of_spaces() -> None:
    assert used_over_free(f"DCGM_FI_DEV_FB_USED{LENGTH * ' '}\n/ DCGM_FI_DEV_FB_FREE") == 2
