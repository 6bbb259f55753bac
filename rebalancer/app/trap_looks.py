"""Looks for the doctor's traps in the objects of the cluster, when somebody opens the Health page."""

import asyncio
from collections.abc import Callable

from rebalancer.api.ports.page_data import TrapLook
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.kube.errors import KubeError
from rebalancer.kube.reader import KubeReader
from rebalancer.kube.resources import DEPLOYMENTS, HPAS, NODEPOOLS, SCALEDOBJECTS, Resource
from rebalancer.obs.clock import Clock
from rebalancer.survey.case import Case
from rebalancer.survey.finding import WARN, Finding
from rebalancer.survey.live import survey_live
from rebalancer.survey.traps.table import judged

# Of what the service watches anyway, so that no right is added; 1,000 of these are 10 MB for a moment, where a fleet's
# nodes and pods would be a hundred.
KINDS: tuple[Resource, ...] = (DEPLOYMENTS, HPAS, NODEPOOLS, SCALEDOBJECTS)
ELSEWHERE = "nodes, pods and everything else: rebalancer doctor looks at them with your own rights"
AGAIN_SECONDS = 600.0  # traps are in what people write: they come and go by the hour
FAILED_AGAIN_SECONDS = 30.0
MOST_NAMESPACES = 20  # read one by one; with more the whole cluster costs fewer calls


class TrapLooks:
    """`kube` is None until there is a way to the API server. One look at a time, and none while nobody asks."""

    def __init__(self, clock: Clock, policy: Callable[[], Policy], snapshot: Callable[[], Snapshot]) -> None:
        self.kube: KubeReader | None = None
        self._clock = clock
        self._policy = policy
        self._snapshot = snapshot
        self._last = TrapLook()
        self._again_monotonic = float("-inf")
        self._look: asyncio.Task[None] | None = None

    def last(self) -> TrapLook:
        """The last look; when that is old another one begins."""
        looking = self._look is not None and not self._look.done()
        if self.kube is not None and not looking and self._clock.monotonic() >= self._again_monotonic:
            self._look = asyncio.get_running_loop().create_task(self._run(self.kube), name="traps")
        return self._last

    async def stop(self) -> None:
        """Give a look under way up."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.gather(self._look, return_exceptions=True)

    async def _run(self, kube: KubeReader) -> None:
        self._again_monotonic = self._clock.monotonic() + FAILED_AGAIN_SECONDS  # whatever becomes of this one
        policy, known = self._policy(), self._snapshot()
        namespaces = {model.namespace for model in policy.models}
        try:
            survey = await survey_live(kube, KINDS, namespaces if len(namespaces) <= MOST_NAMESPACES else ())
        except KubeError as error:
            finding = Finding(
                WARN, "cluster", f"its objects could not be read: {error}", "rebalancer doctor asks again"
            )
            self._last = TrapLook(self._clock.now(), (finding,), (ELSEWHERE,))
            return
        starts = [model.load_seconds for model in known.models if model.load_seconds]
        node_pools = frozenset(view.name for pool in known.pools for view in pool.node_pools)
        case = Case(survey, policy, max(starts, default=None), node_pools)
        findings = await asyncio.to_thread(lambda: tuple(judged(case)))
        self._last = TrapLook(self._clock.now(), findings, (*survey.unread, ELSEWHERE))
        if not survey.passing:
            self._again_monotonic = self._clock.monotonic() + AGAIN_SECONDS
