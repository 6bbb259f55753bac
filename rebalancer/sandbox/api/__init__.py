"""A Kubernetes API in memory, over real HTTP on loopback: what the service needs of it, faithful where that matters.

`EmbeddedKubernetes` serves it; `Store` is its inside, for the simulated cluster that lives behind it.
"""

from rebalancer.sandbox.api.audit import AuditEntry
from rebalancer.sandbox.api.faults import ApiFaults
from rebalancer.sandbox.api.resources import Obj, ServedResource, Target
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.sandbox.api.status import StatusError
from rebalancer.sandbox.api.store import Revision, Store

__all__ = [
    "ApiFaults",
    "AuditEntry",
    "EmbeddedKubernetes",
    "Obj",
    "Revision",
    "ServedResource",
    "StatusError",
    "Store",
    "Target",
]
