"""Batch work beside the models, as far as it is of use to know when its GPUs come free."""

from msgspec import Struct

from rebalancer.domain.instant import Instant


class Job(Struct, frozen=True):
    """A Job of `batch/v1`.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    ends_at: when its activeDeadlineSeconds end it at the latest; None where it has none, or has not started.
    above: kind and name of its controller, as JobSet or CronJob; () where it has none.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    ends_at: Instant | None = None
    above: tuple[str, ...] = ()
