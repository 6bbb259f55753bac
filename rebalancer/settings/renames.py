"""What a policy file calls otherwise than the policy in force.

A pool is the same by its node labels. A model is a new one on the same workload, and names of the old one are lost.
"""

from collections.abc import Iterable, Iterator, Mapping

from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.settings.document import Document
from rebalancer.settings.draft import DraftPart
from rebalancer.settings.problem import Problem


def renamed(good: Policy, document: Document, problems: Iterable[Problem]) -> Policy:
    """`good` with its pools called as the file calls them; `problems`: of the file, for a name may be one itself."""
    return with_pools_called(good, dict(_names(good, DraftPart((), document.value), {one.at for one in problems})))


def with_pools_called(policy: Policy, names: Mapping[str, str]) -> Policy:
    """`policy` with each pool in `names` under the name that it has there, in its targets too."""

    def pool(old: Pool) -> Pool:
        return old.model_copy(update={"name": names.get(old.name, old.name)})

    def model(old: Model) -> Model:
        targets = (each.model_copy(update={"pool": names.get(each.pool, each.pool)}) for each in old.targets)
        return old.model_copy(update={"targets": tuple(targets)})

    return policy.model_copy(
        update={"pools": tuple(map(pool, policy.pools)), "models": tuple(map(model, policy.models))}
    )


def unheard(before: Policy, after: Policy) -> Iterator[str]:
    """A sentence for each model whose workload another one has now that is not heard by the old names."""
    heard = {name for model in after.models for name in (model.id, *model.aliases)}
    ids = {model.id for model in before.models}
    new = {workload: model.id for model in after.models if model.id not in ids for workload in workloads_of(model)}
    for model in before.models:
        names = [name for name in (model.id, *model.aliases) if name not in heard]
        now = next((new[workload] for workload in sorted(workloads_of(model)) if workload in new), None)
        if names and now is not None:
            lost = ", ".join(names)
            yield (
                f"model {model.id} is called {now} now: samples that say {lost} are heard no more, and as long as none"
                f" say {now} it gets nothing and calls nothing home that it lent; if producers go on to say {lost},"
                f" give {now} `aliases: [{lost}]`"
            )


def workloads_of(model: Model) -> set[tuple[str, str, str]]:
    """The objects whose replicas are the model's: namespace, kind and name."""
    return {(model.namespace, target.kind, target.name) for target in model.targets}


def _names(good: Policy, given: DraftPart, faulty: set[tuple[str | int, ...]]) -> Iterator[tuple[str, str]]:
    """Old and new name of each pool whose old name is nowhere in the file, while a new pool there has its labels.

    As long as a target in the file says the old name, the new one may as well be a slip of the pen.
    """
    pools, known = given.parts("pools"), {pool.name for pool in good.pools}
    named = {pool.text("name") for pool in pools}
    named |= {target.text("pool") for model in given.parts("models") for target in model.parts("targets")}
    new = {
        frozenset(pool.labels("nodeLabels").items()): name
        for pool in reversed(pools)  # of two with the same labels the second is at fault
        if (name := pool.text("name")) is not None and name not in known and pool.at("name") not in faulty
    }
    for pool in good.pools:
        name = new.get(frozenset(pool.node_labels.items()))
        if name is not None and pool.name not in named:
            yield pool.name, name
