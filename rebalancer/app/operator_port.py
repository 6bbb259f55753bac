"""Decisions of people become objects: the service's own account writes them, with the authenticated user as actor."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from rebalancer.api.ports.operator import Accepted, Declined, Overrides, RequestOrigin, Writes
from rebalancer.api.ports.requests import OverrideRequest, Preview, ResumeRequest, StopRequest
from rebalancer.app.declined import declined
from rebalancer.app.drafts import ASKED, Misshapen, OverrideDraft, name_of, usual_seconds
from rebalancer.app.foresight import Foresight, Known, foresee, foresee_end, foresee_resume
from rebalancer.app.preview import name_to_type, preview_of, preview_of_end, preview_of_resume, refusal_of
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.policy import Policy
from rebalancer.ingest.objects.people import OverrideWire, WriteStopWire, override, write_stop
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Ambiguous, Conflict, KubeError, NotFound, Temporary
from rebalancer.kube.resources import OVERRIDES, WRITESTOPS, Object, Ref
from rebalancer.obs.clock import Clock
from rebalancer.settings.service import ServiceSettings

STOP = "stop"  # name of the WriteStop that we make: pressed twice it is there once
STOP_ATTEMPTS = 3
STOP_AGAIN_SECONDS = 0.2
PREVIEW_WAIT_SECONDS = 4.0  # at 1,000 models a preview takes 0.8 s of a thread: two at once would starve the wheel
RESUME = "resume"
IN_SHADOW = "shadow: nothing is written"

T = TypeVar("T")

log = structlog.get_logger()


class ServiceOperatorPort:
    """Implements `api.ports.operator.OperatorPort`. `kube` and `known` come when the service has them.

    `policy` answers from the first request on; `known` gives what the next cycle would decide from. `leader`: name of
    the replica that acts, "" where none does. `gone`: overrides whose object is no more.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        clock: Clock,
        instance: str,
        leader: Callable[[], str],
        policy: Callable[[], Policy],
    ) -> None:
        self.kube: KubeClient | None = None
        self.known: Callable[[], Known] | None = None
        self.gone: Callable[[], tuple[Override, ...]] = tuple
        self._settings = settings
        self._clock = clock
        self._instance = instance
        self._leader = leader
        self._policy = policy
        self._looking = asyncio.Lock()

    # --- overrides

    def namespace_of(self, request: OverrideRequest) -> str:
        """The namespace that was asked for, else the model's, else our own, as for a node or a pool."""
        model = next((each for each in self._policy().models if each.id == request.target.model), None)
        return request.namespace or (model.namespace if model is not None else self._settings.own_namespace)

    async def overrides(self) -> Overrides:
        """All overrides; from the API server while the watch has not shown them yet."""
        if self.known is not None and not (known := self.known().snapshot).sync.missing:
            overrides = known.overrides
        else:
            listed = await self._on_kubernetes(lambda kube: kube.list(OVERRIDES, into=OverrideWire))
            overrides = tuple(override(wire) for wire in listed.items)
        ordered = tuple(sorted(overrides, key=lambda one: (one.namespace, one.name)))
        return Overrides(self._instance, self._leader(), ordered, self.gone(), self._clock.now())

    async def preview(self, request: OverrideRequest, requester: RequestOrigin) -> Preview:
        """What it would do now."""
        draft = self._draft(request, requester)
        known, seen = await self._look(lambda known: foresee(known, draft.override()))
        return self._in_mode(preview_of(known, draft.override(), seen))

    async def end_preview(self, namespace: str, name: str, actor: str) -> Preview:
        """What would come if it were taken back now."""
        known, seen = await self._look(lambda known: foresee_end(known, _standing(known, namespace, name)))
        return self._in_mode(preview_of_end(known, _standing(known, namespace, name), seen, actor))

    async def create(self, request: OverrideRequest, requester: RequestOrigin) -> Accepted:
        """Make the object; a repeat of the request finds it."""
        draft = self._draft(request, requester)
        if request.preview is not None:
            made = await self._made_before(draft)
            if made is not None:
                return made
            await self._check_preview(draft, request.preview)
        self._check_confirmed(draft, request.confirm)
        stored, created = await self._store(draft)
        log.info(
            "override", name=draft.name, namespace=draft.namespace, actor=draft.actor, kind=draft.kind, new=created
        )
        return self._accepted(stored, created=created)

    async def delete(self, namespace: str, name: str, actor: str) -> None:
        """Take it back."""
        try:
            await self._on_kubernetes(lambda kube: kube.delete(Ref(OVERRIDES, namespace, name)))
        except Declined as error:
            if error.status != 404:  # noqa: PLR2004  not found
                raise
            raise _no_override(namespace, name) from error
        log.info("override taken back", name=name, namespace=namespace, actor=actor)

    def _draft(self, request: OverrideRequest, requester: RequestOrigin) -> OverrideDraft:
        draft = OverrideDraft(
            name=name_of("http", requester.actor, requester.key),
            namespace=self.namespace_of(request),
            actor=requester.actor,
            kind=request.kind,
            reason=request.reason,
            created_at=self._clock.now(),
            seconds=request.for_seconds or usual_seconds(request.kind, self._policy()),
            model=request.target.model,
            node=request.target.node,
            pool=request.target.pool,
            value=request.value,
            allow_below_floor=request.allow_below_floor,
        )
        try:
            draft.check(self._policy(), self._settings.own_namespace)
        except Misshapen as error:
            raise Declined(422, str(error), error.fix or "change the request", f"body.{error.where}") from error
        return draft

    async def _made_before(self, draft: OverrideDraft) -> Accepted | None:
        """What this key made, None if nothing. Raises Declined 409 when it was something else."""
        try:
            stored = await self._on_kubernetes(lambda kube: kube.get(Ref(OVERRIDES, draft.namespace, draft.name)))
        except Declined as error:
            if error.status == 404:  # noqa: PLR2004  not found
                return None
            raise
        if stored["metadata"].get("annotations", {}).get(ASKED) != draft.digest:
            raise Declined(409, "this Idempotency-Key made another override", "send a new key", "Idempotency-Key")
        return self._accepted(stored, created=False)

    async def _check_preview(self, draft: OverrideDraft, agreed: str) -> None:
        known, seen = await self._look(lambda known: foresee(known, draft.override()))
        preview = self._in_mode(preview_of(known, draft.override(), seen))
        if preview.preview != agreed:
            raise Declined(409, "the plan has changed since the preview", "look at the new one", preview=preview)

    def _check_confirmed(self, draft: OverrideDraft, confirm: str | None) -> None:
        """What is refused anyhow, and what wants a name typed. Without a view of the cluster only the policy speaks."""
        known = self.known() if self.known is not None else None
        if known is None:
            return
        refused = refusal_of(known, draft.override())
        if refused is not None:
            raise Declined(422, refused, "change the request", "body")
        name = name_to_type(known, draft.override())
        if name is not None and confirm != name:
            raise Declined(
                422, f"{draft.kind} on {name} is not done by one key", f"send confirm: {name}", "body.confirm"
            )

    async def _store(self, draft: OverrideDraft) -> tuple[Object, bool]:
        """The stored object, and whether it is new."""
        try:
            return await self._need_kube().create(OVERRIDES, draft.manifest()), True
        except (Conflict, Ambiguous) as error:
            made = await self._made_before(draft)
            if made is None:
                raise declined(error) from error
            stored = await self._on_kubernetes(lambda kube: kube.get(Ref(OVERRIDES, draft.namespace, draft.name)))
            return stored, False
        except KubeError as error:
            raise declined(error) from error

    def _accepted(self, stored: Object, *, created: bool) -> Accepted:
        return Accepted(self._instance, self._leader(), created, _as_override(stored))

    # --- the write stop

    async def writes(self) -> Writes:
        """Every WriteStop there is, read live."""
        listed = await self._on_kubernetes(lambda kube: kube.list(WRITESTOPS, into=WriteStopWire))
        stops = tuple(sorted((write_stop(wire) for wire in listed.items), key=_oldest_first))
        return Writes(self._instance, self._leader(), self._settings.write_mode, bool(stops), stops)

    async def stop(self, request: StopRequest, requester: RequestOrigin) -> Writes:
        """Make the WriteStop. It asks nothing, and tries again: whoever presses it must not have to."""
        body: Object = {
            "apiVersion": WRITESTOPS.api_version,
            "kind": WRITESTOPS.kind,
            "metadata": {"name": STOP},
            "spec": {"reason": request.reason, "actor": requester.actor},
        }
        await self._press(body)
        log.warning("writes stopped", actor=requester.actor, reason=request.reason)
        return await self.writes()

    async def _press(self, body: Object) -> None:
        for attempt in range(1, STOP_ATTEMPTS + 1):
            try:
                await self._need_kube().create(WRITESTOPS, body)
            except Conflict:
                return  # it is pressed already
            except (Temporary, Ambiguous) as error:
                if attempt == STOP_ATTEMPTS:
                    raise declined(error) from error
                await self._clock.sleep(STOP_AGAIN_SECONDS)
            except KubeError as error:
                raise declined(error) from error
            else:
                return

    async def resume(self, request: ResumeRequest, actor: str) -> Writes:
        """Take every WriteStop away."""
        if request.confirm != RESUME:
            raise Declined(422, "resuming writes is not done by one key", f"send confirm: {RESUME}", "body.confirm")
        for one in (await self.writes()).stops:
            ref, uid = Ref(WRITESTOPS, None, one.name), one.uid
            try:
                await self._need_kube().delete(ref, uid=uid)
            except (NotFound, Conflict):
                continue  # somebody was quicker
            except KubeError as error:
                raise declined(error) from error
        log.warning("writes resumed", actor=actor)
        return await self.writes()

    async def resume_preview(self, actor: str) -> Preview:
        """The first plan that would be written."""
        known, seen = await self._look(foresee_resume)
        return self._in_mode(preview_of_resume(known, seen, actor))

    # --- what all of them need

    def _in_mode(self, preview: Preview) -> Preview:
        """The preview, said first that nothing of it is written where that is so."""
        if self._settings.write_mode == "act":
            return preview
        return replace(preview, lines=(IN_SHADOW, *preview.lines))

    async def _look(self, think: Callable[[Known], Foresight]) -> tuple[Known, Foresight]:
        """Think in a thread, one at a time. Raises Declined 503 while nothing can be said."""
        if self.known is None:
            raise Declined(503, "the cluster is not known yet", "/readyz says what is missing", retry_after_seconds=5)
        known = self.known()
        if known.snapshot.sync.missing:
            missing = ", ".join(known.snapshot.sync.missing)
            raise Declined(503, f"not listed yet: {missing}", "try again", retry_after_seconds=5)
        await self._take_turn()
        thinking = asyncio.ensure_future(asyncio.to_thread(think, known))
        thinking.add_done_callback(lambda _: self._looking.release())  # also when nobody waits for it any more
        return known, await asyncio.shield(thinking)

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(PREVIEW_WAIT_SECONDS):
                await self._looking.acquire()
        except TimeoutError as error:
            raise Declined(503, "others are looking at previews", "try again", retry_after_seconds=2) from error

    async def _on_kubernetes(self, call: Callable[[KubeClient], Awaitable[T]]) -> T:
        try:
            return await call(self._need_kube())
        except KubeError as error:
            raise declined(error) from error

    def _need_kube(self) -> KubeClient:
        if self.kube is None:
            raise Declined(503, "the service is coming up", "try again", retry_after_seconds=1)
        return self.kube


def _as_override(stored: Object) -> Override:
    return override(msgspec.convert(stored, OverrideWire))


def _oldest_first(stop: WriteStop) -> tuple[float, str]:
    return stop.created_at, stop.name


def _standing(known: Known, namespace: str, name: str) -> Override:
    """The override of that name. Raises Declined 404."""
    for one in known.snapshot.overrides:
        if (one.namespace, one.name) == (namespace, name):
            return one
    raise _no_override(namespace, name)


def _no_override(namespace: str, name: str) -> Declined:
    return Declined(404, f"no override {name[:64]!r} in namespace {namespace[:64]!r}", "list them")
