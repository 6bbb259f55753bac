"""The policy's page: the policy in force, its last change, and what is wrong with its file."""

from msgspec import Struct

from rebalancer.domain.instant import Instant


class PolicyPage(Struct, frozen=True):
    """The policy in force.

    at: the service's clock when the page was made.
    digest: short hash of its values.
    since: when it came into force in this run of the service, None where that is not known.
    before: digest of the policy before it, "" where the service started with this one.
    differences: what was other in the policy before it, an entry each; where the service started with this one, only
        models that the last run knew by other names and that are not heard by these.
    file: path of the file from which it is read.
    problems: what is wrong with that file as it is, a sentence each; empty where it is good.
    refused: entries of that file that are not in force as the file has them, each with what is instead; where there are
        problems and no such entries, nothing of the file is in force.
    text: the policy as JSON, which is YAML too, without what is default.
    """

    at: Instant
    digest: str
    since: Instant | None
    before: str = ""
    differences: tuple[str, ...] = ()
    file: str = ""
    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    text: str = ""
