"""What an enemy sends: each gets a short answer for people, and the next request is served."""

import asyncio
import gzip
import json
import re

import pytest

from tests.api.asking import Asked, token

JSON = {"Content-Type": "application/json"}


async def raw(api: Asked, sent: bytes, seconds: float = 8.0) -> bytes:
    """What the server says to bytes on a bare connection until it closes or has said enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.servers.api_port)
    try:
        writer.write(sent)
        async with asyncio.timeout(seconds):
            return await reader.read(4096)
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def head(*lines: str, method: str = "GET", path: str = "/v1/plan") -> bytes:
    """A request's head for ann."""
    all_lines = (f"{method} {path} HTTP/1.1", "Host: localhost", "Authorization: Bearer sandbox-ann", *lines)
    return "\r\n".join((*all_lines, "", "")).encode()


@pytest.fixture(autouse=True)
async def still_served(api: Asked) -> None:
    """Bob is let in before; each test asks as him at its end."""
    assert (await api("GET", "/v1/plan", token("bob"))).status == 200


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (head(*(f"X-{number}: {'y' * 4000}" for number in range(6))), 431),
        (head("Cookie: " + "y" * 17_000), 431),
        (head("X-Long: " + "y" * 70_000), 400),
        (head(*(f"X-{number}: y" for number in range(10_000))), 400),
        (head(path="/v1/" + "x" * 60_000), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" * 20 + b"\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (head("Content-Length: 5", "Transfer-Encoding: chunked"), 400),
        (head("Content-Length: -1"), 400),
        (head("Content-Length: 99999999999", "Content-Type: application/json", method="POST", path="/v1/session"), 413),
        (
            b"GET /v1/plan HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n",
            401,
        ),
        (b"GET /v1/plan HTTP/1.1\r\nHost: \xff\xfe\r\nConnection: close\r\n\r\n", 421),
    ],
    ids=[
        "headers",
        "cookies",
        "header",
        "many",
        "path",
        "tls",
        "version",
        "smuggled",
        "negative",
        "length",
        "token",
        "host",
    ],
)
async def test_malformed_and_oversized_requests_are_refused_at_once(api: Asked, sent: bytes, code: int) -> None:
    answer = await raw(api, sent)
    assert status(answer) == code
    assert b'"error":' in answer
    assert b"nosniff" in answer
    assert b"aiohttp" not in answer
    assert b"Traceback" not in answer
    assert (await api("GET", "/v1/plan", token("bob"))).status == 200


async def test_a_body_without_a_length_is_cut_at_64_kib(api: Asked) -> None:
    async def chunks() -> bytes:
        start = head("Transfer-Encoding: chunked", "Content-Type: application/json", method="POST", path="/v1/session")
        return await raw(api, start + (b"4000\r\n" + b" " * 0x4000 + b"\r\n") * 5 + b"0\r\n\r\n")

    assert status(await chunks()) == 413


async def test_a_body_that_trickles_is_given_up_after_five_seconds(api: Asked) -> None:
    sent = head("Content-Length: 60", "Content-Type: application/json", method="POST", path="/v1/session")
    answer = await raw(api, sent + b'{"token":')
    assert status(answer) == 408
    assert b"body" in answer


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "malformed|Expecting"),
        (b"{", "Expecting"),
        (b"[" * 60_000, "recursion|nested|malformed|Expecting"),
        (b'{"token":"a","token":"b"}', "'token' stands twice"),
        (b'{"token":NaN}', "malformed|invalid"),
        (b'{"token":' + b"9" * 5000 + b"}", "limit|integer"),
        (b'{"token":"\xff\xfe"}', "utf-8|utf8"),
        (b'{"token":7}', r"text is needed.*body\.token"),
        (b'{"token":""}', r"it is empty.*body\.token"),
        (b'{"token":"a","extra":1}', "the key extra is unknown"),
        (b"null", "a JSON object is needed"),
        (b'{"token":"' + b"a" * 9000 + b'"}', "allowed up to 8192 characters"),
    ],
    ids=["empty", "cut", "deep", "twice", "nan", "number", "utf8", "type", "short", "unknown", "null", "long"],
)
async def test_a_bad_body_is_answered_with_what_is_wrong_and_where(api: Asked, body: bytes, said: str) -> None:
    answer = await api("POST", "/v1/session", JSON, body)
    assert answer.status == 400
    assert answer.json["where"].startswith("body")
    assert len(answer.body) < 600
    assert re.search(said, answer.said, re.IGNORECASE), answer.said


async def test_another_kind_of_body_is_refused_by_name(api: Asked) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = await api("POST", "/v1/session", {"Content-Type": kind}, b'{"token":"sandbox-ann"}')
        assert answer.status == 415
        assert answer.json["where"] == "Content-Type"


async def test_a_compressed_body_is_not_blown_up(api: Asked) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 60_000
    assert (await api("POST", "/v1/session", {**JSON, "Content-Encoding": "gzip"}, bomb)).status == 400


@pytest.mark.parametrize(
    "name", ["%00", "..%2f..%2fetc", "%0d%0aSet-Cookie:%20a=b", "<script>alert(1)</script>", "a" * 3000, "%ff%fe", "é"]
)
async def test_a_hostile_name_comes_back_as_text_in_json_and_short(api: Asked, name: str) -> None:
    answer = await api("GET", f"/v1/explain/{name}", token("ann"))
    assert answer.status in (400, 404)
    assert answer.headers["Content-Type"].startswith("application/json")
    assert "Set-Cookie" not in answer.headers
    assert len(answer.body) < 600
    assert json.loads(answer.body)["error"]
