"""Policies for tests, as people would write them: short windows and cooldowns, no guard switched off.

Votes decide, so that a test says in requests what it wants; with the look-ahead a past of minutes would have a say.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

Json = dict[str, Any]

GUARDS: Json = {
    "step": {"share": 0.2, "windowSeconds": 10},
    "fleet": {"share": 0.2, "windowSeconds": 10},
    "shift": {"share": 0.5, "windowSeconds": 5},
    "blind": {"staleSeconds": 10, "minCoverage": 0.8},
    "start": {"metricIntervals": 2},
}
SHIFT_SECONDS: float = GUARDS["shift"]["windowSeconds"]

_COOLDOWN_SECONDS = 3


def policy(pools: Iterable[Json], models: Iterable[Json], **more: object) -> Json:
    """A policy; `more` replaces whole sections (`guards={...}`)."""
    watermarks = {"highUtilisation": 0.7, "lowUtilisation": 0.3, "cooldownSeconds": _COOLDOWN_SECONDS}
    return {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "Policy",
        "planEverySeconds": 1,
        "lookAhead": False,
        "pools": list(pools),
        "models": list(models),
        "classes": dict.fromkeys(("realtime", "interactive", "batch"), watermarks),
        "surge": {
            "shortWindowSeconds": 5,
            "longWindowSeconds": 30,
            "enterRatio": 1.5,
            "leaveRatio": 1.2,
            "leaveAfterSeconds": 5,
        },
        "guards": deepcopy(GUARDS),
        "nodes": {"nodeTimeoutSeconds": 60, "notReadyGraceSeconds": 30},
        **more,
    }


def pool(name: str, labels: dict[str, str], gpu_limit: int, **more: object) -> Json:
    """A primary pool of the nodes with these labels."""
    return {"name": name, "kind": "primary", "nodeLabels": labels, "gpuLimit": gpu_limit, **more}


def model(name: str, namespace: str, floor: int, entitlement: int, most: int, **more: object) -> Json:
    """A model of 1-GPU replicas, each of which carries 10 requests, on pool `gpus`."""
    return {
        "id": name,
        "namespace": namespace,
        "targets": [{"pool": "gpus", "name": name}],
        "gpusPerReplica": 1,
        "minReplicas": floor,
        "maxReplicas": most,
        "entitlement": entitlement,
        "loadSeconds": 2,
        "signals": {"concurrency": {"perReplica": 10}},
        **more,
    }
