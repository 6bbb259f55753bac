"""Each notice about a node with replicas on it has an account, followed from plan to plan until an hour after its end.

Planning sees everything that an account is made of: notices, pods, requests in flight and what became of our writes.
So it is kept in memory, survives a restart with it, and can be made again from the journal.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from msgspec.structs import replace

from rebalancer.domain.account import (
    BY_KARPENTER,
    BY_OTHERS,
    BY_THE_NODE,
    BY_US,
    GoingModel,
    GoingReplica,
    NoticeAccount,
)
from rebalancer.domain.memory import Memory, Replaced
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.snapshot import NoticeView, PodView, Snapshot

Written = tuple[Outcome, set[str]]  # a write that happened, and UIDs of the pods it names

KEPT_SECONDS = 3600.0  # for who asks `rebalancer explain NODE` after an incident
KEPT_AT_MOST = 500  # accounts that are over: half of a fleet of a thousand nodes, 400 bytes each and 150 a replica


def follow(memory: Memory, snapshot: Snapshot) -> tuple[Memory, tuple[NoticeAccount, ...]]:
    """Memory with the accounts of the notices as they stand in `snapshot`, and of those that stood lately.

    Beside it the accounts that are new or otherwise than before: what the plan tells, and so the journal.
    """
    if not snapshot.notices and not memory.accounts:
        return memory, ()
    notices = {notice.node: notice for notice in snapshot.notices}
    standing = [account for account in memory.accounts if account.over_at is None]
    due = {node for node, notice in notices.items() if notice.counts(snapshot.at)}
    written = [(one, _named(one.intent)) for one in snapshot.outcomes if one.happened]
    seen = _Seen(snapshot, notices.keys() | {account.node for account in standing}, due, written)
    known = {account.node: account for account in standing}
    accounts = [known.get(node) or seen.opened(notice) for node, notice in notices.items()]
    followed = [seen.followed(account, notices.get(account.node)) for account in accounts if account is not None]
    followed += [seen.followed(account, None) for account in standing if account.node not in notices]
    over = [seen.replaced(account) for account in memory.accounts if account.over_at is not None]
    over += [account for account in followed if account.over_at is not None]
    recent = [each for each in over if snapshot.at - (each.over_at or 0.0) < KEPT_SECONDS][-KEPT_AT_MOST:]
    current = (*recent, *(account for account in followed if account.over_at is None))
    before = {(account.node, account.heard_at): account for account in memory.accounts}
    changed = tuple(account for account in current if before.get((account.node, account.heard_at)) != account)
    return replace(memory, accounts=current), changed


def lost_with_node(
    accounts: Iterable[NoticeAccount], model: str, doomed: Container[str], now: float, window_seconds: float
) -> NoticeAccount | None:
    """The newest account of a `doomed` node with which the model loses capacity, or lost it within the window.

    Capacity is lost where the cloud or a failure takes it: not to a person's drain or Karpenter's own
    will, nor where it may stay, nor before its time has come.
    """
    for account in reversed(tuple(accounts)):
        taken = account.kind != "drain" and account.confidence == "certain" and not account.voluntary
        if not taken or all(replica.model != model for replica in account.replicas):
            continue
        drained = account.drained_at
        loses = account.over_at is None and account.node in doomed
        if loses if drained is None else now - drained < window_seconds:
            return account
    return None


class _Seen:
    """The replicas on some nodes, and what else of a snapshot accounts are made of.

    `due`: nodes whose notice has come to its time. `written`: our writes that happened, each with the pods it names.
    """

    def __init__(
        self, snapshot: Snapshot, nodes: Collection[str], due: Collection[str], written: Sequence[Written]
    ) -> None:
        self._at = snapshot.at
        self._due, self._written = due, written
        self._requests: dict[str, float] = {}
        for load in snapshot.loads:
            self._requests.update(load.pod_requests)
        self._pool_of = {node.name: pool.name for pool in snapshot.pools for node in pool.nodes if node.name in nodes}
        self._on: Mapping[str, dict[str, tuple[str, PodView]]] = defaultdict(dict)  # by node, then by UID
        self._ready: Counter[str] = Counter()  # by model
        self._ready_elsewhere: Counter[str] = Counter()
        for model in snapshot.models:
            for pod in (pod for target in model.targets for pod in target.pods):
                for node in (node for node in pod.nodes if node in nodes):
                    self._on[node][pod.uid] = model.id, pod
                if pod.phase == "ready":
                    self._ready[model.id] += 1
                    self._ready_elsewhere[model.id] += not pod.on(nodes)

    def opened(self, notice: NoticeView) -> NoticeAccount | None:
        """The account of a notice that is new; None where no replica stands there."""
        there = self._on[notice.node]
        if not there:
            return None
        return NoticeAccount(
            node=notice.node,
            kind=notice.kind,
            source=notice.source,
            pool=self._pool_of.get(notice.node, ""),
            confidence=notice.confidence,
            issued_at=_issued(notice),
            heard_at=self._at,
            deadline=_deadline(notice),
            voluntary=notice.voluntary,
            ready_before=self._ready_of(notice.node),
        )

    def _ready_of(self, node: str) -> dict[str, int]:
        """Ready replicas, wherever they are, of each model that has one on the node."""
        return {name: self._ready[name] for name in sorted({name for name, _ in self._on[node].values()})}

    def followed(self, account: NoticeAccount, notice: NoticeView | None) -> NoticeAccount:
        """The account as things stand; `notice`: None where it stands no more."""
        if notice is not None and notice.kind != "gone":
            surer = account.confidence == "possible" != notice.confidence
            renamed = account.kind != notice.kind and account.acted_at is None
            drained = renamed and notice.kind == "drain"  # by a person, though it was to go later
            account = replace(
                self._begun_anew(account, due_at=None) if drained else account,
                kind=notice.kind,
                source=notice.source,
                confidence=notice.confidence,
                deadline=_deadline(notice),
                voluntary=notice.voluntary,
                issued_at=_issued(notice) if renamed else account.issued_at,
                heard_at=self._at if surer or drained else account.heard_at,
            )
        replicas = self._replicas(account, notice)
        if notice is not None and notice.node not in self._due:  # in weeks: who leaves meanwhile is not lost with it
            return replace(account, replicas=tuple(replica for replica in replicas if replica.gone_at is None))
        if notice is not None and account.due_at is None and (notice.doomed_at or 0.0) > account.heard_at:
            account = self._begun_anew(account, due_at=self._at)
        all_gone = bool(replicas) and all(replica.gone_at is not None for replica in replicas)
        first = min(self._acts(account, replicas), default=None)
        return replace(
            self.replaced(replace(account, models=self._stopped(account))),
            replicas=replicas,
            acted_at=first if account.acted_at is None else account.acted_at,
            drained_at=(account.drained_at or self._at) if all_gone else None,
            over_at=None if notice is not None else self._at,
        )

    def _begun_anew(self, account: NoticeAccount, due_at: float | None) -> NoticeAccount:
        """The account of a notice that has come to its time: what was so before it is of no account."""
        ready = self._ready_of(account.node)
        return replace(account, due_at=due_at, ready_before=ready, models=(), acted_at=None, replaced_at=None)

    def replaced(self, account: NoticeAccount) -> NoticeAccount:
        """The account with the instant at which its models had as many Ready replicas elsewhere, once they have.

        That may be long after the node went: Karpenter empties one in seconds, its successor takes a start.
        """
        if account.replaced_at is not None:
            return account
        models = tuple(self._served(model, account.ready_before[model.model]) for model in account.models)
        enough = all(self._ready_elsewhere[name] >= number for name, number in account.ready_before.items())
        return replace(account, models=models, replaced_at=self._at if enough else None)

    def _stopped(self, account: NoticeAccount) -> tuple[GoingModel, ...]:
        """The models of an account that stands, each with the instant at which its last replica there had stopped."""
        serve = {model for model, pod in self._on[account.node].values() if pod.phase == "ready"}
        known = {model.model: model for model in account.models}
        names = sorted(known.keys() | (serve & account.ready_before.keys()))
        models = (known.get(name) or GoingModel(name) for name in names)
        return tuple(
            model if model.stopped_at is not None or model.model in serve else replace(model, stopped_at=self._at)
            for model in models
        )

    def _served(self, model: GoingModel, before: int) -> GoingModel:
        """The model with when it had as many Ready replicas elsewhere as `before`, and since and until when none."""
        replaced = self._ready_elsewhere[model.model] >= before
        dark = model.stopped_at is not None and not self._ready[model.model]
        lit = model.dark_at is not None and self._ready[model.model] > 0
        return replace(
            model,
            replaced_at=self._at if replaced and model.replaced_at is None else model.replaced_at,
            dark_at=self._at if dark and model.dark_at is None else model.dark_at,
            lit_at=self._at if lit and model.lit_at is None else model.lit_at,
        )

    def _replicas(self, account: NoticeAccount, notice: NoticeView | None) -> tuple[GoingReplica, ...]:
        there = self._on[account.node]
        named = {uid for outcome, _ in self._written for uid in outcome.intent.victims}
        known = {replica.uid: replica for replica in account.replicas}
        if notice is not None:
            known |= {uid: GoingReplica(uid, model) for uid, (model, _) in there.items() if uid not in known}
        return tuple(self._replica(known[uid], there.get(uid), uid in named, account, notice) for uid in sorted(known))

    def _replica(
        self,
        replica: GoingReplica,
        there: tuple[str, PodView] | None,
        named: bool,  # noqa: FBT001  # one of the facts about it
        account: NoticeAccount,
        notice: NoticeView | None,
    ) -> GoingReplica:
        ended = replica.ended or named
        by = replica.gone_by
        if not by and (there is None or there[1].phase == "terminating"):
            by = self._ended_by(ended, account.node, notice)
        return GoingReplica(
            uid=replica.uid,
            model=replica.model,
            requests=self._requests.get(replica.uid, replica.requests),
            ended=ended,
            gone_by=by,
            gone_at=None if there is not None else replica.gone_at or self._at,
        )

    def _ended_by(self, ended: bool, node: str, notice: NoticeView | None) -> str:  # noqa: FBT001  # a fact about it
        if ended:
            return BY_US
        if node not in self._pool_of or (notice is not None and notice.kind == "gone"):
            return BY_THE_NODE
        return BY_KARPENTER if notice is not None and notice.karpenter else BY_OTHERS

    def _acts(self, account: NoticeAccount, replicas: Iterable[GoingReplica]) -> Iterable[float]:
        """When writes for it were acknowledged."""
        uids = {replica.uid for replica in replicas}
        return (one.at for one, named in self._written if _is_for(one, named, account, uids))


def _issued(notice: NoticeView) -> float:
    """When it was given: a person's drain on its own date, whatever was told of the node before."""
    return _deadline(notice) if notice.kind == "drain" else notice.since


def _deadline(notice: NoticeView) -> float:
    """By which a node is to be empty: Karpenter, which ends pods before that, makes nobody late."""
    return notice.deadline if notice.told_deadline is None else notice.told_deadline


def _is_for(outcome: Outcome, named: set[str], account: NoticeAccount, uids: set[str]) -> bool:
    """Whether a write was made for a notice: it names one of its replicas or its node, or frees room for its models."""
    intent = outcome.intent
    if intent.object == f"node/{account.node}" or not uids.isdisjoint(named):
        return True
    return outcome.at >= account.since and not account.ready_before.keys().isdisjoint(intent.recipients)


def _named(intent: Intent) -> set[str]:
    return {*intent.victims, *Replaced.pods(intent.replaces)}
