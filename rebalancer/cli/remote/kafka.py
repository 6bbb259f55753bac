"""How a command reaches Kafka: by the service's own settings."""

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.settings.service import BadSettings, ServiceSettings, read_settings


def kafka_settings(bootstrap: str | None) -> ServiceSettings:
    """The REBALANCER_ settings, with these brokers where some are given. Raises Failed saying which is missing."""
    try:
        return read_settings() if bootstrap is None else ServiceSettings(kafka_bootstrap=bootstrap)
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    except ValueError as wrong:
        raise Failed(f"the REBALANCER_ settings are not good: {wrong}", USAGE) from wrong
