"""Kafka's certificate, key and CA as files: spoiled at the start, and spoiled while the service runs."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rebalancer.app.topics import broker_of
from rebalancer.settings.service import ServiceSettings
from tests.certificates import self_signed


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A folder with a certificate that is its own CA, its key, and the key of nobody."""
    for name in ("tls", "other"):
        self_signed(tmp_path, name)
    return tmp_path


def settings_of(pem: Path) -> ServiceSettings:
    return ServiceSettings(
        kafka_bootstrap="k:9093",
        kafka_ca_file=pem / "tls.crt",
        kafka_cert_file=pem / "tls.crt",
        kafka_key_file=pem / "tls.key",
    )


def half_written(file: Path) -> None:
    file.write_text(file.read_text()[:60])


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
async def test_a_file_that_is_away_at_the_start_is_named(name: str, pem: Path) -> None:
    (pem / name).unlink()
    with pytest.raises(OSError, match=f"{name}: cannot be read") as told:
        await broker_of(settings_of(pem)).connection()
    assert "mount it again" in str(told.value)


@pytest.mark.parametrize(("name", "why"), [("tls.crt", "no certificate in PEM"), ("tls.key", "no private key in PEM")])
async def test_a_file_that_is_no_pem_at_the_start_is_named_with_what_is_wrong_and_what_to_do(
    name: str, why: str, pem: Path
) -> None:
    half_written(pem / name)
    with pytest.raises(OSError, match=f"{name}: {why}.*write it again"):
        await broker_of(settings_of(pem)).connection()


async def test_a_key_of_another_certificate_is_told_as_such(pem: Path) -> None:
    shutil.copy(pem / "other.key", pem / "tls.key")
    with pytest.raises(OSError, match=r"tls\.key: is not the key of the certificate"):
        await broker_of(settings_of(pem)).connection()


async def test_files_half_written_while_it_runs_leave_what_was_read_before_and_that_is_logged_once(pem: Path) -> None:
    broker, whole = broker_of(settings_of(pem)), (pem / "tls.key").read_text()
    before = (await broker.connection())["ssl_context"]
    with capture_logs() as log:
        half_written(pem / "tls.key")
        for _ in range(3):
            assert (await broker.connection())["ssl_context"] is before
        (pem / "tls.key").write_text(whole)
        assert (await broker.connection())["ssl_context"] is not before
    assert [(each["log_level"], each["event"]) for each in log] == [
        ("warning", "Kafka's credentials cannot be read: those read before stay in use"),
        ("info", "Kafka's credentials are read again"),
    ]
    assert f"{pem / 'tls.key'}: no private key in PEM" in log[0]["why"]
