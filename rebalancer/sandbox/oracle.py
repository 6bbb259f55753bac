"""Judges what happened from what the API saw: its audit trail says who wrote, the witness how things stood then."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalancer.domain.policy import Model, Policy
from rebalancer.sandbox.api import AuditEntry
from rebalancer.sandbox.api.resources import DEPLOYMENTS
from rebalancer.sandbox.witness import Facts, ScaleWrite

MATCH_SECONDS = 5.0  # of the clock: the audit entry comes right behind the change it is about


@dataclass(slots=True)
class Marks:
    """What the story did, and when. Instants are in UTC epoch seconds of the demo's clock.

    surge_at: when the surge on chat began, 0 until then.
    caught_up_at: since when nobody who came to chat had to wait beyond its SLO any more, 0 while that has not been.
    back_at: when code's users came back, 0 until then.
    notice_at: when the cloud gave notice of a spot node, 0 until then.
    deadline: when that node goes, 0 until the notice.
    doomed: name of that node, "" until the notice.
    pin_at: when the operator created the override, 0 until then.
    pin: name of the override, "" until then.
    pinned: replicas that the override asks for, 0 until then.
    pin_ends_at: when the override expires, 0 until it was created.
    """

    surge_at: float = 0.0
    caught_up_at: float = 0.0
    back_at: float = 0.0
    notice_at: float = 0.0
    deadline: float = 0.0
    doomed: str = ""
    pin_at: float = 0.0
    pin: str = ""
    pinned: int = 0
    pin_ends_at: float = 0.0


class CheckAnswer(NamedTuple):
    """What a check found; `seconds` of the clock where it is about a time."""

    words: str
    seconds: float | None = None
    held: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is to judge by.

    facts: what the witness saw happen in the API.
    audit: audit trail of the API, in the order of the answers.
    policy: the service's policy.
    account: name of the user whose writes are judged.
    marks: what the story did, and when.
    """

    facts: Facts
    audit: Sequence[AuditEntry]
    policy: Policy
    account: str
    marks: Marks = field(default_factory=Marks)

    def model(self, name: str) -> Model:
        """The policy's model."""
        return next(model for model in self.policy.models if model.id == name)

    @property
    def writes(self) -> list[ScaleWrite]:
        """The account's scale writes, by the audit trail."""
        return [write for write in self.facts.writes if any(self._is(entry, write) for entry in self.audit)]

    def _is(self, entry: AuditEntry, write: ScaleWrite) -> bool:
        target = entry.target
        return (
            target is not None
            and (target.resource, target.name) == (DEPLOYMENTS, write.deployment)
            and entry.user == self.account
            and entry.code == 200  # noqa: PLR2004  # HTTP OK
            and 0 <= entry.at - write.at < MATCH_SECONDS
            and entry.body.get("spec", {}).get("replicas") == write.after
        )

    def written(self, model: str, since: float, *, more: bool) -> list[ScaleWrite]:
        """The account's raises (or decreases) of a model since an instant."""
        return [
            write
            for write in self.writes
            if write.place.model == model and write.at >= since and (write.after > write.before) is more
        ]

    def borrowed_gpus(self, model: str, at: float) -> int:
        """GPUs of owned pools that the model's pods held beyond its entitlement."""
        primary = {pool.name for pool in self.policy.pools if pool.kind == "primary"}
        held = sum(pod.place.gpus for pod in self.facts.of(model) if pod.place.pool in primary and pod.holds(at))
        spec = self.model(model)
        return max(0, held - spec.entitlement * spec.gpus_per_replica)


Look = Callable[[Evidence], CheckAnswer | None]


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must happen: `look` answers with words and seconds, or with None while it has not happened."""

    what: str
    look: Look


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the verdict."""

    what: str
    answer: CheckAnswer


def always(evidence: Evidence) -> list[CheckResult]:
    """Floors after every write, and grants only into free GPUs or, where nodes can come, within the policy's bound."""
    return [CheckResult("floors held", _floors(evidence)), CheckResult("grants into free GPUs", _grants(evidence))]


def _floors(evidence: Evidence) -> CheckAnswer:
    writes = evidence.writes
    below = [write for write in writes if write.after < write.before and write.left < write.place.floor]
    words = f"{len(writes)} writes, {len(below)} below a floor" + "".join(
        f"; {write_words(write)}" for write in below[:3]
    )
    return CheckAnswer(words, held=not below)


def _grants(evidence: Evidence) -> CheckAnswer:
    limits = {pool.name: pool for pool in evidence.policy.pools}
    raises = [write for write in evidence.writes if write.after > write.before]
    wrong = []
    to_come = 0
    for write in raises:
        pool = limits[write.place.pool]
        if write.fits:
            continue
        if pool.node_pools and write.pool_asks <= pool.gpu_limit:
            to_come += 1
        else:
            wrong.append(write)
    words = f"{len(raises) - to_come - len(wrong)} raises, {to_come} more into nodes to come"
    words += "".join(f"; {write_words(write)} found no room" for write in wrong[:3])
    return CheckAnswer(words, held=not wrong)


def write_words(write: ScaleWrite) -> str:
    """One write in words."""
    return f"{write.deployment} {write.before} -> {write.after}"
