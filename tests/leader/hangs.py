"""A process that leads and whose event loop then hangs for 20 s: `python -m tests.leader.hangs URL`."""

import asyncio
import random
import sys
import threading

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.resources import LEASES, Ref
from rebalancer.leader.elector import Elector
from rebalancer.leader.lease import LeaseObject
from rebalancer.leader.watchdog import Watchdog, end_process
from rebalancer.loop.clock import RealClock


async def main(url: str) -> None:
    """Says when it leads, and writes as soon as its loop goes on."""
    clock = RealClock()
    async with KubeClient(Access(url, "Bearer sandbox-rebalancer"), clock, random.Random(1)) as kube:
        elector = Elector(LeaseObject(kube, "rebalancer", "rebalancer", clock), clock, "rb-0")
        Watchdog(elector.ended_seconds, end_process).start()
        running = asyncio.ensure_future(elector.run())
        await elector.elected.wait()
        sys.stdout.write("leads\n")
        sys.stdout.flush()
        threading.Event().wait(20.0)
        await kube.patch(Ref(LEASES, "rebalancer", "rebalancer"), {"metadata": {"annotations": {"went": "on"}}})
        running.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
