"""Maps of your own in `metrics.maps`: one name each, and histograms only where a percentile is meant."""

from collections.abc import Iterator

from rebalancer.settings.draft import DraftFinding, DraftPart
from rebalancer.settings.references import unique

PERCENTILES = ("ttftP95Seconds", "latencyP95Seconds", "latencyP99Seconds")


def unique_map_names(policy: DraftPart) -> Iterator[DraftFinding]:
    """People are told by its name which map a reading is from."""
    return unique("map name", ((each.at("name"), each.text("name")) for each in _maps(policy)))


def histograms_for_percentiles(policy: DraftPart) -> Iterator[DraftFinding]:
    """The buckets of a histogram are no count and no ratio."""
    for each in _maps(policy):
        for row in each.parts("readings"):
            reading, series = row.text("reading"), row.text("series")
            if reading is None or series is None or reading in PERCENTILES:
                continue
            if series.endswith("_bucket"):
                fix = f"name a gauge or counter, as {series.removesuffix('_bucket')}_count, or read {PERCENTILES[0]}"
                yield DraftFinding(row.at("series"), f"{reading} is read from the buckets of a histogram", "", fix)


def _maps(policy: DraftPart) -> tuple[DraftPart, ...]:
    return tuple(DraftPart(policy.at("metrics"), policy.get("metrics")).parts("maps"))
