"""Metric maps of one's own: what is wrong with one is said with its path, and what is good is read."""

import pytest

from rebalancer.settings.problems import check_text
from tests.settings.a_policy_text import GOOD

RUNNING = "{reading: running, series: our_running}"


def with_maps(maps: str) -> str:
    return f"{GOOD}metrics: {{maps: [{maps}]}}\n"


@pytest.mark.parametrize(
    ("maps", "path", "what"),
    [
        ("{name: a, readings: []}", "metrics.maps.a.readings", "is empty"),
        ("{readings: [" + RUNNING + "]}", "metrics.maps[0].name", "missing"),
        ("{name: a, readings: [{reading: runing, series: x}]}", "metrics.maps.a.readings[0].reading", "none of"),
        ("{name: a, readings: [{reading: running}]}", "metrics.maps.a.readings[0].series", "missing"),
        (
            "{name: a, readings: [{reading: running, series: 'x{} or vector(1)'}]}",
            "metrics.maps.a.readings[0].series",
            "not spelled as allowed",
        ),
        (
            '{name: a, readings: [{reading: running, series: x, where: [\'a="b"} or y{c="d"\']}]}',
            "metrics.maps.a.readings[0].where[0]",
            "not spelled as allowed",
        ),
        (
            "{name: a, readings: [{reading: kvCacheUse, series: x, per: 0}]}",
            "metrics.maps.a.readings[0].per",
            "out of range",
        ),
        ("{name: a, modelLabel: 'b c', readings: [" + RUNNING + "]}", "metrics.maps.a.modelLabel", "not spelled"),
        (
            "{name: a, readings: [{reading: running, series: x_bucket}]}",
            "metrics.maps.a.readings[0].series",
            "buckets of a histogram",
        ),
        (f"{{name: a, readings: [{RUNNING}]}}, {{name: a, readings: [{RUNNING}]}}", "metrics.maps.a.name", "twice"),
    ],
)
def test_a_map_that_cannot_be_is_told_with_its_path(maps: str, path: str, what: str) -> None:
    policy, problems = check_text(with_maps(maps), "policy.yaml")
    assert policy is None
    (found,) = problems
    assert (found.path, what in found.what) == (path, True), found


def test_a_good_map_is_read_in_its_order() -> None:
    maps = (
        "{name: ours, copies: [rank], readings: [{reading: kvCacheUse, series: new_use}, "
        "{reading: kvCacheUse, series: old_percent, per: 100, by: avg, where: ['gpu!=\"\"']}]}"
    )
    policy, problems = check_text(with_maps(maps), "policy.yaml")
    assert problems == ()
    assert policy is not None
    (ours,) = policy.metrics.maps
    assert [source.series for source in ours.sources("kvCacheUse")] == ["new_use", "old_percent"]
    assert ours.names == {"new_use", "old_percent"}
