"""The OpenAPI document against the running service: whatever it allows or forbids is answered as it says."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import BlockBuster
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case

from tests.api.living import living_service
from tests.fuzz.api import CASES, SPEED, Asker, document, judged

# schemathesis draws from `random` inside its strategies.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]

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


@document.parametrize()
@bounded
def test_every_answer_is_as_the_document_says(case: Case[Any], url: str) -> None:
    headers = {"Authorization": f"Bearer sandbox-user-{next(users) // 8}"}
    judged(case, case.call(base_url=url, headers=headers, timeout=15))


@document.parametrize()
@bounded
def test_nobody_gets_further_than_the_door(case: Case[Any], url: str) -> None:
    response = case.call(base_url=url, timeout=15)
    assert response.status_code not in (500, 502, 504)
    is_open = case.operation.definition.raw.get("security") == []
    assert is_open or response.status_code in (400, 401, 404, 405, 413, 429), response.text


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_every_answer_is_as_the_document_says_in_20_000_cases(url: str) -> None:
    all_answers = list(Asker(url, first=1).ask_all(CASES))
    assert [answers.broke for answers in all_answers if answers.broke] == []
    assert sum(answers.cases for answers in all_answers) == CASES
    at_the_door = [answers.operation for answers in all_answers if min(answers.codes) >= 300]
    assert at_the_door == ["GET /v1/models/{model}/desired/{pool}"], "no model of the demo asks for its number"
