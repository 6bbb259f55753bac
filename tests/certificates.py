"""Certificates for tests that speak TLS, made by the openssl command."""

import shutil
import subprocess
from pathlib import Path

import pytest

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


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
