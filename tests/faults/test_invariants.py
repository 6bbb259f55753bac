"""Every invariant I1 to I16 notices what breaks it, and nothing where all is well."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.evidence import Evidence, Lag, Notice, Rules, Span, Vitals
from tests.faults.invariants import INVARIANTS, judged
from tests.real.readiness import Readiness
from tests.testbed.audit import Write

OURS, NAMESPACE = "system:serviceaccount:ns:rebalancer", "ns"
RULES = Rules({"chat": 1, "code": 1}, {"chat": 4, "code": 4}, 8, 0.5, 5.0, {"chat": 4, "code": 4})
AGENT = "rebalancer/1 epoch 7 rb-0"
Json = dict[str, Any]


def write(at: float, name: str, replicas: int, **more: object) -> Write:
    """A scale write of ours that succeeded."""
    scale = Write(
        audit_id=f"{at}",
        received=at,
        answered=at + 0.01,
        user=OURS,
        verb="update",
        group="apps",
        resource="deployments",
        subresource="scale",
        namespace=NAMESPACE,
        name=name,
        code=200,
        dry_run=False,
        request={"spec": {"replicas": replicas}},
        response={},
        agent=AGENT,
    )
    return replace(scale, **more)  # type: ignore[arg-type]  # fields of a Write


def lease(at: float, epoch: int) -> Write:
    """The Lease as a leader of that term wrote it."""
    response = {"metadata": {"annotations": {"rebalancer.io/epoch": str(epoch)}}, "spec": {"holderIdentity": "x"}}
    return write(at, "rebalancer", 0, resource="leases", subresource="", request={}, response=response)


def lines(at: float, name: str, replicas: int, status: str = "written", /, **more: object) -> list[Json]:
    """Our records of a write: intent and outcome."""
    intent = {"cycle": int(at), "id": name, "at": at - 0.1, "object": f"deployment/{NAMESPACE}/{name}",
              "replicas_to": replicas, "victims": []} | more  # fmt: skip
    outcome = {"intent": intent, "at": at + 0.1, "status": status}
    return [{"line": "intent", "intent": intent}, {"line": "outcome", "outcome": outcome}]


def _looked(pid: int, waited: float, **late: int) -> Lag:
    """A look at a process whose main thread has waited so long for a CPU; late=1: once by more than 0.2 s."""
    return Lag(pid, waited, {0.2: sum(late.values()), 0.5: late.get("very_late", 0)})


def sound() -> Evidence:
    """A replica changes hands, all is recorded, and nothing else happens."""
    return Evidence(
        OURS,
        NAMESPACE,
        RULES,
        Span(100.0, 200.0),
        writes=[write(110.0, "code", 3), write(115.0, "chat", 5)],
        leases=[lease(101.0, 7)],
        journal=[*lines(110.0, "code", 3), *lines(115.0, "chat", 5)],
        vitals=[Vitals(101.0 + second, 100.0, 40, 0.1, 100 * second) for second in range(20)],
        lags=[_looked(1, 0.0), _looked(1, 0.1)],
        quiet_since=130.0,
    )


def test_where_all_is_well_nothing_is_broken() -> None:
    assert judged(sound()) == {}


def _add(*writes: Write) -> Callable[[Evidence], None]:
    def spoil(evidence: Evidence) -> None:
        evidence.writes += writes
        for each in writes:
            if each.subresource == "scale" and each.user == OURS:
                evidence.journal += lines(each.received, each.name, each.request["spec"]["replicas"])

    return spoil


def _set(**fields: object) -> Callable[[Evidence], None]:
    def spoil(evidence: Evidence) -> None:
        for name, value in fields.items():
            setattr(evidence, name, value)

    return spoil


def _noticed(evidence: Evidence, *writes: Write) -> None:
    """A notice about `node`, on which code has a pod, and what we write from then on."""
    evidence.notices = [Notice(150.0, "node")]
    evidence.pods.nodes |= {"code-1": "node", "chat-1": "other"}
    evidence.writes += writes


def cordon(at: float, node: str, **wanted: object) -> Write:
    """A node is cordoned, or (`unschedulable=None`) uncordoned."""
    spec = {"spec": {"unschedulable": True} | wanted}
    return write(at, node, 0, verb="patch", group="", resource="nodes", subresource="", namespace="", request=spec)


def eviction(at: float, pod: str) -> Write:
    """A pod's eviction that was granted."""
    return write(at, pod, 0, verb="create", group="", resource="pods", subresource="eviction", request={})


BREAKS: dict[str, Callable[[Evidence], None]] = {
    "I1": _add(write(120.0, "code", 0)),
    "I2": _add(write(120.0, "chat", 6)),
    "I3": _set(leases=[lease(101.0, 7), lease(112.0, 8)]),
    "I4": _set(unaccounted=["a sample"]),
    "I5": _add(write(120.0, "chat", 5)),
    "I6": _set(overrides=[{"metadata": {"name": "pin"}}]),
    "I7": _add(write(140.0, "chat", 4)),
    "I8": _set(journal=lines(110.0, "code", 3)),
    "I9": _set(blind=[("code", Span(100.0, 120.0))]),
    "I10": _add(write(111.0, "code", 2), write(112.0, "code", 1)),
    "I11": _set(calls=[(100.0 + call / 30, "GET", "/") for call in range(600)]),
    "I12": _set(blamed=[("kafka-in", 100.0)], readiness=Readiness([(120.0, {}), (161.0, {"kafka-in": "away"})])),
    "I13": _set(vitals=[Vitals(101.0, 600.0, 40, 0.1, 0)]),
    "I14": _set(ended_by_itself=1),
    "I15": lambda e: _noticed(e, *(lease(150.0 + second, 7) for second in range(20))),
    "I16": _add(write(120.0, "secret", 0, resource="secrets", subresource="")),
}


@pytest.mark.parametrize("name", INVARIANTS)
def test_what_breaks_an_invariant_is_noticed_under_its_name(name: str) -> None:
    evidence = sound()
    BREAKS[name](evidence)
    assert name in judged(evidence)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda e: e.writes.append(write(118.0, "chat", 6)), "stands in no record"),
        (lambda e: e.journal.extend(lines(118.0, "chat", 6)), "the API server knows nothing"),
        (lambda e: e.journal.pop(0), "has an outcome and no intent"),
        (lambda e: e.journal.extend(lines(118.0, "chat", 6)[:1]), "intents without an outcome"),
    ],
    ids=["unrecorded", "unwritten", "unintended", "unended"],
)
def test_i8_is_a_bijection_of_audit_log_and_records(broken: Callable[[Evidence], None], words: str) -> None:
    evidence = sound()
    broken(evidence)
    assert any(words in each for each in INVARIANTS["I8"](evidence))


def patch(resource: str, name: str, **more: object) -> Write:
    """A patch of ours of some other kind, a while before or after all was as desired."""
    return write(120.0, name, 0, verb="patch", resource=resource, subresource="", **more)


_TARGET = {"spec": {"scaleTargetRef": {"name": "auto"}}}
_BOUNDS = {"object": f"deployment/{NAMESPACE}/auto", "minimum_to": 1}
STEERED: dict[str, tuple[Write, Json]] = {
    "scale": (write(120.0, "code", 4), {"object": f"deployment/{NAMESPACE}/code", "replicas_to": 4}),
    "cordon": (cordon(120.0, "node"), {"object": "node/node", "kind": "cordon"}),
    "uncordon": (cordon(120.0, "node", unschedulable=None), {"object": "node/node", "kind": "uncordon"}),
    "eviction": (eviction(120.0, "code-1"), {"object": f"pod/{NAMESPACE}/code-1", "kind": "evict"}),
    "deletion": (
        replace(patch("pods", "code-1", request={}), verb="delete"),
        {"object": f"pod/{NAMESPACE}/code-1", "kind": "delete"},
    ),
    "hpa": (
        patch(
            "horizontalpodautoscalers", "own", request={"spec": {"minReplicas": 1, "maxReplicas": 3}}, response=_TARGET
        ),
        _BOUNDS | {"replicas_to": 3},
    ),
    "scaled-object": (
        patch("scaledobjects", "own", request={"spec": {"minReplicaCount": 1, "maxReplicaCount": 3}}, response=_TARGET),
        _BOUNDS | {"replicas_to": 3},
    ),
    "node-pool": (
        patch("nodepools", "big", namespace="", request={"spec": {"limits": {"gpu": "8"}}}),
        {"object": "nodepool/big", "kind": "limit"},
    ),
    "mark": (patch("pods", "code-1", request={"metadata": {"uid": "u1"}}), {"victims": ["u1"]}),
}
"""Every way in which something is steered: the write, and what our intent says of it."""


@pytest.mark.parametrize("way", STEERED)
def test_i8_each_write_that_steers_has_its_record_and_each_record_its_write(way: str) -> None:
    write_of_it, intent = STEERED[way]
    records = lines(120.0, "change", 0, **intent)
    evidence = sound()
    evidence.writes.append(write_of_it)
    assert any("stands in no record" in each for each in INVARIANTS["I8"](evidence)), "unrecorded"
    evidence.journal += records
    if way == "mark":  # it has no record of its own: it belongs to the write that lets the pod go
        evidence.writes.append(write(120.2, "code", 2))
        records[0]["intent"] |= {"object": f"deployment/{NAMESPACE}/code", "replicas_to": 2}
    assert INVARIANTS["I8"](evidence) == []
    evidence.writes.pop()
    assert any("the API server knows nothing" in each for each in INVARIANTS["I8"](evidence)), "unwritten"


@pytest.mark.parametrize("way", STEERED)
def test_i7_nothing_is_steered_any_more_once_all_is_as_desired(way: str) -> None:
    evidence = sound()
    evidence.writes.append(STEERED[way][0])
    assert INVARIANTS["I7"](evidence) == []
    evidence.quiet_since = 118.0
    assert len(INVARIANTS["I7"](evidence)) == 1


@pytest.mark.parametrize(
    ("way", "other"),
    [
        ("scale", {"replicas_to": 3}),
        ("cordon", {"kind": "uncordon"}),
        ("uncordon", {"kind": "cordon"}),
        ("eviction", {"kind": "delete"}),
        ("hpa", {"replicas_to": 4}),
        ("scaled-object", {"minimum_to": 2}),
        ("node-pool", {"kind": "hold"}),
        ("node-pool", {"object": "nodepool/other"}),
        ("mark", {"victims": ["u2"]}),
        ("cordon", {"at": 50.0}),
    ],
)
def test_i8_a_record_of_something_else_is_not_the_record_of_a_write(way: str, other: Json) -> None:
    write_of_it, intent = STEERED[way]
    evidence = sound()
    evidence.writes.append(write_of_it)
    evidence.journal += lines(120.0, "change", 0, **(intent | other))
    assert any("stands in no record" in each for each in INVARIANTS["I8"](evidence))


def test_i8_a_pod_that_was_gone_when_it_was_to_be_evicted_is_recorded_as_written() -> None:
    asked_for, intent = STEERED["eviction"]
    evidence = sound()
    evidence.writes.append(replace(asked_for, code=404))
    evidence.journal += lines(120.0, "change", 0, **intent)
    assert INVARIANTS["I8"](evidence) == []


def test_i8_an_outcome_that_is_unknown_may_stand_for_a_write_or_for_none() -> None:
    evidence = sound()
    evidence.journal[-1]["outcome"]["status"] = "unknown"
    assert INVARIANTS["I8"](evidence) == []
    evidence.writes.pop()
    assert INVARIANTS["I8"](evidence) == []


def test_i8_after_a_kill_writes_under_way_may_lack_an_outcome() -> None:
    evidence = sound()
    evidence.journal.pop()
    evidence.kills = 1
    assert INVARIANTS["I8"](evidence) == []


def test_i8_an_outcome_that_the_next_leader_tells_again_is_one_record() -> None:
    evidence = sound()
    evidence.journal.append(evidence.journal[-1])
    assert INVARIANTS["I8"](evidence) == []


def test_there_are_sixteen() -> None:
    assert list(INVARIANTS) == [f"I{number}" for number in range(1, 17)] == list(BREAKS)


@pytest.mark.parametrize(("running", "broken"), [(55.0, True), (5.0, False)])
def test_i10_binds_below_what_a_donor_needs_now_and_lets_surplus_go(running: float, *, broken: bool) -> None:
    evidence = sound()
    BREAKS["I10"](evidence)
    evidence.work["code"] = [(50.0 + second, running / 10) for second in range(60)]
    assert bool(INVARIANTS["I10"](evidence)) is broken


@pytest.mark.parametrize(
    ("done", "broken"),
    [
        (cordon(154.0, "node"), False),
        (eviction(154.0, "code-1"), False),
        (write(154.0, "code", 4), False),
        (cordon(156.0, "node"), True),
        (cordon(154.0, "other"), True),
        (cordon(154.0, "node", unschedulable=None), True),
        (replace(cordon(154.0, "node"), code=409), True),
        (eviction(154.0, "chat-1"), True),
        (write(154.0, "code", 2), True),
        (write(154.0, "chat", 6), True),
    ],
    ids=["cordoned", "evicted", "raised", "late", "other-node", "uncordoned", "refused", "other-pod", "lowered",
         "other-model"],
)  # fmt: skip
def test_i15_asks_for_a_write_about_the_node_of_the_notice(done: Write, *, broken: bool) -> None:
    evidence = sound()
    _noticed(evidence, done)
    assert bool(INVARIANTS["I15"](evidence)) is broken


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_i6_each_override_is_told_one_of_the_four_ends_also_one_that_the_row_took_away(phase: str) -> None:
    evidence = sound()
    pin = {"metadata": {"name": "pin"}, "status": {"phase": "Superseded"}}
    evidence.overrides = [pin, pin | {"status": {"phase": phase}}]
    assert INVARIANTS["I6"](evidence) == [f"override pin is told {phase!r}"]


@pytest.mark.parametrize(
    ("lags", "broken"),
    [
        ([], True),
        ([_looked(1, 0.0), _looked(1, 0.0)], False),
        ([_looked(1, 0.0), _looked(1, 0.0, late=1)], True),
        ([_looked(1, 0.0, late=1), _looked(1, 0.0, late=1)], False),
        ([_looked(1, 0.0), _looked(1, 0.1, late=1)], False),
        ([_looked(1, 0.0), _looked(1, 0.1), _looked(1, 0.1, late=1)], False),
        ([_looked(1, 0.0), _looked(1, 0.1), _looked(1, 0.1), _looked(1, 0.1, late=1)], True),
        ([_looked(1, 0.0), _looked(1, 0.1, very_late=1)], True),
        ([_looked(1, 0.0), _looked(2, 0.0, late=1)], True),
        ([_looked(1, 0.0), _looked(2, 0.5, late=1)], False),
    ],
    ids=["not-looked-at", "in-time", "late", "before-the-row", "waited", "waited-just-before", "waited-long-before",
         "later-than-it-waited", "anew", "anew-and-waited"],
)  # fmt: skip
def test_i14_a_loop_is_held_up_for_200_ms_and_what_its_thread_waited_for_a_cpu(
    lags: list[Lag], *, broken: bool
) -> None:
    evidence = sound()
    evidence.lags = lags
    assert bool(INVARIANTS["I14"](evidence)) is broken
    evidence.stopped = True
    assert INVARIANTS["I14"](evidence) == []


@pytest.mark.parametrize(
    ("bound_at", "broken"), [(100.0, True), (110.5, True), (111.5, False), (112.5, False), (None, False)]
)
def test_i10_is_not_asked_for_replicas_that_have_no_node_yet(bound_at: float | None, *, broken: bool) -> None:
    evidence = sound()
    evidence.writes[1:] = [write(112.0, "code", 1)]
    evidence.pods.spans = dict.fromkeys(("code-1", "code-2"), (50.0, float("inf")))
    evidence.pods.nodes = {} if bound_at is None else {"code-1": "node", "code-2": "node"}
    evidence.pods.bound = {} if bound_at is None else {"code-1": bound_at, "code-2": bound_at}
    assert bool(INVARIANTS["I10"](evidence)) is broken


@pytest.mark.parametrize(("at", "node", "broken"), [(110.5, "node", False), (112.5, "node", True), (110.5, "b", True)])
def test_i10_is_not_asked_for_replicas_on_a_node_under_notice(at: float, node: str, *, broken: bool) -> None:
    evidence = sound()
    evidence.writes[1:] = [write(112.0, "code", 1)]
    evidence.pods.spans = dict.fromkeys(("code-1", "code-2", "chat-1"), (50.0, float("inf")))
    evidence.pods.nodes = {"code-1": "node", "code-2": "node", "chat-1": "node"}
    evidence.notices = [Notice(at, node)]
    assert bool(INVARIANTS["I10"](evidence)) is broken
