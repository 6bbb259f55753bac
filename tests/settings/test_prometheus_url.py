import pytest

from rebalancer.settings.prometheus_url import problem_of
from rebalancer.settings.service import BadSettings, read_settings


@pytest.mark.parametrize(
    "url",
    ["http://prometheus.monitoring:9090", "https://10.0.0.7", "http://[2001:db8::1]:9090/prefix", "http://localhost:9"],
)
def test_an_address_of_a_prometheus_is_good(url: str) -> None:
    assert problem_of(url) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "http://HOST:PORT"),
        ("prometheus:9090", "http://HOST:PORT"),
        ("http://", "http://HOST:PORT"),
        ("gopher://prometheus", "http://HOST:PORT"),
        ("http://me:secret@prometheus", "token into a file"),
        ("http://prometheus?query=up", "no query"),
        ("http://169.254.169.254/latest", "link-local"),
        ("http://[fe80::1%25eth0]:9090", "link-local"),
        ("http://prometheus:port", "port"),
        ("http://[::1", "IPv6"),
    ],
)
def test_any_other_address_is_refused_with_the_reason(url: str, why: str) -> None:
    assert why.lower() in str(problem_of(url)).lower()


def test_the_service_does_not_start_with_a_bad_one_and_does_not_repeat_its_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("REBALANCER_PROMETHEUS_URL", "http://me:hunter2@prometheus")
    with pytest.raises(BadSettings, match="REBALANCER_PROMETHEUS_URL: no user or password") as refused:
        read_settings()
    assert "hunter2" not in str(refused.value)
