"""Signs on a Node that it will go: taints, conditions and labels that clouds, autoscalers and health checks put there.

The policy's own rows (`nodes.signs`) are looked at first, then `DEFAULT_SIGNS`; the first row that fits a taint, a
condition or a label says what it means.
"""

from rebalancer.domain.node_rules import NodeSign, SignKind

# Karpenter's own taint is judged together with its NodeClaim, which says whether a replacement comes by itself.
DISRUPTED_TAINT = "karpenter.sh/disrupted"

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
    # Karpenter's repair by a reboot (1.15, gate NodeRepair): it evicts the pods and brings the same node back empty.
    NodeSign(taint="karpenter.sh/rebooting", kind="state-change"),
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
    # Cluster Autoscaler: the value is when it began to empty the node. It evicts pods to where it saw room for them,
    # and takes the taint off where it cannot: nothing has to end before it is replaced.
    NodeSign(taint="ToBeDeletedByClusterAutoscaler", kind="disruption", deadline="value", confidence="likely"),
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
