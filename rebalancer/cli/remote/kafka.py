"""How a command reaches Kafka, by the service's own settings, and which topics the policy reads there."""

import logging
from pathlib import Path

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.domain.policy import Policy
from rebalancer.kafka.broker import NoConnection, why
from rebalancer.settings.policy_file import check_bytes
from rebalancer.settings.service import BadSettings, ServiceSettings, read_settings

# The client logs each address that it cannot reach; a command says it once, in `trouble_of`.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


def kafka_settings(bootstrap: str | None) -> ServiceSettings:
    """The REBALANCER_ settings, with these brokers where some are given. Raises Failed saying which is missing."""
    try:
        settings = read_settings(bootstrap)
        settings.kafka_password()  # away at the start it is a wrong path; later on it is waited for
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    return settings


def trouble_of(settings: ServiceSettings, error: Exception) -> str:
    """Where Kafka is and what is wrong with it, for people; `error` is one of BROKER_ERRORS."""
    where = f"Kafka at {settings.kafka_bootstrap}"
    if not isinstance(error, NoConnection):
        return f"{where}: {why(error)}"
    protocol = settings.kafka_security_protocol
    return (
        f"{where}: no connection by {protocol}. Is that the address, and is {protocol} what its listener speaks? "
        "REBALANCER_KAFKA_SECURITY_PROTOCOL says what is spoken"
    )


def policy_in(path: Path | None) -> Policy | None:
    """The policy in a file, None without one. Raises Failed with all its problems."""
    if path is None:
        return None
    try:
        policy, problems = check_bytes(path.read_bytes(), str(path))
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}", USAGE) from error
    if policy is None:
        raise Failed("\n".join(str(problem) for problem in problems), USAGE)
    return policy
