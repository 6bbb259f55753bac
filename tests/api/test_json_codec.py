"""How values are spelled over HTTP: camelCase, RFC 3339, null; and read again as the same values."""

import json
import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.api.http.json_codec import from_wire, instant_of, instant_text, schemas, to_wire
from rebalancer.api.ports.requests import OverrideRequest, Subject
from rebalancer.api.ports.timeline import DecisionRow, TimelineEvent
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.plan import Plan, Refusal
from rebalancer.domain.readings import ModelLoad, NoReading, Reading
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from tests.api.decided import some_status_port

NIGHT = 1_800_069_127.0  # 2027-01-16T03:12:07Z
milliseconds = st.integers(0, 4_000_000_000_000).map(lambda number: number / 1000)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NIGHT, "2027-01-16T03:12:07Z"),
        (NIGHT + 0.25, "2027-01-16T03:12:07.250Z"),
        (NIGHT + 0.0004, "2027-01-16T03:12:07Z"),
        (NIGHT + 0.9996, "2027-01-16T03:12:08Z"),
        (0.0, "1970-01-01T00:00:00Z"),
        (253_402_300_799.0, "9999-12-31T23:59:59Z"),
        (253_402_300_800.0, None),
        (-1.0, None),
        (math.nan, None),
        (math.inf, None),
    ],
)
def test_an_instant_is_utc_with_milliseconds_where_there_are_any_and_what_is_none_is_null(
    at: float, text: str | None
) -> None:
    assert instant_text(at) == text
    if text is not None:
        assert instant_of(text) == pytest.approx(at, abs=0.0005)


@pytest.mark.parametrize("text", ["", "yesterday", "2027-01-16", "2027-01-16T03:12:07", "1800069127", "x" * 100])
def test_what_names_no_instant_in_some_zone_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        instant_of(text)


def test_another_zone_is_the_same_instant() -> None:
    assert instant_of("2027-01-16T05:12:07+02:00") == NIGHT


def test_keys_are_camel_case_unknown_is_null_and_keys_of_data_stay() -> None:
    load = ModelLoad("a", {"kv_cache": Reading(0.5, NIGHT, 1.0), "x_y": NoReading("absent")}, pod_requests={"p_1": 2.0})
    assert json.loads(to_wire(load)) == {
        "model": "a",
        "signals": {
            "kv_cache": {
                "type": "reading",
                "value": 0.5,
                "at": "2027-01-16T03:12:07Z",
                "coverage": 1.0,
                "above": False,
            },
            "x_y": {"type": "none", "why": "absent"},
        },
        "work": {
            "short": None,
            "last60s": None,
            "long": None,
            "slow": None,
            "source": "",
            "resolutionSeconds": 0.0,
            "whyNotBetter": "",
        },
        "intervalSeconds": 0.0,
        "intervalsLive": 0,
        "podRequests": {"p_1": 2.0},
        "carries": None,
        "outlook": None,
        "lagSeconds": 0.0,
        "knownUntil": None,
        "toldBy": [],
        "tokens": None,
    }
    assert from_wire(to_wire(load), ModelLoad) == load


def test_what_the_service_answers_is_read_again_as_the_same_value() -> None:
    status_port = some_status_port()
    assert status_port.decided is not None
    assert from_wire(to_wire(status_port.decided), Plan) == status_port.decided
    assert from_wire(to_wire(status_port.seen), Snapshot) == status_port.seen


@given(
    at=milliseconds,
    expires=milliseconds,
    text=st.text(max_size=30),
    value=st.none() | st.integers(0, 100_000),
    numbers=st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=5) | st.none(), max_size=3),
)
def test_any_value_survives_the_way_there_and_back(
    at: float, expires: float, text: str, value: int | None, numbers: dict[str, int | str | None]
) -> None:
    override = Override(text, text, "u", "1", "pin", text, "model", text, text, at, expires, value)
    assert from_wire(to_wire(override), Override) == override
    small = {key: min(number, 2**60) if isinstance(number, int) else number for key, number in numbers.items()}
    refusal = Refusal(
        text, text, 1, 2, text, {key: max(n, -(2**60)) if isinstance(n, int) else n for key, n in small.items()}, at
    )
    assert from_wire(to_wire(refusal), Refusal) == refusal
    assert from_wire(to_wire([override]), list[Override]) == [override]
    stops = {"a": WriteStop("s", "u", "1", created_at=at)}
    assert from_wire(to_wire(stops), dict[str, WriteStop]) == stops


def test_a_missing_instant_is_null_both_ways() -> None:
    assert json.loads(to_wire(Sync())) == {"missing": [], "stale": [], "syncedAt": None}
    assert from_wire(b"{}", Sync) == Sync()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"kind":"pin","target":{"model":"a"},"reason":""}', "length >= 1 - at `$.reason`"),
        (b'{"kind":"pin","target":{"modell":"a"},"reason":"r"}', "unknown field `modell` - at `$.target`"),
        (b'{"kind":"pin","target":{},"reason":"r","forSeconds":0}', "> 0.0 - at `$.forSeconds`"),
        (b'{"kind":"pin","target":{},"reason":"r","for_seconds":5}', "unknown field `for_seconds`"),
        (b'{"target":{},"reason":"r"}', "missing required field `kind`"),
    ],
)
def test_what_is_wrong_in_a_body_is_said_in_the_words_of_the_body(body: bytes, said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=re.escape(said)):
        from_wire(body, OverrideRequest)


def test_a_request_is_read_with_its_defaults() -> None:
    body = b'{"kind":"cap","target":{"model":"a"},"reason":"r","value":2,"forSeconds":60}'
    assert from_wire(body, OverrideRequest) == OverrideRequest("cap", Subject(model="a"), "r", 2, 60)


def test_a_field_that_names_its_key_has_it_on_the_wire_and_in_the_schema() -> None:
    row = DecisionRow(7, 0.0, (TimelineEvent(0.0, "grant", "5 -> 6", 7),))
    told = json.loads(to_wire(row))
    assert told["happenings"][0]["said"] == "5 -> 6"
    assert from_wire(to_wire(row), DecisionRow) == row
    _, components = schemas([DecisionRow])
    assert "happenings" in components["DecisionRow"]["properties"]


def test_schemas_say_required_and_describe_in_the_words_of_the_wire() -> None:
    (reference,), components = schemas([OverrideRequest])
    assert reference == {"$ref": "#/components/schemas/OverrideRequest"}
    schema = components["OverrideRequest"]
    assert schema["required"] == ["kind", "target", "reason"]
    assert schema["additionalProperties"] is False
    assert schema["description"] == "An override to be, which ends `forSeconds` after it is made."
    assert "_" not in "".join(schema["properties"])
    assert schema["properties"]["forSeconds"]["description"].startswith("seconds that it lasts. null: ")
