"""The names of what is written to the API server: `kube/VERB/RESOURCE`, as an RBAC rule has them."""

from collections.abc import Mapping
from typing import Final

from rebalancer.kube.resources import Call

EFFECTS: Final[Mapping[str, str]] = {
    "kube/update/scale": "replicas of a target of any kind, by its `/scale`",
    "kube/patch/scaledobjects": "bounds of a ScaledObject, or its own given back",
    "kube/patch/horizontalpodautoscalers": "bounds of an HPA, or its own given back",
    "kube/patch/nodepools": "limit, weight or disruption budget of a NodePool, or its own given back",
    "kube/patch/nodes": "a cordon, or its end",
    "kube/patch/pods": "the deletion cost of a pod that shall go",
    "kube/create/pods/eviction": "a pod under notice is asked to go",
    "kube/delete/pods": "a pod under notice is deleted, in the last seconds",
    "kube/create/events": "an Event about an object that was written to",
    "kube/create/leases": "the Lease, where there is none",
    "kube/patch/leases": "the Lease is taken, renewed or given back",
    "kube/patch/overrides/status": "what an Override does, told on it",
    "kube/create/overrides": "an Override that a person asked for by HTTP or by a signed record",
    "kube/delete/overrides": "an Override that a person ends",
    "kube/create/writestops": "a person stops all writes",
    "kube/delete/writestops": "a person resumes them",
    "kube/create/tokenreviews": "who calls the API is asked; the API server keeps nothing",
    "kube/create/subjectaccessreviews": "what they may is asked; the API server keeps nothing",
}


def name_of(call: Call) -> str:
    """The name of a call that writes. All kinds of targets have one `scale`: a policy may name any."""
    return f"kube/{call.verb}/{'scale' if call.subresource == 'scale' else call.target}"
