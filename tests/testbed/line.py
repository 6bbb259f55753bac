"""The line: which Kubernetes, KEDA and Karpenter stand on the testbed together.

`TESTBED_LINE=newest` or `oldest` in the environment chooses it, for every process of a run.
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """Versions that are tried together; their pins are the modules under `pieces/NAME/`.

    `gates` are the feature gates that this Kubernetes keeps closed, and that our tests need open; `hpas_at_once` is
    whether an HPA acts when its spec changes, not at its next look 15 s after the one before; `counters_apart` whether
    counters that devices share stand in a ResourceSlice of their own, not beside the devices.
    """

    name: str
    kubernetes: str
    gates: tuple[str, ...] = ()
    hpas_at_once: bool = True
    counters_apart: bool = True

    @property
    def minor(self) -> str:
        return self.kubernetes.split(".")[1]


LINES = {
    line.name: line
    for line in (
        Line("newest", "1.37.2"),
        # GPUs of a DRA driver by the name of an extended resource, devices that part one GPU, HPAs with a minimum of 0
        # and with a tolerance of their own: alpha in 1.34.
        Line(
            "oldest",
            "1.34.4",
            ("DRAExtendedResource", "DRAPartitionableDevices", "HPAScaleToZero", "HPAConfigurableTolerance"),
            hpas_at_once=False,
            counters_apart=False,
        ),
    )
}
USUAL = "newest"


def chosen_line() -> Line:
    """Raises ValueError where the environment names a line that there is not."""
    name = os.environ.get("TESTBED_LINE") or USUAL
    if name not in LINES:
        raise ValueError(f"TESTBED_LINE is {name!r}; there is {' and '.join(LINES)}")
    return LINES[name]
