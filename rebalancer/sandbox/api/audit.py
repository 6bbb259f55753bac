"""Who changed what: one entry per mutating request, in the order they were answered."""

from dataclasses import dataclass
from typing import Any

from rebalancer.sandbox.api.resources import Target

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class AuditEntry:
    """`at` is in UTC epoch seconds, `user` from the bearer token, `body` decoded JSON, `code` the answer's status.

    Requests of users we do not know, or without JSON, change nothing and leave no entry. An eviction is a `create` of
    the subresource `eviction`, as in the API server's own audit log.
    """

    at: float
    user: str
    user_agent: str
    verb: str
    path: str
    target: Target | None
    body: Any
    code: int
