"""Errors as the API server tells them: `Status` objects with a code, a reason and words."""

from typing import Any, NamedTuple

from rebalancer.sandbox.api.resources import Obj, ServedResource

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Cause(NamedTuple):
    """A rule that an object breaks; `field` is the path to the value, `reason` the API server's word for such rules."""

    field: str
    why: str
    reason: str = "FieldValueInvalid"


class StatusError(Exception):
    """A request that fails; `code` is the HTTP status, `details` goes into the Status as it is."""

    def __init__(self, code: int, message: str, *, reason: str = "", details: Obj | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS.get(code, "Unknown")
        self.details = details or {}

    @property
    def retry_after_seconds(self) -> int | None:
        """What the Retry-After header says, None when there is none."""
        return self.details.get("retryAfterSeconds")

    def status(self) -> Obj:
        """The `Status` object of this error."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def integer(text: object, name: str) -> int:
    """A number from a query or a body. Raises StatusError 400 when it is none."""
    try:
        return int(str(text))
    except ValueError as error:
        raise StatusError(400, f"{name}: {text!r} is not a whole number") from error


def success(resource: ServedResource, obj: Obj) -> Obj:
    """The `Status` that answers a finished deletion or an eviction."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_subject(resource, obj["metadata"]["name"]), "uid": obj["metadata"]["uid"]},
    }


def not_found(resource: ServedResource, name: str) -> StatusError:
    """404: no such object."""
    return StatusError(404, f'{_title(resource)} "{name}" not found', details=_subject(resource, name))


def already_exists(resource: ServedResource, name: str) -> StatusError:
    """409 with the reason AlreadyExists: the name is taken."""
    message = f'{_title(resource)} "{name}" already exists'
    return StatusError(409, message, reason="AlreadyExists", details=_subject(resource, name))


def conflict(resource: ServedResource, name: str, why: str) -> StatusError:
    """409: a precondition (resourceVersion, uid) does not hold."""
    message = f'Operation cannot be fulfilled on {_title(resource)} "{name}": {why}'
    return StatusError(409, message, details=_subject(resource, name))


def invalid(resource: ServedResource, name: str, *causes: Cause) -> StatusError:
    """422: the object breaks rules of its schema. kubectl prints the causes."""
    broken = ", ".join(f"{each.field}: {each.why}" for each in causes)
    message = f'{_kind(resource)} "{name}" is invalid: {broken if len(causes) == 1 else f"[{broken}]"}'
    details = {
        "name": name,
        "group": resource.group,
        "kind": resource.kind,
        "causes": [{"reason": each.reason, "message": each.why, "field": each.field} for each in causes],
    }
    return StatusError(422, message, details=details)


def expired(message: str) -> StatusError:
    """410: the revision asked for is older than the history kept."""
    return StatusError(410, message)


def _title(resource: ServedResource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _kind(resource: ServedResource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


def _subject(resource: ServedResource, name: str) -> dict[str, Any]:
    return {"name": name, "group": resource.group, "kind": resource.plural}
