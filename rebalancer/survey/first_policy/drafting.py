"""From a survey to the draft of a first policy: the steps in their order."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rebalancer.domain.words import counted
from rebalancer.survey.accelerators import gpus
from rebalancer.survey.first_policy.autoscalers import autoscalers_of
from rebalancer.survey.first_policy.draft import PolicyDraft
from rebalancer.survey.first_policy.entitlements import fitted
from rebalancer.survey.first_policy.homes import home_of, twins
from rebalancer.survey.first_policy.left_out import SCALED, unread_kinds
from rebalancer.survey.first_policy.models import Around, distinct, model_of, refused_kind
from rebalancer.survey.first_policy.places import places_of
from rebalancer.survey.first_policy.pool_drafts import limit_of, pool_of, with_node_pools
from rebalancer.survey.first_policy.pools import NodeGrouping, pools_of, wanted
from rebalancer.survey.first_policy.recent import Use
from rebalancer.survey.first_policy.things import things_of
from rebalancer.survey.first_policy.workloads import GpuWorkload, workloads_of
from rebalancer.survey.objects import Survey


def first_policy(
    survey: Survey, recent: Mapping[str, Use] | None = None, namespaces: Sequence[str] = ()
) -> PolicyDraft:
    """The draft; without models it is no policy yet, and says in `left_out` why.

    recent: last week's use by workload, None where nobody was asked. namespaces: whose workloads are models; all, where
    none is named.
    """
    things = things_of(survey)
    workloads = workloads_of(survey, things, namespaces)
    broken = [*things.unusable, *workloads.unusable]
    autoscalers = autoscalers_of(survey, broken)
    refused = {each.ref: why for each in workloads.scaled if (why := refused_kind(each))}
    left_out = [*(f"{ref}: {why}" for ref, why in refused.items()), *workloads.left_out]
    usable = tuple(each for each in workloads.scaled if each.ref not in refused)

    bystanders = [node.labels for node in things.nodes if not gpus(node.allocatable)]
    there = pools_of(places_of(things, usable), usable, bystanders)
    homes = {each.ref: home for each in usable if (home := home_of(each, there)) is not None}
    for_homeless, homeless = wanted([each for each in usable if each.ref not in homes], there)
    homes |= {
        each.ref: home for each in usable if each.ref not in homes and (home := home_of(each, for_homeless)) is not None
    }

    served = list(twins([each for each in usable if each.ref in homes], homes))
    node_pools = {node_pool.name: node_pool for node_pool, _ in things.node_pools}
    behind = list(with_node_pools((*for_homeless, *there), node_pools))
    guests = {pool.name: _guests(pool, usable) for pool, _ in behind}
    limits = {pool.name: limit_of(pool, names, node_pools, guests[pool.name]) for pool, names in behind}
    around = Around(homes, autoscalers, {name: limit.value for name, limit in limits.items()}, recent)
    models = distinct([model_of(targets, around) for targets in served])
    lived_in = {model.targets[0].value["pool"] for model in models}
    pools = [
        pool_of(pool, names, limits[pool.name], guests[pool.name], lived_in=pool.name in lived_in)
        for pool, names in behind
    ]
    roomy, entitled = fitted(pools, models)
    left_out += [
        f"{each.about}: its target {ref} {_why_unknown(ref.kind, survey)}"
        for ref, each in autoscalers.items()
        if ref not in workloads.known and (not namespaces or ref.namespace in namespaces)
    ]
    if workloads.without:
        left_out.append(f"{workloads.without} Deployments, StatefulSets or LeaderWorkerSets that ask for no GPU")
    left_out += unread_kinds(survey)
    unread = (*survey.unread, *dict.fromkeys(broken))
    return PolicyDraft(roomy, entitled, (*homeless, *left_out), unread, _seen(there, len(workloads.scaled)))


def _why_unknown(kind: str, survey: Survey) -> str:
    if kind not in SCALED:
        return "is of a kind that is not read"
    if survey.listed is not None and kind not in {listed for _, listed in survey.listed}:
        return "is of a kind that could not be read"
    return "was not found"


def _guests(pool: NodeGrouping, workloads: Sequence[GpuWorkload]) -> tuple[GpuWorkload, ...]:
    return tuple(each for each in workloads if each.ref in pool.guests)


def _seen(pools: Sequence[NodeGrouping], scaled: int) -> str:
    nodes = len({place.name for pool in pools for place in pool.places if place.name})
    total = Counter[str]()
    for pool in pools:
        total[pool.resource] += pool.gpus
    gpus_there = ", ".join(f"{count} {resource}" for resource, count in sorted(total.items()) if count)
    shown = f" ({gpus_there})" if gpus_there else ""
    return f"{counted(nodes, 'GPU node')}{shown}, {counted(scaled, 'workload')} with GPUs and a scale"
