"""What is allowed in a policy and does less than its author may believe: no reason to refuse it."""

from collections.abc import Iterator

from rebalancer.domain.policy import Policy
from rebalancer.domain.target_kinds import UNSAID
from rebalancer.domain.words import counted
from rebalancer.settings.document import read_document
from rebalancer.settings.draft import DraftFinding
from rebalancer.settings.policy_file import check_bytes
from rebalancer.settings.problem import Problem, show


def warnings_of(content: bytes, name: str) -> tuple[Problem, ...]:
    """The warnings about a good file `name` in order of its lines; none about one that has problems."""
    policy, document = check_bytes(content, name)[0], None
    if policy is not None:
        document = read_document(content.decode())[0]
    if policy is None or document is None:
        return ()
    return tuple(
        sorted(
            Problem(
                line=document.line(each.path),
                path=document.spell(each.path),
                value=show(document.get(each.path)),
                what=each.what,
                fix=each.fix,
                file=name,
                at=each.path,
            )
            for each in (*_only_read(policy), *_larger_than_nodes(policy))
        )
    )


def _only_read(policy: Policy) -> Iterator[DraftFinding]:
    """Targets of which nobody says whose pod goes first."""
    what = f"it is only read and nothing is written to it: {UNSAID}"
    fix = "add victims: replicaSet (as of a Deployment) or victims: ordinal (the highest number)"
    for model, entry in enumerate(policy.models):
        for place, target in enumerate(entry.targets):
            if not target.of.victims:
                yield DraftFinding(("models", model, "targets", place, "kind"), what, fix=fix)


def _larger_than_nodes(policy: Policy) -> Iterator[DraftFinding]:
    """Models for which no node is asked in a pool of theirs, since a pod of theirs would not fit on it."""
    nodes = {pool.name: pool.gpus_per_node for pool in policy.pools if pool.brings_nodes}
    for number, model in enumerate(policy.models):
        for pool in dict.fromkeys(target.pool for target in model.targets):
            if pool in nodes and model.gpus_per_pod > nodes[pool]:
                pod = f"a pod of {counted(model.gpus_per_pod, 'GPU')}"
                what = f"{pod} fits on no node that is added to pool {pool}: they have {nodes[pool]}"
                fix = f"correct pools.{pool}.gpusPerNode (1 where none is said), or gpusPerReplica"
                yield DraftFinding(("models", number, "gpusPerReplica"), what, fix=fix)
