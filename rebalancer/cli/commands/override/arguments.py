"""What a person asks for on the command line, as a value: kind, subject, value, how long, why."""

from dataclasses import dataclass

from rebalancer.api.ports.requests import OverrideRequest, Subject
from rebalancer.cli.commands.override.kinds import Kind
from rebalancer.cli.failure import USAGE, Failed
from rebalancer.cli.terminal.spans import seconds_of
from rebalancer.ingest.objects.people import OF_CAPACITY

DEFAULT_SECONDS = 1800.0  # where neither --for nor the service says how long
MOST_SECONDS = 604_800.0  # as the API takes; the policy may allow less
REASON_CHARACTERS = 256
NUMBERED = frozenset({"pin", "cap", "floor"})


def check_reason(reason: str) -> None:
    """Raise Failed, exit code 2, where nobody could read why: blank, or more than an object takes."""
    if not reason.strip():
        raise Failed("--reason is blank: say why, for whoever reads it at night", USAGE)
    if len(reason) > REASON_CHARACTERS:
        raise Failed(f"--reason has {len(reason)} characters; allowed 1 to {REASON_CHARACTERS}", USAGE)


@dataclass(frozen=True, slots=True)
class OverrideArguments:
    """The arguments of `override add`, as typed.

    kind: kind of the override.
    subject: id of a model, also as `model/ID`; for drain and exclude a node's name, `node/NAME` or `pool/NAME`.
    value: replicas of a pin, a cap or a floor; None where no number was typed.
    reason: why, in the person's words.
    lasts: how long it is to last, as `30m`; None: as long as the policy says, or 30 min where the service is away.
    model: id of the only model that an exclude is to keep away, None where none was named.
    namespace: namespace of the override; None: its model's, or the service's where it is about no model.
    allow_below_floor: whether a pin or a cap may take the model below its floor.
    """

    kind: Kind
    subject: str
    value: int | None
    reason: str
    lasts: str | None
    model: str | None
    namespace: str | None
    allow_below_floor: bool

    def request(self) -> OverrideRequest:
        """What is asked for. Raises Failed, exit code 2, when the words do not make sense."""
        self._check()
        return OverrideRequest(
            kind=self.kind.value,
            target=self._target(),
            reason=self.reason,
            value=self.value,
            for_seconds=None if self.lasts is None else seconds_of(self.lasts, "--for", MOST_SECONDS),
            namespace=self.namespace,
            allow_below_floor=self.allow_below_floor,
        )

    @property
    def severe(self) -> str | None:
        """The name to type where this may take away more than one model's surplus, None where not."""
        pool = self.kind in OF_CAPACITY and self.subject.startswith("pool/")
        named = self.kind is Kind.DRAIN or pool or self.allow_below_floor
        return self.subject.rpartition("/")[2] if named else None

    def _check(self) -> None:
        if self.kind in NUMBERED and self.value is None:
            raise Failed(
                f"{self.kind} needs a number of replicas: override add {self.kind} {self.subject} 2 ...", USAGE
            )
        if self.kind not in NUMBERED and self.value is not None:
            raise Failed(f"{self.kind} takes no number: leave {self.value} out", USAGE)
        if self.model is not None and self.kind is not Kind.EXCLUDE:
            raise Failed(f"--model is for exclude; {self.kind} is about {self.subject}", USAGE)
        if self.allow_below_floor and self.kind not in {Kind.PIN, Kind.CAP}:
            raise Failed("--allow-below-floor is for pin and cap", USAGE)
        check_reason(self.reason)

    def _target(self) -> Subject:
        what, _, name = self.subject.rpartition("/")
        if self.kind not in OF_CAPACITY:
            if what not in {"", "model"}:
                raise Failed(f"{self.kind} is about a model, not a {what}", USAGE)
            return Subject(model=name)
        if not name:
            raise Failed(f"{self.subject}: which {what}? say {what}/NAME", USAGE)
        if what not in {"", "node", "pool"}:
            raise Failed(f"{self.kind} is about a node or a pool: say node/NAME or pool/NAME", USAGE)
        return Subject(model=self.model, node=None if what == "pool" else name, pool=name if what == "pool" else None)
