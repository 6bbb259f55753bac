"""Predictions of whole days and what came, a JSON line for each day and model, beside the journal."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from rebalancer.domain import codec
from rebalancer.obs.effects import effect

NAME = "predictions.jsonl"
EFFECTS: Final[Mapping[str, str]] = {
    "predictions/append": "days that were predicted, by `rebalancer report`, which the service begins after midnight"
}
AUTOSCALER, US = "autoscaler", "us"  # in charge
CLOSE_SHARE, CLOSE_REQUESTS = 0.2, 20.0  # so far off a prediction of late requests is close: either will do
AND_LATENCY = "and a p95 counts all requests until the next one"


class DayPrediction(Struct, frozen=True, kw_only=True):
    """One model's day: late requests and GPU-hours of Ready replicas, as predicted and as they came.

    day: the UTC day, as 2027-01-15.
    model: its id.
    seconds: how much of the day was recorded.
    in_charge: `autoscaler` while nothing was written, else `us`.
    requests: that came; None where nobody counts them, then late ones are not known either.
    late_by_autoscaler: predicted with the autoscaler in charge.
    late_by_us: predicted with us in charge; None where that was not played.
    late: what came.
    late_by: where that is from: `latency`, or `replicas` (the recorded ones, played).
    gpu_hours_by_autoscaler: predicted with the autoscaler in charge.
    gpu_hours_by_us: predicted with us in charge; None where that was not played.
    gpu_hours: what came.
    late_by_replicas: with the replicas that were recorded, on the same physics: what is between it and `late` is not of
        the replicas; None where it is not known, as in files of before.
    """

    day: str
    model: str
    seconds: int
    in_charge: str
    requests: float | None
    late_by_autoscaler: float | None
    late_by_us: float | None
    late: float | None
    late_by: str
    gpu_hours_by_autoscaler: float
    gpu_hours_by_us: float | None
    gpu_hours: float
    late_by_replicas: float | None = None

    @property
    def late_predicted(self) -> float | None:
        """With whoever was in charge."""
        return self.late_by_us if self.in_charge == US else self.late_by_autoscaler

    @property
    def gpu_hours_predicted(self) -> float | None:
        """With whoever was in charge."""
        return self.gpu_hours_by_us if self.in_charge == US else self.gpu_hours_by_autoscaler

    @property
    def late_error(self) -> float | None:
        """What was predicted less what came, over what came (at least one request); None where one is not known."""
        return _error(self.late_predicted, self.late, least=1.0)

    @property
    def gpu_hours_error(self) -> float | None:
        """What was predicted less what came, over what came; None where one is not known or there was none."""
        return _error(self.gpu_hours_predicted, self.gpu_hours, least=0.0)

    @property
    def is_close(self) -> bool | None:
        """Whether late requests came within 20 % or 20 requests of what was predicted; None where that is not known."""
        if self.late_predicted is None or self.late is None:
            return None
        return abs(self.late_predicted - self.late) <= max(CLOSE_REQUESTS, CLOSE_SHARE * self.late)

    @property
    def likely_cause(self) -> str:
        """Why late requests did not come as predicted, as a sentence; "" where they did, or nobody knows.

        The way from what was predicted to what came leads over what the recorded replicas come to on the same physics:
        the longer half of it is the cause.
        """
        predicted, played, late = self.late_predicted, self.late_by_replicas, self.late
        if self.is_close is not False or predicted is None or played is None or late is None:
            return ""
        same = f"with the replicas that were recorded the same physics make {played:,.0f} late"
        if abs(predicted - played) >= abs(played - late):
            whom = "we" if self.in_charge == US else "its autoscaler"
            return f"{whom} moved otherwise than predicted; {same}"
        return f"not the replicas, {same}: work is a mean over seconds, which hides short queues, {AND_LATENCY}"


def _error(predicted: float | None, came: float | None, least: float) -> float | None:
    if predicted is None or came is None or max(came, least) <= 0.0:
        return None
    return (predicted - came) / max(came, least)


def stored(path: Path) -> tuple[DayPrediction, ...]:
    """What the file has, oldest first; of a day and model that is there twice what was made of more of the day.

    A line that is none is skipped. Raises OSError, but not where there is no such file.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    by_key = {(each.day, each.model): each for each in sorted(_decoded(lines), key=lambda each: each.seconds)}
    return tuple(by_key[key] for key in sorted(by_key))


def _decoded(lines: Iterable[bytes]) -> Iterator[DayPrediction]:
    for line in lines:
        try:
            yield codec.from_bytes(line, DayPrediction)
        except msgspec.DecodeError:
            continue


def store(path: Path, predictions: Iterable[DayPrediction]) -> None:
    """Add them to the file's end, each on a line of its own: a full disk may have torn the last one. Raises OSError."""
    lines = [msgspec.json.encode(each, order="sorted") + b"\n" for each in predictions]
    with effect("predictions/append", path.name), path.open("a+b") as file:
        file.seek(max(0, file.tell() - 1))
        torn = file.read(1) not in b"\n"
        file.write(b"\n" * torn + b"".join(lines))
