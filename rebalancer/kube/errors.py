"""What can go wrong with a call, named by what the caller should do about it.

The error of the HTTP library, where there was one, is chained as `__cause__`.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from rebalancer.kube.resources import Call

_MESSAGE_LIMIT: Final = 500
_TWO_BUDGETS: Final = "more than one PodDisruptionBudget"  # the API server's words; other 500s say nothing of the pod


class KubeError(Exception):
    """A call to the API server did not do what it was asked."""


class Temporary(KubeError):
    """Try again later, not before `retry_after_seconds` where the server named it. Nothing was written."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Ambiguous(KubeError):
    """The reply to a write was lost or says nothing about it: read the object again before deciding."""


class Conflict(KubeError):
    """Somebody changed the object meanwhile: read, decide and guard again. Never repeat as it is.

    `already_exists` tells a create whose name was taken from a failed precondition.
    """

    def __init__(self, message: str, *, already_exists: bool = False) -> None:
        super().__init__(message)
        self.already_exists = already_exists


class Gone(KubeError):
    """List again: that revision is no longer served, or what came from it cannot be read."""


class Silent(Gone):
    """List again: a watch said nothing for longer than a living one should."""


class NotFound(KubeError):
    """The object, or its resource (a CRD that is not installed), does not exist."""


class Forbidden(KubeError):
    """Ask for the right: RBAC or an admission policy denies `verb` on `resource`."""

    def __init__(self, message: str, *, verb: str, resource: str) -> None:
        super().__init__(message)
        self.verb = verb
        self.resource = resource


class Unauthorized(KubeError):
    """Log in again: the server does not accept our credentials."""


class Invalid(KubeError):
    """Correct the request: repeating it cannot help.

    `two_budgets`: it is an eviction of a pod that two disruption budgets hold: the API server evicts none of those.
    """

    def __init__(self, message: str, *, two_budgets: bool = False) -> None:
        super().__init__(message)
        self.two_budgets = two_budgets


class ErrorStatus(msgspec.Struct):
    """The fields of Kubernetes' `Status` that errors are made of."""

    code: int = 0
    reason: str = ""
    message: str = ""


def lost(call: Call, what: str) -> KubeError:
    """The error of a call whose reply never came whole."""
    if call.writes:
        return Ambiguous(f"{call}: {what}; it may have been applied")
    return Temporary(f"{call}: {what}")


def refusal(call: Call, code: int, headers: Mapping[str, str], body: bytes) -> KubeError:
    """The error of a reply other than 2xx."""
    status = _status(headers, body)
    text = f"{call}: {code} {(status.message or status.reason)[:_MESSAGE_LIMIT]}".rstrip()
    if "html" in headers.get("Content-Type", ""):
        return _not_kubernetes(call, code, _retry_after(headers))
    if code == HTTPStatus.SERVICE_UNAVAILABLE and status.code == code:
        return Temporary(text, _retry_after(headers))  # the API server itself turned it away
    if call.subresource == "eviction" and _TWO_BUDGETS in status.message:
        return Invalid(text, two_budgets=True)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return lost(call, text) if call.writes else Temporary(text, _retry_after(headers))
    return _of_code(call, code, text, status, _retry_after(headers))


def _not_kubernetes(call: Call, code: int, retry_after_seconds: float | None) -> KubeError:
    """A page for people comes from something in between, whatever status it carries."""
    what = f"{code} with an HTML page, which no API server sends"
    if call.writes and code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return lost(call, what)
    return Temporary(f"{call}: {what}", retry_after_seconds)


def _of_code(call: Call, code: int, text: str, status: ErrorStatus, retry_after_seconds: float | None) -> KubeError:
    if plain := _PLAIN.get(code):
        return plain(text)
    if code == HTTPStatus.FORBIDDEN:
        return Forbidden(text, verb=call.verb, resource=call.target)
    if code == HTTPStatus.CONFLICT:
        return Conflict(text, already_exists=status.reason == "AlreadyExists")
    if code in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT):
        return Temporary(text, retry_after_seconds)
    if code < HTTPStatus.BAD_REQUEST:
        return Temporary(f"{text} (a redirect would carry our token elsewhere)")
    return Invalid(text)


_PLAIN: Final[Mapping[int, type[KubeError]]] = {
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.GONE: Gone,
}


def _status(headers: Mapping[str, str], body: bytes) -> ErrorStatus:
    if "json" not in headers.get("Content-Type", ""):
        return ErrorStatus()
    try:
        return msgspec.json.decode(body, type=ErrorStatus)
    except msgspec.MsgspecError:
        return ErrorStatus()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Kubernetes sends whole seconds; a proxy's date is as good as no word."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None
