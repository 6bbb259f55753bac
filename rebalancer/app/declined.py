"""Errors of the API server as answers for people."""

import re

from rebalancer.api.ports.operator import Declined
from rebalancer.kube.errors import Ambiguous, Conflict, Forbidden, Invalid, KubeError, NotFound, Temporary

_FIELD = re.compile(r" is invalid: (?:\[)?(?P<field>[\w.\[\]]+): ")
AGAIN_SECONDS = 2.0


def declined(error: KubeError) -> Declined:
    """What a failed call means to whoever asked."""
    said = str(error)
    match error:
        case NotFound():
            made = Declined(404, said, "does the namespace exist, are the rebalancer's CRDs installed?")
        case Conflict():
            made = Declined(409, said, "read it again, then decide again")
        case Forbidden() if "dmission" in said:
            made = Declined(403, said, "an admission policy of the cluster refuses it")
        case Forbidden():
            fix = f"let the rebalancer's account {error.verb} {error.resource} (the chart's RBAC)"
            made = Declined(503, said, fix, retry_after_seconds=30)
        case Invalid():
            found = _FIELD.search(said)
            where = f"body.{found['field']}".replace(".spec", "", 1) if found else "body"
            made = Declined(422, said, "change the request", where)
        case Ambiguous():
            fix = "it may have been applied: ask again with the same Idempotency-Key"
            made = Declined(503, said, fix, retry_after_seconds=AGAIN_SECONDS)
        case Temporary():
            made = Declined(503, said, "try again", retry_after_seconds=error.retry_after_seconds or AGAIN_SECONDS)
        case _:
            made = Declined(503, said, "the service's credentials are not accepted", retry_after_seconds=30)
    return made
