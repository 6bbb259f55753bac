"""Reads the API server's audit log: who wrote what, when, and what the answer was."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.testbed.kube import Kube

Json = dict[str, Any]

_READS = ("get", "list", "watch")


@dataclass(frozen=True)
class Write:
    """One mutating request. Times are UTC epoch seconds by the API server's clock."""

    audit_id: str
    received: float
    answered: float
    user: str
    verb: str  # create, update, patch, delete, deletecollection
    group: str
    resource: str  # plural, as in deployments
    subresource: str  # "", scale, status, eviction, ...
    namespace: str
    name: str
    code: int
    dry_run: bool
    request: Json
    response: Json
    agent: str = ""  # the client's name for itself

    @property
    def succeeded(self) -> bool:
        return 200 <= self.code < 300

    @property
    def what(self) -> str:
        """In short: `deployments/scale team-a/chat`."""
        kind = "/".join(part for part in (self.resource, self.subresource) if part)
        return f"{kind} {'/'.join(part for part in (self.namespace, self.name) if part)}"


@dataclass(frozen=True)
class Request:
    """One request, reads included, and what RBAC said to it."""

    verb: str  # get, list, watch, create, ...
    group: str
    namespace: str
    target: str  # plural and subresource, as in an RBAC rule: deployments/scale
    allowed: bool
    reason: str  # which binding of which role allowed it

    @property
    def right(self) -> tuple[str, str, str, str]:
        """What it takes: verb, group, namespace, target."""
        return self.verb, self.group, self.namespace, self.target


class AuditLog:
    """The audit log of one API server; it stays readable while the server is down or restarted."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def writes(
        self,
        user: str | None = None,
        *,
        since: float = 0.0,
        until: float = float("inf"),
        resource: str | None = None,
        namespace: str | None = None,
    ) -> list[Write]:
        """Writes received within [since, until), oldest first, that match every filter given.

        `user` is a full name (`system:serviceaccount:ns:name`). It reads a file: from an async test
        `await asyncio.to_thread(audit.writes, user)`.
        """
        wanted = {"user": user, "resource": resource, "namespace": namespace}
        found = [
            write
            for write in self._read()
            if since <= write.received < until
            and all(value is None or getattr(write, field) == value for field, value in wanted.items())
        ]
        return sorted(found, key=lambda write: write.received)

    def requests(self, user: str) -> Iterator[Request]:
        """All requests of a service account about resources; a watch once for its start and once for its end."""
        for event in self._events():
            if _user(event) == user and "objectRef" in event:
                target, notes = event["objectRef"], event.get("annotations", {})
                yield Request(
                    verb=event["verb"],
                    group=target.get("apiGroup", ""),
                    namespace=target.get("namespace", ""),
                    target="/".join(filter(None, (target.get("resource", ""), target.get("subresource", "")))),
                    allowed=notes.get("authorization.k8s.io/decision") == "allow",
                    reason=notes.get("authorization.k8s.io/reason", ""),
                )

    async def settle(self, kube: Kube) -> None:
        """Wait until every write answered before this call is in the log.

        The server logs a request just after it answered: so we make a dry run and wait for its line.
        """
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
        so_far = (await asyncio.to_thread(self._file.stat)).st_size  # a whole run's log has 60 MB, seconds to read
        await kube.create(review)
        marker = kube.last_audit_id

        def logged() -> bool:
            return any(write.audit_id == marker for write in self._read(so_far))

        await kube.wait_for(lambda: asyncio.to_thread(logged), f"audit id {marker} in {self._file}")

    def _read(self, skip_bytes: int = 0) -> Iterator[Write]:
        for event in self._events(skip_bytes):
            if event["stage"] in ("ResponseComplete", "Panic") and event["verb"] not in _READS:
                yield _write(event)

    def _events(self, skip_bytes: int = 0) -> Iterator[Json]:
        if not self._file.exists():
            return
        with self._file.open("rb") as log:
            log.seek(skip_bytes)
            for line in log:
                # The last line may be half written, and a killed server leaves such a line behind.
                if line.endswith(b"}\n"):
                    with contextlib.suppress(json.JSONDecodeError):
                        yield json.loads(line)


def _user(event: Json) -> str:
    """Who asked; nobody ("") where the server did not accept the token, as one of a namespace that is gone."""
    return str(event["user"].get("username", ""))


def _write(event: Json) -> Write:
    target = event.get("objectRef", {})
    response = event.get("responseObject") or {}
    return Write(
        audit_id=event["auditID"],
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
        user=_user(event),
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name") or response.get("metadata", {}).get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        dry_run="dryRun=" in event["requestURI"],
        request=event.get("requestObject") or {},
        response=response,
        agent=event.get("userAgent", ""),
    )


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
