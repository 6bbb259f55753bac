"""What schedules say is kept while it stands: whoever asks again hears the same as who asks for the first time."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.policy import Model
from rebalancer.planning.overrides.schedules import Scheduled, resolve_schedules, scheduled_at
from tests.builders import a_policy, a_pool, a_snapshot
from tests.domain.test_schedules import LEADS, MODELS, WEEKS, a_schedule, a_scheduled_model, utc

STEPS = st.lists(st.floats(-7200.0, 86_400.0) | st.sampled_from([0.0, 0.1, 10.0, 59.9, 60.0]), min_size=1, max_size=6)


def said(model: Model, at: float, load_seconds: float) -> Scheduled:
    """By the model in a policy, asked as a plan does."""
    policy = a_policy(model, pools=(a_pool(),))
    snapshot = replace(a_snapshot(policy, {"b": 2}), at=at)
    views = tuple(replace(view, load_seconds=load_seconds) for view in snapshot.models)
    return resolve_schedules(replace(snapshot, models=views), policy)["b"]


@given(MODELS.filter(lambda model: bool(model.schedules)), WEEKS, STEPS, LEADS, LEADS)
@settings(max_examples=20)
def test_asked_again_they_say_the_same_as_asked_for_the_first_time(
    model: Model, day: str, steps: list[float], lead: float, other: float
) -> None:
    at = utc(day)
    for number, step in enumerate(steps):
        at += step
        load_seconds = (lead, other)[number % 3 == 2]  # a start is measured anew
        found, fresh = said(model, at, load_seconds), scheduled_at(model, at, load_seconds + 10.0)
        assert (found.standing, found.turn) == (fresh.standing, fresh.turn)
        assert (found.floor_words, found.cap_words, found.words) == (fresh.floor_words, fresh.cap_words, fresh.words)


def test_within_a_minute_without_a_change_nothing_is_computed_again() -> None:
    model = a_scheduled_model(a_schedule())
    first = said(model, utc("2027-01-15T07:00:05"), 50.0)
    assert said(model, utc("2027-01-15T07:00:55"), 50.0) is first
    assert said(model, utc("2027-01-15T07:01:00"), 50.0) is not first


def test_a_change_within_a_minute_is_not_overslept() -> None:
    # 06:30 UTC less the start of 50.5 s and a planning period of 10 s.
    model = a_scheduled_model(a_schedule())
    at = utc("2027-01-15T06:28:59")
    assert [said(model, at + later, 50.5).standing.floor for later in (0.4, 0.5)] == [2, 6]


def test_another_policy_with_a_model_of_the_same_name_is_another() -> None:
    at = utc("2027-01-15T07:00:05")
    assert said(a_scheduled_model(a_schedule()), at, 50.0).standing.floor == 6
    assert said(a_scheduled_model(a_schedule(minReplicas=4)), at, 50.0).standing.floor == 4


def test_asked_for_an_earlier_instant_as_in_a_replay_they_say_what_held_then() -> None:
    model = a_scheduled_model(a_schedule())
    assert [said(model, utc(f"2027-01-15T{at}"), 50.0).standing.floor for at in ("07:00:05", "05:00:05")] == [6, 2]
