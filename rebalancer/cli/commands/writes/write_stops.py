"""The red button's objects: pressed, looked at, taken away."""

from collections.abc import Sequence

import msgspec

from rebalancer.api.ports.operator import Writes
from rebalancer.api.ports.requests import Preview
from rebalancer.cli.failure import Failed, NoAnswer
from rebalancer.cli.remote.answers import decoded
from rebalancer.cli.remote.client import open_api
from rebalancer.cli.remote.cluster import open_cluster
from rebalancer.cli.remote.objects import create_once, remove, stop_name, stop_object
from rebalancer.cli.remote.where import Where
from rebalancer.domain.people import WriteStop
from rebalancer.ingest.objects.people import WriteStopWire, write_stop
from rebalancer.kube.resources import WRITESTOPS, Ref
from rebalancer.loop.clock import RealClock

OBEYS_SECONDS = 3.0
POLL_SECONDS = 0.25


NO_REASON = "no reason given"  # a red button is pressed all the same


async def create_stop(where: Where, reason: str, key: str, *, dry_run: bool) -> tuple[str, str]:
    """Make the WriteStop; its name and who made it."""
    async with open_cluster(where) as cluster:
        actor = await cluster.actor()
        obj = stop_object(stop_name(key), reason.strip() or NO_REASON, actor)
        if not dry_run:
            await create_once(cluster, WRITESTOPS, obj)
        return str(obj["metadata"]["name"]), actor


async def confirmation(where: Where) -> str:
    """What the service says about it: a line for people. Never raises Failed, since the stop stands."""
    clock = RealClock()
    give_up = clock.monotonic() + OBEYS_SECONDS
    try:
        async with open_api(where) as api:
            while clock.monotonic() < give_up:
                writes = decoded(await api.get("/v1/writes"), Writes)
                if writes.stopped:
                    return f"{writes.instance} confirms: nothing is written."
                await clock.sleep(POLL_SECONDS)
    except Failed as failed:
        return f"The service obeys within 2 s; it could not be asked: {failed}"
    return f"The service has not confirmed within {OBEYS_SECONDS:g} s: look at rebalancer status"


async def stops(where: Where) -> tuple[WriteStop, ...]:
    """Every write stop there is, oldest first."""
    async with open_cluster(where) as cluster:
        items = (await cluster.kube.list(WRITESTOPS)).items
    there = (write_stop(msgspec.convert(each, WriteStopWire)) for each in items)
    return tuple(sorted(there, key=lambda each: (each.created_at, each.name)))


async def first_plan(where: Where) -> tuple[str, ...]:
    """What would be written first on resume, in lines for people."""
    try:
        async with open_api(where) as api:
            preview = decoded(await api.get("/v1/writes/preview"), Preview)
    except NoAnswer as failed:
        return (f"no preview of the first plan: {failed}",)
    return preview.lines or ("The first plan changes nothing.",)


async def remove_stops(where: Where, there: Sequence[WriteStop]) -> None:
    """Take these very stops away; one that is gone already is no error. The console's all have one name."""
    async with open_cluster(where) as cluster:
        for each in there:
            await remove(cluster, Ref(WRITESTOPS, None, each.name), uid=each.uid)
