"""The two pods of one replica under llm-d's Fast Model Actuation, and how one is told from any other pod.

The requester is a target's pod: it asks for the GPUs and runs a stub. The launcher asks for none, sees all of its node
and holds vLLM's processes, of which at most one is awake: while it is bound to a requester, that one serves for it.
"""

from msgspec import Struct

PREFIX = "dual-pods.llm-d.ai"
CONFIG = f"{PREFIX}/inference-server-config"  # annotation of a requester: what its engine is made from
PATCH = f"{PREFIX}/server-patch"  # annotation of a requester in the older mode without launchers
DUAL = f"{PREFIX}/dual"  # label of both: name of the other pod while they are bound
LAUNCHER = f"{PREFIX}/launcher-config-name"  # label of a launcher
REQUESTER = f"{PREFIX}/requester"  # annotation of a launcher: `UID NAME` of its requester, which is what counts
INSTANCE_ID = f"{PREFIX}/instance-id"  # annotation of a launcher: vLLM's process while bound
SIGNATURE = f"{PREFIX}/vllm-instance-signature"  # annotation of a launcher: changes when a process comes or goes


class Requester(Struct, frozen=True, tag="requester"):
    """A pod that asks for GPUs; `launcher`: name of the pod that serves for it, "" while it is bound to none."""

    launcher: str = ""


class Launcher(Struct, frozen=True, tag="launcher"):
    """A pod that holds engines.

    requester: UID of the pod that it serves for, "" while it serves for none.
    name: that pod's name.
    instance: the engine that is awake for it, "" while none is.
    signature: stands for the engines that it holds and how each is; "" where nobody says.
    """

    requester: str = ""
    name: str = ""
    instance: str = ""
    signature: str = ""


class FailedWake(Struct, frozen=True):
    """A sleeping engine that was to be woken and is not Ready long after it should be.

    pod: name of the requester.
    launcher: name of the launcher that holds the engine.
    since: when the two were bound.
    told_at: from when on it counts as a cold start.
    """

    pod: str
    launcher: str
    since: float
    told_at: float
