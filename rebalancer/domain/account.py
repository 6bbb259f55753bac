"""The account of one notice: when it was heard, what was done about it, and whether that was in time."""

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.domain.words import counted

BY_US, BY_KARPENTER, BY_OTHERS, BY_THE_NODE = "rebalancer", "karpenter", "others", "node"
DRAINERS = (BY_US, BY_KARPENTER, BY_OTHERS, BY_THE_NODE)
WITHOUT_DEADLINE = frozenset({"drain", "gone"})  # kinds of notices whose deadline is when they were given


class GoingReplica(Struct, frozen=True, omit_defaults=True):
    """A replica that stood on a node when the node came under notice, or came to stand there since.

    uid: UID of its pod.
    model: id of the model.
    requests: requests in flight on it when they were last reported; None where nobody reports them by the pod.
    ended: whether a write of ours named it: as a victim, or as the pod to evict.
    gone_by: who ended it, one of `DRAINERS`, as soon as it is terminating or gone; "" before that.
    gone_at: when it was first seen gone, None before that.
    """

    uid: str
    model: str
    requests: float | None = None
    ended: bool = False
    gone_by: str = ""
    gone_at: Instant | None = None


class GoingModel(Struct, frozen=True, omit_defaults=True):
    """A model of which replicas stood on a node under notice: from when to when its users missed them.

    model: id of the model.
    stopped_at: when the last of its replicas there was first seen to serve no more, None before that.
    replaced_at: when it had as many Ready replicas elsewhere as before, None before that.
    dark_at: when it was first seen without any Ready replica after that, None where it always had one.
    lit_at: when it had one again, None before that.
    """

    model: str
    stopped_at: Instant | None = None
    replaced_at: Instant | None = None
    dark_at: Instant | None = None
    lit_at: Instant | None = None

    @property
    def gap_seconds(self) -> float | None:
        """Seconds from the end of its replicas there to their replacements, negative where those served before.

        None until it has both.
        """
        if self.stopped_at is None or self.replaced_at is None:
            return None
        return self.replaced_at - self.stopped_at

    @property
    def gap(self) -> str:
        """What its users missed, as a clause: `image had no Ready replica for 30 s`; "" where nothing or not yet."""
        if self.dark_at is not None and self.lit_at is None:
            return f"{self.model} has no Ready replica"
        if self.dark_at is not None and self.lit_at is not None:
            return f"{self.model} had no Ready replica for {self.lit_at - self.dark_at:.0f} s"
        gap = self.gap_seconds
        return f"{self.model} had fewer Ready replicas for {gap:.0f} s" if gap is not None and gap > 0.0 else ""


class NoticeAccount(Struct, frozen=True, omit_defaults=True):
    """One notice from its first word to its end. Instants of what has not happened are None.

    node: name of the node.
    kind: kind of the notice, as in `snapshot.NoticeView`.
    source: who gave it.
    pool: name of the node's pool, "" where it is in none.
    confidence: how sure it is, one of `notice_kinds.CONFIDENCES`.
    issued_at: when it was given, by its source.
    heard_at: when the first plan saw it.
    due_at: when it came to its time, where that was after it was heard: a maintenance may be told weeks ahead.
    deadline: the instant at which the node goes, by whom `source` names; Karpenter's drain may end it before.
    replicas: the replicas there, by UID; once the notice has come to its time those that have gone, too.
    ready_before: Ready replicas of each of their models when it was heard, or came to its time, by model id.
    acted_at: when the first write for it was acknowledged: a replacement, a donor's release, a cordon, an eviction.
    replaced_at: when all of these models had as many Ready replicas as before on nodes that stay, be it after its end.
    drained_at: when the last replica there was seen gone.
    over_at: when the notice stood no more: the node is gone, or it stays.
    voluntary: whether Karpenter replaces the node by its own will.
    models: its replicas' models, by id: whose users missed them, and how long.
    """

    node: str
    kind: str
    source: str
    pool: str
    confidence: str
    issued_at: Instant
    heard_at: Instant
    deadline: Instant
    replicas: tuple[GoingReplica, ...] = ()
    ready_before: dict[str, int] = {}
    acted_at: Instant | None = None
    replaced_at: Instant | None = None
    drained_at: Instant | None = None
    over_at: Instant | None = None
    voluntary: bool = False
    models: tuple[GoingModel, ...] = ()
    due_at: Instant | None = None

    @property
    def since(self) -> float:
        """The instant from which something is done about it."""
        return self.heard_at if self.due_at is None else self.due_at

    @property
    def spare_seconds(self) -> float | None:
        """Seconds between the last replica's end and the deadline, negative where that was late; None without both.

        They tell of the node, not of its users: who serves meanwhile is in `models`. A deadline that is no later than
        the word of it is none that anybody could keep.
        """
        if self.drained_at is None or self.kind in WITHOUT_DEADLINE or self.deadline <= self.issued_at:
            return None
        return self.deadline - self.drained_at

    @property
    def replaced_late_at(self) -> float | None:
        """The instant at which the last replica was replaced, where that was after all had gone; else None."""
        if self.replaced_at is None or self.drained_at is None or self.replaced_at <= self.drained_at:
            return None
        return self.replaced_at

    @property
    def drained_by(self) -> tuple[str, ...]:
        """The words for those who ended its replicas, in the order of `DRAINERS`."""
        by = {replica.gone_by for replica in self.replicas}
        return tuple(each for each in DRAINERS if each in by)

    @property
    def requests_at_end(self) -> float | None:
        """Requests in flight on its replicas when they ended, as last reported; None where one was never reported."""
        requests = [replica.requests for replica in self.replicas if replica.gone_at is not None]
        known = [each for each in requests if each is not None]
        return sum(known) if known and len(known) == len(requests) else None

    def __str__(self) -> str:
        """One line: `n1 (spot-interruption): 2 replicas; acted after 0.3 s, replaced after 61 s, drained after ...`."""
        return f"{self.node} ({self.kind}): {counted(len(self.replicas), 'replica')}; {', '.join(self._steps())}"

    def _steps(self) -> list[str]:
        steps = [
            f"{what} after {at - self.since:.1f} s" if at is not None else f"not {what} yet"
            for what, at in (("acted on", self.acted_at), ("replaced", self.replaced_at), ("drained", self.drained_at))
        ]
        if self.drained_by:
            steps[-1] += f" by {' and '.join(self.drained_by)}"
        spare = self.spare_seconds
        if spare is not None:
            steps.append(f"{abs(spare):.0f} s {'before' if spare >= 0 else 'after'} its deadline")
        steps += self._served()
        if self.drained_at is not None:
            requests = self.requests_at_end
            flight = "an unknown number of requests" if requests is None else counted(round(requests), "request")
            steps.append(f"{flight} in flight at the end")
        return steps

    def _served(self) -> list[str]:
        """Whether its replacements served before its replicas ended, and by how much; else whose users missed them."""
        gaps = [model.gap for model in self.models if model.gap]
        ahead = [-gap for model in self.models if (gap := model.gap_seconds) is not None]
        if gaps or not ahead or len(ahead) < len(self.models):
            return gaps
        return [f"replacements served {min(ahead):.0f} s before its replicas ended"]
