"""What is allowed in a policy and does less than its author may believe: no reason to refuse it."""

from rebalancer.domain.target_kinds import UNSAID
from rebalancer.settings.problem import Problem, show
from rebalancer.settings.problems import CheckedText


def warnings_of(checked: CheckedText, name: str) -> tuple[Problem, ...]:
    """The warnings about a good file `name` in order of its lines; none about one that has problems."""
    policy, document = checked.policy, checked.document
    if policy is None or document is None:
        return ()

    what = f"it is only read and nothing is written to it: {UNSAID}"
    fix = "add victims: replicaSet (as of a Deployment) or victims: ordinal (the highest number)"
    kinds = {
        ("models", model, "targets", place, "kind"): target.of.kind
        for model, entry in enumerate(policy.models)
        for place, target in enumerate(entry.targets)
        if not target.of.victims
    }
    return tuple(
        sorted(
            Problem(document.line(path), document.spell(path), show(kind), what, fix=fix, file=name, at=path)
            for path, kind in kinds.items()
        )
    )
