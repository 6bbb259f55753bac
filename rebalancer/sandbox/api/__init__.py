"""A Kubernetes API in memory, over real HTTP on loopback: what the service needs of it, faithful where that matters.

`EmbeddedKubernetes` serves it; `Store` is its inside, for the simulated cluster that lives behind it.
"""

from rebalancer.sandbox.api.audit import AuditEntry
from rebalancer.sandbox.api.faults import Faults
from rebalancer.sandbox.api.resources import Obj, Resource, Target
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.sandbox.api.status import ApiError
from rebalancer.sandbox.api.store import Change, Store

__all__ = ["ApiError", "AuditEntry", "Change", "EmbeddedKubernetes", "Faults", "Obj", "Resource", "Store", "Target"]
