"""Capacity that will vanish: what clouds, Karpenter and people say about nodes, as one notice per node.

Told: notices from the `notices` topic, by node name or cloud instance. Seen: Karpenter's taint on a node, a NodeClaim
being deleted. Decided: drains. The earliest deadline stands; a notice is voluntary (its replacement node comes by
itself) only if nobody says otherwise.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.cluster import Node, NodeClaim, Override
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.snapshot import NoticeView
from rebalancer.state.objects import Change, Objects, instance_id

DISRUPTED_TAINT = "karpenter.sh/disrupted"
UNKNOWN_KEPT_SECONDS = 300.0  # a node may be told of before it registers
UNTAKEN_AFTER_SECONDS = 600.0  # a node that is Ready this long after its deadline was not taken
TOLD_AT_MOST = 5_000  # subjects; more than any fleet loses at once, and a bound on what a liar can fill
REPEATS_KEPT = 8  # issues of one notice
NOT_KARPENTERS = frozenset({"drain", "rebalance"})  # kinds on which Karpenter does not act


class _Told(Struct):
    """What was told about one subject (node or instance) in one kind. `uid`: the node it is about, once known."""

    heard_at: float
    deadlines: dict[float, CapacityNotice] = {}  # by the instant they were issued
    cancelled_at: float = 0.0
    uid: str | None = None
    node: str = ""

    def take(self, notice: CapacityNotice) -> None:
        if notice.cancelled:
            self.cancelled_at = max(self.cancelled_at, notice.at)
        known = self.deadlines.get(notice.at)
        if not notice.cancelled and (known is None or notice.deadline < known.deadline):
            self.deadlines[notice.at] = notice
        for at in sorted(self.deadlines)[:-REPEATS_KEPT]:
            del self.deadlines[at]

    def standing(self, node: Node, now: float) -> Iterator[CapacityNotice]:
        """What holds for the node: not taken back, and the node was not left alone.

        A node that became Ready after the deadline is another one of that name, or was spared.
        """
        for at, notice in self.deadlines.items():
            spared = node.ready and (
                now >= notice.deadline + UNTAKEN_AFTER_SECONDS or (node.ready_changed_at or 0.0) > notice.deadline
            )
            if at > self.cancelled_at and not spared:
                yield notice


class Notices:
    """Facts about nodes under notice; `views` merges them."""

    def __init__(self, objects: Objects, nodes_of_pool: Callable[[str], Iterable[str]]) -> None:
        self.counters: Counter[str] = Counter()
        self._objects = objects
        self._nodes_of_pool = nodes_of_pool
        self._told: dict[tuple[str, str], _Told] = {}  # by subject and kind
        self._tainted: dict[str, float] = {}  # node name -> since
        self._leaving: set[str] = set()  # NodeClaims being deleted

    # --- what comes in

    def tell(self, notice: CapacityNotice, now: float) -> None:
        """Take a notice, or take one back; order and repetition do not matter."""
        subject = notice.node or notice.instance_id or ""
        told = self._told.get((subject, notice.kind))
        if told is None:
            if len(self._told) >= TOLD_AT_MOST:
                self.counters["too-many-notices"] += 1
                return
            told = self._told[subject, notice.kind] = _Told(heard_at=now)
        told.take(notice)
        self._match(subject, told)

    def _match(self, subject: str, told: _Told) -> None:
        node = self._objects.one(Node, subject) or self._objects.node_of_instance(subject)
        if told.uid is None and node is not None:
            told.uid, told.node = node.uid, node.name

    def moved(self, change: Change, at: float) -> None:
        """An object was added, changed or removed."""
        old, new = change
        if isinstance(new, Node):
            self._see(new, at)
        elif isinstance(old, Node):
            self._tainted.pop(old.name, None)
            self._told = {key: told for key, told in self._told.items() if told.uid != old.uid}
        if isinstance(new, NodeClaim) and new.deleting_at is not None:
            self._leaving.add(new.name)
        elif isinstance(old, NodeClaim):
            self._leaving.discard(old.name)

    def _see(self, node: Node, at: float) -> None:
        if any(taint.key == DISRUPTED_TAINT for taint in node.taints):
            self._tainted.setdefault(node.name, at)
        else:
            self._tainted.pop(node.name, None)
        for (subject, _), told in self._told.items():
            if told.uid is None:
                self._match(subject, told)

    def forget(self, now: float) -> None:
        """Drop what found no node, what was taken back and what never happened."""
        for key, told in list(self._told.items()):
            node = self._objects.one(Node, told.node)
            if node is None:
                if now - told.heard_at >= UNKNOWN_KEPT_SECONDS:
                    self.counters["unmatched-notice"] += bool(told.deadlines)
                    del self._told[key]
            elif now - told.heard_at >= UNKNOWN_KEPT_SECONDS and not any(told.standing(node, now)):
                del self._told[key]

    # --- what goes out

    def views(self, now: float) -> tuple[NoticeView, ...]:
        """One notice per node under notice, by node name."""
        facts: dict[str, list[NoticeView]] = {}
        for fact in (*self._by_event(now), *self._by_karpenter(), *self._by_people(now)):
            facts.setdefault(fact.node, []).append(fact)
        return tuple(self._merged(facts[node]) for node in sorted(facts))

    def _by_event(self, now: float) -> Iterator[NoticeView]:
        for told in self._told.values():
            node = self._objects.one(Node, told.node)
            if node is not None and node.uid == told.uid:
                for notice in told.standing(node, now):
                    yield NoticeView(
                        node=node.name,
                        kind=notice.kind,
                        since=notice.at,
                        deadline=notice.deadline,
                        voluntary=notice.voluntary,
                        source=notice.source,
                    )

    def _by_karpenter(self) -> Iterator[NoticeView]:
        for tainted, since in self._tainted.items():
            yield _disruption(tainted, since, voluntary=True)
        for name in self._leaving:
            claim = self._objects.one(NodeClaim, name)
            node = self._node_of(claim) if claim is not None else None
            if claim is not None and node is not None and claim.deleting_at is not None:
                interrupted = "interrupt" in (claim.disruption_reason or "").lower()
                yield _disruption(node.name, claim.deleting_at, voluntary=not interrupted)

    def _node_of(self, claim: NodeClaim) -> Node | None:
        instance = instance_id(claim.provider_id)
        if claim.node is not None:
            return self._objects.one(Node, claim.node)
        return self._objects.node_of_instance(instance) if instance is not None else None

    def _by_people(self, now: float) -> Iterator[NoticeView]:
        for override in self._objects.all(Override):
            if override.kind != "drain" or now >= override.expires_at:
                continue
            pool = override.subject_kind == "pool"
            for node in self._nodes_of_pool(override.subject) if pool else (override.subject,):
                if self._objects.one(Node, node) is not None:
                    yield NoticeView(
                        node=node,
                        kind="drain",
                        since=override.created_at,
                        deadline=override.created_at,
                        source=f"override/{override.namespace}/{override.name}",
                    )

    def _merged(self, facts: list[NoticeView]) -> NoticeView:
        """The first to go by force names it; the earliest deadline stands."""
        first = min(facts, key=lambda fact: (fact.voluntary, fact.deadline, fact.kind, fact.source))
        node = self._objects.one(Node, first.node)
        owned = node is not None and node.node_pool is not None
        return replace(
            first,
            since=min(fact.since for fact in facts),
            deadline=min(fact.deadline for fact in facts),
            karpenter=owned and any(fact.kind not in NOT_KARPENTERS for fact in facts),
        )


def _disruption(node: str, since: float, *, voluntary: bool) -> NoticeView:
    """Karpenter drains the node now: there is no deadline to wait for."""
    return NoticeView(
        node=node, kind="disruption", since=since, deadline=since, voluntary=voluntary, source="karpenter.sh"
    )
