"""The cluster as the person at the keyboard reaches it; imported when a command needs it."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rebalancer.cli.failure import FAILED, UNREACHABLE, Failed, NoAnswer
from rebalancer.cli.remote.where import Where
from rebalancer.kube.access import Access, find_access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Ambiguous, Forbidden, KubeError, NotFound, Temporary, Unauthorized
from rebalancer.kube.resources import SELF_REVIEWS
from rebalancer.loop.clock import RealClock

API_GROUP = "authentication.k8s.io/v1"


class OpenedCluster:
    """A client that acts as the person, and who that is."""

    def __init__(self, kube: KubeClient, access: Access, clock: RealClock) -> None:
        self.kube = kube
        self.access = access
        self.clock = clock

    async def actor(self) -> str:
        """The person's user name as the API server knows it."""
        review = await self.kube.create(
            SELF_REVIEWS, {"apiVersion": API_GROUP, "kind": "SelfSubjectReview", "metadata": {}}
        )
        return str(review["status"]["userInfo"]["username"])

    def now(self) -> float:
        """UTC epoch seconds by the server's clock once it has answered: ours may be wrong by minutes."""
        offset = self.kube.server_offset_seconds
        near = offset is None or abs(offset) < 1.0  # its Date header has whole seconds
        return self.clock.now() + (0.0 if near or offset is None else offset)


@asynccontextmanager
async def open_cluster(where: Where, access: Access | None = None) -> AsyncIterator[OpenedCluster]:
    """Log in by the kubeconfig, or go on with `access`. Every KubeError within becomes a Failed with its exit code."""
    clock = RealClock()
    where.need_kubeconfig()
    try:
        access = access or await find_access(where.kubeconfig, where.context)
        async with KubeClient(access, clock, random.Random()) as kube:  # noqa: S311  # jitter
            kube.identify("rebalancer-cli")
            yield OpenedCluster(kube, access, clock)
    except KubeError as error:
        raise failure(error) from error


def failure(error: KubeError) -> Failed:
    """What went wrong with a call to the API server, and what to do."""
    if isinstance(error, Forbidden):
        what = f"you may not {error.verb} {error.resource}"
        return Failed(f"{what}: {error}; ask whoever runs the cluster for this right")
    if isinstance(error, Unauthorized):
        return Failed(f"the API server does not accept your login: {error}; log in to the cluster again")
    if isinstance(error, Ambiguous):
        return Failed(f"{error}; look at it before you repeat it", UNREACHABLE)
    if isinstance(error, Temporary):
        return NoAnswer(f"the API server could not be asked: {error}", UNREACHABLE)
    if isinstance(error, NotFound):
        return Failed(f"there is no such thing: {error}; are the rebalancer's CRDs installed?")
    return Failed(str(error), FAILED)
