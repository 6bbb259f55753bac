"""Notices about nodes and instances that will vanish, by subject, kind and event; in any order, and repeated.

Two events of one kind on one node, as two maintenances in AWS Health, are two notices: each ends by itself. An event
that is told again with another deadline has that one; who names no event adds to what was told.

A notice about a node that is not there yet waits for it. A notice about a node whose Node object has gone stays for as
long as somebody says that it matters (`forget`): the machine is gone then, but not yet the pods that ran on it.
Or the machine is not gone: somebody deleted the Node, and its kubelet registers again under the same provider's name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain.cluster import Node
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.instant import Instant
from rebalancer.state.objects import Objects, instance_id

KEPT_SECONDS = 300.0  # a node may be told of before it registers
UNTAKEN_AFTER_SECONDS = 600.0  # a node that is Ready this long after its deadline was not taken
WAITING_AT_MOST = 5_000  # more than any fleet loses at once, and a bound on what a liar can fill
REPEATS_KEPT = 8  # issues of one notice
EVENTS_AT_MOST = 64  # open for one node: its maker plans a few at a time, and again a bound on what a liar can fill

# Node, or what a notice names while no such node is there; kind; event ("" where the source names none).
_Subject = tuple[str, str, str]


class ToldPast(Struct, frozen=True):
    """The notices about one subject in one kind and event, for the checkpoint.

    subject: name of the node; while it is awaited, or from a version that kept both, it may be the instance's id.
    kind: kind of the notices.
    heard_at: when the first of them came, or they were last taken back.
    notices: the last notices of it, taken back or not, by the instant they were issued.
    cancelled_at: notices issued up to this instant are taken back; 0: none is.
    uid: UID of the Node, "" while it is awaited; another Node of that name is another machine, unless it has the
        same `provider_id`.
    event: the source's name for the event, "" where it names none.
    provider_id: the machine's name at its provider, "" where it is unknown.
    """

    subject: str
    kind: str
    heard_at: Instant
    notices: tuple[CapacityNotice, ...] = ()
    cancelled_at: Instant = 0.0
    uid: str = ""
    event: str = ""
    provider_id: str = ""


class _Machine(NamedTuple):
    """What a Node runs on, as the cloud names it: a kubelet that registers again makes another Node of the same one."""

    uid: str
    provider_id: str

    def same(self, other: "_Machine") -> bool:
        """Whether both are one; without a provider's word the Node object decides."""
        return self.uid == other.uid or (self.provider_id != "" and self.provider_id == other.provider_id)


UNKNOWN = _Machine("", "")


class _Told(Struct):
    """The notices about one subject (node or instance) in one kind and event."""

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

    def add(self, other: "_Told") -> None:
        self.heard_at = max(self.heard_at, other.heard_at)
        self.cancelled_at = max(self.cancelled_at, other.cancelled_at)
        for notice in other.notices.values():
            self.take(notice)

    def standing(self, node: Node | None, now: float) -> Iterator[CapacityNotice]:
        """The notices that stand for the node (None: it has gone): not taken back, and the node was not spared."""
        for at, notice in self.notices.items():
            moved = notice.event != "" and notice.deadline != self.notices[max(self.notices)].deadline
            if at > self.cancelled_at and not moved and (node is None or not _spared(node, notice, now)):
                yield notice

    def ahead(self, now: float) -> bool:
        """Whether a deadline is still to come."""
        return any(notice.deadline > now for notice in self.standing(None, now))


def _spared(node: Node, notice: CapacityNotice, now: float) -> bool:
    """A node that became Ready after the deadline is another one of that name, or came back, or was not taken."""
    over = max(notice.deadline + UNTAKEN_AFTER_SECONDS, notice.ends_at or 0.0)
    return node.ready and (now >= over or (node.ready_changed_at or 0.0) > notice.deadline)


class EventNotices:
    """All notices that may still matter."""

    def __init__(self, objects: Objects) -> None:
        self.counters: Counter[str] = Counter()
        self._objects = objects
        self._of: dict[str, dict[_Subject, _Told]] = {}  # by name of the node they are about
        self._machines: dict[str, _Machine] = {}  # of those nodes, where it is known
        self._waiting: dict[_Subject, _Told] = {}  # their node is not there yet

    def tell(self, notice: CapacityNotice, now: float) -> None:
        """Take a notice, or take one back."""
        name = notice.node or instance_id(notice.instance_id or "") or ""
        node = self._objects.one(Node, name) or self._objects.node_of_instance(name)
        home = self._waiting if node is None else self._about(node)
        subject = (name if node is None else node.name), notice.kind, notice.event
        if subject not in home:
            if len(home) >= (WAITING_AT_MOST if home is self._waiting else EVENTS_AT_MOST):
                self.counters["too-many-notices"] += 1
                return
            home[subject] = _Told(heard_at=now)
        home[subject].take(notice)
        if notice.cancelled:
            home[subject].heard_at = now  # what it takes back may still come, however long ago the first was heard
        if home is not self._waiting:
            _spread(home)

    def seen(self, node: Node) -> None:
        """The node is there: what waited for it is its own; what another machine of that name was told is not."""
        known = self._machines.get(node.name)
        if known is not None and not known.same(_machine(node)):
            self.drop(node.name)
        if self._waiting:
            instance = instance_id(node.provider_id)
            sure = instance is not None and self._objects.node_of_instance(instance) is not None
            names = {node.name, instance} if sure else {node.name}
            for subject in [subject for subject in self._waiting if subject[0] in names]:
                heard = self._waiting.pop(subject)
                self._about(node).setdefault((node.name, *subject[1:]), _Told(heard.heard_at)).add(heard)
            _spread(self._of.get(node.name, {}))

    def _about(self, node: Node) -> dict[_Subject, _Told]:
        self._machines[node.name] = _machine(node)
        return self._of.setdefault(node.name, {})

    def drop(self, name: str) -> None:
        """Nothing that was told of that node matters any more."""
        self._of.pop(name, None)
        self._machines.pop(name, None)

    def forget(self, now: float, matters: Callable[[str], bool]) -> None:
        """Drop what found no node once nodes are listed, what was taken back and what never happened.

        `matters`: whether what was told of a node is kept although no such Node is there. Without that it is kept until
        its deadline, as far as the machine would be known again.
        """
        listed = "nodes" in self._objects.listed
        for subject in [one for one, heard in self._waiting.items() if listed and now - heard.heard_at >= KEPT_SECONDS]:
            self.counters["unmatched-notice"] += bool(self._waiting.pop(subject).notices)
        for name, subjects in list(self._of.items()):
            node = self._objects.one(Node, name)
            if node is not None or matters(name):
                staying = {one: heard for one, heard in subjects.items() if _keep(heard, node, now)}
            else:  # somebody deleted the Node of a machine whose kubelet may register it again
                named = name in self._machines and self._machines[name].provider_id != ""
                staying = {one: heard for one, heard in subjects.items() if named and heard.ahead(now)}
            if staying:
                self._of[name] = staying
            else:
                self.drop(name)

    def standing(self, now: float) -> Iterator[tuple[str, CapacityNotice]]:
        """The notices that stand now, each with the name of its node."""
        for name, subjects in self._of.items():
            node = self._objects.one(Node, name)
            for notice in chain.from_iterable(heard.standing(node, now) for heard in subjects.values()):
                yield name, notice

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds."""
        for heard in chain(self._waiting.values(), *(of.values() for of in self._of.values())):
            heard.heard_at += seconds

    # --- the checkpoint

    def past(self) -> dict[str, tuple[ToldPast, ...]]:
        """Everything by node, "" for what waits for one, for the checkpoint."""
        waiting = {"": self._waiting} if self._waiting else {}
        return {
            name: tuple(_past(subject, of[subject], self._machines.get(name, UNKNOWN)) for subject in sorted(of))
            for name, of in (self._of | waiting).items()
        }

    def restore(self, name: str, past: Iterable[ToldPast]) -> None:
        """Add what `past` gave of one node to what was told since."""
        for one in past:
            machine = _Machine(one.uid, one.provider_id)
            if name and not self._machines.setdefault(name, machine).same(machine):
                continue  # another machine of that name has been told of since
            home = self._of.setdefault(name, {}) if name else self._waiting
            heard = home.setdefault((name or one.subject, one.kind, one.event), _Told(one.heard_at))
            heard.add(_Told(one.heard_at, {notice.at: notice for notice in one.notices}, one.cancelled_at))
        _spread(self._of.get(name, {}))
        there = self._objects.one(Node, name)
        for node in self._objects.all(Node) if not name else filter(None, (there,)):
            self.seen(node)


def _spread(home: dict[_Subject, _Told]) -> None:
    """What is taken back without the name of an event is taken back of every event of that kind."""
    for (subject, kind, event), heard in home.items():
        of_all = home.get((subject, kind, "")) if event else None
        if of_all is not None:
            heard.cancelled_at = max(heard.cancelled_at, of_all.cancelled_at)


def _machine(node: Node) -> _Machine:
    return _Machine(node.uid, node.provider_id)


def _past(subject: _Subject, heard: _Told, machine: _Machine) -> ToldPast:
    notices = tuple(heard.notices[at] for at in sorted(heard.notices))
    name, kind, event = subject
    return ToldPast(name, kind, heard.heard_at, notices, heard.cancelled_at, machine.uid, event, machine.provider_id)


def _keep(heard: _Told, node: Node | None, now: float) -> bool:
    """Also what was taken back is kept a while: the notice itself may still come."""
    return now - heard.heard_at < KEPT_SECONDS or any(heard.standing(node, now))
