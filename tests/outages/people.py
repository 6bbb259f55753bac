"""Overrides as objects: by a person's kubectl, or by a signed record that the service writes for somebody."""

from rebalancer.domain.people import Override
from rebalancer.ingest.override_queue import TryAgain
from rebalancer.ingest.signed import SignedOverride
from rebalancer.kube.errors import KubeError
from tests.outages.api_server import CutPort
from tests.sandbox.hand_clock import HandClock


class Door:
    """Implements `ingest.override_queue.OverrideWriter`. `made`: all there are."""

    def __init__(self, port: CutPort, clock: HandClock) -> None:
        self.made: list[Override] = []
        self._port, self._clock = port, clock
        self._seen = 0

    def kubectl(self, kind: str, model: str, replicas: int, seconds: float) -> str:
        """A person decides; the override's name. Raises Temporary where the API server is away."""
        self._port.reach()
        return self._make(kind, model, replicas, self._clock.now() + seconds, "ann")

    async def write(self, signed: SignedOverride) -> str | None:
        """As `app.signed_overrides` does."""
        try:
            self._port.reach()
        except KubeError as error:
            raise TryAgain(str(error)) from error
        self._make(signed.kind, signed.model or "", signed.value or 0, signed.at + (signed.seconds or 0.0), "kafka")
        return None

    def news(self) -> list[Override]:
        """Those that nobody has been shown yet."""
        fresh, self._seen = self.made[self._seen :], len(self.made)
        return fresh

    def _make(self, kind: str, model: str, replicas: int, until: float, actor: str) -> str:
        name, now = f"ov-{len(self.made)}", self._clock.now()
        self.made.append(
            Override(name, "serving", name, "1", kind, model, "model", "a test", actor, now, until, value=replicas)
        )
        return name
