"""The invariants I1 to I16 of the project, each under its number: pure functions that say what broke, empty: nothing.

They are judged by what others wrote down, the API server's audit log before all, and never by our own word alone.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby, pairwise

from rebalancer.leader.lease import EPOCH
from tests.faults.bijection import steering, unmatched
from tests.faults.evidence import Evidence, Lag
from tests.real.oracles import WRITTEN_WITHIN_SECONDS, Step, below_floor, over_budget, over_share, steps
from tests.testbed.audit import Write

Broken = list[str]

CALLS_A_SECOND = 20.0
CONNECTIONS_A_SECOND = 24.0
"""Four a second for each of two connections, to bootstrap and to broker, of its three clients of Kafka: 13 were seen.

With one a second each a start, and whatever waits for a topic, takes seconds longer.
"""
LOG_LINES_A_SECOND = 100.0
_LINE_BYTES = 200.0  # shorter than any line of JSON that it logs
RESIDENT_MIB = 512.0
DESCRIPTORS = 256
UNREADY_SECONDS = 60.0
DRAIN_SECONDS = 5.0
LAG_SECONDS = 0.2
PHASES = ("InForce", "Superseded", "Refused", "Expired")
BLIND_AFTER_SECONDS = 2.0  # a decision that was made just before its readings went stale is on its way
STABLE_SECONDS = 0.5  # a write that was under way when state was seen as desired


def i1(evidence: Evidence) -> Broken:
    """Floor: no write of ours takes a model below it."""
    return [f"{step}" for step in below_floor(taken(evidence), evidence.rules.floors)]


def i2(evidence: Evidence) -> Broken:
    """Budget: after each raise what is asked for, or still runs, is within the pool's GPUs."""
    rules = evidence.rules
    return over_budget(taken(evidence), rules.replicas, evidence.pods, rules.gpus)


def i3(evidence: Evidence) -> Broken:
    """Single leader: each write carries an epoch that was current when the API server received it."""
    takeovers = sorted((lease.answered, epoch) for lease in evidence.leases if (epoch := _granted(lease)) is not None)
    broken = []
    for write in evidence.own:
        if write.resource in {"leases", "overrides"}:
            continue
        if (epoch := epoch_of(write)) is None:
            broken.append(f"{write.what} at {write.received:.3f} carries no epoch: {write.agent}")
        elif newer := [other for at, other in takeovers if other > epoch and at <= write.received]:
            broken.append(f"{write.what} of epoch {epoch}, when {newer[0]} led")
    return broken


def i4(evidence: Evidence) -> Broken:
    """At least once: each record that Kafka acknowledged is in the state, or a dead letter with its reason."""
    return evidence.unaccounted


def i5(evidence: Evidence) -> Broken:
    """Idempotence: nothing is written that is so already."""
    return [f"{step}" for step in taken(evidence) if step.before == step.after]


def i6(evidence: Evidence) -> Broken:
    """Overrides: whoever made one can read what became of it."""
    phases = [(each["metadata"]["name"], each.get("status", {}).get("phase", "")) for each in evidence.overrides]
    return [f"override {name} is told {phase!r}" for name, phase in phases if phase not in PHASES]


def i7(evidence: Evidence) -> Broken:
    """Convergence: state is as desired, and then nothing that is steered is written any more."""
    if evidence.quiet_since is None:
        return ["state did not become as desired"]
    return [
        f"{write.verb} {write.what} {write.received - evidence.quiet_since:.1f} s after all was as desired"
        for write in steering(evidence)
        if write.received > evidence.quiet_since + STABLE_SECONDS
    ]


def i8(evidence: Evidence) -> Broken:
    """Audit complete: what the API server stored of ours and what our records say was written are one to one."""
    return unmatched(evidence)


def i9(evidence: Evidence) -> Broken:
    """Fail-static: a model whose readings are stale loses nothing by us."""
    return [
        f"{step}, {step.at - span.since:.1f} s after its readings ended"
        for step in taken(evidence)
        for model, span in evidence.blind
        if step.model == model and step.lost and span.since + BLIND_AFTER_SECONDS < step.at < span.until
    ]


def i10(evidence: Evidence) -> Broken:
    """Speed: no donor loses more in any window than the guard `shift` allows, restarts included."""
    rules = evidence.rules
    return [
        broken
        for model, floor in rules.floors.items()
        for broken in over_share(
            taken(evidence), model, partial(_kept, evidence), floor, rules.share, rules.window_seconds
        )
    ]


def _kept(evidence: Evidence, step: Step) -> int:
    """What the guard speaks of: a model's own replicas, and of those what its last minute needs with its chance.

    Replicas on a node under notice it is not asked for, nor those that have no node yet: they meet no need.
    """
    under_notice = {notice.node for notice in evidence.notices if notice.at <= step.at}
    doomed = sum(
        evidence.pods.nodes.get(pod) in under_notice and came <= step.at < gone
        for pod, (came, gone) in evidence.pods.spans.items()
        if pod.startswith(f"{step.model}-")
    )
    nowhere = evidence.pods.without_node(step.at, f"{step.model}-", WRITTEN_WITHIN_SECONDS)
    own = min(evidence.rules.entitlements[step.model], step.before - doomed - nowhere)
    minute = [work for at, work in evidence.work.get(step.model, ()) if step.at - 60.0 < at <= step.at]
    if not minute:
        return own
    level = sum(minute) / len(minute)
    return min(own, math.ceil(level + 1.5 * math.sqrt(level)))


def i11(evidence: Evidence) -> Broken:
    """No hot loop: calls, connections and log lines have a bound, whatever is away."""
    calls = [at for at, _, _ in evidence.calls]
    logged = [(now.at, (now.log_bytes - before.log_bytes) / _LINE_BYTES) for before, now in pairwise(evidence.vitals)]
    lines = _most(logged)
    return [
        f"{most:.1f} {what} a second, {bound:g} may be"
        for what, most, bound in (
            ("API calls", _most([(at, 1.0) for at in calls]), CALLS_A_SECOND),
            ("connections to the broker", _most([(at, 1.0) for at in evidence.connections]), CONNECTIONS_A_SECOND),
            ("log lines", lines, LOG_LINES_A_SECOND),
        )
        if most > bound
    ]


def i12(evidence: Evidence) -> Broken:
    """Honest health: what is away makes /readyz complain of it within a minute."""
    return [
        f"/readyz did not complain of {what} within {UNREADY_SECONDS:g} s"
        for what, since in evidence.blamed
        if evidence.readiness.first(what, since) > UNREADY_SECONDS
    ]


def i13(evidence: Evidence) -> Broken:
    """Bounded: memory and descriptors."""
    mib = max((each.resident_mib for each in evidence.vitals), default=0.0)
    descriptors = max((each.descriptors for each in evidence.vitals), default=0)
    bounds = ((mib, RESIDENT_MIB, "MiB resident"), (descriptors, DESCRIPTORS, "open descriptors"))
    return [f"{most:.0f} {what}, {bound:g} may be" for most, bound, what in bounds if most > bound]


def i14(evidence: Evidence) -> Broken:
    """No input ends the process, or holds its event loop up for more than 200 ms.

    On a shared machine it may be late by what its main thread waited for a CPU meanwhile, too.
    """
    ended = [f"the process ended by itself {evidence.ended_by_itself} times"] if evidence.ended_by_itself else []
    if evidence.stopped:
        return ended
    if not evidence.lags:
        return [*ended, "nobody looked at the event loop"]
    return ended + [
        f"the event loop was held up for more than {late:g} s; for {waited:.2f} s it waited for a CPU"
        for late, waited in _late(evidence.lags)
        if late >= LAG_SECONDS + waited
    ]


def _late(lags: list[Lag]) -> Iterator[tuple[float, float]]:
    """From one look to the next: by more than which bound the loop was late, and how long it waited for a CPU.

    A look of its own lasts a second, and may have begun before the look before.
    """
    for pid, its in groupby(lags, key=lambda lag: lag.pid):
        began = [] if pid == lags[0].pid else [Lag(pid, 0.0, {})]
        looks = [*began, *its]
        for number, (before, now) in enumerate(pairwise(looks)):
            late = [bound for bound, times in now.late.items() if times > before.late.get(bound, 0)]
            yield max(late, default=0.0), now.waited_seconds - looks[max(0, number - 1)].waited_seconds


def i15(evidence: Evidence) -> Broken:
    """Drain: within 5 s of a notice something is done about its node, and pods go by eviction alone."""
    deleted = [
        write for write in evidence.own if (write.resource, write.verb, write.subresource) == ("pods", "delete", "")
    ]
    late = [
        notice
        for notice in evidence.notices
        if not any(notice.at <= at <= notice.at + DRAIN_SECONDS for at in _acted(notice.node, evidence))
    ]
    return [f"{write.what} was deleted" for write in deleted] + [f"nothing was done about {each.node}" for each in late]


def _acted(node: str, evidence: Evidence) -> list[float]:
    """When we did something about a node: cordoned it, had a pod on it evicted, raised a model that has one there."""
    there = {pod for pod, where in evidence.pods.nodes.items() if where == node}
    drained = [write.received for write in evidence.own if write.succeeded and _drains(write, node, there)]
    raised = [
        step.at
        for step in taken(evidence)
        if step.after > step.before and any(pod.startswith(f"{step.model}-") for pod in there)
    ]
    return drained + raised


def _drains(write: Write, node: str, pods: set[str]) -> bool:
    if write.resource == "nodes":
        return write.name == node and write.request.get("spec", {}).get("unschedulable") is True
    return (write.resource, write.subresource) == ("pods", "eviction") and write.name in pods


def i16(evidence: Evidence) -> Broken:
    """Scope: nothing but targets of the policy, their replicas, our Lease, our objects' status."""
    return [f"{write.verb} {write.what}" for write in evidence.own if not _in_scope(write, evidence)]


Invariant = Callable[[Evidence], Broken]
INVARIANTS: dict[str, Invariant] = {
    f"I{number}": each
    for number, each in enumerate((i1, i2, i3, i4, i5, i6, i7, i8, i9, i10, i11, i12, i13, i14, i15, i16), 1)
}


def judged(evidence: Evidence) -> dict[str, Broken]:
    """All of them; what broke, by name."""
    return {name: broken for name, invariant in INVARIANTS.items() if (broken := invariant(evidence))}


def taken(evidence: Evidence) -> list[Step]:
    """Our writes to numbers of replicas in order; what others wrote between counts as what was before."""
    everybody = [write for write in evidence.writes if write.subresource == "scale"]
    ours = {(write.received, write.name) for write in everybody if write.user == evidence.ours}
    return [step for step in steps(everybody, evidence.rules.replicas) if (step.at, step.model) in ours]


def epoch_of(write: Write) -> int | None:
    """The term that a write of ours names; None without one."""
    named = re.search(r"epoch (\d+)", write.agent)
    return int(named[1]) if named is not None else None


def _granted(lease: Write) -> int | None:
    """The epoch that a write to the Lease made current."""
    if not lease.succeeded or not lease.response.get("spec", {}).get("holderIdentity"):
        return None
    epoch = lease.response.get("metadata", {}).get("annotations", {}).get(EPOCH, "")
    return int(epoch) if epoch.isdigit() else None


def _most(events: list[tuple[float, float]], window_seconds: float = 10.0) -> float:
    """The highest rate over any ten seconds, in a second: a burst of a moment is no loop."""
    most, total, first = 0.0, 0.0, 0
    for at, amount in events:
        total += amount
        while events[first][0] <= at - window_seconds:
            total -= events[first][1]
            first += 1
        most = max(most, total / window_seconds)
    return most


def _in_scope(write: Write, evidence: Evidence) -> bool:
    match write.resource, write.subresource:
        case "deployments", "scale":
            spec = write.request.get("spec", {})
            return (write.namespace, write.name in evidence.rules.floors, set(spec)) == (
                evidence.namespace,
                True,
                {"replicas"},
            )
        case ("leases", "") | ("overrides", "" | "status") | ("pods", "eviction"):
            return write.namespace == evidence.namespace
        case "nodes", "":
            return set(write.request.get("spec", {})) <= {"unschedulable", "taints"}
        case _:
            return False
