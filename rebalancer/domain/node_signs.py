"""Signs on a Node that it will go: taints, conditions and labels that clouds, autoscalers and health checks put there.

The policy's own rows (`nodes.signs`) are looked at first, then `DEFAULT_SIGNS`; the first row that fits a taint, a
condition or a label says what it means.
"""

from typing import Literal

from pydantic import Field

from rebalancer.domain.notice_kinds import Confidence, Kind
from rebalancer.domain.part import Part, WaitSeconds

# Karpenter's own taint is judged together with its NodeClaim, which says whether a replacement comes by itself.
DISRUPTED_TAINT = "karpenter.sh/disrupted"

SignKind = Literal[Kind, "none"]


class NodeSign(Part):
    """One row: what a taint, condition or label on a Node says about its end. Exactly one of the three is named."""

    taint: str | None = Field(default=None, min_length=1, max_length=316, description="Key of a taint.")
    condition: str | None = Field(default=None, min_length=1, max_length=316, description="Type of a condition.")
    label: str | None = Field(default=None, min_length=1, max_length=316, description="Key of a label.")
    value: str | None = Field(
        default=None,
        max_length=63,
        description="Value that it must have: of a taint or label any where none is given, of a condition its status, "
        '"True" where none is given.',
    )
    message: str = Field(
        default="", max_length=100, description="What the condition's reason or message must contain; case matters."
    )
    kind: SignKind = Field(description="Kind of the notice; none: it is known, and says nothing.")
    deadline: Literal["since", "value", "message"] = Field(
        default="since",
        description="When the node goes. since: withinSeconds after it was put there, or first seen. value: its value "
        "is UTC epoch seconds. message: the first date in the condition's message; where none can be read, as `since`.",
    )
    within_seconds: WaitSeconds = Field(default=0.0, description="From the sign until the node goes, seconds.")
    confidence: Confidence | None = Field(default=None, description="How sure it is; without it as its kind has it.")

    @property
    def place(self) -> tuple[str, str]:
        """Where on a Node it stands, and under which name: ("taint", its key) and so on."""
        for where, name in (("taint", self.taint), ("condition", self.condition)):
            if name is not None:
                return where, name
        return "label", self.label or ""

    def fits(self, value: str, *messages: str) -> bool:
        """Whether this row speaks of a sign of its name with that value (a condition: status, reason and message)."""
        wanted = "True" if self.value is None and self.condition is not None else self.value
        return wanted in {None, value} and any(self.message in each for each in (*messages, ""))


_SCHEDULED = ("VMEventScheduled", "PreemptionScheduled")
_REPAIRED = {  # what Karpenter and EKS wait for until they replace the node
    "AcceleratedHardwareReady": 600.0,
    "KernelReady": 1800.0,
    "NetworkingReady": 1800.0,
    "StorageReady": 1800.0,
    "ContainerRuntimeReady": 1800.0,
}
_BROKEN = (
    *("KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "CperHardwareErrorFatal"),  # node-problem-detector
    *("GPUMissing", "XIDErrors", "NVLinkStatusInactive"),  # AKS
    *("SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff"),  # NVSentinel
    "NebiusGPUError",
)
_MEANT: tuple[tuple[str, SignKind], ...] = (
    ("Advisory", "rebalance"),
    ("Freeze", "none"),
    ("Preempt", "spot-interruption"),
    ("Terminate", "state-change"),
    ("", "scheduled-change"),
)
_NTH = "aws-node-termination-handler"

DEFAULT_SIGNS: tuple[NodeSign, ...] = (
    NodeSign(taint=DISRUPTED_TAINT, kind="disruption"),
    # aws-node-termination-handler (taintNode: true); the value is its event's id
    NodeSign(taint=f"{_NTH}/spot-itn", kind="spot-interruption", within_seconds=120.0),
    NodeSign(taint=f"{_NTH}/scheduled-maintenance", kind="scheduled-change"),
    NodeSign(taint=f"{_NTH}/asg-lifecycle-termination", kind="state-change", within_seconds=120.0),
    NodeSign(taint=f"{_NTH}/rebalance-recommendation", kind="rebalance"),
    # GKE: 30 s of a spot machine, up to an hour of a GPU's maintenance; GKE ends the pods itself
    NodeSign(taint="cloud.google.com/impending-node-termination", kind="state-change", within_seconds=30.0),
    NodeSign(label="cloud.google.com/active-node-maintenance", value="ONGOING", kind="state-change"),
    NodeSign(label="cloud.google.com/scheduled-maintenance-time", kind="scheduled-change", deadline="value"),
    # AKS: its node-problem-detector writes `Preempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMT. ...`
    *(
        NodeSign(condition=name, message=word, kind=kind, deadline="message")
        for name in _SCHEDULED
        for word, kind in _MEANT
    ),
    NodeSign(taint="remediator.aks.microsoft.com/unschedulable", kind="state-change"),
    # Cluster Autoscaler: the value is when it began to empty the node. It moves pods to where it saw room for them.
    NodeSign(taint="ToBeDeletedByClusterAutoscaler", kind="disruption", deadline="value"),
    NodeSign(taint="DeletionCandidateOfClusterAutoscaler", kind="none"),
    # Cloud controllers and the kubelet's graceful shutdown
    NodeSign(taint="node.cloudprovider.kubernetes.io/shutdown", kind="state-change"),
    NodeSign(taint="node.kubernetes.io/out-of-service", kind="state-change"),
    NodeSign(condition="Ready", value="False", message="shutting down", kind="state-change"),
    # Health: EKS's node monitoring agent, node-problem-detector, AKS, NVSentinel, Nebius
    *(
        NodeSign(condition=name, value="False", kind="fault", within_seconds=seconds)
        for name, seconds in _REPAIRED.items()
    ),
    *(NodeSign(condition=name, kind="fault") for name in _BROKEN),
)
