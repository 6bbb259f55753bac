"""Capacity that will vanish: what clouds, Karpenter and people say about nodes, as one notice per node.

Told: notices from the `notices` topic, by node name or cloud instance. Seen: signs on a node, Karpenter's taint among
them, a NodeClaim being deleted, a Node that is gone while pods of models hang on it. Decided: drains. Facts that have
come to their time go before others. Of the surest of them the earliest deadline stands; a notice is voluntary (its
replacement node comes by itself) only if none of them says otherwise. A notice ends when the pods on its node are gone,
not when its Node is.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.cluster import Node, NodeClaim, Pod
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.instant import Instant
from rebalancer.domain.node_signs import DISRUPTED_TAINT
from rebalancer.domain.notice_kinds import CONFIDENCES
from rebalancer.domain.people import Override
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import NoticeView, Snapshot
from rebalancer.state.absent import Absent, AbsentPast
from rebalancer.state.belief import weighed
from rebalancer.state.due import Due
from rebalancer.state.event_notices import EventNotices, ToldPast
from rebalancer.state.holdings import Holdings
from rebalancer.state.objects import Change, Objects, instance_id
from rebalancer.state.pools import Pools
from rebalancer.state.signs import Signs

# What Karpenter gives as `DisruptionReason` when it moves pods by its own will, with their replacement under way.
# Interruption, expiry and a person's delete set no reason; nor did repair before 1.15. Since then it says `Unhealthy`,
# of nodes that it replaces first, ends first or reboots alike: no replacement can be counted on.
VOLUNTARY_REASONS = frozenset({"Underutilized", "Empty", "Drifted"})
# Karpenter taints a node it disrupts, then gives its reason, each in one call: nothing is concluded in between.
REASON_WITHIN_SECONDS = 5.0
NOT_KARPENTERS = frozenset({"drain", "rebalance", "fault"})  # kinds on which Karpenter does not act
AT_ONCE = frozenset({"drain", "disruption", "state-change", "gone"})  # kinds that count from the notice on
SUREST_FIRST = tuple(CONFIDENCES)
POSSIBLE = SUREST_FIRST.index("possible")
EFFECTS = frozenset({"disruption", "gone"})  # kinds that another one may have caused


class NoticePast(Struct, frozen=True):
    """Knowledge of one node under notice that a restart must not lose.

    node: name of the node; "": of nodes and instances that are named in notices and not there yet.
    told: notices about it.
    absent: since when its Node is missing, None while it is listed.
    tainted_at: since when Karpenter's taint is seen, None where there is none.
    due: a deadline, and the instant from which on its pods count for nobody; None where that is not fixed.
    signs: since when each sign on its Node is seen.
    later: the same as `due` of its other deadlines, which are later.
    """

    node: str
    told: tuple[ToldPast, ...] = ()
    absent: AbsentPast | None = None
    tainted_at: Instant | None = None
    due: tuple[Instant, Instant] | None = None
    signs: dict[str, Instant] = {}
    later: tuple[tuple[Instant, Instant], ...] = ()


class Notices:
    """Facts about nodes under notice; `views` merges them."""

    def __init__(self, policy: Policy, objects: Objects, holdings: Holdings, pools: Pools) -> None:
        self.due = Due(policy.nodes, holdings, pools)
        self.signs = Signs(policy.nodes.signs)
        self._overrides = policy.overrides
        self._objects = objects
        self._holdings = holdings
        self._pools = pools
        self._by_events = EventNotices(objects)
        self._absent = Absent(objects, lambda node: any(holdings.pods_on(node)))
        self._tainted: dict[str, float] = {}  # node name -> since
        self._leaving: set[str] = set()  # NodeClaims being deleted
        self._forgot_at = 0.0

    @property
    def counters(self) -> Counter[str]:
        """Numbers of notices by what became of them, in a small closed set of words."""
        return self._by_events.counters

    def set_policy(self, policy: Policy, at: float) -> None:
        """Take over another policy's rules."""
        if policy.nodes.signs != self.due.rules.signs:
            self.signs.set_rows(policy.nodes.signs, self._objects.all(Node), at)
        self.due.rules, self._overrides = policy.nodes, policy.overrides

    # --- what comes in

    def tell(self, notice: CapacityNotice, now: float) -> None:
        """Take a notice, or take one back; order and repetition do not matter."""
        self._by_events.tell(notice, now)

    def moved(self, change: Change, at: float) -> None:
        """An object was added, changed or removed."""
        old, new = change
        if isinstance(new, Node):
            self._see(new, at)
        elif isinstance(old, Node):
            self._tainted.pop(old.name, None)
            self.signs.gone(old.name)
            self._absent.lost(old.name, at)
        if isinstance(new, NodeClaim) and new.deleting_at is not None:
            self._leaving.add(new.name)
        elif isinstance(old, NodeClaim):
            self._leaving.discard(old.name)
        if isinstance(new, Pod):
            self._bound(new, at)

    def nodes_listed(self, at: float) -> None:
        """A list of nodes came, or other models did: the node of any pod may be missing."""
        for pod in self._objects.all(Pod):
            self._bound(pod, at)

    def _bound(self, pod: Pod, at: float) -> None:
        if pod.node is not None and self._holdings.model_of(pod.workload) is not None:
            self._absent.missed(pod.node, at)

    def _see(self, node: Node, at: float) -> None:
        self._absent.back(node.name)
        if any(taint.key == DISRUPTED_TAINT for taint in node.taints):
            self._tainted.setdefault(node.name, at)
        else:
            self._tainted.pop(node.name, None)
        self.signs.see(node, at)
        self._by_events.seen(node)

    def look(self, now: float, certain: Callable[[], bool]) -> None:
        """Drop what is over, once a second; `certain`: whether the lists of nodes and pods are whole and fresh."""
        if not 0 <= now - self._forgot_at < 1.0:
            self._forgot_at = now
            self._absent.look(now, certain)
            whole = self._whole
            self._by_events.forget(now, lambda node: not whole or node in self._absent)
            seen = self._tainted.keys() | self.signs.past().keys() if whole else ()
            for node in [node for node in seen if self._objects.one(Node, node) is None]:
                self._tainted.pop(node, None)
                self.signs.gone(node)

    @property
    def _whole(self) -> bool:
        """Whether nodes and pods have been listed: until then nothing that was restored is over."""
        return self._objects.listed >= {"nodes", "pods"}

    def stepped(self, seconds: float) -> None:
        """The clock was set: what was heard and seen is as old as before. Deadlines are the cloud's, and stand."""
        self._by_events.stepped(seconds)
        self._absent.stepped(seconds)
        self.signs.stepped(seconds)
        self.due.stepped(seconds)
        self._tainted = {node: since + seconds for node, since in self._tainted.items()}

    # --- what goes out

    def views(self, now: float) -> tuple[NoticeView, ...]:
        """One notice per node under notice, by node name."""
        facts: dict[str, list[NoticeView]] = {}
        seen = self._by_signs(), self._by_karpenter(now), self._by_absence()
        for source in (self._by_event(now), *seen, self._by_people(now)):
            for fact in source:
                facts.setdefault(fact.node, []).append(fact)
        if self._whole:
            self.due.keep({(fact.node, fact.deadline) for some in facts.values() for fact in some})
        merged = (self._merged(node, facts[node], now) for node in sorted(facts))
        standing = weighed(merged, self._pools, self.due.rules)
        return tuple(self._believed(view, facts[view.node], now) for view in standing)

    def _by_event(self, now: float) -> Iterator[NoticeView]:
        for name, notice in self._by_events.standing(now):
            if self._objects.one(Node, name) is not None or name in self._absent:
                yield _view(name, notice)

    def _by_signs(self) -> Iterator[NoticeView]:
        return (_view(notice.node or "", notice) for notice in self.signs.standing())

    def _by_karpenter(self, now: float) -> Iterator[NoticeView]:
        """Nodes that Karpenter drains now: there is no deadline to wait for."""
        for claim in filter(None, (self._objects.one(NodeClaim, name) for name in self._leaving)):
            node = self._node_of(claim)
            if node is not None and claim.deleting_at is not None:
                yield _disruption(node.name, claim.deleting_at, claim)
        claims_of = self._claims_by_node() if self._tainted else {}
        for name, since in self._tainted.items():
            node = self._objects.one(Node, name)
            if node is not None:
                claims = [claim for claim in claims_of.get(name, ()) if claim.node_pool == node.node_pool]
                if now - since >= REASON_WITHIN_SECONDS or all(_explained(claim) for claim in claims):
                    yield _disruption(name, since, *claims)

    def _claims_by_node(self) -> dict[str, list[NodeClaim]]:
        """NodeClaims by the name of the node that each brought, of those whose node is there."""
        claims_of: dict[str, list[NodeClaim]] = {}
        for claim in self._objects.all(NodeClaim):
            node = self._node_of(claim)
            if node is not None:
                claims_of.setdefault(node.name, []).append(claim)
        return claims_of

    def _node_of(self, claim: NodeClaim) -> Node | None:
        instance = instance_id(claim.provider_id)
        if claim.node is not None:
            return self._objects.one(Node, claim.node)
        return self._objects.node_of_instance(instance) if instance is not None else None

    def _by_absence(self) -> Iterator[NoticeView]:
        """Notices of nodes that are gone: from then on their pods are nowhere, whoever announced it or did not."""
        for node, since in self._absent.gone():
            yield NoticeView(node=node, kind="gone", since=since, deadline=since, source="kubernetes")

    def _by_people(self, now: float) -> Iterator[NoticeView]:
        for override in self._objects.all(Override):
            if override.kind != "drain" or now >= override.expires_at:
                continue
            if override.too_long(self._overrides.max_seconds):
                continue  # its status says Refused
            pool = override.subject_kind == "pool"
            for node in self._pools.nodes_of(override.subject) if pool else (override.subject,):
                if self._objects.one(Node, node) is not None:
                    yield NoticeView(
                        node=node,
                        kind="drain",
                        since=override.created_at,
                        deadline=override.created_at,
                        source=override.source,
                    )

    def _merged(self, name: str, facts: list[NoticeView], now: float) -> NoticeView:
        """All facts of one node as one notice: the first cause by force names it; the earliest deadline stands.

        What has not come to its time says nothing beside what has: with a maintenance in a fortnight a fault now is no
        more certain. Surer facts outweigh less sure ones; one that is merely possible takes nothing away. A person's
        drain has no deadline, and takes none from others.
        """
        since = min(fact.since for fact in facts)
        binding = [(self._counts_at(fact, since), fact) for fact in facts if _doubt(fact) < POSSIBLE]
        at = min((time for time, _ in binding), default=since)
        come = [fact for time, fact in binding if time <= now] or facts
        counts_since = min((max(fact.since, time) for time, fact in binding if time <= now), default=since)
        sure = min(map(_doubt, come))
        surest = [fact for fact in come if _doubt(fact) == sure]
        first = min(surest, key=_by_force)
        deadline = min(fact.deadline for fact in surest if fact.kind != "drain" or first.kind == "drain")
        node = self._objects.one(Node, name)
        owned = node is not None and node.node_pool is not None
        return replace(
            first,
            since=since,
            deadline=deadline,
            karpenter=owned and any(fact.kind not in NOT_KARPENTERS for fact in come),
            doomed_at=None if at == since else at,
            told_deadline=first.deadline if first.deadline > deadline else None,
            counts_since=None if counts_since == since else counts_since,
        )

    def _counts_at(self, fact: NoticeView, since: float) -> float:
        """From when on the pods of a node that goes do not count by one fact; never before `since`."""
        return since if fact.kind in AT_ONCE else max(since, self.due.at(fact.node, fact.deadline))

    def _believed(self, view: NoticeView, facts: list[NoticeView], now: float) -> NoticeView:
        """What stands of a node's facts where a fault there is not believed: the others, if there are any."""
        others = [fact for fact in facts if fact.kind != "fault"] if view.doubted else []
        return self._merged(view.node, others, now) if others else view

    # --- the checkpoint

    def past(self) -> tuple[NoticePast, ...]:
        """Knowledge that a restart must not lose, by node."""
        by_events, absent, due, signs = self._by_events.past(), self._absent.past(), self.due.past(), self.signs.past()
        names = by_events.keys() | absent.keys() | self._tainted.keys() | due.keys() | signs.keys()
        return tuple(
            NoticePast(
                name,
                by_events.get(name, ()),
                absent.get(name),
                self._tainted.get(name),
                next(iter(due.get(name, ())), None),
                dict(signs.get(name, {})),
                due.get(name, ())[1:],
            )
            for name in sorted(names)
        )

    def restore(self, past: Iterable[NoticePast]) -> None:
        """Put back what `past` gave, under what was seen since."""
        for one in past:
            self._by_events.restore(one.node, one.told)
            if one.absent is not None:
                self._absent.restore(one.node, one.absent)
            if one.tainted_at is not None and (one.node in self._tainted or self._objects.one(Node, one.node) is None):
                self._tainted[one.node] = min(one.tainted_at, self._tainted.get(one.node, one.tainted_at))
            for due in (one.due, *one.later):
                if due is not None:
                    self.due.restore(one.node, due)
            if one.signs:
                self.signs.restore(one.node, one.signs)


def gone_by(seen: Snapshot, now: float) -> tuple[NoticePast, ...]:
    """Nodes that were gone under their pods as a cycle before a start saw it: a checkpoint may be older.

    A cycle that is dated later than `now` was before the clock was set back.
    """
    back = max(0.0, seen.at - now)
    return tuple(
        NoticePast(notice.node, absent=AbsentPast(notice.since - back, gone=True))
        for notice in seen.notices
        if notice.kind == "gone"
    )


def _doubt(fact: NoticeView) -> int:
    return SUREST_FIRST.index(fact.confidence)


def _by_force(fact: NoticeView) -> tuple[bool, bool, bool, float, str, str]:
    """The first of several causes names the notice; what others may have caused comes last, as does what is undated."""
    return fact.voluntary, fact.kind in EFFECTS, fact.kind == "drain", fact.deadline, fact.kind, fact.source


def _view(node: str, notice: CapacityNotice) -> NoticeView:
    return NoticeView(
        node=node,
        kind=notice.kind,
        since=notice.at,
        deadline=notice.deadline,
        voluntary=notice.voluntary,
        source=notice.source,
        confidence=notice.confidence,
    )


def _explained(claim: NodeClaim) -> bool:
    """Whether Karpenter has said why the claim's node is disrupted: by a reason, or by deleting it without one."""
    return claim.deleting_at is not None or claim.disruption_reason is not None


def _disruption(node: str, since: float, *claims: NodeClaim) -> NoticeView:
    """Voluntary only if Karpenter says so of the node's claim; a taint without a known claim says nothing."""
    voluntary = bool(claims) and all(claim.disruption_reason in VOLUNTARY_REASONS for claim in claims)
    return NoticeView(
        node=node, kind="disruption", since=since, deadline=since, voluntary=voluntary, source="karpenter.sh"
    )
