"""Certificates for tests that speak TLS, made by the openssl command."""

import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rebalancer.loop.clock import RealClock

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_AUTHORITY = """\
[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""
_KEY = (*NEW_KEY, "-subj", "/CN=127.0.0.1")


def openssl(folder: Path, *words: str) -> None:
    """`openssl WORDS` in that folder. Skips the test where there is no openssl."""
    command = shutil.which("openssl")
    if command is None:
        pytest.skip("no openssl on the PATH to make a certificate with")
    subprocess.run([command, *words], cwd=folder, check=True, capture_output=True)  # noqa: S603  our words


def self_signed(folder: Path, name: str = "tls", subject: str = "us", good_for: str = "IP:127.0.0.1") -> None:
    """`NAME.crt`, good for two days and for either side, which is its own CA, and `NAME.key`."""
    made = ("-days", "2", "-subj", f"/CN={subject}", "-addext", f"subjectAltName={good_for}")
    openssl(folder, "req", "-x509", *NEW_KEY, *made, "-out", f"{name}.crt", "-keyout", f"{name}.key")


@dataclass(frozen=True)
class Authority:
    """A CA in `folder`. It knows when what it issues ends to the second, as `openssl req` does not. Its calls block."""

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> "Authority":
        """Skips the test where there is no openssl."""
        folder.mkdir()
        openssl(folder, "req", "-x509", *_KEY, "-days", "2", "-keyout", "ca.key", "-out", "ca.crt")
        return cls.of(folder)

    @classmethod
    def of(cls, folder: Path) -> "Authority":
        """That CA whose `ca.crt` and `ca.key` stand there."""
        (folder / "ca.cnf").write_text(_AUTHORITY)
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        return cls(folder)

    @property
    def file(self) -> Path:
        """Who trusts this trusts what is issued here."""
        return self.folder / "ca.crt"

    def issue(self, name: str, seconds: float) -> Path:
        """A certificate of 127.0.0.1 and its key, good for so many seconds, in one file."""
        ends = datetime.fromtimestamp(RealClock().now() + seconds, UTC)
        request = ("req", *_KEY, "-addext", "subjectAltName=IP:127.0.0.1")
        openssl(self.folder, *request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(
            self.folder, "ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", "ca.crt", "-keyfile", "ca.key",
            "-in", f"{name}.csr", "-out", f"{name}.crt", "-startdate", "20200101000000Z",
            "-enddate", f"{ends:%Y%m%d%H%M%SZ}",
        )  # fmt: skip
        both = self.folder / f"{name}.pem"
        both.write_bytes((self.folder / f"{name}.crt").read_bytes() + (self.folder / f"{name}.key").read_bytes())
        return both
