"""`rebalancer run` that cannot begin says why, and ends."""

from pathlib import Path

import pytest

from tests.cli.running import process


def test_a_start_without_a_usable_policy_ends_with_what_is_wrong_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: rebalancer.io/v1alpha1\nkind: Policy\npools: 7\n")
    for name, value in {
        "POLICY_PATH": policy,
        "KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
        "API_AUTH": "none",
        "JOURNAL_DIR": tmp_path / "journal",
    }.items():
        monkeypatch.setenv(f"REBALANCER_{name}", str(value))
    with process("run") as running:
        _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    words = [line for line in said.splitlines() if not line.startswith("{")]
    assert words == [
        f"error: models is missing at {policy}:1 models; allowed a list of at least 1; add it",
        f"error: pools is not a list at {policy}:3 pools; is 7, allowed a list of at least 1",
    ]


def test_a_start_whose_password_file_is_not_there_ends_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("REBALANCER_KAFKA_PASSWORD_FILE", str(password))
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("REBALANCER_KAFKA_USERNAME", "rebalancer")
    monkeypatch.setenv("REBALANCER_PROMETHEUS_URL", "http://127.0.0.1:1")
    for command in (("run",), ("bridge", "-n", "serving"), ("aggregate",)):
        with process(*command) as running:
            _, said = running.communicate(timeout=60)
        assert running.returncode in {1, 2}
        assert f"error: REBALANCER_KAFKA_PASSWORD_FILE={password}: cannot be read" in said
