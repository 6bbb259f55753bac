"""`override add` step by step: what it would do, who asks, the object, what became of it."""

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from rebalancer.api.http.json_codec import to_wire
from rebalancer.api.ports.operator import Overrides
from rebalancer.api.ports.requests import OverrideRequest, Preview
from rebalancer.api.text.words import some
from rebalancer.cli.commands.override.arguments import DEFAULT_SECONDS, OverrideArguments
from rebalancer.cli.failure import USAGE, Failed, NoAnswer
from rebalancer.cli.remote.answers import decoded
from rebalancer.cli.remote.client import open_api
from rebalancer.cli.remote.cluster import open_cluster
from rebalancer.cli.remote.objects import create_once, override_name, override_object, with_status
from rebalancer.cli.remote.where import Where
from rebalancer.domain.people import Override
from rebalancer.ingest.objects.people import OverrideWire, override
from rebalancer.kube.access import Access
from rebalancer.kube.errors import KubeError
from rebalancer.kube.resources import OVERRIDES, Object, Ref

PREVIEW_PATH = "/v1/overrides/preview"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An override that can be made.

    obj: the Override object to create.
    access: credentials for the cluster, used again when the object is created.
    expires_at: UTC epoch seconds at which the override ends.
    preview: what the service says it would do, None where the service could not say.
    preview_body: the same as the service sent it, in JSON; empty where there is no preview.
    away: why there is no preview, "" where there is one.
    """

    obj: Object
    access: Access
    expires_at: float
    preview: Preview | None
    preview_body: bytes
    away: str

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.obj["metadata"]["name"])

    @property
    def actor(self) -> str:
        """Name of the person who asks."""
        return str(self.obj["spec"]["actor"])

    def lines(self) -> list[str]:
        """What people should know before they agree."""
        if self.preview is None:
            return [f"no preview: {self.away}"]
        return list(self.preview.lines)


async def prepare(where: Where, arguments: OverrideArguments, key: str) -> Prepared:
    """Ask the service what it would do and the API server who asks; nothing is written. Raises Failed."""
    request = arguments.request()
    preview, body, away = None, b"", ""
    try:
        body = await _preview(where, request, key)
        preview = decoded(body, Preview)
    except NoAnswer as failed:
        away = str(failed)
    async with open_cluster(where) as cluster:
        actor = await cluster.actor()
        expires_at = preview.expires_at if preview else cluster.now() + (request.for_seconds or DEFAULT_SECONDS)
        namespace = request.namespace or (preview.namespace if preview else _namespace(arguments, where, away))
        obj = override_object(request, override_name(actor, key), namespace, actor, expires_at)
        return Prepared(obj, cluster.access, expires_at, preview, body, away)


async def what_comes_without(where: Where, ref: Ref) -> tuple[str, ...]:
    """What would come if that override were taken back now, in lines for people; why nobody can say, else."""
    try:
        async with open_api(where) as api:
            path = f"/v1/overrides/{quote(ref.namespace or '', safe='')}/{quote(ref.name, safe='')}/preview"
            return decoded(await api.get(path), Preview).lines
    except Failed as failed:  # it is taken back all the same
        return (f"no preview: {failed}",)


async def _preview(where: Where, request: OverrideRequest, key: str) -> bytes:
    async with open_api(where) as api:
        return await api.post(PREVIEW_PATH, to_wire(request), {"Idempotency-Key": key})


def _namespace(arguments: OverrideArguments, where: Where, away: str) -> str:
    """Where an override about capacity stands; a model's own namespace is the service's to say. Raises Failed."""
    if arguments.kind in {"drain", "exclude"}:
        return where.namespace
    raise Failed(f"{away}\nthe service cannot say the namespace of {arguments.subject}: add -n NAMESPACE", USAGE)


async def store(where: Where, prepared: Prepared) -> tuple[Object, str]:
    """Make the object and wait for the service's word on it; the object with its status, or without any and why.

    Once it is made no failure to read it is one to make it: whoever may create overrides need not be let read them.
    """
    async with open_cluster(where, prepared.access) as cluster:
        made = await create_once(cluster, OVERRIDES, prepared.obj)
        ref = Ref(OVERRIDES, made["metadata"]["namespace"], made["metadata"]["name"])
        try:
            return await with_status(cluster, ref) or made, ""
        except KubeError as error:
            return made, f"what became of it cannot be read: {error}"


async def stored(where: Where) -> Overrides:
    """All overrides as Kubernetes has them. Raises Failed."""
    async with open_cluster(where) as cluster:
        items = (await cluster.kube.list(OVERRIDES)).items
    return Overrides("", "", tuple(value_of(each) for each in items))


def value_of(obj: Object) -> Override:
    """The object as the API tells it."""
    return override(msgspec.convert(obj, OverrideWire))


def outcome(made: Override) -> str:
    """One line for people: what became of it, and how to take it back. Raises Failed when it was refused."""
    undo = f"rebalancer override delete {made.name}"
    if made.phase == "Refused":
        raise Failed(f"{made.name} is refused: {made.message or 'no reason given'}; take it back: {undo}")
    if made.phase == "InForce":
        return f"{made.name} in force. Undo: {undo}"
    if made.phase:
        state = some([made.phase.lower(), *filter(None, [made.message])])
        return f"{made.name} accepted; {state}. Undo: {undo}"
    return f"{made.name} accepted; not seen in force. Undo: {undo}"
