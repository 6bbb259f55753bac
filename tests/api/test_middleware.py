"""What holds for every route: hosts, headers, limits, errors that say what, where and what to do."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Trusting
from rebalancer.api.auth.rate_limits import BURST, PER_SECOND, STREAMS, ApiCaller, Streams
from rebalancer.api.http.responses import ApiError
from rebalancer.api.http.route import Handler, Route
from rebalancer.api.serving.middleware import protected
from rebalancer.api.serving.routes import api_app
from tests.api.asking import HOST, Asked, asking, token
from tests.api.decided import some_status_port
from tests.sandbox.hand_clock import HandClock


@pytest.mark.parametrize(
    "host",
    [HOST, f"{HOST}:8080", HOST.upper(), "localhost", "127.0.0.1:1", "[::1]:80", "10.0.0.7", "rb.gpu.svc:80"],
)
async def test_our_names_and_addresses_are_answered(api: Asked, host: str) -> None:
    assert (await api("GET", "/v1/plan", {**token("ann"), "Host": host})).status == 200


@pytest.mark.parametrize("host", ["evil.example", f"{HOST}.evil.example", "", "[::1", "127.0.0.1.evil.example", "%00"])
async def test_a_foreign_name_that_points_here_is_refused_also_where_no_token_is_needed(
    api: Asked, open_api: Asked, host: str
) -> None:
    for asked in (api, open_api):
        for path in ("/v1/plan", "/v1/openapi.json", "/console/"):
            answer = await asked("GET", path, {**token("ann"), "Host": host})
            assert answer.status in (400, 421)
            assert answer.json["where"] == "Host"


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/nothing", "/v1/openapi.json", "/console/"])
async def test_every_answer_forbids_what_a_browser_might_do_with_it(api: Asked, path: str) -> None:
    answer = await api("GET", path)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "aiohttp" not in answer.headers["Server"]
    if path.startswith("/v1"):
        assert answer.headers["Cache-Control"] == "no-store"


async def test_a_page_of_another_site_changes_nothing_where_no_token_is_needed(open_api: Asked) -> None:
    for page in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert (await open_api("DELETE", "/v1/session", page)).status == 403
    assert (await open_api("DELETE", "/v1/session")).status == 204, "a command sends no such header"
    assert (await open_api("GET", "/v1/session")).json["user"] == "local"


async def test_who_asks_too_often_is_told_when_to_come_back_and_others_are_not_held_up(api: Asked) -> None:
    codes = [(await api("GET", "/v1/plan", token("ann"))).status for _ in range(int(BURST) + 1)]
    assert codes == [200] * int(BURST) + [429]
    answer = await api("GET", "/v1/plan", token("ann"))
    assert answer.headers["Retry-After"] == "1"
    assert "20 times a second" in answer.said
    assert (await api("GET", "/v1/plan", token("bob"))).status == 200
    api.clock.advance(1.0)
    codes = [(await api("GET", "/v1/plan", token("ann"))).status for _ in range(int(PER_SECOND) + 1)]
    assert codes == [200] * int(PER_SECOND) + [429]


async def test_guessing_tokens_is_as_slow_and_asks_the_api_server_no_more_often(api: Asked) -> None:
    assert (await api("GET", "/v1/plan", token("ann"))).status == 200
    codes = [
        (await api("GET", "/v1/plan", {"Authorization": f"Bearer guess-{number}"})).status
        for number in range(int(BURST) + 5)
    ]
    assert codes[-6:] == [429] * 6
    assert api.reviews("tokenreviews") == BURST
    assert (await api("GET", "/v1/plan", token("ann"))).status == 200, "whoever is known gets in past the guesser"


class OneAccount(Trusting):
    """Every token is one of the team's account."""

    trusting = False


async def test_of_people_who_share_an_account_each_has_a_pace_of_their_own() -> None:
    async with asking(OneAccount()) as api:
        codes = [(await api("GET", "/v1/plan", token("ann"))).status for _ in range(int(BURST) + 1)]
        assert codes[-1] == 429
        assert (await api("GET", "/v1/plan", token("bob"))).status == 200


async def test_the_red_button_is_not_refused_to_who_has_asked_too_often(api: Asked) -> None:
    codes = [(await api("GET", "/v1/plan", token("head"))).status for _ in range(int(BURST) + 1)]
    assert codes[-1] == 429
    pressed = {**token("head"), "Content-Type": "application/json"}
    assert (await api("POST", "/v1/writes/stop", pressed, b'{"reason":"fire"}')).status != 429


async def test_the_red_button_is_not_refused_to_who_is_new_here_since_others_of_their_address_guess(api: Asked) -> None:
    async def press(user: str) -> int:
        pressed = {**token(user), "Content-Type": "application/json"}
        return (await api("POST", "/v1/writes/stop", pressed, b'{"reason":"fire"}')).status

    guesses = [{"Authorization": f"Bearer guess-{number}"} for number in range(int(BURST) + 1)]
    assert [(await api("GET", "/v1/plan", guess)).status for guess in guesses][-1] == 429
    assert await press("head") != 429
    before = api.reviews("tokenreviews")
    codes = [await press(f"guess-{number}") for number in range(50)]
    assert codes[-1] == 429, "presses by guessing are few"
    assert api.reviews("tokenreviews") - before < 15


async def test_streams_are_counted_while_they_are_open() -> None:
    streams, ann, bob = Streams(2), ApiCaller("ann"), ApiCaller("bob")
    with streams.opened(ann), streams.opened(bob):
        with streams.opened(ann), pytest.raises(ApiError, match="ann has 2 streams open"), streams.opened(ann):
            pytest.fail("a third")
        with streams.opened(ann):
            pass
    assert STREAMS >= 6, "a browser's tabs"


def _request(handler: Handler, *, streams: bool = False) -> tuple[Handler, web.Request]:
    route = Route("GET", "/v1/x", handler, "x", permission=None, streams=streams)
    app = api_app(some_status_port(), Authentication(Trusting(), HandClock()), routes=(route,))
    return protected(route), make_mocked_request("GET", "/v1/x", headers={"Host": HOST}, app=app)


@pytest.mark.looptime
async def test_a_request_ends_within_ten_seconds_and_a_stream_lasts_five_minutes() -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(1000)
        return web.Response()

    started = asyncio.get_running_loop().time()
    handle, request = await asyncio.to_thread(_request, slow)
    with pytest.raises(ApiError, match="not answered within 10 s"):
        await handle(request)
    assert asyncio.get_running_loop().time() - started == pytest.approx(10, abs=0.1)
    handle, request = await asyncio.to_thread(_request, slow, streams=True)
    started = asyncio.get_running_loop().time()
    with pytest.raises(ConnectionResetError):
        await handle(request)
    assert asyncio.get_running_loop().time() - started == pytest.approx(300, abs=0.1)


async def test_what_nobody_expected_is_a_503_with_an_id_and_no_trace(api: Asked) -> None:
    del api.status_port.seen
    answer = await api("GET", "/v1/snapshot", token("ann"))
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert "id " in answer.said
    assert b"Traceback" not in answer.body
    assert b"seen" not in answer.body


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "TRACE"])
async def test_other_methods_are_refused_and_the_answer_names_those_there_are(api: Asked, method: str) -> None:
    answer = await api(method, "/v1/session", token("ann"))
    assert answer.status == 405
    assert answer.headers["Allow"] == "DELETE, GET, HEAD, POST"


@pytest.mark.parametrize("path", ["/v1/explain/a?nope=1", "/v1/plan?x="])
async def test_a_parameter_that_is_not_there_is_said_not_ignored(api: Asked, path: str) -> None:
    answer = await api("GET", path, token("ann"))
    assert answer.status == 400
    assert answer.json["where"].startswith("query.")
