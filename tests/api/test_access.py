"""Who gets in and what they may do, as the (embedded) API server says."""

import asyncio
from dataclasses import dataclass

import pytest

from rebalancer.api.auth.authority import Principal
from rebalancer.api.auth.token_reviews import Reviews
from rebalancer.kube.resources import TOKENREVIEWS, Object, Resource
from tests.api.asking import Asked, token
from tests.sandbox.hand_clock import HandClock

READS = ("/v1/status", "/v1/plan", "/v1/snapshot", "/v1/explain/a")


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic x"}, {"Authorization": "Bearer nonsense"}])
@pytest.mark.parametrize("path", READS)
async def test_without_a_good_token_nothing_is_read_and_the_answer_says_how_to_get_one(
    api: Asked, path: str, headers: dict[str, str]
) -> None:
    answer = await api("GET", path, headers)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "rebalancer login" in answer.said


@pytest.mark.parametrize("path", READS)
async def test_whoever_may_get_decisions_reads(api: Asked, path: str) -> None:
    assert (await api("GET", path, token("ann"))).status == 200


async def test_whoever_may_not_is_told_which_right_is_missing(api: Asked) -> None:
    api.kubernetes.allow = lambda user, wanted: (
        (user, wanted["verb"], wanted["resource"])
        != (
            "bob",
            "get",
            "decisions",
        )
    )
    answer = await api("GET", "/v1/plan", token("bob"))
    assert answer.status == 403
    assert "bob may not get decisions.rebalancer.io" in answer.said
    assert (await api("GET", "/v1/plan", token("ann"))).status == 200


async def test_the_api_server_is_asked_once_a_minute_for_a_token_and_every_ten_seconds_for_a_right(api: Asked) -> None:
    for _ in range(3):
        await asyncio.gather(*(api("GET", "/v1/plan", token("ann")) for _ in range(4)))
    assert (api.reviews("tokenreviews"), api.reviews("subjectaccessreviews")) == (1, 1)
    api.clock.advance(11)
    await api("GET", "/v1/plan", token("ann"))
    assert (api.reviews("tokenreviews"), api.reviews("subjectaccessreviews")) == (1, 2)
    api.clock.advance(50)
    await api("GET", "/v1/plan", token("ann"))
    assert api.reviews("tokenreviews") == 2


async def test_a_right_that_was_taken_away_ends_within_ten_seconds(api: Asked) -> None:
    assert (await api("GET", "/v1/plan", token("ann"))).status == 200
    api.kubernetes.allow = lambda _user, _wanted: False
    api.clock.advance(11)
    assert (await api("GET", "/v1/plan", token("ann"))).status == 403


async def test_while_the_api_server_is_away_nobody_new_gets_in_and_is_told_to_come_back(api: Asked) -> None:
    assert (await api("GET", "/v1/plan", token("ann"))).status == 200
    await api.kubernetes.stop()
    answer = await api("GET", "/v1/plan", token("bob"))
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "cannot be checked" in answer.said
    assert (await api("GET", "/v1/plan", token("ann"))).status == 200, "her token was approved this minute"
    api.clock.advance(61)
    assert (await api("GET", "/v1/plan", token("ann"))).status == 503


async def test_a_token_appears_in_no_answer(api: Asked) -> None:
    for headers in (token("ann"), {"Authorization": "Bearer very-secret"}):
        answer = await api("GET", "/v1/nothing", headers)
        again = await api("GET", "/v1/plan", headers)
        assert b"very-secret" not in answer.body + again.body
        assert b"sandbox-ann" not in answer.body + again.body


@dataclass
class Authenticator:
    """An API server that vouches for every token, and names these audiences."""

    audiences: tuple[str, ...]

    async def review(self, resource: Resource, spec: Object) -> Object:
        assert (resource, spec["audiences"]) == (TOKENREVIEWS, ["rebalancer"])
        return {"authenticated": True, "user": {"username": "ann"}, "audiences": list(self.audiences)}


@pytest.mark.parametrize(
    ("audiences", "bearer"), [((), None), (("other",), None), (("other", "rebalancer"), Principal("ann"))]
)
async def test_a_token_counts_only_where_its_review_names_our_audience(
    audiences: tuple[str, ...], bearer: Principal | None
) -> None:
    """An authenticator that knows nothing of audiences names none: its token was made for somebody else."""
    reviews = Reviews(HandClock())
    reviews.kube = Authenticator(audiences)
    assert await reviews.who("token") == bearer


async def test_a_refused_token_is_not_asked_for_again_at_once_but_soon(api: Asked) -> None:
    for _ in range(3):
        await api("GET", "/v1/plan", {"Authorization": "Bearer old"})
    assert api.reviews("tokenreviews") == 1
    api.clock.advance(11)
    await api("GET", "/v1/plan", {"Authorization": "Bearer old"})
    assert api.reviews("tokenreviews") == 2
