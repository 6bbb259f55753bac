"""Requests that the OpenAPI document allows or forbids, drawn by schemathesis, at the whole service.

A third of the cases are as the document allows, a third forbidden by it, a third are allowed and speak of what is
there: else hardly a request would get beyond 404.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from rebalancer.api.serving.routes import openapi_text

STREAM: Final = "/v1/stream"
"""Has no end to wait for; it has tests of its own."""

CASES: Final = 20_000
"""Of all operations together."""

SPEED: Final = 25.0
"""20 requests a second of the service's clock are 500 of ours."""

MODELS: Final = ("chat", "code", "image")
NODES: Final = ("a100-1", "a100-2")
POOLS: Final = ("a100", "spot")
_ABOUT: Final = {"reason": "to be asked about", "forSeconds": 3600}
MADE_BEFORE: Final[dict[str, dict[str, Any]]] = {
    "GET /v1/nodes/{node}": {"kind": "drain", "target": {"node": NODES[0]}, "confirm": NODES[0], **_ABOUT},
    "GET /v1/overrides/{namespace}/{name}/preview": {"kind": "cap", "target": {"model": "code"}, "value": 4, **_ABOUT},
}
"""By operation, an override without which it could answer nothing but 404: those of before may have ended."""

OF_THE_DEMO: Final = {
    "model": MODELS,
    "pool": POOLS,
    "node": NODES,
    "namespace": ("serving",),
    "cycle": tuple(map(str, range(1, 10))),
}
_ASKING_SECONDS = 30.0
_CASES_OF_A_USER = 8  # each user has limits of their own

document = schemathesis.openapi.from_dict(json.loads(openapi_text())).exclude(path=STREAM)


@dataclass
class Answers:
    """What became of the requests to one operation.

    operation: method and path.
    codes: how often each code was answered.
    broke: requests, as curl, that were not answered as the document says, and what was wrong.
    """

    operation: str
    codes: Counter[int] = field(default_factory=Counter)
    broke: list[tuple[str, str]] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """Requests that were answered."""
        return self.codes.total()

    def __add__(self, other: Self) -> Self:
        """Of the same operation, in another process."""
        return replace(self, codes=self.codes + other.codes, broke=[*self.broke, *other.broke])


def judged(case: Case[Any], response: Response) -> None:
    """No 500; a 503 says when to come back; everything else is as the document says."""
    assert response.status_code not in (500, 502, 504), response.text
    if response.status_code in (429, 503):
        assert int(response.headers["retry-after"][0]) > 0
    if response.status_code >= 400:
        assert set(response.json()) >= {"error", "fix"}, response.text
    # What a schema allows may still name a model that is not there, or a pin without a number.
    excluded: list[Any] = [positive_data_acceptance]
    if response.status_code == 413:  # a body that is too long is refused by that, which schemathesis does not count
        excluded.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=excluded)


class Asker:
    """Sends what is drawn to the service at `url`. One `first` seed always makes the same requests."""

    def __init__(self, url: str, first: int) -> None:
        self._url, self._first = url, first
        self._sent = 0
        self._made = ["chat-1"]  # overrides that there are, and one that there is not

    def ask_all(self, cases: int) -> Iterator[Answers]:
        """So many requests, as many to each operation that has as many; overrides are made before all is looked at."""
        operations = [each.ok() for each in document.get_all_operations() if isinstance(each, Ok)]
        operations.sort(key=lambda operation: operation.label != "POST /v1/overrides")
        override = operations[0]
        for number, operation in enumerate(operations):
            if operation.label in MADE_BEFORE:
                made = self._answer(override.Case(body=MADE_BEFORE[operation.label], media_type="application/json"))
                assert made.status_code == 201, made.text
            answers = self.ask(operation, -(-cases // (len(operations) - number)))
            cases -= answers.cases
            yield answers

    def ask(self, operation: APIOperation[Any, Any, Any, Any], cases: int) -> Answers:
        """So many requests to one operation, all of them to the end."""
        answers = Answers(operation.label)

        @seed(self._first)
        @settings(
            max_examples=cases,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(self._cases(operation))
        def one(case: Case[Any]) -> None:
            try:
                response = self._answer(case)
                answers.codes[response.status_code] += 1
                judged(case, response)
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # whatever is wrong is looked for
                answers.broke.append((case.as_curl_command(), f"{type(error).__name__}: {error}"))

        one()
        return answers

    def _answer(self, case: Case[Any]) -> Response:
        self._sent += 1
        user = f"Bearer sandbox-user-{self._sent // _CASES_OF_A_USER}"
        response = case.call(base_url=self._url, headers={"Authorization": user}, timeout=_ASKING_SECONDS)
        if response.status_code == 201:
            self._made.append(response.json()["override"]["name"])
        return response

    def _cases(self, operation: APIOperation[Any, Any, Any, Any]) -> st.SearchStrategy[Case[Any]]:
        allowed, forbidden = map(operation.as_strategy, (GenerationMode.POSITIVE, GenerationMode.NEGATIVE))
        return st.one_of(allowed, forbidden, st.builds(self._of_what_is_there, allowed, st.data()))

    def _of_what_is_there(self, case: Case[Any], data: st.DataObject) -> Case[Any]:
        """The same request of a model, a pool, a node, an override that there is; with a body that means something."""
        there = OF_THE_DEMO | {"name": (*self._made, *self._made[-1:] * len(self._made))}  # every other is the newest
        for place in (case.path_parameters, case.query):
            for name in set(place) & set(there):
                place[name] = data.draw(st.sampled_from(there[name]))
        if case.operation.label in _BODIES:
            case.body = data.draw(_BODIES[case.operation.label])
        return case


_SUBJECTS = st.one_of(
    st.fixed_dictionaries({"model": st.sampled_from(MODELS)}),
    st.fixed_dictionaries({"node": st.sampled_from(NODES)}, optional={"model": st.sampled_from(MODELS)}),
    st.fixed_dictionaries({"pool": st.sampled_from(POOLS)}),
)
_OVERRIDES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("pause", "freeze", "pin", "cap", "floor", "drain", "exclude", "standUp")),
        "target": _SUBJECTS,
        "reason": st.text(min_size=1, max_size=256),
    },
    optional={
        "value": st.one_of(st.none(), st.integers(0, 8)),
        "forSeconds": st.one_of(st.none(), st.floats(0.1, 604_800.0)),
        "allowBelowFloor": st.booleans(),
        "confirm": st.sampled_from((*MODELS, *NODES, *POOLS)),
    },
)
_BODIES: dict[str, st.SearchStrategy[Any]] = {
    "POST /v1/overrides": _OVERRIDES,
    "POST /v1/overrides/preview": _OVERRIDES,
    "POST /v1/writes/resume": st.just({"confirm": "resume"}),
}
