"""Each reply becomes the error that says what to do."""

import msgspec
import pytest

from rebalancer.kube.errors import (
    Ambiguous,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Temporary,
    Unauthorized,
    refusal,
)
from rebalancer.kube.resources import DEPLOYMENTS, PODS, Call, Ref

TARGET = Ref(DEPLOYMENTS, "serving", "llama")
READ = Call("get", DEPLOYMENTS, TARGET.path)
WRITE = Call("patch", DEPLOYMENTS, TARGET.path, "scale")
EVICTION = Call("create", PODS, Ref(PODS, "serving", "llama-0").path, "eviction")
KUBERNETES = {"Content-Type": "application/json"}
PAGE = {"Content-Type": "text/html; charset=utf-8"}


def refused(call: Call, code: int, reason: str = "", message: str = "because", **headers: str) -> KubeError:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return refusal(call, code, KUBERNETES | headers, msgspec.json.encode(status))


@pytest.mark.parametrize(
    ("call", "code", "expected"),
    [
        (READ, 400, Invalid),
        (READ, 401, Unauthorized),
        (READ, 403, Forbidden),
        (READ, 404, NotFound),
        (READ, 408, Temporary),
        (READ, 409, Conflict),
        (READ, 410, Gone),
        (READ, 422, Invalid),
        (READ, 429, Temporary),
        (READ, 500, Temporary),
        (READ, 504, Temporary),
        (READ, 302, Temporary),
        (WRITE, 409, Conflict),
        (WRITE, 422, Invalid),
        (WRITE, 429, Temporary),
        (WRITE, 500, Ambiguous),  # such as "etcdserver: request timed out"
        (WRITE, 503, Temporary),  # the API server's own word: it did not take it
        (WRITE, 504, Ambiguous),
        (EVICTION, 429, Temporary),
        (EVICTION, 500, Ambiguous),  # such as a webhook that is away
        (EVICTION, 504, Ambiguous),
    ],
)
def test_status_codes_become_errors_by_what_to_do(call: Call, code: int, expected: type[KubeError]) -> None:
    assert type(refused(call, code)) is expected


def test_of_all_500s_to_an_eviction_two_budgets_on_the_pod_alone_cannot_be_helped_by_asking_again() -> None:
    words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    by_budgets, by_a_webhook = refused(EVICTION, 500, "InternalError", words), refused(EVICTION, 422, "Invalid", "no")
    assert isinstance(by_budgets, Invalid)
    assert isinstance(by_a_webhook, Invalid)
    assert (by_budgets.two_budgets, by_a_webhook.two_budgets) == (True, False)
    assert type(refused(EVICTION, 500, "InternalError", "etcdserver: leader changed")) is Ambiguous


@pytest.mark.parametrize("code", [200, 403, 404, 429, 502, 503])
def test_an_html_page_is_never_a_word_of_kubernetes_on_a_read(code: int) -> None:
    error = refusal(READ, code, PAGE, b"<html>secret</html>")
    assert type(error) is Temporary
    assert "secret" not in str(error)


def test_an_html_error_of_a_gateway_leaves_a_write_in_doubt() -> None:
    assert type(refusal(WRITE, 502, PAGE, b"<html>")) is Ambiguous
    assert type(refusal(WRITE, 503, PAGE, b"<html>")) is Ambiguous
    assert type(refusal(WRITE, 413, PAGE, b"<html>")) is Temporary


def test_plain_404_of_a_missing_crd_is_not_found() -> None:
    error = refusal(READ, 404, {"Content-Type": "text/plain"}, b"404 page not found\n")
    assert type(error) is NotFound


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("0", 0.0), ("-1", None), ("soon", None), ("²", None)])
def test_retry_after_is_whole_seconds_or_no_word(value: str, seconds: float | None) -> None:
    error = refused(READ, 429, **{"Retry-After": value})
    assert isinstance(error, Temporary)
    assert error.retry_after_seconds == seconds


def test_forbidden_names_the_right_that_is_missing() -> None:
    error = refused(WRITE, 403, "Forbidden")
    assert isinstance(error, Forbidden)
    assert (error.verb, error.resource) == ("patch", "deployments/scale")


def test_a_taken_name_is_told_from_a_failed_precondition() -> None:
    taken, moved_on = refused(WRITE, 409, "AlreadyExists"), refused(WRITE, 409, "Conflict")
    assert isinstance(taken, Conflict)
    assert taken.already_exists
    assert isinstance(moved_on, Conflict)
    assert not moved_on.already_exists


def test_the_message_says_what_was_asked_and_why_not() -> None:
    text = str(refused(WRITE, 422))
    assert text == "patch /apis/apps/v1/namespaces/serving/deployments/llama/scale: 422 because"


def test_a_status_that_is_no_status_still_makes_an_error() -> None:
    for body in (b"", b"{", b"[]", b'{"message": 5}'):
        assert type(refusal(READ, 409, KUBERNETES, body)) is Conflict
