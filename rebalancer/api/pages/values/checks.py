"""The Health page: what is not well."""

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.survey.finding import Finding


class Checks(Struct, frozen=True):
    """What `rebalancer doctor` says that the service can see by itself.

    at: the service's clock when the page was made.
    findings: what is not well, the worst first; at most 200.
    looked_at: when the cluster's objects were last looked through for traps, None before the first such look.
    unread: kinds of objects that were not looked through.
    well: number of checks that found nothing wrong.
    """

    at: Instant
    findings: tuple[Finding, ...] = ()
    looked_at: Instant | None = None
    unread: tuple[str, ...] = ()
    well: int = 0
