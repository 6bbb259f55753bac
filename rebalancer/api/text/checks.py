"""What `rebalancer doctor` and the Health page ask the service, each a pure function from its answers to findings."""

from collections.abc import Iterator

from msgspec import UNSET

from rebalancer.api.ports.status import Status
from rebalancer.api.text.pinned import said_pinned
from rebalancer.api.text.policy_file import kept_of
from rebalancer.api.text.words import some, span
from rebalancer.domain.arithmetic import unreachable
from rebalancer.domain.owners import claims
from rebalancer.domain.readings import MOST_LAG_SECONDS, TOLD_LAG_SECONDS, ModelLoad
from rebalancer.domain.snapshot import Snapshot, TargetView
from rebalancer.domain.words import CLOCK_IS_OFF
from rebalancer.survey.finding import FAIL, OK, WARN, Finding

_REFUSALS = {  # refusals that no waiting ends, and what does
    "gpus": "gpusPerReplica in the policy must be what the template asks for",
    "owner": "the second half of the sentence, or take the model out of the policy; docs: Who else writes",
    "empty": "kubectl get nodes, and the pods of their device plugin; or the pool's resource in the policy",
}


def of_status(status: Status) -> Iterator[Finding]:
    """The service by its own word."""
    yield _if(not status.policy_problems, FAIL, "policy", some(status.policy_problems), "rebalancer config check FILE")
    if status.policy_refused:
        yield Finding(FAIL, "policy", kept_of(status), "rebalancer config check FILE")
    missing, silent = some(status.sync.missing), some(status.sync.silent)
    yield _if(not missing, FAIL, "service", f"not read yet: {missing}", "its log says which right or CRD it lacks")
    yield _if(not silent, WARN, "service", f"silent: {silent}", "look at the producers and at Kafka")
    named = {*status.sync.missing, *status.sync.silent}
    for each in (each for each in status.unready if each.what not in named):
        yield Finding(WARN, "service", f"{each.what}: {each.detail}")
    clock_is_right = not status.sync.clock_is_off
    yield _if(clock_is_right, FAIL, "service", CLOCK_IS_OFF, "see to time synchronisation on its node")
    yield _if(bool(status.leader), FAIL, "service", status.led, "look at its pods and the Lease")
    stopped = status.writes_stopped
    why = f"stopped by {stopped.actor}: {stopped.reason}" if stopped else ""
    yield _if(stopped is None, WARN, "writes", why, "rebalancer writes resume")
    yield _if(status.write_mode == "act", WARN, "writes", "shadow: nothing is written", "writeMode: act, when trusted")
    pinned = list(said_pinned(status))
    yield from (Finding(WARN, "pinned", each.what, each.todo) for each in pinned)
    if not pinned:
        yield Finding(OK, "pinned", "")
    models = status.plan.models if status.plan else ()
    yield _if(bool(models), WARN, "models", "no model is decided about", "add models to the policy")
    blind = some([model.model for model in models if model.demand is None])
    yield _if(not blind, WARN, "models", f"no usable vote: {blind}", "rebalancer explain MODEL shows each signal")
    for refusal in status.plan.refusals if status.plan else ():
        if refusal.guard in _REFUSALS:
            yield Finding(FAIL, f"model/{refusal.subject}", refusal.why, _REFUSALS[refusal.guard])


def of_snapshot(snapshot: Snapshot) -> Iterator[Finding]:
    """The policy against the cluster."""
    for pool in snapshot.pools:
        fix = "compare the policy's node labels with kubectl get nodes --show-labels"
        yield _if(
            bool(pool.nodes or pool.node_pools or pool.node_groups),
            WARN,
            f"pool/{pool.name}",
            "no node has its labels",
            fix,
        )
    for quota in snapshot.quotas:
        fix = "raise it, or end what holds it; nothing is asked for beyond it. docs: Permission to ask"
        amount = max(draw.amount for draw in quota.draws)
        models = some(sorted({draw.model for draw in quota.draws}))
        yield _if(not quota.full, WARN, f"model/{models}", quota.text(amount), fix)
    starts = {model.id: model.load_seconds for model in snapshot.models}
    for load in snapshot.loads:
        yield from _of_load(load, starts.get(load.model))
    for model in snapshot.models:
        gone = some([f"{target.kind.lower()}/{target.name}" for target in model.targets if target.missing])
        yield _if(not gone, FAIL, f"model/{model.id}", f"not found: {gone}", "correct the target in the policy")
        if rules := [f"{target.name} {rule}" for target in model.targets for rule in target.placement.unseen]:
            problem = f"rules that depend on other pods are left to the scheduler: {some(rules)}"
            fix = "node labels instead of pod affinity, and no host port, where a grant stays Pending for it"
            yield Finding(WARN, f"model/{model.id}", problem, fix)
        for claim in (claim for target in model.targets for claim in claims(target) if not claim.refused):
            yield Finding(WARN, f"model/{model.id}", claim.why, claim.way_out)
        for unheard in filter(None, map(not_passed_on, model.targets)):
            yield Finding(WARN, f"model/{model.id}", unheard, "is KEDA's operator up? its pods and its log say")
        for sleeps in filter(None, map(unreachable, model.targets)):
            yield Finding(WARN, f"model/{model.id}", sleeps, "nothing of ours wakes it; rebalancer explain MODEL")


def _of_load(load: ModelLoad, start_seconds: float | None) -> Iterator[Finding]:
    """What a model's metrics tell late, or of pods that count nowhere; `start_seconds`: its usual start."""
    if load.lag_seconds >= TOLD_LAG_SECONDS:
        late = _late(load.lag_seconds, start_seconds)
        yield Finding(WARN, f"model/{load.model}", late, "scrape or send its metrics sooner and more often")
    if load.unheard_requests is not UNSET:
        unheard = f"{load.unheard_requests:g} requests run or wait on pods that lead no group, and count nowhere"
        fix = "tell of it as a whole, from its gateway or by modelLabel. docs/policy.md: Kinds of targets"
        yield Finding(WARN, f"model/{load.model}", unheard, fix)


def not_passed_on(target: TargetView) -> str | None:
    """What is wrong where the HPA that acts has another maximum than its ScaledObject; None where it has the same.

    KEDA makes them equal within seconds.
    """
    scaler = target.autoscaler
    if scaler is None or scaler.paused or scaler.effective_maximum == scaler.maximum:
        return None
    return (
        f"{scaler.kind} {scaler.name} allows {scaler.maximum}, its HPA {scaler.effective_maximum}: where that lasts "
        "longer than seconds KEDA passes nothing on, and GPUs that were to be released stay taken"
    )


def _late(lag_seconds: float, start_seconds: float | None) -> str:
    """What late samples cost: who rises waits for so much longer, at most as if replicas started so much later.

    Measured less: 4.5 % late with samples of 60 s ago, 5.8 % with starts that are 60 s longer.
    """
    cost = "surges are answered so much later"
    if start_seconds is not None:
        cost += (
            f", which costs no more than if a start took {span(start_seconds + lag_seconds)}, not {span(start_seconds)}"
        )
    beyond = f"; beyond {span(MOST_LAG_SECONDS)} no sample has a vote" if lag_seconds >= MOST_LAG_SECONDS else ""
    return f"its samples come {span(lag_seconds)} late: {cost}{beyond}"


def _if(well: bool, state: str, about: str, problem: str, fix: str) -> Finding:  # noqa: FBT001  reads as an if
    return Finding(OK, about, "") if well else Finding(state, about, problem, fix)
