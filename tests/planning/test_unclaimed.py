"""An owner whose votes do not count yet lacks replicas, and is told so with the instant at which they will.

b owns 5 of 8 GPUs and has 2; a has the others. 0.4 replicas of work are expected, for which 2 suffice; 3.5 come in this
surge, and 20 requests in flight ask for all 5. Votes count once they have stood for 20 s.
"""

from msgspec.structs import replace

from rebalancer.api.text.summary import changes_when, summary
from rebalancer.domain.plan import Plan
from rebalancer.domain.readings import Work
from rebalancer.planning.demand.votes import poll
from tests.builders import NOW
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, decision_of, unmet_of
from tests.planning.test_scenarios_lending import CALLED, a_lender
from tests.planning.test_scenarios_shares import steep

COUNTS = "its votes ask for 5 of the 5 that it owns since 08:00:00, which counts from 08:00:20 on"


def in_a_surge(late: float, in_flight: float = CALLED) -> Story:
    """`late`: of 60 requests until the horizon, with the 2 replicas that b has."""
    story = a_lender(a=6, b=2, in_flight=in_flight)
    story.foresee("a", steep(1, 8), level=5.0)
    outlook = an_outlook({count: late if count < 3 else 0.0 for count in range(1, 9)}, 2, level=0.4, shifted=0.4)
    story.look_ahead("b", replace(outlook, base=0.4))
    loads = [
        replace(load, work=Work(3.5, 1.2, 0.4, 1.2)) if load.model == "b" else load for load in story.snapshot.loads
    ]
    story.snapshot = replace(story.snapshot, loads=tuple(loads))
    return story


def the_sentence(story: Story, plan: Plan) -> str:
    """What stands above the model's page in the console."""
    model = next(each for each in story.policy.models if each.id == "b")
    load = next(each for each in story.snapshot.loads if each.model == "b")
    ballot = poll(model, load, 2, story.policy.classes.realtime, story.policy.guards.blind, NOW)
    return summary(model, decision_of(plan, "b"), load, ballot, unmet_of(plan, "b"), NOW)


def test_an_owner_whose_votes_do_not_count_yet_is_not_told_as_content() -> None:
    story = in_a_surge(late=0.0)
    plan = story.plan()
    assert decision_of(plan, "b").demand == 2
    assert unmet_of(plan, "b") is None, "nobody is late, nor will be: nobody is called"
    assert decision_of(plan, "b").why.endswith(f"; lacks 3 replicas: {COUNTS}")
    assert the_sentence(story, plan).endswith(": lacks 3 of its own until its votes count, at 08:00:20")
    rest = (plan.models, story.memory.loans, plan.refusals, ())
    model = next(each for each in story.policy.models if each.id == "b")
    would = list(changes_when(model, decision_of(plan, "b"), story.snapshot, *rest))
    assert f"own: lacks 3 replicas: {COUNTS}; a burst is mostly over before" in would


def test_it_is_short_where_more_than_one_request_in_a_hundred_will_be_late_meanwhile() -> None:
    row = unmet_of(in_a_surge(late=0.7).plan(), "b")
    assert row is not None
    assert (row.replicas, row.constraint) == (3, "waiting")
    assert row.why == f"{COUNTS}; lends 3 GPUs to a: its work and its votes claim 2 of the 5 that it owns by now"


def test_who_asks_for_no_more_than_it_has_is_fine() -> None:
    story = in_a_surge(late=0.0, in_flight=8.0)
    plan = story.plan()
    assert "lacks" not in decision_of(plan, "b").why
    assert the_sentence(story, plan).endswith(": fine")
