"""The page on how notices reach us: patterns, connectors and templates say what the service reads."""

import json
import re

from rebalancer.domain.events import CapacityNotice, Position
from rebalancer.ingest.eventbridge import TABLE
from rebalancer.ingest.notices import decode_notice
from tests.docs.blocks import blocks

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
HERE = Position("rebalancer.notices", 0, 0)
PATTERN, CONNECTOR, RECORD, TEMPLATE = [block.text for block in blocks("json") if block.page == "notices.md"]


def notice(record: str) -> CapacityNotice:
    found = decode_notice(record.encode(), (), HERE, NOW - 1, NOW)
    assert isinstance(found, tuple), found
    (one,) = found
    return one


def test_the_rule_lets_through_what_is_a_notice_and_nothing_else() -> None:
    pattern = json.loads(PATTERN)
    wanted = {key for key, row in TABLE.items() if row.kind is not None}
    assert {(source, name) for source in pattern["source"] for name in pattern["detail-type"]} >= wanted
    assert set(pattern["source"]) == {source for source, _ in wanted}
    assert set(pattern["detail-type"]) == {name for _, name in wanted}


def test_the_connector_writes_plain_events_to_the_topic() -> None:
    config = json.loads(CONNECTOR)["config"]
    assert config["topics"].endswith(".notices")
    assert config["value.converter"].endswith(".StringConverter")
    body = json.loads(RECORD)["Body"]
    assert notice(body).kind == "spot-interruption"  # as StringConverter writes it
    assert notice(json.dumps(body)) == notice(body)  # JsonConverter without schemas
    assert notice(json.dumps({"schema": {"type": "string"}, "payload": body})) == notice(body)


def test_the_record_on_the_page_is_read() -> None:
    found = notice(RECORD)
    assert (found.instance_id, found.kind, found.deadline) == ("i-0b662ef9931388ba0", "spot-interruption", NOW + 90)


def test_the_template_of_the_termination_handler_makes_notices_of_ours() -> None:
    kinds = {
        "SPOT_ITN": "spot-interruption",
        "SCHEDULED_EVENT": "scheduled-change",
        "REBALANCE_RECOMMENDATION": "rebalance",
        "ASG_LIFECYCLE": "state-change",
    }
    for kind, expected in kinds.items():
        value = json.loads(filled(TEMPLATE, kind))["value"]["data"]  # what a REST proxy writes
        found = notice(json.dumps(value))
        assert (found.kind, found.instance_id, found.deadline) == (expected, "i-1", NOW + 120)
        assert found.id == "spot-itn-1/i-1"  # its EventID alone may be that of other nodes, too


def filled(template: str, kind: str) -> str:
    """The template as Go fills it: fields, and one choice by `eq .Kind`."""
    (choice,) = re.findall(r"{{ if (.*?){{ end }}", template)
    branches = dict(re.findall(r"eq \.Kind `(\w+)` }}([\w-]+)", choice))
    (otherwise,) = re.findall(r"{{ else }}([\w-]+)", choice)
    text = template.replace(f"{{{{ if {choice}{{{{ end }}}}", branches.get(kind, otherwise))
    for field, value in (
        (".EventID", "spot-itn-1"),
        (".InstanceID", "i-1"),
        (".StartTime.Format `2006-01-02T15:04:05Z07:00`", "2027-01-15T08:02:00Z"),
    ):
        text = text.replace(f"{{{{ {field} }}}}", value)
    assert "{{" not in text
    return text
