"""Every event, taint, condition and label that is read as a capacity notice, from the tables that read them."""

from collections.abc import Iterator, Mapping

from rebalancer.app.reference.table import code, table
from rebalancer.domain.node_rules import NodeSign
from rebalancer.domain.node_signs import DEFAULT_SIGNS
from rebalancer.domain.notice_kinds import CONFIDENCES, KINDS
from rebalancer.ingest import azure, eventbridge, gcp

_HEAD = """\
# Notices

A capacity notice says that a node or an instance goes: its kind, its deadline, who says so and how sure that is.
[How notices reach us](../notices.md) says what brings them to Kafka; [the rules](../rules.md#when-a-notice-counts) say
what is done about them.

## Kinds

"""

_EVENTS = """
## Events in Kafka

Read from the topic `notices`, in any wrapping. What takes nothing away is counted as `ignored` and is no dead letter.
"""

_SIGNS = """
## Signs on nodes

Read from the Node objects themselves: nothing has to be set up. The first row that fits counts. Rows of the policy's
`nodes.signs` come before these, and may say `none` of a sign that means nothing to you. A taint counts whatever its
effect. `seen` is when a taint or label was first seen here; a condition's is its `lastTransitionTime`.

Taints and conditions that look like a notice and stand in no row do nothing: `status` names them, and
`rebalancer_unknown_node_signs` counts them. Karpenter's taint is read with its NodeClaim and cannot be given another
meaning.

"""


def notices_page() -> str:
    """The page."""
    kinds = ((code(name), kind.says, kind.confidence) for name, kind in KINDS.items())
    parts = [_HEAD, table(("kind", "means", "unless told, it is"), kinds), "\n"]
    parts.append(table(("confidence", "what is done"), CONFIDENCES.items()))
    parts.append(_EVENTS)
    for title, head, rows in _clouds():
        parts.append(f"\n### {title}\n\n{table((head, 'kind', 'deadline'), rows)}")
    signs = ((_where(row), code(row.kind), _deadline(row), _sure(row)) for row in DEFAULT_SIGNS)
    parts += [_SIGNS, table(("sign", "kind", "deadline", "confidence"), signs)]
    return "".join(parts)


def _clouds() -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    by_bus = {f"{source}: {name}": row for (source, name), row in eventbridge.TABLE.items()}
    yield "AWS, by EventBridge", "source: detail-type", _rows(by_bus)
    yield "AWS, from an Auto Scaling group to SQS or SNS", "LifecycleTransition or Event", _rows(eventbridge.HOOKS)
    yield "Azure, Scheduled Events of IMDS and Event Grid", "EventType", _rows(azure.TABLE)
    yield "GCP, system events in the audit log", "methodName", _rows(gcp.TABLE)


def _rows(rows: Mapping[str, eventbridge.EventBridgeRow | azure.AzureRow | gcp.GcpRow]) -> list[tuple[str, str, str]]:
    return [(code(name), code(row.kind or "none"), row.says) for name, row in rows.items()]


def _where(row: NodeSign) -> str:
    where, name = row.place
    value = row.value or ("True" if where == "condition" else "")
    says = f", saying {code(row.message)}" if row.message else ""
    return f"{where} {code(name + (f'={value}' if value else ''))}{says}"


def _deadline(row: NodeSign) -> str:
    if row.kind == "none":
        return ""
    after = f"seen + {row.within_seconds:.0f} s" if row.within_seconds else "seen"
    read = {"value": "its value, UTC epoch seconds", "message": "the date in its message"}.get(row.deadline)
    return after if read is None else f"{read}; else {after}"


def _sure(row: NodeSign) -> str:
    return "" if row.kind == "none" else row.confidence or KINDS[row.kind].confidence
