"""The audit log: one entry per mutating request, in the order in which they were answered."""

from dataclasses import dataclass
from typing import Any

from rebalancer.sandbox.api.resources import Target

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class AuditEntry:
    """One mutating request and its answer.

    Requests of users we do not know, or with a body that is not the JSON expected, change nothing and leave no entry.
    An eviction is a `create` of the subresource `eviction`, as in the API server's own audit log.

    at: UTC epoch seconds at which it was answered.
    user: name of the user in the bearer token, `local` where there was no token.
    user_agent: its User-Agent header, "" where it had none.
    verb: create, update, patch or delete.
    path: path of its URL, without the query.
    target: what the path points at, None where that is no resource that is served.
    body: its decoded JSON, a list for a JSON patch; {} where it had no body.
    code: HTTP status of the answer.
    """

    at: float
    user: str
    user_agent: str
    verb: str
    path: str
    target: Target | None
    body: Any
    code: int
