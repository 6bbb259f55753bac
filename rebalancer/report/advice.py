"""What would have been enough, hour by hour, and the policy's keys that say otherwise; each with its evidence. Pure.

An hour's need is the smallest constant number of replicas with which at most 1 % of its requests would have been late
(`lateness.needed`). Nothing is advised from less than a day: an hour says nothing of the next.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import Carries
from rebalancer.domain.words import counted, figure
from rebalancer.report.bill import BillRow
from rebalancer.report.gathering import Gathered, models_of
from rebalancer.report.lateness import ModelHour

LEAST_HOURS = 24
MOST_HOURS = 0.95  # a number that suffices in so many of the hours is enough to own; the rest is what lending is for
FLOOR_HOURS = 0.5  # ... and in so many it is enough to hold at all times
IDLE_SHARE = 0.05  # of its own GPU-seconds busy: less is an idle model
LEAST_READINGS = 20  # looks at loaded replicas, of which what a replica carries is learnt


class Advice(Struct, frozen=True):
    """One key of the policy that should be another.

    subject: `model/ID` or `pool/NAME`.
    key: as the policy spells it, below the subject.
    now: what the policy has.
    better: what it should have.
    why: the evidence, as a sentence.
    """

    subject: str
    key: str
    now: float | None
    better: float
    why: str


class IdleModel(Struct, frozen=True):
    """A model whose own GPUs hardly do anything.

    model: its id.
    gpu_hours: GPU-hours that Ready replicas of its own stood.
    busy_share: share of them that work kept busy.
    usd: what the idle ones cost; None without a price.
    """

    model: str
    gpu_hours: float
    busy_share: float
    usd: float | None


def advice(seen: Gathered) -> tuple[Advice, ...]:
    """Models first, then pools."""
    hours = models_of([hour for hour in seen.hours if hour.seen_seconds])
    of_models = [
        each
        for model in seen.policy.models
        for each in (
            *_of_engine(model, seen.carries.get(model.id)),
            *(_of_replicas(model, hours.get(model.id, ())) if _home(seen.policy, model) else ()),
        )
    ]
    owned = {each.subject.partition("/")[2]: int(each.better) for each in of_models if each.key == "entitlement"}
    return (*of_models, *_of_pools(seen.policy, hours, owned))


def idle_models(models: Sequence[BillRow]) -> tuple[IdleModel, ...]:
    """Models whose own GPUs were busy for less than a twentieth of the time, the dearest first."""
    idle = [
        IdleModel(row.name, row.served_hours, row.busy_share, _idle_usd(row))
        for row in models
        if row.name and row.busy_share is not None and row.busy_share < IDLE_SHARE
    ]
    return tuple(sorted(idle, key=lambda each: (-each.gpu_hours, each.model)))


def _idle_usd(row: BillRow) -> float | None:
    return None if row.usd is None or not row.gpu_hours else row.usd * row.hours("owned-idle") / row.gpu_hours


def _home(policy: Policy, model: Model) -> str | None:
    """The pool that holds what the model owns: its first primary one. None: it can own nothing."""
    primary = {pool.name for pool in policy.pools if pool.kind == "primary"}
    return None if model.takes_idle else next((each.pool for each in model.targets if each.pool in primary), None)


def _of_engine(model: Model, learnt: Carries | None) -> Iterator[Advice]:
    if learnt is not None and _mistaken(learnt):
        yield Advice(
            f"model/{model.id}",
            "signals.concurrency.perReplica",
            learnt.prior,
            float(figure(learnt.learnt)),
            f"a replica carries {figure(learnt.learnt)} requests within its SLO, by {learnt.readings} looks at loaded"
            f" replicas; four times out of five it is {_range(learnt)}",
        )


def _of_replicas(model: Model, hours: Sequence[ModelHour]) -> Iterator[Advice]:
    """Advice on a model's entitlement, then its maximum, then its minimum: taken in this order no policy is wrong."""
    if len(hours) < LEAST_HOURS:
        return
    subject = f"model/{model.id}"
    needs = np.array([hour.needed for hour in hours])
    owned, held = (int(np.quantile(needs, share, method="higher")) for share in (MOST_HOURS, FLOOR_HOURS))
    most = int(needs.max())
    of = f"of {counted(len(hours), 'hour')}"
    if owned != model.entitlement:
        yield Advice(
            subject,
            "entitlement",
            model.entitlement,
            owned,
            f"{owned} of its own would have sufficed in {_share(needs <= owned)} {of}, {model.entitlement} did in"
            f" {_share(needs <= model.entitlement)}; the busiest needed {most}",
        )
    if owned > model.max_replicas:
        yield Advice(subject, "maxReplicas", model.max_replicas, owned, "it may hold what it is to own")
    floor = min(held, owned)
    if floor < model.min_replicas:
        yield Advice(
            subject,
            "minReplicas",
            model.min_replicas,
            floor,
            f"half {of} needed at most {held}; the floor keeps {model.min_replicas} from others at all times",
        )


def _mistaken(learnt: Carries) -> bool:
    if learnt.prior is None or learnt.readings < LEAST_READINGS or learnt.low is None:
        return False
    return learnt.prior < learnt.low or (learnt.high is not None and learnt.prior > learnt.high)


def _range(learnt: Carries) -> str:
    low = figure(learnt.low or 0.0)
    return f"{low} or more" if learnt.high is None else f"between {low} and {figure(learnt.high)}"


def _share(of: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]") -> str:
    return f"{100 * float(of.mean()):.0f} %"


def _of_pools(policy: Policy, hours: Mapping[str, Sequence[ModelHour]], owned: Mapping[str, int]) -> Iterator[Advice]:
    """Primary pools: the busiest hour of all their models together, which is less than all their busiest hours.

    Never fewer GPUs than models are advised to own. `owned`: advised entitlements by model.
    """
    for pool in policy.pools:
        models = [model for model in policy.models if _home(policy, model) == pool.name]
        if not models:
            continue
        together: dict[int, int] = {}
        alone = 0
        for model in models:
            mine = hours.get(model.id, ())
            alone += max((hour.needed for hour in mine), default=0) * model.gpus_per_replica
            for hour in mine:
                together[hour.hour] = together.get(hour.hour, 0) + hour.needed * model.gpus_per_replica
        if len(together) < LEAST_HOURS:
            continue
        entitled = sum(owned.get(model.id, model.entitlement) * model.gpus_per_replica for model in models)
        busiest = max(together.values())
        most = max(busiest, entitled)
        if most != pool.gpu_limit:
            over = sum(gpus > pool.gpu_limit for gpus in together.values())
            lacks = f"; {counted(over, 'hour')} of {len(together)} needed more than there are" if over else ""
            yield Advice(
                f"pool/{pool.name}",
                "gpuLimit",
                pool.gpu_limit,
                most,
                f"the busiest hour of its models together needed {busiest} GPUs, they are to own {entitled}; each alone"
                f" in its own busiest hour would take {alone}{lacks}",
            )


def patch(advised: Sequence[Advice]) -> str:
    """What to change in the policy, as YAML to be read and copied by a person."""
    lines: list[str] = []
    for section, name in (("pools", "name"), ("models", "id")):
        mine = [each for each in advised if each.subject.startswith(f"{section[:-1]}/")]
        if mine:
            lines.append(f"{section}:")
        for subject in dict.fromkeys(each.subject for each in mine):
            lines.append(f"- {name}: {subject.partition('/')[2]}")
            lines += [line for each in mine if each.subject == subject for line in _patched(each)]
    return "\n".join(lines)


def _patched(each: Advice) -> Iterator[str]:
    *above, key = each.key.split(".")
    indent = "  "
    for word in above:
        yield f"{indent}{word}:"
        indent += "  "
    now = "none" if each.now is None else f"{each.now:g}"
    yield f"{indent}{key}: {each.better:g}  # {now} until now"
