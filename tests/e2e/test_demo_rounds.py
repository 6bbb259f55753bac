"""Who is called short in the demo: whoever will be late, early; nobody by a surge that is over."""

from typing import NamedTuple

import pytest

from tests.e2e.demo_rounds import MODELS, POLICY, START, STORY, Rounds

SLO_SECONDS = 4.0
SURGE_AT, EBB_AT = STORY[0][0], STORY[0][0] + STORY[1][0]  # seconds from the start


class Second(NamedTuple):
    """One model at one second: replicas it is told to be short of, what votes ask for, what it has, how late it is."""

    at: float
    model: str
    short: int
    asked: int
    has: int
    latency: float
    late: float

    @property
    def at_ease(self) -> bool:
        """Its votes ask for no more than it has, and its requests are far from late."""
        return self.asked <= self.has and self.latency < SLO_SECONDS / 2


@pytest.fixture(scope="module")
def seconds() -> list[Second]:
    """Every second of the story and of a round after it."""
    noted: list[Second] = []

    def look(rounds: Rounds) -> None:
        plan = rounds.service.plan
        assert plan is not None
        for model in plan.models:
            line = rounds.world.lines[model.model].line
            if line.slo_seconds is None:
                continue
            asked = next((step.numbers for step in model.steps if step.stage == "readings"), {})
            votes = [vote for vote in asked.values() if isinstance(vote, int)]
            short = next((row.replicas for row in plan.unmet if row.model == model.model), 0)
            latency = line.latencies[0] if line.latencies is not None else 0.0
            has = model.ready + model.loading
            noted.append(Second(rounds.now - START, model.model, short, max(votes), has, latency, line.late))

    Rounds(look=look).play(1)
    return noted


def test_once_a_surge_is_over_nobody_at_ease_is_called_short_by_it(seconds: list[Second]) -> None:
    # A few seconds are what tells an ebb from chance.
    for model in MODELS:
        mine = [second for second in seconds if second.model == model]
        called = [second.at for second in mine if second.short and second.at_ease]
        assert len(called) <= 8, (model, called)


def test_a_surge_is_called_short_before_its_first_request_is_late(seconds: list[Second]) -> None:
    chat = [second for second in seconds if second.model == "chat" and SURGE_AT <= second.at < EBB_AT]
    told = next(second.at for second in chat if second.short)
    late = next(second.at for second in chat if second.late > chat[0].late + 1.0)
    assert told < late
    assert told - SURGE_AT <= POLICY.surge.short_window_seconds + POLICY.plan_every_seconds + 3.0
