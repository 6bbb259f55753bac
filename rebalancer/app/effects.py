"""Every side effect of the service, from the doors that it has."""

from collections.abc import Mapping
from typing import Final

from rebalancer.app import backfill
from rebalancer.aws import effects as sqs
from rebalancer.kafka import effects as kafka
from rebalancer.kube import effects as kube
from rebalancer.obs import journal_files, predictions

EFFECTS: Final[Mapping[str, str]] = {
    **kube.EFFECTS,
    **kafka.EFFECTS,
    **sqs.EFFECTS,
    **journal_files.EFFECTS,
    **predictions.EFFECTS,
    **backfill.EFFECTS,
}
"""What each one changes, by its name."""
