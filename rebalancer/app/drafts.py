"""An override to be, by whichever door it came: checked, as the object to create, and as planning would see it."""

import hashlib

import msgspec
from msgspec import Struct

from rebalancer.api.text.words import known_names, span
from rebalancer.domain.people import Override
from rebalancer.domain.policy import Policy
from rebalancer.kube.moment import written_as
from rebalancer.kube.resources import OVERRIDES, Object
from rebalancer.planning.overrides.rulings import PRECEDENCE, STAND_UP

ASKED = "rebalancer.io/asked"  # annotation of an Override that came by us: the digest of what was asked for
COUNTED = frozenset({"pin", "cap", "floor"})
OF_CAPACITY = frozenset({"drain", "exclude"})
TO_COME = "to-come"  # UID of an override that is no object yet


def name_of(door: str, *parts: str) -> str:
    """The object's name for an idempotency key or event id: the same parts give the same object, whoever writes it."""
    return "ov-" + hashlib.sha256("\0".join((door, *parts)).encode()).hexdigest()[:12]


def usual_seconds(kind: str, policy: Policy) -> float:
    """How long an override lasts when nobody says: one to stand up as long as what it forgets could count."""
    rules, window_seconds = policy.overrides, policy.guards.foreign.window_seconds
    return min(window_seconds if kind == STAND_UP else rules.default_seconds, rules.max_seconds)


class Misshapen(ValueError):
    """No such override can exist. `where`: the field, as in the Override's spec; `fix`: what to say instead, or ""."""

    def __init__(self, where: str, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.where = where
        self.fix = fix


class OverrideDraft(Struct, frozen=True):
    """An override that somebody asks for, before it is an object.

    name: name of the object to create, by `name_of`: the same idempotency key or event id gives the same name.
    namespace: namespace to create it in: as asked for, else the model's, else the service's own.
    actor: who decides: name of the caller, or `kafka:KEYID` of the key that signed the event.
    kind: one of `rulings.PRECEDENCE`, once `check_shape` has passed.
    reason: why, in the person's words.
    created_at: UTC epoch seconds: when the request arrived, or the instant that the signed event names.
    seconds: how long it lasts, as asked for; where nobody says, by `usual_seconds`.
    model: id of the model, None where it is about a node or pool; of an exclude the only model that it keeps away, None
        where it keeps away all.
    node: name of the node that a drain or an exclude is about, else None.
    pool: name of the pool that a drain or an exclude is about, else None.
    value: replicas of a pin, a cap or a floor; None for the other kinds.
    allow_below_floor: whether a pin or a cap may take the model below its floor.
    """

    name: str
    namespace: str
    actor: str
    kind: str
    reason: str
    created_at: float
    seconds: float
    model: str | None = None
    node: str | None = None
    pool: str | None = None
    value: int | None = None
    allow_below_floor: bool = False

    @property
    def expires_at(self) -> float:
        """UTC epoch seconds at which it ends."""
        return self.created_at + self.seconds

    @property
    def digest(self) -> str:
        """A hash of what was asked for, without instants: a request that is sent again has the same."""
        decision = (self.kind, self.model, self.node, self.pool, self.value, self.reason, self.allow_below_floor)
        return hashlib.sha256(msgspec.json.encode((*decision, self.actor, self.seconds))).hexdigest()[:32]

    def check(self, policy: Policy, own_namespace: str) -> None:
        """Raise Misshapen when it cannot be followed: what the CRD says, and what only the policy knows.

        What concerns no single model concerns everybody: it stands in the service's own namespace, where few may write.
        """
        check_shape(self)
        models, pools = {model.id: model for model in policy.models}, {pool.name for pool in policy.pools}
        if self.model is not None and self.model not in models:
            raise Misshapen(
                "target.model", f"no model {self.model!r} in the policy", known_names("models", self.model, models)
            )
        if self.model is not None and models[self.model].namespace != self.namespace:
            home = models[self.model].namespace
            raise Misshapen("namespace", f"model {self.model} is in namespace {home}; create the override there")
        if self.model is None and self.namespace != own_namespace:
            raise Misshapen("namespace", f"{self.kind} concerns everybody: create it in namespace {own_namespace}")
        if self.pool is not None and self.pool not in pools:
            raise Misshapen(
                "target.pool", f"no pool {self.pool!r} in the policy", known_names("pools", self.pool, pools)
            )
        longest = policy.overrides.max_seconds
        if self.seconds > longest:
            most = f"at most {span(longest)} (policy overrides.maxSeconds)"
            raise Misshapen("forSeconds", f"{span(self.seconds)} is too long: {most}", "make it shorter")

    def override(self) -> Override:
        """The override as planning would see it."""
        subject_kind = "model" if self.kind not in OF_CAPACITY else "node" if self.node is not None else "pool"
        return Override(
            name=self.name,
            namespace=self.namespace,
            uid=TO_COME,
            resource_version="",
            kind=self.kind,
            subject={"model": self.model, "node": self.node, "pool": self.pool}[subject_kind] or "",
            subject_kind=subject_kind,
            reason=self.reason,
            actor=self.actor,
            created_at=self.created_at,
            expires_at=self.expires_at,
            value=self.value,
            model=self.model if self.kind == "exclude" else None,
            allow_below_floor=self.allow_below_floor,
        )

    def manifest(self) -> Object:
        """The object to create."""
        target = {"model": self.model, "node": self.node, "pool": self.pool}
        spec: Object = {
            "kind": self.kind,
            "target": {key: name for key, name in target.items() if name is not None},
            "reason": self.reason,
            "expiresAt": written_as(self.expires_at),
            "actor": self.actor,
        }
        if self.value is not None:
            spec["value"] = self.value
        if self.allow_below_floor:
            spec["allowBelowFloor"] = True
        return {
            "apiVersion": OVERRIDES.api_version,
            "kind": OVERRIDES.kind,
            "metadata": {"name": self.name, "namespace": self.namespace, "annotations": {ASKED: self.digest}},
            "spec": spec,
        }


def check_shape(draft: OverrideDraft) -> None:
    """What the CRD demands, said before the API server is asked: a preview shows it too. Raises Misshapen."""
    kind, capacity = draft.kind, (draft.node, draft.pool)
    if not draft.reason.strip():
        raise Misshapen("reason", "the reason is blank", "say why, for whoever reads it at night")
    if kind not in PRECEDENCE:
        raise Misshapen("kind", f"no kind {kind[:64]!r}: it is one of {', '.join(PRECEDENCE)}")
    if kind in OF_CAPACITY and (draft.node is None) == (draft.pool is None):
        raise Misshapen("target", f"{kind} needs either target.node or target.pool")
    if kind not in OF_CAPACITY and (draft.model is None or capacity != (None, None)):
        raise Misshapen("target", f"{kind} needs target.model, and neither a node nor a pool")
    if kind == "drain" and draft.model is not None:
        raise Misshapen("target.model", "drain is about all that runs there, not about one model")
    if (kind in COUNTED) != (draft.value is not None):
        raise Misshapen("value", f"{kind} needs a value" if kind in COUNTED else f"{kind} has no value")
    if draft.allow_below_floor and kind not in {"pin", "cap"}:
        raise Misshapen("allowBelowFloor", "only a pin or a cap can go below the floor")
