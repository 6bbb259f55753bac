"""How the settings reach Kafka."""

from typing import Any

from rebalancer.kafka.broker import Broker, trust
from rebalancer.settings.service import ServiceSettings


def broker_of(settings: ServiceSettings) -> Broker:
    """The broker that settings name; credentials are read again at each new connection."""
    return Broker(settings.kafka_bootstrap, settings.topic_prefix, security=lambda: _security(settings))


def _security(settings: ServiceSettings) -> dict[str, Any]:
    protocol = settings.kafka_security_protocol
    found: dict[str, Any] = {"security_protocol": protocol}
    if protocol in {"SSL", "SASL_SSL"}:
        found["ssl_context"] = trust(settings.kafka_ca_file)
    if protocol.startswith("SASL"):
        password = settings.kafka_password()
        found["sasl_mechanism"] = settings.kafka_sasl_mechanism
        found["sasl_plain_username"] = settings.kafka_username
        found["sasl_plain_password"] = password.get_secret_value() if password else ""
    return found
