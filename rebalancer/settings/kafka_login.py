"""What the settings that reach Kafka must say together: who we are, and that nobody else can write in our name."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from rebalancer.settings.service import ServiceSettings

HOSTS_HERE = frozenset({"127.0.0.1", "[::1]", "::1", "localhost"})
OAUTH, MSK = "OAUTHBEARER", "AWS_MSK_IAM"


def kafka_problem(settings: "ServiceSettings", prefix: str) -> str | None:
    """What is wrong, in a sentence with the variables' names; None when nothing is."""
    protocol = settings.kafka_security_protocol
    login = f"{prefix}KAFKA_SECURITY_PROTOCOL={protocol}"
    if "PLAINTEXT" in protocol and not settings.dev and not _here(settings.kafka_bootstrap):
        return (
            f"{login}: whoever is on the way could write events and read passwords; use SSL or SASL_SSL, or say by "
            f"{prefix}DEV=true that this is no production"
        )
    if settings.kafka_token_url and not _fit(settings.kafka_token_url, dev=settings.dev):
        return (
            f"{prefix}KAFKA_TOKEN_URL: give https://HOST/PATH, without user or password: the client's secret stands in "
            f"{prefix}KAFKA_PASSWORD_FILE"
        )
    if (settings.kafka_cert_file is None) != (settings.kafka_key_file is None):
        return f"{prefix}KAFKA_CERT_FILE and {prefix}KAFKA_KEY_FILE go together: set both, or none"
    return _login_problem(settings, prefix) if protocol.startswith("SASL") else None


def _login_problem(settings: "ServiceSettings", prefix: str) -> str | None:
    mechanism = settings.kafka_sasl_mechanism
    login = f"{prefix}KAFKA_SECURITY_PROTOCOL={settings.kafka_security_protocol}"
    if mechanism == MSK and not settings.kafka_aws_region:
        return f"{prefix}KAFKA_SASL_MECHANISM={MSK}: set {prefix}KAFKA_AWS_REGION"
    password = bool(settings.kafka_username and settings.kafka_password_file)
    if mechanism == OAUTH and settings.kafka_token_file is None and not (settings.kafka_token_url and password):
        return (
            f"{prefix}KAFKA_SASL_MECHANISM={OAUTH}: set {prefix}KAFKA_TOKEN_FILE, or {prefix}KAFKA_TOKEN_URL with the "
            f"client in {prefix}KAFKA_USERNAME and its secret in {prefix}KAFKA_PASSWORD_FILE"
        )
    if mechanism not in {MSK, OAUTH} and not password:
        return f"{login}: set {prefix}KAFKA_USERNAME and {prefix}KAFKA_PASSWORD_FILE"
    return None


def _fit(url: str, *, dev: bool) -> bool:
    """Whether it is an address that may be told to people, and to which the client's secret may go."""
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address
        return False
    schemes = {"http", "https"} if dev or parts.hostname in HOSTS_HERE else {"https"}
    return parts.scheme in schemes and bool(parts.hostname) and parts.username is None


def _here(bootstrap: str) -> bool:
    """Whether all brokers are on this machine."""
    return all(each.strip().rpartition(":")[0] in HOSTS_HERE for each in bootstrap.split(","))
