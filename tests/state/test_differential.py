"""Two states that heard the same are the same: one that is looked at after every event, and one that is asked once."""

import tracemalloc
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.cluster import SOURCES, ClusterObject, DisruptionBudget, SavedNodePool, Taint, Workload
from rebalancer.domain.codec import to_bytes
from rebalancer.domain.events import Event, MetricSample, ObjectChanged, ObjectGone, ObjectsListed, SourceState
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import NoticeView, Snapshot
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool, a_write_stop, an_elastic_pool, an_override
from tests.state.objects import (
    DISRUPTED,
    GPU,
    a_claim,
    a_cluster_node,
    a_karpenter_node,
    a_karpenter_pool,
    a_ready_pod,
    a_sample,
    a_scaled_object,
    a_told_notice,
    a_workload,
    an_hpa,
    at_offset,
    changed,
    feed,
    gone,
    listed,
    ref,
)

POLICIES = (
    a_policy(a_model("a"), a_model("b", pools=("a100", "spot")), pools=(a_pool(), an_elastic_pool())),
    a_policy(a_model("b", pools=("spot",)), a_model("c"), pools=(a_pool(), an_elastic_pool())),
    a_policy(
        a_model("a", signals={"utilisation": True}),
        pools=(a_pool("a100", 4),),
        nodes={"signs": ({"taint": "example.com/going-away", "kind": "scheduled-change", "within_seconds": 300.0},)},
    ),
)

Heard = Event | Policy | tuple[str, int]  # an event, a policy, a write of ours
Step = tuple[float, Heard]  # seconds later

names = st.sampled_from(["a-1", "a-2", "b-1", "b-2", "b-3", "x-1"])
nodes = st.sampled_from(["n1", "n2", "s1", None])
SPOT_ITN = Taint("aws-node-termination-handler/spot-itn", "", "NoSchedule")
GOING_AWAY = Taint("example.com/going-away", "", "NoSchedule")  # a notice by the last of the policies only
HOLD = DisruptionBudget(nodes="0", reasons=("Empty", "Underutilized"))


@st.composite
def a_pod(draw: st.DrawFn) -> ClusterObject:
    name = draw(names)
    workload = {"a": "a", "b": draw(st.sampled_from(["b", "b-spot"])), "x": "train"}[name[0]]
    ready = draw(st.booleans())
    pod = a_ready_pod(name, workload, draw(nodes), ready=ready, ready_at=NOW - 30 if ready else None)
    return replace(
        pod,
        uid=draw(st.sampled_from([f"uid-{name}", f"uid-{name}-reborn"])),
        phase=draw(st.sampled_from(["Running", "Running", "Succeeded"])),
        deleting_at=draw(st.sampled_from([None, None, NOW + 20])),
        gpus=draw(st.sampled_from([{GPU: 1}, {GPU: 2}, {}])),
    )


@st.composite
def a_node(draw: st.DrawFn) -> ClusterObject:
    name = draw(st.sampled_from(["n1", "n2", "s1"]))
    node = a_karpenter_node(name) if name == "s1" else a_cluster_node(name, draw(st.sampled_from(["a100", "cpu"])))
    taints: tuple[Taint, ...] = draw(st.sampled_from([(), (DISRUPTED,), (SPOT_ITN,), (GOING_AWAY,)]))
    return replace(
        node,
        uid=draw(st.sampled_from([f"uid-{name}", f"uid-{name}-reborn"])),
        taints=taints,
        ready=draw(st.booleans()),
        ready_changed_at=draw(st.sampled_from([NOW - 3600, NOW + 100])),
        allocatable={GPU: draw(st.sampled_from([0, 4, 8]))},
        unschedulable=draw(st.booleans()),
    )


objects = st.one_of(
    a_pod(),
    a_pod(),
    a_node(),
    st.builds(a_workload, st.sampled_from(["a", "b", "b-spot", "c"]), st.integers(0, 3)),
    st.builds(lambda high: an_hpa("keda-hpa-b", bounds=(1, high), owner_scaled_object="b"), st.integers(1, 5)),
    st.builds(lambda low, high: a_scaled_object(bounds=(low, high)), st.none() | st.integers(0, 2), st.integers(2, 5)),
    st.builds(
        lambda held, limit: a_karpenter_pool(
            limit=limit,
            budgets=(HOLD,) if held else None,
            saved=SavedNodePool(None, None) if held else None,
        ),
        st.booleans(),
        st.integers(0, 16),
    ),
    st.builds(
        lambda node, failed, deleting: a_claim(node=node, failed=failed, deleting_at=deleting),
        st.sampled_from([None, "s1"]),
        st.sampled_from([None, "no capacity"]),
        st.sampled_from([None, NOW + 5]),
    ),
    st.builds(an_override, st.just("drain"), st.sampled_from(["n1", "s1"])),
    st.builds(lambda value: an_override("pin", "b", value), st.integers(0, 4)),
    st.just(a_write_stop()),
)
samples = st.builds(
    lambda model, pod, age, running, source: a_sample(
        model, pod, NOW - age, float(running), source=source, gauges={"gpu_utilisation": running / 12}
    ),
    st.sampled_from(["a", "b", "z"]),
    st.none() | names,
    st.integers(0, 90),
    st.integers(0, 12),
    st.sampled_from(["vllm", "dcgm"]),
)
notices = st.builds(
    lambda node, kind, at, cancelled, event: a_told_notice(
        node, kind=kind, at=NOW + at, deadline=NOW + 60, cancelled=cancelled, event=event
    ),
    st.sampled_from(["n1", "s1", "ghost"]),
    st.sampled_from(["spot-interruption", "rebalance"]),
    st.integers(-5, 5),
    st.booleans(),
    st.sampled_from(["", "first", "second"]),
)
sources = st.builds(
    lambda source, trouble, absent: SourceState(source, NOW, trouble, absent=absent),
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from([None, "403"]),
    st.booleans(),
)


def as_lists(found: list[ClusterObject]) -> list[ObjectsListed]:
    return [
        listed(source, *(one for one in found if isinstance(one, kind))) for source, kind in sorted(SOURCES.items())
    ]


relists = st.lists(objects, max_size=8).map(as_lists)
steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.3, 2.0, 11.0, 95.0, 400.0]),
        st.one_of(
            objects.map(changed),
            objects.map(changed),
            objects.map(gone),
            samples,
            samples,
            notices,
            sources,
            st.sampled_from(POLICIES),
            st.tuples(st.sampled_from(["a", "b", "b-spot"]), st.integers(0, 4)),
        ),
    ),
    max_size=25,
)


def numbered(first: list[ObjectsListed], rest: list[Step]) -> list[Step]:
    """Rising resource versions and offsets, as an API server and Kafka give them."""
    versions, offsets = count(10), count()

    def number(found: Heard) -> Heard:
        if isinstance(found, ObjectChanged | ObjectGone):
            return replace(found, object=replace(found.object, resource_version=str(next(versions))))
        return at_offset(found, next(offsets)) if isinstance(found, MetricSample) else found

    return [(0.0, event) for event in first] + [(later, number(found)) for later, found in rest]


def tell(state: ClusterState, found: Heard, now: float) -> None:
    if isinstance(found, Policy):
        state.set_policy(found, now)
    elif isinstance(found, tuple):
        state.note_write("a" if found[0] == "a" else "b", ref(found[0]), found[1], now)
    else:
        state.apply(found, now)


def sooner(often: NoticeView, once: NoticeView) -> bool:
    """Whether who looked often has the node's pods count for nobody as soon as who looked once, or sooner.

    A pod of a slow model that came and went between two looks makes it sooner for who saw it: `state.due.Due`.
    """
    instants = (often.doomed_at, once.doomed_at), (often.counts_since, once.counts_since)
    return all((mine or often.since) <= (other or once.since) for mine, other in instants)


def without_instants(seen: Snapshot) -> Snapshot:
    notices = tuple(replace(notice, doomed_at=None, counts_since=None) for notice in seen.notices)
    return replace(seen, notices=notices)


@given(first=relists, rest=steps)
def test_looking_often_and_looking_once_show_the_same_world(first: list[ObjectsListed], rest: list[Step]) -> None:
    often, once = ClusterState(POLICIES[0], NOW - 60), ClusterState(POLICIES[0], NOW - 60)
    now = NOW
    for later, found in numbered(first, rest):
        now += later
        tell(often, found, now)
        often.peek(now)
        tell(once, found, now)
    seen_often, seen_once = often.peek(now), once.peek(now)
    assert all(sooner(*views) for views in zip(seen_often.notices, seen_once.notices, strict=True))
    assert to_bytes(without_instants(seen_often)) == to_bytes(without_instants(seen_once))
    assert often.counters() == once.counters()


@given(first=relists, rest=steps)
def test_hearing_everything_twice_is_hearing_it_once(first: list[ObjectsListed], rest: list[Step]) -> None:
    twice, once = ClusterState(POLICIES[0], NOW - 60), ClusterState(POLICIES[0], NOW - 60)
    now = NOW
    for later, found in numbered(first, rest):
        now += later
        for state in (twice, twice, once):
            tell(state, found, now)
    assert to_bytes(twice.peek(now)) == to_bytes(once.peek(now))


@given(first=relists, rest=steps)
def test_a_relist_of_what_is_there_changes_nothing(first: list[ObjectsListed], rest: list[Step]) -> None:
    state = ClusterState(POLICIES[0], NOW - 60)
    now = NOW
    known: dict[tuple[str, str, str], ClusterObject] = {}
    for later, found in numbered(first, rest):
        if isinstance(found, ObjectsListed | ObjectChanged | ObjectGone):
            now += later
            state.apply(found, now)
            keep(known, found)
    before = state.peek(now)
    state.take_wakes()
    for source in SOURCES:
        state.apply(listed(source, *(one for (home, *_), one in known.items() if home == source)), now)
    after = state.peek(now)
    for part in ("overrides", "notices", "pools", "models", "loads"):
        assert getattr(after, part) is getattr(before, part), part
    assert state.take_wakes() == frozenset()


def keep(known: dict[tuple[str, str, str], ClusterObject], event: ObjectsListed | ObjectChanged | ObjectGone) -> None:
    """What an API server would list after the event."""

    def key(found: ClusterObject) -> tuple[str, str, str]:
        name = found.ref.name if isinstance(found, Workload) else found.name
        return event.source, getattr(found, "namespace", ""), name

    if isinstance(event, ObjectsListed):
        known |= {key(found): found for found in event.objects}
    elif isinstance(event, ObjectChanged):
        known[key(event.object)] = event.object
    elif key(event.object) in known and known[key(event.object)].uid == event.object.uid:
        del known[key(event.object)]


def test_a_model_with_ten_pods_and_full_history_costs_less_than_a_hundred_kib() -> None:
    """The rings are 51 KiB of it; the rest is ten pods, their newest samples and their views."""
    models = [a_model(f"m{n}") for n in range(20)]
    pods = [a_ready_pod(f"m{n}-{k}", f"m{n}") for n in range(20) for k in range(10)]
    tracemalloc.start()
    state = feed(ClusterState(a_policy(*models), NOW - 7200), listed("pods", *pods))
    for at in range(-40, 1, 5):
        samples_now = [a_sample(pod.name.split("-")[0], pod.name, NOW + at, 3.0, 100.0) for pod in pods]
        state.apply_all(samples_now, NOW)
    state.peek(NOW)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 20 <= 100 * 1024
