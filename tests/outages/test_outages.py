"""Each cell of the table "An outage, hour by hour" in docs/operations.md: the test's docstring is the cell.

`tests/docs/test_outages.py` holds both together. What people see is in `tests/app/test_outages_seen.py`.
"""

import pytest

from tests.outages.plays import Play, played

# An hour of the whole service's parts: 8 s of a core of its own.
pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

FRESH_SECONDS = 15.0
SAMPLE_SECONDS = 5.0  # so old may a model's last reading be when the link is cut
CAP_SECONDS = 1200.0  # of the play's person
BACKLOG_CYCLES = 5  # at least so many were decided while records of the outage still waited


def demands(play: Play, since: float, until: float) -> dict[str, set[int | None]]:
    """What plans said that each model needs."""
    found: dict[str, set[int | None]] = {}
    for turn in play.stage.between(since, until):
        for model in turn.plan.models:
            found.setdefault(model.model, set()).add(model.demand)
    return found


def scaled(play: Play, since: float, until: float) -> list[tuple[str, int, int]]:
    return [written[1:] for written in play.stage.scaled(since, until)]


def caught_up_at(play: Play) -> float:
    """When the last record that had waited was read."""
    return next(turn.at for turn in play.stage.between(play.back, play.end) if not turn.unread)


def decided_in_the_backlog(play: Play) -> set[str]:
    """Models whose demand was known, or of whom something was taken, while records waited; overrides' aside."""
    waiting = [turn for turn in play.stage.between(play.back, caught_up_at(play)) if turn.unread]
    assert len(waiting) > BACKLOG_CYCLES
    known = {model.model for turn in waiting for model in turn.plan.models if model.demand is not None}
    return known | {change.model for turn in waiting for change in turn.plan.changes if change.kind == "release"}


# --- Kafka, an hour


def test_kafka_decided() -> None:
    """For up to 15 s what it decided before.

    Then every model is blind and keeps what it has, however its load changes. What a person decides is done at once,
    and ends at its time; what it moved stays.
    """
    play = played("kafka")
    asked = play.cut + 300.0
    known = demands(play, play.cut, play.cut + FRESH_SECONDS - SAMPLE_SECONDS)
    assert None not in {demand for each in known.values() for demand in each}
    assert demands(play, play.cut + FRESH_SECONDS + 2, asked) == {"chat": {None}, "code": {None}, "image": {None}}
    assert scaled(play, play.cut, play.back) == [("chat", 7, 5), ("code", 1, 3), ("chat", 5, 4)]
    first = play.stage.scaled(asked, play.back)[0][0]
    assert first - asked <= 4.0
    cap_ends = asked + CAP_SECONDS
    assert play.stage.port.phase("ov-0", cap_ends - 1.0) == "InForce"
    assert play.stage.port.phase("ov-0", cap_ends + 10.0) == "Expired"
    assert demands(play, cap_ends + 10.0, asked + 1500.0)["chat"] == {None}, "until the pin"
    assert demands(play, asked + 2110.0, play.back)["chat"] == {None}, "and after it"


def test_kafka_refused() -> None:
    """Whatever would take from a model: guard `blind`, which names the age of its readings.

    A person's `cap`, `pin` or `drain` is not refused.
    """
    play = played("kafka")
    refusals = [each for turn in play.stage.between(play.cut, play.back) for each in turn.plan.refusals]
    assert {(each.guard, each.subject) for each in refusals} == {("blind", "chat")}
    assert "concurrency is 302 s old" in refusals[0].why
    assert play.stage.refused(play.cut, play.back) == {}
    assert {("chat", 7, 5), ("chat", 5, 4)} <= set(scaled(play, play.cut, play.back)), "by a cap, and by a pin"


def test_kafka_caught_up() -> None:
    """Every record, notices and overrides first.

    The hour's readings fill the history and decide nothing: a model is blind until one of its readings is younger than
    15 s. A notice that still runs is acted on in the first cycle, one whose time has passed is not. A signed override
    of the last 5 minutes is taken, an older one is a dead letter. A checkpoint within its period.
    """
    play = played("kafka")
    stage = play.stage
    assert stage.process is not None
    assert stage.turns[-1].unread == 0
    assert decided_in_the_backlog(play) <= {"image"}, "an override and a notice speak for image"
    first = stage.between(play.back + 1.0, play.end)[0]
    assert [(change.kind, change.model) for change in first.plan.changes] == [("replace", "image")]
    assert all("a100-2" not in str(drain) for turn in stage.turns for drain in turn.plan.drains)
    assert all(model.doomed == 0 for turn in stage.turns for model in turn.plan.models if model.model != "image")
    assert [rejection.reason for rejection, _ in stage.broker.letters] == ["override-late"]
    assert stage.port.phase("ov-3", play.end) == "InForce"
    loads = {load.model: load for load in stage.process.state.peek(stage.clock.now()).loads}
    assert all(load.work.slow is not None for load in loads.values())
    kept_at = stage.kept.at
    assert kept_at is not None
    assert kept_at > play.back
    assert scaled(play, caught_up_at(play), play.end), "then it goes on"


# --- the API server, ten minutes


def test_api_server_decided() -> None:
    """Nothing.

    The leader writes no more 7 s after its last renewal and ends itself; it comes up again, and every replica waits for
    lists of the cluster. Autoscalers and Deployments keep the numbers they have.
    """
    play = played("api")
    (ended,) = play.stage.ends
    assert ended - play.cut <= 8.0
    assert scaled(play, play.cut, play.back) == []
    waiting = play.stage.between(ended, play.back)
    assert waiting
    assert all(turn.plan.empty and not turn.acts for turn in waiting)


def test_api_server_refused() -> None:
    """People's overrides and write stops, by every door: they are objects there.

    A signed record waits for as long as it is good; what was good for less is a dead letter.
    """
    play = played("api")
    assert "does not answer" in play.refused_people
    assert [rejection.reason for rejection, _ in play.stage.broker.letters] == ["override-late"]
    assert play.stage.door.made == []


def test_api_server_caught_up() -> None:
    """All is listed, then what came by Kafka since the checkpoint is read: a notice of those minutes is known.

    A replica leads within 9 s. Nothing is decided on readings of the outage, and nothing is taken
    before the last record is read.
    """
    play = played("api")
    stage = play.stage
    assert decided_in_the_backlog(play) == set()
    acting = next(turn.at for turn in stage.between(play.back, play.end) if turn.acts)
    assert acting - play.back <= 9.0
    at, *first = stage.scaled(play.back, play.end)[0]
    assert first == ["chat", 7, 6]
    assert at >= caught_up_at(play)
    assert ("image", 2, 4) in scaled(play, play.back, play.end), "the notice of those minutes is acted on at its time"


# --- both


def test_both_decided() -> None:
    """As without Kafka, until the API server goes, too.

    Then the leader ends itself, and no replica acts again before Kafka is back, for none knows what the last leader
    wrote. So a short absence of the API server in a long one of Kafka stops the service for the rest of it.
    """
    play = played("both")
    (ended,) = play.stage.ends
    assert ended - play.cut <= 310.0
    assert play.stage.between(ended, play.back) == []
    assert play.waited == "Kafka cannot be read"
    assert scaled(play, play.cut, play.back) == []


def test_both_refused() -> None:
    """While the API server is away, as without it.

    Once it is back overrides can be made, and wait for a leader.
    """
    play = played("both")
    assert "does not answer" in play.refused_people
    assert [made.kind for made in play.stage.door.made] == ["cap"]
    assert scaled(play, play.cut, play.back) == []


def test_both_caught_up() -> None:
    """First the checkpoint and the writes since, then the cluster, then the records.

    An override that ended meanwhile is `Expired`, and was never applied. Then as without Kafka.
    """
    play = played("both")
    assert play.stage.port.phase("ov-0", play.end) == "Expired"
    assert decided_in_the_backlog(play) == set()
    before = [turn.plan.changes for turn in play.stage.between(play.back, caught_up_at(play))]
    assert not any(before)
    moved = scaled(play, caught_up_at(play), play.end)
    assert moved[:2] == [("chat", 7, 6), ("code", 1, 2)], "one replica at a step: what the cap was for is not made up"
