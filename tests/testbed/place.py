"""Where one stack keeps its things: a folder with data, logs and identities, and its processes."""

import base64
import http.client
import json
import secrets
import shutil
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.build import Missing
from tests.testbed.process import Process, Reaper


@dataclass(frozen=True)
class Place:
    """A folder and the reaper of all processes started in it."""

    folder: Path
    reaper: Reaper

    def subfolder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def process(
        self,
        name: str,
        command: Sequence[str],
        healthy: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        return Process(
            command,
            log=self.subfolder("logs") / f"{name}.log",
            healthy=healthy,
            reaper=self.reaper,
            environment=environment,
        )


@dataclass(frozen=True)
class Access:
    """How to reach an API server: address, CA (PEM) and the admin's token."""

    server: str
    ca: str
    token: str

    def kubeconfig(self, token: str | None = None) -> str:
        """The text of a kubeconfig (JSON, which is YAML) for the holder of `token`, else for the admin."""
        cluster = {"server": self.server, "certificate-authority-data": base64.b64encode(self.ca.encode()).decode()}
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token or self.token}}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
            "current-context": "testbed",
        }
        return json.dumps(config, indent=1)


@dataclass(frozen=True)
class Certificates:
    """A CA, and one certificate for every TLS end of the stack, as `ca.crt`, `tls.crt`, `tls.key` in `folder`."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def certificate(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    def client(self, name: str) -> tuple[Path, Path]:
        """Another certificate of this CA, for a client of that name, and its key."""
        _issue(self.folder, name, name)
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"


_NAMES = ("DNS:localhost", "DNS:keda-operator.keda.svc", "IP:127.0.0.1")


_OPENSSL = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30")


def _issue(folder: Path, name: str, file: str) -> None:
    """A certificate of the folder's CA for `name`, as FILE.crt and FILE.key."""
    leaf = [
        *_OPENSSL, "-subj", f"/CN={name}", "-keyout", f"{file}.key", "-out", f"{file}.crt",
        "-CA", "ca.crt", "-CAkey", "ca.key",
        "-addext", f"subjectAltName={','.join(_NAMES)}",
        "-addext", "basicConstraints=critical,CA:FALSE",
        "-addext", "extendedKeyUsage=serverAuth,clientAuth",
    ]  # fmt: skip
    subprocess.run(leaf, cwd=folder, check=True, capture_output=True)


def issue_certificates(folder: Path) -> Certificates:
    """Make them with the openssl command; raises `Missing` without it."""
    if shutil.which("openssl") is None:
        raise Missing("`openssl` is not on the PATH; install OpenSSL 3")
    folder.mkdir(parents=True, exist_ok=True)
    authority = [*_OPENSSL, "-subj", "/CN=testbed-ca", "-keyout", "ca.key", "-out", "ca.crt"]
    subprocess.run(authority, cwd=folder, check=True, capture_output=True)
    _issue(folder, "testbed", "tls")
    return Certificates(folder)


def new_token() -> str:
    return secrets.token_hex(16)


def answers(port: int, path: str, *, ca: Path | None = None, token: str | None = None) -> bool:
    """True when a GET on loopback is answered with 200; over TLS when a CA is given."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=ssl.create_default_context(cafile=ca))
        if ca
        else http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    )
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
