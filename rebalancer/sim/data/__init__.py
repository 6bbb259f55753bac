"""Traces that come with the package, each with a policy to play it: generated, seeded, nobody's recorded traffic.

`python -m rebalancer.sim.data.generate` writes them again, byte for byte.
"""

import gzip
from importlib.resources import files

FOLDER = files("rebalancer.sim.data")
TRACES = {
    "surge": "three models share 24 GPUs for 2 hours: chat surges to 2.5 times its level three times, code in between",
    "tides": "two models share 16 GPUs for 3 hours: when one is high, the other is low",
}


def trace(name: str) -> bytes:
    """The CSV of a shipped trace. Raises KeyError."""
    return gzip.decompress((FOLDER / f"{_known(name)}.csv.gz").read_bytes())


def policy(name: str) -> str:
    """The policy that comes with it, as YAML. Raises KeyError."""
    return (FOLDER / f"{_known(name)}.yaml").read_text()


def _known(name: str) -> str:
    if name not in TRACES:
        raise KeyError(name)
    return name
