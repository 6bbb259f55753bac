"""Why something was not done: every word that a refusal, an unmet need, a rejected record or an override may carry."""

from collections.abc import Mapping

from rebalancer.app.reference.table import code, table
from rebalancer.ingest.rejected import MAX_VALUE_BYTES, Reason
from rebalancer.planning.guards.guards import EVERY_GUARD

_INTRO = """\
# Reasons

The service says why it did not do something with one of these words and a sentence with the numbers. The words are
stable: alerts, dashboards and scripts may match them. The sentences are for people and may change.
"""

_ABOUT_GUARDS = """\
## Guards

A refusal names the guard that declined a move. [The rules](../rules.md#8-guards) have their limits.
"""

_GUARDS = {
    "floor": ("The model would have fewer replicas, or fewer Ready ones, than its floor.", "Wait, or lower the floor."),
    "empty": (
        "No node of the pool is seen while pods run there: the budget is unknown, not zero.",
        "Look at the pool's nodeLabels and at the nodes.",
    ),
    "start": (
        "Not everything is listed and fresh since the start, or too few metric intervals were seen.",
        "Wait; `/readyz` names what is missing.",
    ),
    "blind": (
        "No usable vote speaks for the model.",
        "Look at its metric producers; `explain` says why each signal abstains.",
    ),
    "agree": (
        "Fewer signals can speak for the model than a decrease needs.",
        "Look at the metric producers of those that abstain; the refusal names them.",
    ),
    "sudden": (
        "Work fell at once in most models, or in most of one producer's, and rose in none: rather an outage than calm.",
        "Look at what brings them their requests, and at who tells of them; else wait until the instant that it names.",
    ),
    "plausible": (
        "Offered work jumped far beyond what is usual, and nothing else says so.",
        "Wait for more samples; look at the model's metric producers; an override floor or pin raises it at once.",
    ),
    "step": (
        "The model lost its share of replicas in the window already.",
        "Wait until the instant that the refusal names.",
    ),
    "fleet": (
        "All models together lost their share in the window already.",
        "Wait; look at whether so much is meant to go.",
    ),
    "shift": (
        "The donor gave its share to others in the window already.",
        "Wait until the instant that the refusal names.",
    ),
    "loss": (
        "It has just lost replicas with a node (`nodes.lossHoldSeconds`): less work then is lost work, not calm.",
        "Wait; `rebalancer explain --node NODE` has what became of them.",
    ),
    "budget": ("The pool's GPUs are promised already, or its gpuLimit is reached.", "Free GPUs, or raise gpuLimit."),
    "fit": (
        "No single node has, or would have, the GPUs that one replica needs together.",
        "Smaller replicas, or larger nodes.",
    ),
    "nodes": (
        "No node comes: a person drains the pool, what it asked failed, a group is full, or the model just gave GPUs.",
        "Wait until the instant it names, or the gift is granted; raise the group's maximum; name another NodePool.",
    ),
    "foreign": (
        "Somebody else changed what is written here twice within 10 minutes (`guards.foreign`), or holds it.",
        "Take the field out of what they apply, or the model out of one policy. Then `rebalancer stand-up MODEL`.",
    ),
    "owner": (
        "Somebody else owns the number: a controller that writes it back, another autoscaler, who paused KEDA.",
        "What the refusal says after the semicolon; [who else writes](owners.md) has all of them.",
    ),
    "gpus": (
        "Policy, template and running pods say different numbers of GPUs per pod; the largest counts in every sum.",
        "Set `gpusPerReplica` to what the template asks for; the refusal has all numbers.",
    ),
    "ratio": (
        "The model is one role of a couple, and with that number the two would leave their `ratio`.",
        "Look at what holds the other role; or widen `ratio` of the policy.",
    ),
    "marks": (
        "Asked for one less, Kubernetes might end another replica than the doomed one: nobody marks pods.",
        "Set `actuation.deletionCost`, or let `kubectl drain` end those on the node; pools with `drain` evict them.",
    ),
    "stop": ("A WriteStop exists: nothing is written.", "`rebalancer writes resume`, when it is safe."),
}

_CONSTRAINTS = {
    "waiting": "This plan asks for it, or it was granted and pods are on their way, or GPUs are being released for it.",
    "budget": "No GPU of its pools is free.",
    "fit": "GPUs are free, not enough of them on one node.",
    "nodes": "No GPU of its pools is free, and nobody brings nodes: neither a NodePool nor a node group, for now.",
    "cap": "It has what `elasticReplicas`, `spotReplicas`, `placeReplicas` or its team's `elasticGpus` allow.",
    "maximum": "It has all that its `maxReplicas` allows, and its requests are late all the same.",
    "ratio": "The other role of its couple has too few replicas for more of this one, or cannot follow yet.",
    "quota": "A ResourceQuota, LimitRange or Kueue queue lets no more replicas in; `why` has used, hard and holders.",
    "missing": "Its target does not exist.",
    "paused": "An override pauses it.",
    "pause": "An override pauses it.",
    "freeze": "An override freezes it.",
    "override": "A pin or a cap keeps its number below what it needs; its message says what that costs.",
    "schedule": "A schedule of the policy keeps its number below what it needs.",
    "rollout": "Its target is in the middle of a rollout.",
    "autoscaler-paused": "Its ScaledObject is paused by somebody else.",
    "gpus": "Policy, template and running pods say different numbers of GPUs per pod.",
    "idle": "Its autoscaler does nothing at the replicas there are: KEDA idles it, or its HPA is disabled at 0.",
    "owner": "A controller writes its number back, or two autoscalers scale its target.",
    "foreign": "Somebody else keeps writing or holds its target, or that of who keeps GPUs that are its own; "
    "or an autoscaler owns it, and actuation is `scale`.",
}

_GATE = {
    "moved": "The object is not as the plan saw it: it is planned again.",
    "done": "The object has what is asked for already; what it scales has yet to follow.",
    "recreated": "The object was deleted and made again since.",
    "foreign": "The autoscaler owns another target now, or the target another autoscaler.",
    "paused": "The autoscaler is paused: its bounds reach nobody.",
    "kind": "This kind of object cannot be written.",
    "bounds": "The minimum would be above the maximum.",
    "too-soon": "The object was patched less than 10 s ago, or 0.1 s where a shift has freed the GPUs.",
    "under-use": "A NodePool's limit would be under what is in use.",
    "floor": "The write would leave the model under its floor.",
    "budget": "The write would promise more GPUs than the budget has.",
    "ratio": "The write would take two roles out of their ratio, or further out of it.",
    "originals": "The annotation with the object's own values cannot be read.",
    "installation": "Another installation of the rebalancer wrote to the object: its annotation names it.",
    "webhook": "The server denied it twice, or stored another number twice: that rests a minute, or ten.",
    "unseen": "The target has more pods than watches have shown: which would go is unknown.",
    "unrecorded": "Kafka did not acknowledge the intent of a decrease.",
    "unsynced": "What must be known before a write is not listed or not fresh.",
    "leadership": "Another replica leads.",
    "write-stop": "A WriteStop exists, or could not be ruled out.",
}

_SIGNALS = {
    "never-seen": "No sample of it ever came.",
    "absent": "Samples come without it.",
    "not-finite": "The value was no finite number.",
}

_PHASES = {
    "InForce": "It is followed; the message says how far it could be applied.",
    "Superseded": "A newer override of the same kind for the same subject counts.",
    "Refused": "It names nothing in the policy, or its expiry is too far ahead.",
    "Expired": "Its time is over.",
}

_REJECTIONS = {
    "too-large": f"The value is larger than {MAX_VALUE_BYTES // 1024} KiB.",
    "not-cloudevent": "The record is no CloudEvent.",
    "unsupported-content-type": "The content type is none that is read here.",
    "not-utf8": "The text is not UTF-8.",
    "not-json": "The value is no JSON object.",
    "not-finite": "It holds NaN or Infinity: leave out what is unknown.",
    "too-deep": "The JSON is nested too deeply.",
    "duplicate-key": "A key is there twice.",
    "bad-envelope": "A CloudEvents attribute is missing or malformed.",
    "unknown-type": "The event type is none that this topic carries.",
    "no-time": "Neither the event nor the record has a time.",
    "time-ahead": "Its time is more than 5 s ahead: look at the producer's clock.",
    "stale": "A notice of what was over an hour ago: the Node itself knows better.",
    "invalid-data": "The data does not have the shape of its type; the detail says where.",
    "impossible-gauge": "A gauge cannot be (an exporter's blank, a ratio above 1) and was left out; the rest counts.",
    "unknown-gauge": "A gauge has a name that nobody knows here and was left out; the rest counts.",
    "no-pod": "No label of another producer's metric says which pod it is of; the detail has the labels it has.",
    "override-unsigned": "An override came without a signature, or no key may sign one here.",
    "override-signature": "An override's signature is not good for its key.",
    "override-late": "A signed override came too late, or a second time.",
    "override-refused": "A signed override was understood, and may not be made; the detail says why.",
    "not-applied": "A defect of the rebalancer kept it from being read or applied; the detail says which.",
}


def reasons_page() -> str:
    """The page. Raises KeyError when the code knows a word that this page does not explain."""
    guards = table(("guard", "what it saw", "what to do"), ((code(name), *_GUARDS[name]) for name in EVERY_GUARD))
    parts = (
        ("Unmet", "What a model that lacks replicas waits for; a guard's name when a guard holds it.", _CONSTRAINTS),
        ("Before a write", "Every object is read again before it is written; `refused` then says which check.", _GATE),
        ("Signals", "Why a signal has no vote. Others say their age, or how few pods they cover.", _SIGNALS),
        ("Overrides", "`status.phase` of an Override.", _PHASES),
        ("Rejected records", "In the dead-letter topic, and the label of a metric.", _rejections()),
    )
    return f"{_INTRO}\n{_ABOUT_GUARDS}\n{guards}" + "".join(_part(*each) for each in parts)


def _rejections() -> Mapping[str, str]:
    return {str(reason): _REJECTIONS[reason] for reason in Reason}


def _part(title: str, about: str, words: Mapping[str, str]) -> str:
    return f"\n## {title}\n\n{about}\n\n" + table(
        ("word", "meaning"), ((code(word), meaning) for word, meaning in words.items())
    )
