"""Capacity that will vanish: what clouds, Karpenter and people say about nodes, as one notice per node.

Told: notices from the `notices` topic, by node name or cloud instance. Seen: Karpenter's taint on a node, a NodeClaim
being deleted. Decided: drains. The earliest deadline stands; a notice is voluntary (its replacement node comes by
itself) only if nobody says otherwise.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.cluster import Node, NodeClaim, Override
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.snapshot import NoticeView
from rebalancer.state.objects import Change, Objects, instance_id

DISRUPTED_TAINT = "karpenter.sh/disrupted"
KEPT_SECONDS = 300.0  # a node may be told of before it registers
UNTAKEN_AFTER_SECONDS = 600.0  # a node that is Ready this long after its deadline was not taken
WAITING_AT_MOST = 5_000  # more than any fleet loses at once, and a bound on what a liar can fill
REPEATS_KEPT = 8  # issues of one notice
NOT_KARPENTERS = frozenset({"drain", "rebalance"})  # kinds on which Karpenter does not act

_Subject = tuple[str, str]  # node or instance, kind


class _Told(Struct):
    """What was told about one subject (node or instance) in one kind."""

    heard_at: float
    notices: dict[float, CapacityNotice] = {}  # by the instant they were issued
    cancelled_at: float = 0.0

    def take(self, notice: CapacityNotice) -> None:
        if notice.cancelled:
            self.cancelled_at = max(self.cancelled_at, notice.at)
            return
        known = self.notices.get(notice.at)
        if known is None or notice.deadline < known.deadline:
            self.notices[notice.at] = notice
        for at in sorted(self.notices)[:-REPEATS_KEPT]:
            del self.notices[at]

    def standing(self, node: Node, now: float) -> Iterator[CapacityNotice]:
        """What holds for the node: not taken back, and the node was not left alone.

        A node that became Ready after the deadline is another one of that name, or was spared.
        """
        for at, notice in self.notices.items():
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
        self._told: dict[str, dict[_Subject, _Told]] = {}  # by name of the node they are about
        self._waiting: dict[_Subject, _Told] = {}  # their node is not there yet
        self._tainted: dict[str, float] = {}  # node name -> since
        self._leaving: set[str] = set()  # NodeClaims being deleted
        self._forgot_at = 0.0

    # --- what comes in

    def tell(self, notice: CapacityNotice, now: float) -> None:
        """Take a notice, or take one back; order and repetition do not matter."""
        subject = notice.node or notice.instance_id or "", notice.kind
        node = self._objects.one(Node, subject[0]) or self._objects.node_of_instance(subject[0])
        home = self._waiting if node is None else self._told.setdefault(node.name, {})
        if subject not in home:
            if home is self._waiting and len(home) >= WAITING_AT_MOST:
                self.counters["too-many-notices"] += 1
                return
            home[subject] = _Told(heard_at=now)
        home[subject].take(notice)

    def moved(self, change: Change, at: float) -> None:
        """An object was added, changed or removed."""
        old, new = change
        if isinstance(new, Node):
            self._see(new, at)
        elif isinstance(old, Node):
            self._tainted.pop(old.name, None)
            self._told.pop(old.name, None)
        if isinstance(new, NodeClaim) and new.deleting_at is not None:
            self._leaving.add(new.name)
        elif isinstance(old, NodeClaim):
            self._leaving.discard(old.name)

    def _see(self, node: Node, at: float) -> None:
        if any(taint.key == DISRUPTED_TAINT for taint in node.taints):
            self._tainted.setdefault(node.name, at)
        else:
            self._tainted.pop(node.name, None)
        if self._waiting:
            names = {node.name, instance_id(node.provider_id)}
            for subject in [subject for subject in self._waiting if subject[0] in names]:
                self._told.setdefault(node.name, {})[subject] = self._waiting.pop(subject)

    def forget(self, now: float) -> None:
        """Drop what found no node, what was taken back and what never happened; looks once a second."""
        if not 0 <= now - self._forgot_at < 1.0:
            self._forgot_at = now
            for subject in [one for one, told in self._waiting.items() if now - told.heard_at >= KEPT_SECONDS]:
                self.counters["unmatched-notice"] += bool(self._waiting.pop(subject).notices)
            for name, subjects in list(self._told.items()):
                kept = {one: told for one, told in subjects.items() if self._keep(name, told, now)}
                self._told[name] = kept
                if not kept:
                    del self._told[name]

    def _keep(self, name: str, told: _Told, now: float) -> bool:
        """Also what was taken back is kept a while: the notice itself may still come."""
        node = self._objects.one(Node, name)
        return node is not None and (now - told.heard_at < KEPT_SECONDS or any(told.standing(node, now)))

    def stepped(self, seconds: float) -> None:
        """The clock was set: notices were heard as long ago as before. Their deadlines are the cloud's, and stand."""
        for told in (*self._waiting.values(), *chain.from_iterable(one.values() for one in self._told.values())):
            told.heard_at += seconds

    # --- what goes out

    def views(self, now: float) -> tuple[NoticeView, ...]:
        """One notice per node under notice, by node name."""
        facts: dict[str, list[NoticeView]] = {}
        for fact in (*self._by_event(now), *self._by_karpenter(), *self._by_people(now)):
            facts.setdefault(fact.node, []).append(fact)
        return tuple(self._merged(facts[node]) for node in sorted(facts))

    def _by_event(self, now: float) -> Iterator[NoticeView]:
        for name, subjects in self._told.items():
            node = self._objects.one(Node, name)
            standing = (told.standing(node, now) for told in subjects.values()) if node is not None else ()
            for notice in chain.from_iterable(standing):
                yield NoticeView(
                    node=name,
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
