"""Every notice that lies in `../shared/artefacts/notices` does what its SOURCES.md says, and the table is printed.

Files as their clouds and tools ship them, with the times of their day: `now` is a moment after the newest of them.
Where a time of 1970 stands for none, the same event of a minute ago is read as well. Read the table with `pytest -s`.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rebalancer.domain.events import CapacityNotice, Position, Rejection
from rebalancer.ingest.eventbridge import TABLE
from rebalancer.ingest.notices import decode_notice
from rebalancer.state import ClusterState
from tests.beside import folder
from tests.state.objects import a_cluster_node, a_state, feed

NOW = 1_795_352_460.0  # 2026-11-22T13:01:00Z: a minute after those that have times of their day
MINUTE_AGO = "2026-11-22T13:00:00Z"
HERE = Position("rebalancer.notices", 0, 7)


class Outcome(NamedTuple):
    """What SOURCES.md says of a file, in a word or two of it, and what has to come out."""

    stated: str
    said: str
    recent: str = ""  # of the same event a minute ago, where the file's is of 1970


def outcome(value: bytes) -> str:
    found = decode_notice(value, (), HERE, NOW - 5, NOW)
    if isinstance(found, Rejection):
        return f"dead letter {found.reason}: {found.detail}"
    assert isinstance(found, tuple)
    return "; ".join(_said(one) for one in found) or "nothing"


def _said(notice: CapacityNotice) -> str:
    ahead = notice.deadline - notice.at
    when = f"{ahead:+.0f} s" if abs(ahead) < 86_400 else f"{ahead / 86_400:+.0f} d"
    return f"{notice.kind} of {notice.instance_id} {when} ({notice.confidence})"


EXPECTED: dict[str, Outcome] = {
    "aws-asg-launch-lifecycle.json": Outcome("silently none, not a dead letter", "nothing"),
    "aws-asg-terminate-lifecycle-lambda.json": Outcome(
        "notice, instance terminating",
        "dead letter stale: it was over at .*",
        r"state-change of i-1234567890abcdef0 \+120 s \(certain\)",
    ),
    "aws-asg-terminate-lifecycle-nth-e2e.json": Outcome(
        "notice, instance terminating", r"state-change of i-0b662ef9931388ba0 \+120 s \(certain\)"
    ),
    "aws-asg-terminate-successful.json": Outcome("no new doom", "nothing"),
    "aws-health-issue-drive-degraded.json": Outcome("no doom", "nothing"),
    "aws-health-scheduled-change-no-status-2016.json": Outcome(
        "stale, ignored with a reason", "dead letter stale: it was over at .*"
    ),
    "aws-health-scheduled-change-nth-e2e.json": Outcome(
        "notice with startTime as deadline", r"scheduled-change of i-0b662ef9931388ba0 -\d+ d \(certain\)"
    ),
    "aws-odcr-interruption-eventbridge-rule.yaml": Outcome(
        "same treatment as spot", r"reservation-interruption of i-1 \+120 s \(certain\)"
    ),
    "aws-rebalance-recommendation-nth-e2e.json": Outcome(
        "soft notice", r"rebalance of i-0b662ef9931388ba0 \+120 s \(possible\)"
    ),
    "aws-sns-envelope.json": Outcome(
        "unwrap Message or refuse by name", r"dead letter not-json: .*`\$\.Records\[0\]\.Sns\.Message`.*"
    ),
    "aws-spot-interruption-epoch-1970-time.json": Outcome(
        "a stale record; say so",
        "dead letter stale: it was over at .*",
        r"spot-interruption of i-0b662ef9931388ba0 \+120 s \(certain\)",
    ),
    "aws-spot-interruption-nth-e2e.json": Outcome(
        "notice, involuntary, deadline time+120 s", r"spot-interruption of i-0b662ef9931388ba0 \+120 s \(certain\)"
    ),
    "aws-sqs-envelope.json": Outcome(
        "unwrap body or refuse by name", r"dead letter not-json: .*`\$\.Records\[0\]\.body`.*"
    ),
    "aws-state-change-pending.json": Outcome("no notice, no dead letter", "nothing"),
    "aws-state-change-stopping-nth-e2e.json": Outcome(
        "node is going now", r"state-change of i-0b662ef9931388ba0 \+0 s \(certain\)"
    ),
    "azure-eventgrid-aks-scheduled-event-cloudevent.json": Outcome("no doom; counted, not dead", "nothing"),
    "azure-eventgrid-vmss-freeze-started.json": Outcome("Freeze of 5 s is no loss", "nothing"),
    "azure-scheduled-events-imds-grammar.txt": Outcome(
        "Preempt 30 s, Freeze is no loss",
        "Reboot: scheduled-change of myvmss_1 .*, Redeploy: scheduled-change .*, Freeze: nothing, "
        r"Preempt: spot-interruption of myvmss_1 \+30 s \(certain\), Terminate: state-change .*",
    ),
    "gcp-preempted-audit-log-test-data.json": Outcome(
        "notice, already preempted (30 s)",
        r"spot-interruption of mock-instance-spot-3706-5b909138-nr65 \+30 s \(certain\)",
    ),
    "nth-webhook-default-template.txt": Outcome(
        "not an event: NTH webhook text", "dead letter not-cloudevent: not an event: NTH webhook text.*"
    ),
}


def of_rule(text: bytes) -> str:
    """A rule holds no event: an event that it lets through, of the fields that SOURCES.md names."""
    (source,) = re.findall(rb"source:\s+- (.+)", text)
    (detail_type,) = re.findall(rb"detail-type:\s+- (.+)", text)
    assert (source.decode(), detail_type.decode()) in TABLE
    detail = {"instance-id": "i-1", "instance-action": "terminate"}
    event = {"id": "x", "detail-type": detail_type.decode(), "source": source.decode(), "time": MINUTE_AGO}
    return outcome(json.dumps(event | {"detail": detail}).encode())


def of_grammar(text: bytes) -> str:
    """The documentation's grammar with its places filled, once for each event type that it names."""
    types = re.findall(rb'"(\w+)"', next(line for line in text.splitlines() if b'"EventType"' in line))[1:]
    filled = text.replace(b"{IncarnationID}", b"1").replace(b"{eventID}", b'"A"')
    filled = filled.replace(b"{resourceName}", b'"myvmss_1"')
    filled = filled.replace(b"{timeInUTC}", b'"Sun, 22 Nov 2026 13:01:25 GMT"')
    filled = re.sub(rb'"Scheduled" \| "Started"', b'"Scheduled"', filled).replace(b",\n        }", b"\n        }")
    choices = re.compile(rb'"EventType": .*,')
    chosen = {one.decode(): choices.sub(b'"EventType": "%b",' % one, filled) for one in types}
    return ", ".join(f"{name}: {outcome(each)}" for name, each in chosen.items())


READ: dict[str, Callable[[bytes], str]] = {".yaml": of_rule, "azure-scheduled-events-imds-grammar.txt": of_grammar}


def files() -> Iterator[Path]:
    yield from sorted(path for path in (folder("artefacts", "REBALANCER_ARTEFACTS") / "notices").iterdir())


def test_every_file_does_what_its_sources_say() -> None:
    stated = (folder("artefacts", "REBALANCER_ARTEFACTS") / "SOURCES.md").read_text()
    rows, wrong = [], []
    for path in files():
        expected = EXPECTED[path.name]
        (line,) = [line for line in stated.splitlines() if line.startswith(f"| `{path.name}`")]
        assert expected.stated in line.split(" | ")[-1], path.name
        text = path.read_bytes()
        read = READ.get(path.name) or READ.get(path.suffix) or outcome
        found = [read(text)]
        if expected.recent:
            found.append(outcome(text.replace(b"1970-01-01T00:00:00Z", MINUTE_AGO.encode())))
        wanted = [expected.said, expected.recent][: len(found)]
        rows.append(f"{path.name:52} {expected.stated:42} {' | of a minute ago: '.join(found)}")
        if any(re.fullmatch(one, each) is None for one, each in zip(wanted, found, strict=True)):
            wrong.append((path.name, found))
    print("\n" + "\n".join(rows))  # noqa: T201  the table
    assert wrong == []
    assert {path.name for path in files()} == EXPECTED.keys()


def in_state(name: str, *nodes: str) -> ClusterState:
    """A state with those nodes by their provider ids, once the file's notices are in."""
    (path,) = [path for path in files() if path.name == name]
    found = decode_notice(path.read_bytes(), (), HERE, NOW - 5, NOW)
    assert isinstance(found, tuple)
    there = [a_cluster_node(f"n{n}", provider_id=each, ready_changed_at=1.0) for n, each in enumerate(nodes)]
    return feed(a_state(None, *there), *found, now=NOW)


def test_a_maintenance_that_began_years_ago_takes_no_ready_node() -> None:
    state = in_state("aws-health-scheduled-change-nth-e2e.json", "aws:///us-east-1a/i-0b662ef9931388ba0")
    assert state.peek(NOW).notices == ()


def test_a_preempted_machine_is_found_by_its_name() -> None:
    name = "mock-instance-spot-3706-5b909138-nr65"
    state = in_state(
        "gcp-preempted-audit-log-test-data.json", f"gce://mock-project/europe-west1-c/{name}", "gce://a/b/c"
    )
    assert [view.node for view in state.peek(NOW).notices] == ["n0"]


@pytest.mark.parametrize("event_type", ["Preempt", "Freeze"])
def test_of_a_scale_set_only_its_own_machines_go(event_type: str) -> None:
    (path,) = [path for path in files() if path.name == "azure-eventgrid-vmss-freeze-started.json"]
    text = path.read_bytes().replace(b"Freeze", event_type.encode()).replace(b"2017-06-26", b"2026-11-22")
    text = text.replace(b"18:41:00", b"13:00:00")
    found = decode_notice(text, (), HERE, NOW - 5, NOW)
    assert isinstance(found, tuple)
    sets = "azure:///subscriptions/s/resourceGroups/MC_r/providers/Microsoft.Compute/virtualMachineScaleSets"
    nodes = [
        a_cluster_node(f"{name}-{n}", provider_id=f"{sets}/{name}/virtualMachines/{n}", ready_changed_at=1.0)
        for name in ("myvmss", "other")
        for n in range(3)
    ]
    state = feed(a_state(None, *nodes), *found, now=NOW)
    going = [] if event_type == "Freeze" else ["myvmss-1", "myvmss-2"]
    assert [view.node for view in state.peek(NOW).notices] == going
