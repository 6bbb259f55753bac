"""What users ask for, second by second: the common form of every trace."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stream:
    """One model's arrivals. Arrays of shape (seconds,): requests, and the sums of their tokens."""

    model: str
    requests: F64
    prompt_tokens: F64
    generated_tokens: F64


@dataclass(frozen=True, slots=True)
class DemandStreams:
    """Arrivals of several models over the same seconds."""

    name: str
    streams: tuple[Stream, ...]

    @property
    def seconds(self) -> int:
        """How long it is."""
        return min(len(stream.requests) for stream in self.streams)
