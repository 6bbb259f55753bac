"""The console's session: a cookie in place of a token, for our own pages only."""

import base64
import json
from http.cookies import SimpleCookie

import pytest

from rebalancer.api.auth.sessions import cookie_name
from tests.api.asking import HOST, NAMESPACE, Answer, Asked, replica, token
from tests.sandbox.hand_clock import START

JSON = {"Content-Type": "application/json"}
OURS = {"Origin": f"http://{HOST}", "Host": HOST}


def login_body(text: str = "sandbox-ann") -> bytes:
    return json.dumps({"token": text}).encode()


async def logged_in(api: Asked, text: str = "sandbox-ann", host: str = HOST) -> dict[str, str]:
    """The headers that a browser sends from then on."""
    answer = await api("POST", "/v1/session", {**JSON, "Host": host}, login_body(text))
    assert answer.status == 200, answer.body
    return {**cookie_of(answer), "Host": host}


def cookie_of(answer: Answer) -> dict[str, str]:
    """What the browser keeps of an answer's cookies."""
    cookies = [one for text in answer.headers.getall("Set-Cookie") for one in SimpleCookie(text).values()]
    return {"Cookie": "; ".join(f"{one.key}={one.value}" for one in cookies if one.value)}


async def test_a_token_becomes_a_cookie_that_no_script_reads_and_no_other_site_sends(api: Asked) -> None:
    answer = await api("POST", "/v1/session", {**JSON, "Host": HOST}, login_body())
    cookie = SimpleCookie(answer.headers["Set-Cookie"])[cookie_name(HOST)]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (True, "Strict", "/", "")
    assert "ann" not in cookie.value, "nobody reads a token over a shoulder"
    assert (await api("GET", "/v1/plan", {"Host": HOST, "Cookie": f"{cookie.key}={cookie.value}"})).status == 200


async def test_behind_tls_the_cookie_travels_by_tls_alone(api: Asked) -> None:
    answer = await api("POST", "/v1/session", {**JSON, "Host": HOST, "X-Forwarded-Proto": "https"}, login_body())
    assert SimpleCookie(answer.headers["Set-Cookie"])[cookie_name(HOST)]["secure"]


async def test_the_page_learns_who_it_is_and_what_it_may_do_where(api: Asked) -> None:
    def allow(_user: str, wanted: dict[str, str]) -> bool:
        return (wanted["verb"], wanted["resource"], wanted["namespace"]) in {
            ("get", "decisions", ""),
            ("create", "overrides", "serving"),
            ("delete", "overrides", NAMESPACE),
            ("create", "writestops", ""),
        }

    api.kubernetes.allow = allow
    cookie = await logged_in(api)
    page = (await api("GET", "/v1/session", cookie)).json
    assert page == {
        "user": "ann",
        "may": {
            "read": True,
            "override": ["serving"],
            "stop": True,
            "resume": False,
            "end": [NAMESPACE],
            "asked": [NAMESPACE, "serving"],
        },
        "expiresAt": "2027-01-15T16:00:00Z",
    }
    api.kubernetes.allow = lambda _user, _wanted: True
    api.clock.advance(11)
    assert (await api("GET", "/v1/session", cookie)).json["may"]["override"] == [NAMESPACE, "serving"]


async def test_a_bad_token_opens_no_session(api: Asked) -> None:
    answer = await api("POST", "/v1/session", JSON, login_body("wrong"))
    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers
    assert answer.json["where"] == "body.token"
    assert b"wrong" not in answer.body


async def test_a_session_is_good_at_every_replica(api: Asked) -> None:
    async with replica(api.clock, api.kubernetes) as other:
        cookie = await logged_in(api)
        assert (await other("GET", "/v1/session", cookie)).json["user"] == "ann"
        assert (await other("DELETE", "/v1/session", {**cookie, **OURS})).status == 204
        assert (await other("GET", "/v1/plan", cookie)).status == 401


async def test_consoles_at_two_ports_of_one_name_keep_their_sessions_apart(api: Asked) -> None:
    one = await logged_in(api, "sandbox-ann", "localhost:1")
    other = await logged_in(api, "sandbox-bob", "localhost:2")
    both = f"{one['Cookie']}; {other['Cookie']}"  # to a browser the ports of a name are one place
    for each, user in ((one, "ann"), (other, "bob")):
        assert (await api("GET", "/v1/session", {"Cookie": both, "Host": each["Host"]})).json["user"] == user
    ours = {"Cookie": both, "Host": "localhost:1", "Origin": "http://localhost:1"}
    gone = await api("DELETE", "/v1/session", ours)
    assert gone.headers["Set-Cookie"].partition("=")[0] == one["Cookie"].partition("=")[0]
    assert (await api("GET", "/v1/session", {"Cookie": both, "Host": "localhost:2"})).status == 200


@pytest.mark.parametrize("characters", [1000, 2500, 5600])
async def test_a_browser_with_many_consoles_forgets_the_sessions_that_end_first(api: Asked, characters: int) -> None:
    jar: dict[str, str] = {}  # of 127.0.0.1, which is one place whatever the port
    for port in range(1, 13):
        host = f"127.0.0.1:{port}"
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
        text = "sandbox-" + "a" * (characters - 8)
        answer = await api("POST", "/v1/session", {**JSON, **cookies, "Host": host}, login_body(text))
        for cookie in (one for text in answer.headers.getall("Set-Cookie") for one in SimpleCookie(text).values()):
            jar[cookie.key] = cookie.value
        jar = {name: value for name, value in jar.items() if value}
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
        assert len(cookies["Cookie"]) < 8190 - len("Cookie: "), "what a header of ours had room for before"
        assert (await api("GET", "/v1/plan", {**cookies, "Host": host})).status == 200
        api.clock.advance(60)
    last = [port for port in range(1, 13) if cookie_name(f"127.0.0.1:{port}") in jar]
    assert last == list(range(13 - len(last), 13))
    assert len(last) == {1000: 5, 2500: 2, 5600: 1}[characters]


async def test_cookies_that_are_too_many_already_let_their_owner_log_in(api: Asked) -> None:
    others = {f"{cookie_name(f'127.0.0.1:{port}')}": f"{port}." + "a" * 1400 for port in range(1, 9)}
    cookies = "; ".join(f"{name}={value}" for name, value in others.items())
    answer = await api("POST", "/v1/session", {**JSON, "Cookie": cookies}, login_body())
    gone = [text.partition("=")[0] for text in answer.headers.getall("Set-Cookie") if "Max-Age=0" in text]
    assert (answer.status, gone[-3:]) == (200, list(others)[:3])


async def test_a_cookie_whose_token_the_api_server_does_not_take_any_more_is_nobody(api: Asked) -> None:
    cookie = await logged_in(api)
    forged = cookie["Cookie"].replace(cookie["Cookie"].partition(".")[2], "d3Jvbmc")
    assert (await api("GET", "/v1/plan", {"Cookie": forged})).status == 401


@pytest.mark.parametrize("characters", [3000, 5600])
async def test_a_long_token_goes_in_pieces_that_browsers_keep(api: Asked, characters: int) -> None:
    answer = await api("POST", "/v1/session", JSON, login_body("sandbox-" + "a" * (characters - 8)))
    assert answer.status == 200, answer.body
    assert all(len(text) < 4096 for text in answer.headers.getall("Set-Cookie"))
    assert (await api("GET", "/v1/plan", cookie_of(answer))).status == 200


async def test_a_token_that_fits_into_no_cookie_is_refused_in_words(api: Asked) -> None:
    answer = await api("POST", "/v1/session", JSON, login_body("sandbox-" + "a" * 6000))
    assert (answer.status, "fits into no cookie" in answer.said) == (422, True)


async def test_logging_out_ends_the_session_on_the_server(api: Asked) -> None:
    cookie = await logged_in(api)
    assert (await api("DELETE", "/v1/session", {**cookie, **OURS})).status == 204
    assert (await api("GET", "/v1/plan", cookie)).status == 401


async def test_a_session_ends_after_eight_hours(api: Asked) -> None:
    cookie = await logged_in(api)
    api.clock.advance(8 * 3600 - 1)
    assert (await api("GET", "/v1/plan", cookie)).status == 200
    api.clock.advance(1)
    assert (await api("GET", "/v1/plan", cookie)).status == 401


async def test_a_session_never_outlives_its_token(api: Asked) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": START + 600}).encode()).rstrip(b"=").decode()
    cookie = await logged_in(api, f"sandbox-head.{claims}.signature")
    api.clock.advance(599)
    assert (await api("GET", "/v1/plan", cookie)).status == 200
    api.clock.advance(1)
    assert (await api("GET", "/v1/plan", cookie)).status == 401


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "cross-site"},
        {"Origin": f"http://{HOST}:8443"},
    ],
)
async def test_a_change_by_cookie_is_refused_unless_a_page_of_ours_asks(api: Asked, page: dict[str, str]) -> None:
    cookie = await logged_in(api)
    answer = await api("DELETE", "/v1/session", {**cookie, "Host": HOST, **page})
    assert answer.status == 403
    assert (await api("GET", "/v1/plan", cookie)).status == 200, "the session goes on"


async def test_behind_a_proxy_that_drops_the_port_the_browsers_word_for_one_origin_is_enough(api: Asked) -> None:
    cookie = await logged_in(api)
    page = {"Origin": f"http://{HOST}:8443", "Sec-Fetch-Site": "same-origin"}
    assert (await api("DELETE", "/v1/session", {**cookie, "Host": HOST, **page})).status == 204


async def test_a_bearer_token_needs_no_origin(api: Asked) -> None:
    assert (await api("DELETE", "/v1/session", token("ann"))).status == 204


@pytest.mark.parametrize(
    "value", ["", "x", "a" * 5000, '"; DROP', "é", "9.", ".x", "9" * 400 + ".x", "9.x.y", "9999999999.x"]
)
async def test_a_made_up_cookie_is_nobody(api: Asked, value: str) -> None:
    assert (await api("GET", "/v1/plan", {"Host": HOST, "Cookie": f"{cookie_name(HOST)}={value}"})).status == 401
