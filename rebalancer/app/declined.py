"""Errors of the API server as answers for people."""

import re

from rebalancer.api.ports.operator import Declined
from rebalancer.kube.errors import Ambiguous, Conflict, Forbidden, Invalid, KubeError, NotFound, Temporary

_FIELD = re.compile(r" is invalid: (?:\[)?(?P<field>[\w.\[\]]+): ")
AGAIN_SECONDS = 2.0


def declined(error: KubeError) -> Declined:
    """What a failed call means to whoever asked."""
    reason = str(error)
    match error:
        case NotFound():
            made = Declined(404, reason, "does the namespace exist, are the rebalancer's CRDs installed?")
        case Conflict():
            made = Declined(409, reason, "read it again, then decide again")
        case Forbidden() if "dmission" in reason:
            made = Declined(403, reason, "an admission policy of the cluster refuses it")
        case Forbidden():
            fix = f"let the rebalancer's account {error.verb} {error.resource} (the chart's RBAC)"
            made = Declined(503, reason, fix, retry_after_seconds=30)
        case Invalid():
            field = _FIELD.search(reason)
            where = f"body.{field['field']}".replace(".spec", "", 1) if field else "body"
            made = Declined(422, reason, "change the request", where)
        case Ambiguous():
            fix = "it may have been applied: ask again with the same Idempotency-Key"
            made = Declined(503, reason, fix, retry_after_seconds=AGAIN_SECONDS)
        case Temporary():
            made = Declined(503, reason, "try again", retry_after_seconds=error.retry_after_seconds or AGAIN_SECONDS)
        case _:
            made = Declined(503, reason, "the service's credentials are not accepted", retry_after_seconds=30)
    return made
