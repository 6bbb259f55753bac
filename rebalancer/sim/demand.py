"""What users ask for, second by second: the common form of every trace."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stream:
    """One model's arrivals. Arrays have the shape (seconds,).

    model: name of the model.
    requests: requests that arrive in each second.
    prompt_tokens: sum of the prompt tokens of each second's requests.
    generated_tokens: sum of the tokens that are generated for each second's requests.
    """

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
