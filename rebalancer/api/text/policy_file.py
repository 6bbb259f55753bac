"""What a policy file with problems means, for `status`, `doctor` and what needs a person."""

from rebalancer.api.ports.status import Status
from rebalancer.api.text.words import some


def kept_of(status: Status) -> str:
    """What is in force while the file is not good, as half a sentence."""
    if not status.policy_refused:
        return "the last good one stays in force"
    return f"the rest of it is in force: {some(status.policy_refused)}"
