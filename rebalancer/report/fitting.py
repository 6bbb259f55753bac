"""Fits what was recorded under one policy to another: names that changed, models and pools that only one of them has.

A model is the same by its id, by one of its aliases, or by a workload that both policies name; a pool by its name, or
by its node labels where neither policy has the other's name. Replicas of what the
other policy does not name stay where they are: their GPUs are somebody else's. Of what the journal does not know there
is nothing to decide; each such case is a sentence.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.people import Override
from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.quota_view import Holder, QuotaView
from rebalancer.domain.snapshot import ModelView, Snapshot, TargetView
from rebalancer.settings.renames import with_pools_called, workloads_of


@dataclass(frozen=True, slots=True)
class PolicyFit:
    """What a recorded policy and another one have in common.

    policy: the other policy, with pools called as they are recorded.
    names: ids of the other policy by the recorded ids, of models that both have.
    pools: names of pools that both have.
    notes: sentences about models and pools that only one of them has, or that have another name.
    """

    policy: Policy
    names: Mapping[str, str]
    pools: frozenset[str]
    notes: tuple[str, ...] = field(default=())

    def snapshot(self, seen: Snapshot) -> Snapshot:
        """What was seen, as the other policy would have seen it."""
        entries = {model.id: model for model in self.policy.models}
        strangers: list[TargetView] = []
        models = []
        for view in seen.models:
            entry = entries.get(self.names.get(view.id, ""))
            ours = {target.pool for target in entry.targets} & self.pools if entry else frozenset()
            strangers += [target for target in view.targets if target.pool not in ours]
            if entry is not None:
                models.append(self._model(view, entry.id, ours))
        pools = [_with_strangers(view, strangers) for view in seen.pools if view.name in self.pools]
        pools += [PoolView(pool.name) for pool in self.policy.pools if pool.name not in self.pools]
        loads = (replace(load, model=self.names[load.model]) for load in seen.loads if load.model in self.names)
        return replace(
            seen,
            pools=tuple(sorted(pools, key=lambda pool: pool.name)),
            models=tuple(sorted(models, key=lambda model: model.id)),
            loads=tuple(sorted(loads, key=lambda load: load.model)),
            overrides=tuple(map(self._override, seen.overrides)),
            quotas=tuple(map(self._quota, seen.quotas)),
        )

    def memory(self, of: Memory) -> Memory:
        """What was remembered, by the other policy's names; of what it does not know nothing."""
        names, pools = self.names, self.pools
        return replace(
            of,
            models={names[name]: memory for name, memory in of.models.items() if name in names},
            loans=tuple(
                replace(loan, borrower=names[loan.borrower], owner=names[loan.owner] if loan.owner else None)
                for loan in of.loans
                if loan.pool in pools and loan.borrower in names and (loan.owner is None or loan.owner in names)
            ),
            shifts=tuple(
                replace(
                    shift,
                    recipient=names[shift.recipient],
                    donors=tuple(sorted(names[donor] for donor in shift.donors if donor in names)),
                )
                for shift in of.shifts
                if shift.pool in pools and shift.recipient in names
            ),
            node_grants=tuple(
                replace(grant, model=names[grant.model])
                for grant in of.node_grants
                if grant.pool in pools and grant.model in names
            ),
        )

    def _model(self, view: ModelView, name: str, pools: AbstractSet[str]) -> ModelView:
        targets = tuple(target for target in view.targets if target.pool in pools)
        return replace(view, id=name, targets=targets, starts=tuple(each for each in view.starts if each.pool in pools))

    def _override(self, of: Override) -> Override:
        """Who is not known is a wrong name to planning, which says so."""
        subject = self.names.get(of.subject, of.subject) if of.subject_kind == "model" else of.subject
        return replace(of, subject=subject, model=None if of.model is None else self.names.get(of.model, of.model))

    def _quota(self, of: QuotaView) -> QuotaView:
        draws = (draw for draw in of.draws if draw.model in self.names and draw.pool in self.pools)
        return replace(of, draws=tuple(replace(draw, model=self.names[draw.model]) for draw in draws))


def fit(recorded: Policy, other: Policy) -> PolicyFit:
    """What `recorded` and `other` have in common."""
    called, names = _pools_under_another_name(recorded, other), dict[str, str]()
    other = with_pools_called(other, called)
    ids = {model.id for model in other.models}
    for model in recorded.models:
        if model.id in ids:
            names[model.id] = model.id
    for model in recorded.models:
        again = _under_another_name(model, other, {*names, *names.values()})
        if model.id not in names and again is not None:
            names[model.id] = again
    pools = frozenset(pool.name for pool in recorded.pools) & {pool.name for pool in other.pools}
    notes = [
        f"pool {old} is called {new} in the new policy: taken as the same, for its nodeLabels"
        for new, old in called.items()
    ]
    return PolicyFit(other, names, pools, (*notes, *_notes(recorded, other, names, pools)))


def _pools_under_another_name(recorded: Policy, other: Policy) -> dict[str, str]:
    """The recorded names of pools that only the other policy calls so, by its own."""

    def nodes(pool: Pool) -> tuple[str, frozenset[tuple[str, str]]]:
        return pool.resource, frozenset(pool.node_labels.items())

    old, new = {pool.name for pool in recorded.pools}, {pool.name for pool in other.pools}
    left = {nodes(pool): pool.name for pool in reversed(recorded.pools) if pool.name not in new}
    came = {nodes(pool): pool.name for pool in reversed(other.pools) if pool.name not in old}
    return {came[of]: left[of] for of in left if of in came}


def _under_another_name(model: Model, other: Policy, taken: set[str]) -> str | None:
    workloads = workloads_of(model)
    for each in other.models:
        if each.id not in taken and (model.id in each.aliases or workloads & workloads_of(each)):
            return each.id
    return None


def _notes(recorded: Policy, other: Policy, names: Mapping[str, str], pools: frozenset[str]) -> Iterator[str]:
    if recorded.look_ahead != other.look_ahead:
        yield (
            "lookAhead acts on readings, before what the journal records: the decisions that are compared do not show"
            " it, only the days played again do"
        )
    for old, new in names.items():
        if old != new:
            yield f"model {old} is called {new} in the new policy: taken as the same, for its alias or its workload"
    for model in recorded.models:
        if model.id not in names:
            yield (
                f"model {model.id} is not in the new policy: its replicas stay as they are, as pods of no model, and"
                f" its requests are not compared; if it has another name there, give that model `aliases: [{model.id}]`"
            )
    for model in other.models:
        if model.id not in names.values():
            yield (
                f"model {model.id} is not in a recorded policy: while that was in force nothing is known of its load or"
                " its pods, so nothing is decided for it, and it is played without requests"
            )
    for name in sorted({pool.name for pool in recorded.pools} - pools):
        yield f"pool {name} is not in the new policy: what runs there is left out of the decisions"
    for name in sorted({pool.name for pool in other.pools} - pools):
        yield (
            f"pool {name} is not in the journal: nothing is known of its nodes, so nothing is decided there; its"
            " gpuLimit counts when the days are played again"
        )


def _with_strangers(view: PoolView, strangers: list[TargetView]) -> PoolView:
    """The pool, on whose nodes the pods of these targets are nobody's that the policy knows."""
    held: Counter[str] = Counter()
    holders = []
    for target in strangers:
        if target.pool != view.name:
            continue
        each = target.gpus_per_pod if target.running_gpus is None else target.running_gpus
        nodes = [node for pod in target.pods for node in pod.nodes]
        held.update({node: each * nodes.count(node) for node in nodes})
        if nodes:
            holders.append(Holder(target.kind, target.namespace, target.name, each * len(nodes)))
    if not held:
        return view
    nodes_now = tuple(replace(node, foreign_gpus=node.foreign_gpus + held[node.name]) for node in view.nodes)
    others = tuple(sorted((*view.others, *holders), key=lambda holder: -holder.amount))
    return replace(view, nodes=nodes_now, others=others)
