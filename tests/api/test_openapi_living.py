"""The OpenAPI document against the running service: whatever it allows or forbids is answered as it says."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from blockbuster import BlockBuster
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rebalancer.api.serving.routes import openapi_text
from tests.api.living import living_service

# schemathesis draws from `random` inside its strategies.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]

SPEED = 25.0  # 20 requests a second of the service's clock are 500 of ours
STREAM = "/v1/stream"  # has no end to wait for; it has tests of its own
schema = schemathesis.openapi.from_dict(json.loads(openapi_text())).exclude(path=STREAM)

bounded = settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
users = itertools.count()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, blockbuster: BlockBuster) -> Iterator[str]:
    blockbuster.deactivate()  # the client library's login reads files
    with living_service(tmp_path_factory.mktemp("service"), SPEED) as address:
        yield address
    blockbuster.activate()


def judged(case: Case[Any], response: Response) -> None:
    """No 500; a 503 says when to come back; everything else is as the document says."""
    assert response.status_code not in (500, 502, 504), response.text
    if response.status_code in (429, 503):
        assert int(response.headers["retry-after"][0]) > 0
    if response.status_code >= 400:
        assert set(response.json()) >= {"error", "fix"}, response.text
    # What a schema allows may still name a model that is not there, or a pin without a number.
    case.validate_response(response, excluded_checks=[positive_data_acceptance])


@schema.parametrize()
@bounded
def test_every_answer_is_as_the_document_says(case: Case[Any], url: str) -> None:
    headers = {"Authorization": f"Bearer sandbox-user-{next(users) // 8}"}
    judged(case, case.call(base_url=url, headers=headers, timeout=15))


@schema.parametrize()
@bounded
def test_nobody_gets_further_than_the_door(case: Case[Any], url: str) -> None:
    response = case.call(base_url=url, timeout=15)
    assert response.status_code not in (500, 502, 504)
    is_open = case.operation.definition.raw.get("security") == []
    assert is_open or response.status_code in (400, 401, 404, 405, 413, 429), response.text


@pytest.mark.proof
@pytest.mark.timeout(3600)
@schema.parametrize()
@settings(bounded, max_examples=900, derandomize=False)
def test_every_answer_is_as_the_document_says_in_20_000_cases(case: Case[Any], url: str) -> None:
    judged(
        case, case.call(base_url=url, headers={"Authorization": f"Bearer sandbox-user-{next(users) // 8}"}, timeout=15)
    )
