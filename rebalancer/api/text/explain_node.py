"""`rebalancer explain --node NODE`: what was said of a node, what was done about it, and by whom, in time or not."""

from collections.abc import Iterable, Iterator

from rebalancer.api.text.words import clock, counted, goes, printable, when
from rebalancer.domain.account import GoingReplica, NoticeAccount
from rebalancer.domain.plan import DrainChange
from rebalancer.domain.snapshot import NoticeView

WIDTH = 8  # of the first column: `replica` and the like


def render_node(
    node: str,
    notice: NoticeView | None,
    accounts: Iterable[NoticeAccount],
    drains: Iterable[DrainChange],
    now: float,
) -> Iterator[str]:
    """One notice after the other, the oldest first; then what this plan does to the node."""
    known = False
    for account in accounts:
        known = known or account.over_at is None
        yield from map(printable, _account(account, now))
    if notice is not None:
        if not known:
            yield f"{node}: no replica stands there"
        yield printable(
            f"{'notice':<{WIDTH}} {goes(notice, now)}: {notice.kind} by {notice.source}, {notice.confidence}"
        )
    for change in drains:
        yield printable(f"{'change':<{WIDTH}} {change}")


def _account(account: NoticeAccount, now: float) -> Iterator[str]:
    yield str(account)
    heard = f"{when(account.heard_at, now)} (issued {clock(account.issued_at)} by {account.source})"
    yield f"{'heard':<{WIDTH}} {heard}; deadline {when(account.deadline, now)}"
    for what, at in (
        ("acted", account.acted_at),
        ("replaced", account.replaced_at),
        ("drained", account.drained_at),
        ("over", account.over_at),
    ):
        if at is not None:
            yield f"{what:<{WIDTH}} {when(at, now)}"
    for replica in account.replicas:
        yield f"{'replica':<{WIDTH}} {_replica(replica, now)}"


def _replica(replica: GoingReplica, now: float) -> str:
    flight = "unknown requests" if replica.requests is None else counted(round(replica.requests), "request")
    if not replica.gone_by:
        return f"{replica.uid} of {replica.model} is there, {flight} in flight"
    ends = f"gone {when(replica.gone_at, now)}" if replica.gone_at is not None else "ending"
    return f"{replica.uid} of {replica.model} {ends} by {replica.gone_by}, {flight} in flight"
