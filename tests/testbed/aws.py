"""AWS as far as a login goes: the extras' own Python, the endpoint where a pod gets keys, and a check of signatures."""

import fcntl
import hashlib
import hmac
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from aiohttp import web

from tests.house.repository import ROOT
from tests.testbed.build import Missing, cache_folder

_SECONDS = 300
_LOCK = ROOT / "requirements/msk.txt"
_ALGORITHM = "AWS4-HMAC-SHA256"


class AwsKeys(NamedTuple):
    """What AWS gives a pod for an hour."""

    key_id: str = "AKIDEXAMPLE"
    secret: str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    token: str = "session/token+with=signs"


class Signed(NamedTuple):
    """The parts of a request that AWS signs. `query`: raw, as on the wire; `headers`: by lower-case name."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


def extras_python() -> Path:
    """A Python with `requirements/msk.txt`, which no other lock goes with. Raises `Missing`."""
    folder = cache_folder() / f"aws-{hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv/bin/python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _run(sys.executable, "-m", "venv", str(folder / "venv"))
            _run(str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(_LOCK))
            (folder / "complete").touch()
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise Missing(f"the extras for AWS cannot be installed: {done.stderr[-1000:]}")


def keys_endpoint(keys: AwsKeys, bearer: str) -> web.Application:
    """What EKS's agent answers a pod that brings the token of its account: keys that expire in 2036."""

    async def give(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != bearer:
            return web.json_response({"message": "who are you?"}, status=401)
        return web.json_response(
            {
                "AccessKeyId": keys.key_id,
                "SecretAccessKey": keys.secret,
                "Token": keys.token,
                "Expiration": "2036-01-01T00:00:00Z",
            }
        )

    app = web.Application()
    app.router.add_get("/v1/credentials", give)
    return app


def signature(request: Signed, names: str, scope: str, instant: str, secret: str) -> str:
    """The signature that AWS would come to, by its documentation: names are the signed headers, `a;b`."""
    headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names.split(";"))
    pairs = (part.partition("=") for part in request.query.split("&") if part)
    # A plus is a plus: who means a space writes %20.
    query = "&".join(sorted(f"{quote(unquote(name), safe='-_.~')}={quote(unquote(value), safe='-_.~')}"
                            for name, _, value in pairs))  # fmt: skip
    body = hashlib.sha256(request.body).hexdigest()
    canonical = f"{request.method}\n{request.path}\n{query}\n{headers}\n{names}\n{body}"
    text = "\n".join([_ALGORITHM, instant, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()
