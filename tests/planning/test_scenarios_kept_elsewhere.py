"""Why a model's share is no larger: who keeps the other GPUs of its pool, where it is not worth that gives them away.

b has a level of 7.5, and each of 13 replicas would save it 50 late requests; 8 GPUs are there, of which a holds some.
"""

import pytest

from rebalancer.domain.policy import Model
from rebalancer.domain.readings import Work
from rebalancer.planning.demand.votes import UNTIL_LEARNT
from tests.builders import a_model, an_override
from tests.planning.story import Story, unmet_of
from tests.planning.test_scenarios_shares import Late, a_pair, a_story, flat, steep

WORTH = "each GPU left goes to the model where it saves the most late requests"


def beside(a: Model, late: Late | None, held: int = 4) -> Story:
    """Where a holds `held` replicas and expects to be `late`, b has the others."""
    story = a_story(
        a_pair(a, a_model("b")), {"a": held, "b": 8 - held}, {} if late is None else {"a": late}, {"b": 7.5}
    )
    story.foresee("b", steep(1, 13), level=7.5)
    return story


def why(story: Story) -> str:
    """Why b has no more."""
    unmet = unmet_of(story.plan(), "b")
    assert unmet is not None
    return unmet.why


@pytest.mark.parametrize(
    ("load", "signals", "keeps"),
    [
        (
            {"concurrency": 3.0, "latency": 0.0},
            {"concurrency": {}, "latency": True},
            f" {UNTIL_LEARNT}",
        ),
        ({}, {"latency": True}, ", since its demand is unknown: latency was never seen"),
    ],
)
def test_gpus_of_a_model_that_gives_none_while_its_need_is_unknown_are_not_said_to_be_worth_more_there(
    load: dict[str, float], signals: object, keeps: str
) -> None:
    story = beside(a_model("a", signals=signals, entitlement=4), late=None)
    story.load("a", load, Work())
    assert why(story) == f"its share of a100 is 4 replicas: a keeps its 4{keeps}, and {WORTH}"


def test_gpus_that_a_person_keeps_elsewhere_are_said_to_be_kept_by_that_override() -> None:
    # A floor of 5 for a, which gains nothing.
    story = beside(a_model("a"), flat(1, 8), held=1)
    story.override(an_override("floor", "a", 5))
    assert why(story) == (f"its share of a100 is 3 replicas: floor 5 by override floor-a keeps a at 5, and {WORTH}")


@pytest.mark.parametrize("kind", ["pause", "freeze"])
def test_gpus_of_a_model_that_a_person_leaves_as_it_is_are_said_to_be_kept_by_that_override(kind: str) -> None:
    story = beside(a_model("a"), flat(1, 8))
    story.override(an_override(kind, "a"))
    assert why(story) == f"its share of a100 is 4 replicas: {kind} by override {kind}-a keeps a at 4, and {WORTH}"


def test_without_such_a_claim_it_is_worth_that_decides() -> None:
    story = beside(a_model("a", 0, entitlement=0), steep(1, 8, 60.0))
    assert why(story).endswith("since the other GPUs there keep more requests from being late elsewhere")
