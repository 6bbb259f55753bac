"""Random streams of notices through decoders, state and planning: nothing raises, and no write of ours breaks a floor.

A stream is records of all clouds and of ours, out of order, repeated, stale, of machines that nobody knows, wrapped and
torn, between nodes that show and lose signs, in a world that carries out the plans. A failing seed tells its stream.
`python -m tests.ingest.notice_streams` plays many of them and prints the page of results.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from msgspec.structs import replace

from rebalancer.domain.cluster import Node, NodeCondition, Taint
from rebalancer.domain.events import CapacityNotice, Position, Rejection
from rebalancer.domain.node_signs import DEFAULT_SIGNS
from rebalancer.domain.notice_kinds import CONFIDENCES, KINDS
from rebalancer.ingest import azure, eventbridge, gcp
from rebalancer.ingest.notices import Partly, decode_notice
from rebalancer.state import ClusterState
from tests.builders import Replicas, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.ingest.wire import NOTICE_TYPE
from tests.ingest.wrapped import WRAPPINGS
from tests.machine.page import commit_now
from tests.planning import oracle
from tests.planning.story import Story
from tests.state.objects import a_cluster_node, a_ready_pod, a_state, changed

STREAMS = 100_000
FIRST_SEED = 1_000_000
ALIKE_EVERY = 10  # streams in which each decision is also made without what is kept between turns, and compared
TURNS = 5
CHUNK = 50  # streams that a process plays at once, half a second: so soon a run of so many seconds ends
AGES = (0.0, 0.0, 1.0, 20.0, 200.0, 5000.0, 1e9, -30.0, -2e9)  # seconds; a clock may be ahead, and a year be 1970
SPANS = (0.0, 30.0, 120.0, 900.0, 86_400.0, 14 * 86_400.0, -7200.0)
SETS = "azure:///subscriptions/s/resourceGroups/MC/providers/Microsoft.Compute/virtualMachineScaleSets"
PROVIDERS = {
    "a100-1": f"{SETS}/A100-vmss/virtualMachines/1",
    "a100-2": f"{SETS}/other-vmss/virtualMachines/1",
    "spot-1": "aws:///eu-west-1a/i-spot1",
    "spot-2": "gce://project/europe-west1-c/spot-2",
}
MACHINES = ("i-spot1", "spot-2", "a100-vmss_1", "other-vmss_1", "1", "i-stranger", "a100-vmss_2", *PROVIDERS.values())
POLICY = a_policy(
    a_model("a", 2, entitlement=4),
    a_model("b", 2, pools=("a100", "spot"), entitlement=2),
    pools=(a_pool(gpus=16), an_elastic_pool(gpus=16)),
)

Rng = random.Random


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(max(0.0, at), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc1123(at: float) -> str:
    return datetime.fromtimestamp(max(0.0, at), UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def by_eventbridge(rng: Rng, now: float) -> dict[str, Any]:
    source, detail_type = rng.choice(list(eventbridge.TABLE))
    machine = rng.choice(MACHINES)[:64]
    detail = {
        "instance-id": machine,
        "EC2InstanceId": machine,
        "state": rng.choice(["pending", "running", "Stopping", "terminated", "odd"]),
        "service": "EC2",
        "eventTypeCategory": rng.choice(["scheduledChange", "issue"]),
        "statusCode": rng.choice(["", "open", "upcoming", "closed"]),
        "startTime": rng.choice([rfc1123, rfc3339])(now + rng.choice(SPANS)),
        "endTime": rfc3339(now + rng.choice(SPANS)),
        "eventArn": rng.choice(["", "arn:1", "arn:2"]),
        "affectedEntities": [
            {"entityValue": each[:64], "status": rng.choice(["PENDING", "RESOLVED"])}
            for each in rng.choices(MACHINES, k=rng.randint(0, 3))
        ],
    }
    time = rng.choice(["", rfc3339(now - rng.choice(AGES))])
    return {"id": f"{rng.randint(1, 9)}", "detail-type": detail_type, "source": source, "time": time, "detail": detail}


def by_hook(rng: Rng, now: float) -> dict[str, Any]:
    transition = rng.choice([*eventbridge.HOOKS, "autoscaling:ODD"])
    time = rng.choice(["", rfc3339(now - rng.choice(AGES))])
    machine = rng.choice(MACHINES)
    return {"AutoScalingGroupName": "g", "LifecycleTransition": transition, "Time": time, "EC2InstanceId": machine}


def scheduled(rng: Rng, now: float) -> dict[str, Any]:
    return {
        "EventId": f"{rng.randint(1, 5)}",
        "EventType": rng.choice([*azure.TABLE, "Odd"]),
        "EventStatus": rng.choice(["Scheduled", "Started", "Completed", "Canceled"]),
        "ResourceType": rng.choice(["VirtualMachine", "AvailabilitySet"]),
        "Resources": rng.choices(MACHINES, k=rng.randint(0, 3)),
        "NotBefore": rng.choice(["", "0001-01-01T00:00:00Z", rfc1123(now + rng.choice(SPANS)), "soon"]),
    }


def by_imds(rng: Rng, now: float) -> dict[str, Any]:
    events = [scheduled(rng, now) for _ in range(rng.randint(0, 3))]
    return {"DocumentIncarnation": rng.randint(1, 5), "Events": events}


def by_grid(rng: Rng, now: float) -> dict[str, Any]:
    info = {"type": rng.choice(["microsoft.maintenance/scheduledEvents", azure.AKS_TYPE])}
    data = {"resourceInfo": info | {"properties": scheduled(rng, now)}}
    return {"id": f"{rng.randint(1, 9)}", "eventType": "Microsoft.X", "eventTime": rfc3339(now), "data": data}


def by_gcp(rng: Rng, now: float) -> dict[str, Any]:
    payload = {"methodName": rng.choice([*gcp.TABLE, "odd"]), "resourceName": f"projects/p/{rng.choice(MACHINES)}"}
    return {"protoPayload": payload, "timestamp": rng.choice(["", rfc3339(now - rng.choice(AGES))])}


def of_ours(rng: Rng, now: float) -> dict[str, Any]:
    data = {
        "kind": rng.choice(list(KINDS)),
        rng.choice(["node", "instanceId"]): rng.choice([*PROVIDERS, *MACHINES]),
        "deadline": rfc3339(now + rng.choice(SPANS)),
        "voluntary": rng.random() < 0.2,
        "cancelled": rng.random() < 0.3,
        "confidence": rng.choice([None, *CONFIDENCES]),
    }
    event = {"specversion": "1.0", "type": NOTICE_TYPE, "source": "me", "id": f"{rng.randint(1, 9)}", "data": data}
    return event | {"time": rfc3339(now - rng.choice(AGES))}


SOURCES: tuple[Callable[[Rng, float], dict[str, Any]], ...] = (
    *(by_eventbridge, by_eventbridge, by_hook, by_imds, by_grid, by_gcp, of_ours, of_ours),
)


def record(rng: Rng, now: float) -> bytes:
    """One record: an event or several in up to three wrappings, torn now and then."""
    value = json.dumps(rng.choice(SOURCES)(rng, now)).encode()
    for _ in range(rng.randint(0, 3)):
        value = rng.choice(list(WRAPPINGS.values()))(value)
    if rng.random() < 0.1:
        value = b"[" + b",".join([value, json.dumps(rng.choice(SOURCES)(rng, now)).encode()]) + b"]"
    if rng.random() < 0.15:
        cut = rng.randrange(len(value))
        value = rng.choice([value[:cut], value[:cut] + bytes([rng.randrange(256)]) + value[cut + 1 :], b"[" * 40])
    return value


def shows(rng: Rng, node: Node, now: float) -> Node:
    """The node with signs, with strange ones, or with none any more."""
    taints, conditions, labels = [], [], dict(node.labels)
    for row in rng.choices(DEFAULT_SIGNS, k=rng.choice([0, 0, 1, 2])):
        where, name = row.place
        value = row.value or rng.choice(["", "ONGOING", "soon", f"{now + rng.choice(SPANS):.0f}"])
        if where == "taint":
            taints.append(Taint(name, value, "NoSchedule"))
        elif where == "label":
            labels[name] = value
        else:
            status = row.value or rng.choice(["True", "False", "Unknown"])
            message = rng.choice(["", row.message, f"Preempt Scheduled: {rfc1123(now + rng.choice(SPANS))}."])
            conditions.append(NodeCondition(name, status, message, rng.choice([None, now - rng.choice(SPANS)])))
    if rng.random() < 0.2:
        taints.append(Taint("example.com/PreemptionSoon", "", "NoSchedule"))
    version = f"{int(node.resource_version) + 1}"
    return replace(node, resource_version=version, taints=tuple(taints), conditions=tuple(conditions), labels=labels)


def live(seed: int) -> Counter[str]:
    """Live through one stream; what was met in it, counted by words."""
    rng = Rng(seed)
    readings = {"a": {"concurrency": 16.0}, "b": {"concurrency": 16.0}}
    held: dict[str, Replicas] = {"a": 4, "b": {"a100": 2, "spot": 2}}
    snapshot = a_snapshot(POLICY, held, readings, {"a": 4.0, "b": 4.0}, nodes={"a100": 2, "spot": 2})
    story = Story(POLICY, snapshot, compares=seed % ALIKE_EVERY == 0)
    nodes = {
        name: a_cluster_node(name, name[:-2], provider_id=provider, ready_changed_at=1.0)
        for name, provider in PROVIDERS.items()
    }
    state = a_state(POLICY, *nodes.values(), *(a_ready_pod(f"b-{name}", node=name) for name in nodes))
    told: list[bytes] = []
    met = Counter(streams=1)
    for turn in range(TURNS):
        now = story.snapshot.at
        fresh = [record(rng, now) for _ in range(rng.randint(0, 4))]
        told += fresh
        again = rng.sample(told, k=min(len(told), rng.randint(0, 3)))
        stream = rng.sample(fresh + again, k=len(fresh) + len(again))
        for number, value in enumerate(stream):
            met.update(take(state, value, now, turn * 10 + number))
        for name in rng.sample(list(nodes), k=rng.choice([0, 0, 1, 2, 4])):
            nodes[name] = shows(rng, nodes[name], now)
            state.apply(changed(nodes[name], at=now), now)
        there = {node.name for pool in story.snapshot.pools for node in pool.nodes}
        seen = tuple(view for view in state.peek(now).notices if view.node in there)
        story.snapshot = replace(story.snapshot, notices=seen)
        before, plan = story.snapshot, story.plan()
        oracle.judge_plan(before, POLICY, plan)
        met.update({"turns with a node under notice": bool(seen), "writes judged": oracle.carry_out(story, plan)})
        story.settle()
        story.wait(rng.choice([1.0, 10.0, 100.0, 700.0]))
    return met


def take(state: ClusterState, value: bytes, now: float, offset: int) -> dict[str, int]:
    """One record into the state; what it held."""
    decoded = decode_notice(value, (), Position("notices", 0, offset), now - 1.0, now)
    if isinstance(decoded, Rejection):
        assert decoded.detail
        return {"records": 1, f"refused: {decoded.reason}": 1}
    notices = decoded.notices if isinstance(decoded, Partly) else decoded
    assert all(isinstance(each, CapacityNotice) for each in notices)
    state.apply_all(notices, now)
    partly = {f"refused in part: {decoded.rejection.reason}": 1} if isinstance(decoded, Partly) else {}
    kinds = Counter(f"notice: {each.kind}{', taken back' if each.cancelled else ''}" for each in notices)
    return {"records": 1, "notices": len(notices), **partly, **kinds}


def run(seeds: Iterable[int]) -> Counter[str]:
    """Live through streams, one after another; what was met in all of them."""
    met = Counter[str]()
    for seed in seeds:
        try:
            met += live(seed)
        except Exception as error:
            error.add_note(f"stream {seed}: live({seed})")
            raise
    return met


def chunk(seeds: range) -> tuple[Counter[str], float]:
    """Live through these; what was met, and the seconds of a core that it took."""
    began = time.process_time()
    return run(seeds), time.process_time() - began


def run_beside(streams: int, processes: int, until: Callable[[], bool]) -> tuple[Counter[str], float]:
    """Live through so many streams in several processes, until it is time to end; the seconds are of one core."""
    met, took = Counter[str](), 0.0
    firsts = iter(range(FIRST_SEED, FIRST_SEED + streams, CHUNK))
    with ProcessPoolExecutor(processes) as pool:
        while not until() and (some := list(islice(firsts, processes * 2))):
            seeds = (range(first, min(first + CHUNK, FIRST_SEED + streams)) for first in some)
            for counts, of_these in pool.map(chunk, seeds):
                met, took = met + counts, took + of_these
    return met, took


def page(met: Counter[str], wanted: int, seconds: float, played: str) -> str:
    """The page of results; `played`: command, date and commit, for people."""
    rows = "\n".join(f"| {what} | {count:,} |" for what, count in sorted(met.items()))
    streams = met["streams"]
    short = "" if streams >= wanted else f" It was ended before the {wanted:,} that were asked for."
    return f"""# Streams of notices

{played}: {streams:,} streams of {TURNS} turns each, from seed {FIRST_SEED} on, {seconds:,.0f} s of one core.{short}

No stream raised, no write of ours broke a floor, no plan left the oracle's rules. In one of {ALIKE_EVERY} streams each
decision was made a second time without what is kept between turns, and was the same.

| met | times |
| --- | ---: |
{rows}
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.ingest.notice_streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS, help="so many, one seed each")
    parser.add_argument("--seconds", type=float, default=3600.0, help="by the clock; then it ends early and says so")
    parser.add_argument("--processes", type=int, default=1, help="beside each other")
    options = parser.parse_args()
    command = " ".join(["python -m tests.ingest.notice_streams", *sys.argv[1:]])
    played = f"`{command}`, {time.strftime('%d %B %Y', time.gmtime())}, the code of commit {commit_now()}"
    ends = time.perf_counter() + options.seconds
    met, took = run_beside(options.streams, options.processes, lambda: time.perf_counter() > ends)
    sys.stdout.write(page(met, options.streams, took, played))


if __name__ == "__main__":
    main()
