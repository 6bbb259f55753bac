"""Our writes to what is steered, one to one with our records of them (invariant I8): audit log and journal, joined.

Steered are replicas by `/scale`, the bounds of autoscalers, NodePools, nodes by cordons, and pods by evictions.
"""

from collections.abc import Iterable

from rebalancer.domain.outcome import UNKNOWN, WRITTEN
from tests.faults.evidence import Evidence, Json
from tests.testbed.audit import Write

UNDER_WAY = 8  # writes that the gate has under way at a time, of which a kill may leave no outcome
_AUTOSCALERS = ("horizontalpodautoscalers", "scaledobjects")
_STEERED = {*_AUTOSCALERS, "nodepools", "nodes", "pods"}
_CLOCK_SECONDS = 1.0  # between an instant of ours and the audit log's for the same thing
_GONE = 404  # whose eviction is answered so is gone, as it was to be: that is recorded as written


def steering(evidence: Evidence) -> list[Write]:
    """Our writes to what is steered that the API server stored."""
    return [
        write
        for write in evidence.own
        if write.succeeded and not write.dry_run and (write.subresource == "scale" or write.resource in _STEERED)
    ]


def unmatched(evidence: Evidence) -> list[str]:
    """Writes without a record, and records without what they speak of.

    An outcome that is unknown stands for one write or for none; so does an intent that a kill left without an outcome.
    An outcome that reached the journal and not Kafka before a kill is told again by who leads next: that is one record.
    """
    intents = [line["intent"] for line in evidence.journal if line["line"] == "intent"]
    outcomes = [line["outcome"] for line in evidence.journal if line["line"] == "outcome"]
    mine = _once(each for each in outcomes if each["at"] >= evidence.span.since)
    written = [each["intent"] for each in mine if each["status"] == WRITTEN]
    unknown = [each["intent"] for each in mine if each["status"] == UNKNOWN]
    ended = {_key(each["intent"]) for each in outcomes}
    open_ends = [each for each in intents if _key(each) not in ended]
    known = {_key(each) for each in intents}
    broken = [f"{_key(each)} has an outcome and no intent" for each in written + unknown if _key(each) not in known]
    if len(open_ends) > UNDER_WAY * evidence.kills:
        broken.append(f"{len(open_ends)} intents without an outcome after {evidence.kills} kills")
    unrecorded, left = _joined(evidence, intents, (written, unknown, open_ends))
    broken += [f"{write.verb} {write.what} at {write.received:.3f} stands in no record of ours" for write in unrecorded]
    gone = {_object(write) for write in evidence.own if write.code == _GONE and write.resource == "pods"}
    broken += [
        f"{_key(each)} is recorded as written, and the API server knows nothing"
        for each in left
        if each["object"] not in gone
    ]
    return broken


def _joined(evidence: Evidence, intents: list[Json], records: tuple[list[Json], ...]) -> tuple[list[Write], list[Json]]:
    """Writes that stand in no record, and of the first records those that stand for no write; each counts once.

    Marks of the pods that shall go have no outcome of their own: they belong to the intent that names the pods.
    """
    left = [each.copy() for each in records]
    unrecorded = []
    for write in steering(evidence):
        if (write.resource, write.verb) == ("pods", "patch"):
            if not any(_marked(each, write) for each in intents):
                unrecorded.append(write)
            continue
        for each in left:
            if record := next((record for record in each if _same(record, write, evidence)), None):
                each.remove(record)
                break
        else:
            unrecorded.append(write)
    return unrecorded, left[0]


def _key(intent: Json) -> tuple[object, object]:
    return intent["cycle"], intent["id"]


def _once(outcomes: Iterable[Json]) -> list[Json]:
    """One outcome of each intent: `written` where any says so, else the last."""
    of: dict[tuple[object, ...], Json] = {}
    for each in outcomes:
        identity = (*_key(each["intent"]), each["intent"]["at"])
        if identity not in of or of[identity]["status"] != WRITTEN:
            of[identity] = each
    return [*of.values()]


def _same(intent: Json, write: Write, evidence: Evidence) -> bool:
    """Whether this is the write that the intent is about."""
    there = bool(intent["object"] == _object(write))
    return there and _at_its_time(intent, write) and _as_asked(intent, write, evidence)


def _marked(intent: Json, write: Write) -> bool:
    """Whether the pod that is marked is one that the intent lets go."""
    marked = write.request["metadata"]["uid"]
    return bool(marked in intent["victims"]) and _at_its_time(intent, write)


def _at_its_time(intent: Json, write: Write) -> bool:
    return bool(intent["at"] <= write.received + _CLOCK_SECONDS and write.received <= intent["at"] + 60.0)


def _object(write: Write) -> str:
    """What is written to, as an intent spells it; of an autoscaler the target that it scales."""
    kind, name = write.resource.removesuffix("s"), write.name
    if write.resource in _AUTOSCALERS:
        target = write.response["spec"]["scaleTargetRef"]
        kind, name = target.get("kind", "Deployment").lower(), target["name"]
    return "/".join(part for part in (kind, write.namespace, name) if part)


def _as_asked(intent: Json, write: Write, evidence: Evidence) -> bool:
    """Whether what arrived is what the intent speaks of."""
    spec = write.request.get("spec", {})
    if write.subresource == "scale":
        arrived = spec.get("replicas", 0)  # Go leaves a 0 out
        return bool(intent["replicas_to"] == evidence.altered.get((write.name, arrived), arrived))
    match write.resource:
        case "horizontalpodautoscalers":
            return _bounded(intent, spec["minReplicas"], spec["maxReplicas"])
        case "scaledobjects":
            return _bounded(intent, spec["minReplicaCount"], spec["maxReplicaCount"])
        case "nodepools":
            return bool(intent["kind"].endswith("limit") == ("limits" in spec))
        case "nodes":
            return bool(intent["kind"] == ("cordon" if spec.get("unschedulable") else "uncordon"))
        case _:
            return bool(intent["kind"] == ("evict" if write.subresource == "eviction" else "delete"))


def _bounded(intent: Json, low: int, high: int) -> bool:
    """Whether these are the bounds meant: an HPA has no minimum of 0 everywhere, and nothing has a maximum of 0."""
    least = intent["minimum_to"]
    return bool(high == max(1, intent["replicas_to"]) and low in {least, max(1, least)})
