"""How a command reaches Kafka, by the service's own settings, and which topics the policy reads there."""

import logging
from pathlib import Path

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.domain.policy import Policy
from rebalancer.settings.policy_file import check_bytes
from rebalancer.settings.service import BadSettings, ServiceSettings, read_settings


def kafka_settings(bootstrap: str | None) -> ServiceSettings:
    """The REBALANCER_ settings, with these brokers where some are given. Raises Failed saying which is missing.

    What the client would log of a broker that does not answer is said once, by the command.
    """
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    try:
        return read_settings() if bootstrap is None else ServiceSettings(kafka_bootstrap=bootstrap)
    except BadSettings as wrong:
        raise Failed(str(wrong), USAGE) from wrong
    except ValueError as wrong:
        raise Failed(f"the REBALANCER_ settings are not good: {wrong}", USAGE) from wrong


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
