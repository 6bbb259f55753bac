"""AIBrix's PodAutoscaler: it points at what it scales and owns nothing there, so that only reading it shows it."""

from msgspec import Struct


class PodAutoscaler(Struct, frozen=True):
    """`autoscaling.aibrix.ai` PodAutoscaler, which sets replicas every 10 s, or makes an HPA for that.

    namespace: its namespace.
    name: its name.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    target_namespace: namespace of what it scales.
    target_kind: kind of what it scales.
    target_name: name of what it scales.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    target_namespace: str
    target_kind: str
    target_name: str
