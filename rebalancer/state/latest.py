"""The newest gauges of every producer, one row each: written one by one by struct, read all at once by numpy.

Rows, not samples: keeping 10,000 samples alive and letting them go again one by one costs more than all else that is
done with them (5 us of 12 per sample, most of it cache misses).
"""

import struct
from math import isnan, nan

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.events import MetricSample

AT, INTERVAL, LAG, LATENCY, LATENCY_ABOVE, RUNNING, WAITING, KV_CACHE, TTFT, UTILISATION, TTFT_ABOVE = range(11)
WIDTH = 11  # LATENCY and TTFT hold what is lowest of it where it lies above; the columns _ABOVE say of which that is so

_ROW = struct.Struct(f"<{WIDTH}d")
_IN_FLIGHT = struct.Struct("<2d")
_NOTHING = _ROW.pack(*[nan] * WIDTH)


class Latest:
    """Rows by place; a place is opened for a producer and closed when it is no longer heard."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._free: list[int] = []

    def open(self) -> int:
        """A new row without values."""
        if self._free:
            place = self._free.pop()
            self._rows[place * _ROW.size : (place + 1) * _ROW.size] = _NOTHING
        else:
            place = len(self._rows) // _ROW.size
            self._rows += _NOTHING
        return place

    def close(self, place: int) -> None:
        """Frees the row for another producer."""
        self._free.append(place)

    def put(self, place: int, sample: MetricSample, lag_seconds: float) -> None:
        """Write a sample's gauges, and its producer's usual lag; what it does not carry is NaN."""
        gauges = sample.gauges
        running, waiting, kv_cache = gauges.running, gauges.waiting, gauges.kv_cache_use
        (ttft, ttft_above), (latency, latency_above) = gauges.ttft, gauges.latency
        utilisation = gauges.gpu_utilisation
        _ROW.pack_into(
            self._rows,
            place * _ROW.size,
            sample.at,
            sample.interval_seconds,
            lag_seconds,
            nan if latency is None else latency,
            nan if latency is None or not latency_above else latency,
            nan if running is None else running,
            nan if waiting is None else waiting,
            nan if kv_cache is None else kv_cache,
            nan if ttft is None else ttft,
            nan if utilisation is None else utilisation,
            nan if ttft is None or not ttft_above else ttft,
        )

    def in_flight(self, place: int) -> float:
        """Requests running and waiting, as the row at `place` has them; NaN where it does not say."""
        running, waiting = _IN_FLIGHT.unpack_from(self._rows, place * _ROW.size + RUNNING * 8)
        requests: float = running if isnan(waiting) else running + waiting
        return requests

    def stepped(self, seconds: float) -> None:
        """The clock was set by so much: rows are as old as before. Order among samples goes by their own time."""
        rows = np.frombuffer(self._rows).reshape(-1, WIDTH)
        rows[:, AT] += seconds

    def rows(self, places: list[int]) -> NDArray[np.float64]:
        """A copy of the rows at `places`, shape (places, WIDTH)."""
        rows: NDArray[np.float64] = np.frombuffer(self._rows).reshape(-1, WIDTH)[places]
        return rows
