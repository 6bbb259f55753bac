"""`config/` is what the code says: the example is good and shows every default."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rebalancer.domain.policy import json_schema
from rebalancer.settings.allowed import keys_at, part_at, words
from rebalancer.settings.document import read_document
from rebalancer.settings.problems import check_text

CONFIG = Path(__file__).parents[2] / "config"
EXAMPLE = (CONFIG / "policy.yaml").read_text()
DEFAULTS_SHOWN = re.sub(r"^(\s*)#([A-Za-z]+:)", r"\1\2", EXAMPLE, flags=re.MULTILINE)


def test_the_example_is_a_good_policy() -> None:
    assert check_text(EXAMPLE, "config/policy.yaml")[1] == ()


def test_removing_the_mark_before_every_default_changes_nothing() -> None:
    assert DEFAULTS_SHOWN != EXAMPLE
    shown, found = check_text(DEFAULTS_SHOWN, "config/policy.yaml")
    assert found == ()
    assert shown == check_text(EXAMPLE, "config/policy.yaml")[0]


def test_the_example_shows_every_key_of_the_schema() -> None:
    document, _ = read_document(DEFAULTS_SHOWN)
    assert document is not None
    shown = defaultdict[str, set[str]](set)
    for path in document.lines:
        shown[str(part_at(path[:-1]).get("title"))].add(str(path[-1:] and path[-1]))
    definitions = {"Policy": json_schema(), **json_schema()["$defs"]}  # type: ignore[dict-item]  # JSON
    missing = {
        f"{title}.{key}"
        for title, part in definitions.items()
        for key in part.get("properties", {})  # type: ignore[attr-defined]  # JSON
        if key not in shown[title]
    }
    assert missing == set()


def test_the_example_has_what_a_mixed_fleet_has() -> None:
    policy, _ = check_text(EXAMPLE, "config/policy.yaml")
    assert policy is not None
    assert [pool.kind for pool in policy.pools] == ["primary", "primary", "elastic"]
    assert {model.workload_class for model in policy.models} == {"realtime", "interactive", "batch"}
    assert sum(len(model.targets) > 1 for model in policy.models) >= 2


def _paths(path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for key in keys_at(path):
        yield (*path, key)
        inner = (*path, key, 0) if part_at((*path, key)).get("type") == "array" else (*path, key)
        yield from _paths(inner)


def test_every_key_that_people_write_has_a_type_that_has_words() -> None:
    assert [path for path in _paths() if not words(part_at(path))] == []
