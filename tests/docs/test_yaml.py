"""YAML on the pages is what it says it is: policies that check, objects and values that their schemas accept."""

import copy
import json
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from rebalancer.domain.metric_trigger import desired_path, limits, misfits
from rebalancer.ingest.objects.autoscalers import TriggersWire, asking
from rebalancer.settings.problems import check_text
from tests.docs.blocks import Block, blocks, runnable
from tests.house.repository import ROOT

CHART = ROOT / "charts/rebalancer"
VALUES: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())


@pytest.mark.parametrize("block", runnable("yaml"), ids=str)
def test_a_yaml_block_is_valid(block: Block) -> None:
    document = yaml.safe_load(block.text)
    kind = document.get("kind")
    if kind == "Policy":
        assert check_text(block.text, str(block))[1] == ()
    elif kind in {"Override", "WriteStop"}:
        jsonschema.validate(document, object_schema(kind))
    elif kind == "ScaledObject":
        _is_followed(document)
    else:
        assert block.text.startswith("# values.yaml"), "say what it is in its first line"
        jsonschema.validate(document, VALUES)


def _is_followed(scaled: dict[str, Any]) -> None:
    """The example of a ScaledObject that asks us has no fault and no limit."""
    spec = scaled["spec"]
    trigger = asking(msgspec.convert(spec, TriggersWire))
    assert trigger is not None
    bounds = spec["minReplicaCount"], spec["maxReplicaCount"]
    assert misfits(trigger, desired_path("chat", "a100"), bounds[0], bounds) == ()
    assert limits(trigger, bounds, bounds) == ()


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_a_yaml_block_can_at_least_be_parsed(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


def test_every_option_that_helm_is_told_to_set_exists() -> None:
    words = [word for block in blocks("bash") for word in block.text.replace("\\\n", " ").split()]
    given = [word.partition("=")[0] for at, word in enumerate(words) if words[at - 1].startswith("--set")]
    assert "kafka.bootstrap" in given
    assert [key for key in given if not exists(key)] == []


def exists(key: str) -> bool:
    """Whether the chart's values have it."""
    part: Any = yaml.safe_load((CHART / "values.yaml").read_text())
    for step in key.split("."):
        if not isinstance(part, dict) or step not in part:
            return False
        part = part[step]
    return True


def object_schema(kind: str) -> dict[str, Any]:
    """The schema of our own objects as their CRD has it, and no key besides."""
    for file in (CHART / "crds").glob("*.yaml"):
        definition = yaml.safe_load(file.read_text())["spec"]
        if definition["names"]["kind"] == kind:
            return closed(definition["versions"][0]["schema"]["openAPIV3Schema"])
    raise LookupError(kind)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` where every object with named properties has no others."""
    schema = copy.deepcopy(schema)
    for name, part in schema.get("properties", {}).items():
        schema["properties"][name] = closed(part)
    if schema.get("properties"):
        schema["additionalProperties"] = False
    return schema
