"""The console's files as they are served: small, cached, strict. No browser needed."""

import re
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest
from aiohttp import ClientSession

from rebalancer.api.handlers.console_files import TYPES, assets
from tests.console.server import SceneServer
from tests.house.repository import ROOT

# As gzip. Scripts: 25 KB were 13 modules; the last hours, tiles by model, decisions, policy, rights and ways out are
# ten more. What counts is the whole, which keeps its 60 KB, and the first picture on slow 4G (`test_limits`).
ALL_BYTES, SCRIPT_BYTES = 60_000, 51_000
UNWANTED = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|setTimeout\(\s*[\"'`]|style="
)


def test_a_wheel_brings_every_file(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)  # noqa: S603  # our own build, ours the arguments
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.partition("/api/console/")[2] for name in archive.namelist() if "/api/console/" in name}
    assert packed == set(assets())


def test_all_of_it_is_small() -> None:
    found = assets()
    scripts = sum(len(each.gzipped) for name, each in found.items() if name.endswith(".js"))
    everything = sum(len(each.gzipped) for each in found.values())
    assert (scripts <= SCRIPT_BYTES, everything <= ALL_BYTES) == (True, True), (scripts, everything)


def test_every_file_beside_the_page_is_served() -> None:
    folder = files("rebalancer.api").joinpath("console")
    names = {each.name for each in folder.iterdir() if each.is_file()}
    assert names
    assert names <= set(assets())
    assert {name.rpartition(".")[2] for name in names} <= set(TYPES)


@pytest.mark.parametrize("name", sorted(assets()))
def test_no_file_turns_text_into_markup_or_code(name: str) -> None:
    assert not UNWANTED.findall(assets()[name].plain.decode())


def test_the_page_has_no_inline_script_or_style() -> None:
    page = assets()["index.html"].plain.decode()
    assert not re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=", page)
    assert page.count('rel="modulepreload"') == sum(name.endswith(".js") for name in assets())


async def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    async with SceneServer().running() as server, ClientSession(server.url) as session:
        async with session.get("/console/assets/main.js") as first:
            etag = first.headers["ETag"]
            assert first.headers["Cache-Control"] == "no-cache"
            assert first.headers["Content-Encoding"] == "gzip"
            assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
        async with session.get("/console/assets/main.js", headers={"If-None-Match": etag}) as again:
            assert again.status == 304
            assert await again.read() == b""
        async with session.get("/console/assets/main.js", headers={"If-None-Match": '"another"'}) as other:
            assert other.status == 200


async def test_a_client_without_gzip_gets_the_same_bytes() -> None:
    plain = {"Accept-Encoding": "identity"}
    async with SceneServer().running() as server, ClientSession(server.url, headers=plain) as session:
        answer = await session.get("/console/assets/console.css")
        assert "Content-Encoding" not in answer.headers
        assert await answer.read() == assets()["console.css"].plain


@pytest.mark.parametrize("path", ["/console/", "/console/models/llama-70b", "/console/assets/main.js"])
async def test_every_answer_carries_the_strict_policy(path: str) -> None:
    async with SceneServer().running() as server, ClientSession(server.url) as session, session.get(path) as answer:
        policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert {name: policy[name] for name in ("default-src", "base-uri", "frame-ancestors")} == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    ours = ("script-src", "style-src", "img-src", "connect-src", "form-action")
    assert {policy[name] for name in ours} == {"'self'"}
    assert policy["trusted-types"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"


async def test_the_root_leads_to_the_console_and_other_files_are_not_there() -> None:
    async with SceneServer().running() as server, ClientSession(server.url) as session:
        async with session.get("/", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, "/console/")
        async with session.get("/console/assets/..%2f..%2froutes.py") as answer:
            assert answer.status == 404
