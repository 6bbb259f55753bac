"""What is allowed in a policy and does less than its author may believe: no reason to refuse it."""

from collections.abc import Collection, Iterator
from itertools import chain

from rebalancer.domain.policy import Policy
from rebalancer.domain.target_kinds import UNSAID
from rebalancer.settings.document import Path, read_document
from rebalancer.settings.policy_file import check_bytes
from rebalancer.settings.problem import Problem, show

ONLY_READ = f"it is only read and nothing is written to it: {UNSAID}"
SAY_VICTIMS = "add victims: replicaSet (as of a Deployment) or victims: ordinal (the highest number)"
OWN_TOPIC = "it is one of our own topics and is read as such, whatever decoder it is given"
NO_ENTRY = "take the entry out, or let the producer write a topic of its own"


def warnings_of(content: bytes, name: str, own_topics: Collection[str]) -> tuple[Problem, ...]:
    """The warnings about a good file `name` in order of its lines; none about one that has problems.

    `own_topics`: full names of the topics that are the service's own.
    """
    policy, document = check_bytes(content, name)[0], None
    if policy is not None:
        document = read_document(content.decode())[0]
    if policy is None or document is None:
        return ()
    return tuple(
        sorted(
            Problem(document.line(path), document.spell(path), show(value), what, fix=fix, file=name, at=path)
            for path, value, what, fix in chain(_only_read(policy), _passed_over(policy, own_topics))
        )
    )


def _only_read(policy: Policy) -> Iterator[tuple[Path, str, str, str]]:
    for model, entry in enumerate(policy.models):
        for place, target in enumerate(entry.targets):
            if not target.of.victims:
                yield ("models", model, "targets", place, "kind"), target.of.kind, ONLY_READ, SAY_VICTIMS


def _passed_over(policy: Policy, own_topics: Collection[str]) -> Iterator[tuple[Path, str, str, str]]:
    for place, producer in enumerate(policy.producers):
        if producer.topic in own_topics:
            yield ("producers", place, "topic"), producer.topic, OWN_TOPIC, NO_ENTRY
