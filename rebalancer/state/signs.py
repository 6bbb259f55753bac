"""What nodes say about their own end, by taints, conditions and labels (`domain.node_signs`), as notices.

A sign stands for as long as it is on the Node. A taint or label does not say since when it is there: it counts from the
instant at which it was first seen, over restarts too.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rebalancer.domain.cluster import Node
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.instant import date_in
from rebalancer.domain.node_rules import NodeSign
from rebalancer.domain.node_signs import DEFAULT_SIGNS, DISRUPTED_TAINT
from rebalancer.domain.notice_kinds import KINDS, NoticeKind

LATEST = 1e11  # epoch seconds of the year 5138: more are milliseconds, or no time at all

# Words in names of taints and conditions that announce an end or a fault, among all that clusters have.
_TELLING = re.compile(
    r"terminat|interrupt|preempt|maintenance|disrupt|evict|drain|shutdown|shutting|retir|delet|repair|remediat|reboot"
    r"|redeploy|unhealthy|xid|gpu.*(error|fail|fault|missing|lost)|hardware.*(error|fail|fault)",
    re.IGNORECASE,
)
_GOOD = re.compile(r"(ready|healthy|ok|available)$", re.IGNORECASE)


class _Sign(NamedTuple):
    """One taint, condition or label of a Node.

    place: whether it is a taint, condition or label, and its key or type.
    value: its value, of a condition its status.
    message: the condition's reason and message.
    at: since when it stands, None where the Node does not say.
    """

    place: tuple[str, str]
    value: str
    message: str = ""
    at: float | None = None

    @property
    def name(self) -> str:
        """`taint example.com/draining`."""
        return " ".join(self.place)


class _Standing(NamedTuple):
    """A sign and the row that says what it means."""

    sign: _Sign
    row: NodeSign
    kind: NoticeKind


class Signs:
    """The signs on nodes. `own`: rows of the policy, which come before the known ones."""

    def __init__(self, own: Iterable[NodeSign]) -> None:
        self._rows = _by_place(own)
        self._known: dict[str, tuple[Node, tuple[_Standing, ...]]] = {}  # by node name
        self._unknown: dict[str, tuple[str, ...]] = {}
        self._since: dict[str, dict[str, float]] = {}  # node name -> sign -> first seen

    def set_rows(self, own: Iterable[NodeSign], nodes: Iterable[Node], at: float) -> None:
        """Take over the rows of another policy."""
        self._rows = _by_place(own)
        for node in nodes:
            self.see(node, at)

    def see(self, node: Node, at: float) -> None:
        """Take the Node as it is now."""
        known: list[_Standing] = []
        strange: list[str] = []
        for standing in self._of(node):
            rows = self._rows.get(standing.place)
            row = next((row for row in rows or () if row.fits(standing.value, standing.message)), None)
            if row is not None and row.kind != "none":
                known.append(_Standing(standing, row, row.kind))
            elif rows is None and _telling(standing):
                strange.append(standing.name)
        before = self._since.get(node.name, {})
        self.gone(node.name)
        if known:
            self._known[node.name] = node, tuple(known)
            self._since[node.name] = {standing.sign.name: before.get(standing.sign.name, at) for standing in known}
        if strange:
            self._unknown[node.name] = tuple(strange)

    def gone(self, name: str) -> None:
        """Forget a node."""
        for of in (self._known, self._unknown, self._since):
            of.pop(name, None)

    def _of(self, node: Node) -> Iterator[_Sign]:
        for taint in node.taints:
            yield _Sign(("taint", taint.key), taint.value)
        for one in node.conditions:
            yield _Sign(("condition", one.type), one.status, one.message, one.changed_at)
        for where, key in self._rows:
            if where == "label" and key in node.labels:
                yield _Sign((where, key), node.labels[key])

    def standing(self) -> Iterator[CapacityNotice]:
        """A notice for each sign that stands."""
        for name, (node, known) in self._known.items():
            for standing in known:
                yield _notice(node, standing, self._since[name][standing.sign.name])

    def unknown(self) -> Mapping[str, int]:
        """Signs that look like notices and that no row knows, each with the number of nodes that carry it."""
        return Counter(sign for signs in self._unknown.values() for sign in signs)

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: signs are there for as long as before."""
        self._since = {node: {sign: at + seconds for sign, at in since.items()} for node, since in self._since.items()}

    # --- the checkpoint

    def past(self) -> Mapping[str, dict[str, float]]:
        """The instants since which each sign has been seen, by node."""
        return self._since

    def restore(self, name: str, past: Mapping[str, float]) -> None:
        """Put back what `past` gave of one node, whether it is there already or comes."""
        since = self._since.setdefault(name, {})
        for sign, at in past.items():
            since[sign] = min(at, since.get(sign, at))


def _by_place(own: Iterable[NodeSign]) -> dict[tuple[str, str], tuple[NodeSign, ...]]:
    rows: dict[tuple[str, str], tuple[NodeSign, ...]] = {}
    for row in (*own, *DEFAULT_SIGNS):
        rows[row.place] = (*rows.get(row.place, ()), row)
    return rows | {("taint", DISRUPTED_TAINT): ()}  # it is judged with its NodeClaim, by `Notices`


def _telling(sign: _Sign) -> bool:
    """Whether it looks like a notice: by its name, and a condition by a status that is bad news, too."""
    where, name = sign.place
    if where == "label" or name.startswith("node.kubernetes.io/") or not _TELLING.search(name):
        return False
    return where == "taint" or sign.value == ("False" if _GOOD.search(name) else "True")


def _notice(node: Node, standing: _Standing, first_seen: float) -> CapacityNotice:
    sign, row, kind = standing
    since = first_seen if sign.at is None else sign.at
    read = {"since": None, "value": _epoch(sign.value), "message": date_in(sign.message)}[row.deadline]
    return CapacityNotice(
        source=f"node/{sign.name}",
        id=f"{node.uid}/{sign.name}",
        at=since,
        kind=kind,
        deadline=since + row.within_seconds if read is None else read,
        node=node.name,
        confidence=row.confidence or KINDS[kind].confidence,
    )


def _epoch(text: str) -> float | None:
    """Epoch seconds that a label or taint spells, None where it spells none."""
    return float(text) if text.isascii() and text.isdecimal() and float(text) < LATEST else None
