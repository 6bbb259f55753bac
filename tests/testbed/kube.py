"""A small client of the Kubernetes API for tests: raw JSON objects in and out."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import aiohttp
import yaml

from tests.testbed.place import Access

Json = dict[str, Any]
T = TypeVar("T")

_POLL_SECONDS = 0.1
# A server that just started tells clients to come again in a second (an eviction's 429 means: no).
_PATIENCE = 20
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class ApiError(Exception):
    """The API server refused: HTTP `status` (404 not found, 409 conflict, 403 forbidden, 422 invalid...)."""

    def __init__(self, method: str, path: str, status: int, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class NotYet(Exception):
    """A condition that was waited for did not come true in time."""


@dataclass(frozen=True)
class _Resource:
    """Where objects of a kind are served."""

    prefix: str  # api/v1, apis/apps/v1
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"/{self.prefix}{scope}/{self.plural}", name, subresource) if part)


class Kube:
    """Kinds are named as in YAML (`Deployment`); where two groups share one, by `group/version/Kind`.

    Every failure is an `ApiError`. Objects are plain dicts. Cluster-scoped kinds take no namespace.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._resources: dict[str, _Resource] = {}
        # The API server's id of our last request, as its audit log names it.
        self.last_audit_id = ""

    @classmethod
    @asynccontextmanager
    async def connect(cls, access: Access, token: str | None = None) -> AsyncIterator["Kube"]:
        """A client for the holder of `token`, else for the admin."""
        context = ssl.create_default_context(cadata=access.ca)
        headers = {"Authorization": f"Bearer {token or access.token}"}
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(
            access.server, headers=headers, timeout=timeout, connector=aiohttp.TCPConnector(ssl=context)
        ) as session:
            yield cls(session)

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        speak_as: str = "",
        **query: str,
    ) -> Json:
        """One request; its JSON answer. The door for what the methods below do not do. `speak_as`: impersonate."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if speak_as:
            headers["Impersonate-User"] = speak_as
        status, text = await self._exchange(method, path, data, headers, query)
        for _ in range(_PATIENCE):
            if status != 429 or path.endswith("/eviction"):
                break
            await asyncio.sleep(1)
            status, text = await self._exchange(method, path, data, headers, query)
        if status >= 400:
            raise ApiError(method, path, status, text[:2000])
        answer: Json = json.loads(text)
        return answer

    async def apply(self, *objects: Json | str) -> list[Json]:
        """Server-side apply of dicts or YAML texts; the objects as stored."""
        return [await self._apply(obj) for obj in _flatten(objects)]

    async def create(self, obj: Json, **query: str) -> Json:
        resource = await self._resource(_kind(obj))
        return await self.request("POST", resource.path(obj["metadata"].get("namespace")), obj, **query)

    async def get(self, kind: str, name: str, namespace: str | None = None, subresource: str = "") -> Json:
        return await self.request("GET", (await self._resource(kind)).path(namespace, name, subresource))

    async def find(self, kind: str, name: str, namespace: str | None = None) -> Json | None:
        """The object, or None when there is none."""
        try:
            return await self.get(kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def items(self, kind: str, namespace: str | None = None, labels: str = "") -> list[Json]:
        """Objects of a kind in a namespace (None: everywhere), filtered by a label selector."""
        query = {"labelSelector": labels} if labels else {}
        answer = await self.request("GET", (await self._resource(kind)).path(namespace), **query)
        items: list[Json] = answer["items"]
        return items

    async def patch(
        self, kind: str, name: str, body: Json, namespace: str | None = None, subresource: str = ""
    ) -> Json:
        """JSON merge patch; `null` deletes a field."""
        path = (await self._resource(kind)).path(namespace, name, subresource)
        return await self.request("PATCH", path, body, content_type="application/merge-patch+json")

    async def delete(self, kind: str, name: str, namespace: str | None = None, **options: int) -> None:
        """Ask for deletion (`gracePeriodSeconds=0`, ...); an object that is not there is no error."""
        try:
            await self.request("DELETE", (await self._resource(kind)).path(namespace, name), options or None)
        except ApiError as error:
            if error.status != 404:
                raise

    async def delete_all(self, kind: str, labels: str) -> None:
        """Ask for deletion of all cluster-scoped objects of a kind that carry the labels."""
        await self.request("DELETE", (await self._resource(kind)).path(None), labelSelector=labels)

    async def serves(self, kind: str) -> bool:
        """Whether the API server knows the kind (a CRD may not be installed)."""
        try:
            await self._resource(kind)
        except ApiError:
            return False
        return True

    async def account(self, namespace: str, name: str, rules: Sequence[Json] = ()) -> str:
        """Make a service account with these RBAC rules in all namespaces; a token of it (1 h), with which it may.

        Its user name, also in the audit log, is `system:serviceaccount:<namespace>:<name>`.
        """
        role = f"{namespace}:{name}"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        rbac = "rbac.authorization.k8s.io/v1"
        await self.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
            {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": role}, "rules": list(rules)},
            {
                "apiVersion": rbac,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": role},
                "subjects": [subject],
                "roleRef": ref,
            },
        )
        for rule in rules:
            await self.wait_for(partial(self._may, namespace, name, rule), f"{name} may {rule}")
        return await self.token(namespace, name)

    async def _may(self, namespace: str, name: str, rule: Json) -> bool:
        """Whether the API server knows it of this account: it reads its own roles through a watch, and lags."""
        resource, _, subresource = rule["resources"][-1].partition("/")
        attributes = {
            "group": rule["apiGroups"][-1],
            "resource": resource,
            "subresource": subresource,
            "name": rule.get("resourceNames", [""])[-1],
            "verb": rule["verbs"][-1],
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": f"system:serviceaccount:{namespace}:{name}", "resourceAttributes": attributes},
        }
        return bool((await self.create(review))["status"]["allowed"])

    async def token(self, namespace: str, name: str, seconds: int = 6 * 3600, audience: str = "") -> str:
        """A token of a service account, from the TokenRequest API; for the API server unless `audience` is another.

        It outlives each proof, of which some take more than an hour.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds} | ({"audiences": [audience]} if audience else {}),
        }
        answer = await self.request("POST", path, request)
        token: str = answer["status"]["token"]
        return token

    async def wait_for(self, condition: Callable[[], Awaitable[T | None]], what: str, seconds: float = 30.0) -> T:
        """Ask until the answer is truthy, and hand it over; raises `NotYet` with the last answer."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            answer = await condition()
            if answer:
                return answer
            if asyncio.get_running_loop().time() > deadline:
                raise NotYet(f"not within {seconds:g} s: {what} (last answer: {answer!r})")
            await asyncio.sleep(_POLL_SECONDS)

    async def install_crds(self, crds: Iterable[Json]) -> None:
        """Apply CRDs and wait until the API server serves them, and says so: discovery follows seconds later."""
        crds = await self.apply(*crds)

        async def served() -> bool:
            found = [await self.get("CustomResourceDefinition", crd["metadata"]["name"]) for crd in crds]
            established = all(is_ready(crd, "Established") for crd in found)
            return established and all([await self.serves(kind) for crd in found for kind in _kinds_of(crd)])

        await self.wait_for(served, "CRDs established and discovered")

    async def silence_node(self, name: str) -> None:
        """Let a fake node fall silent, as if its machine were lost: NotReady after the grace time, pods stuck.

        Its lease gets a holder that never renews it, and whose word lasts too long for kwok to step in.
        """
        lease = {"holderIdentity": "nobody", "renewTime": "2100-01-01T00:00:00.000000Z"}
        await self.patch("Lease", name, {"spec": lease}, "kube-node-lease")

    async def ready_pods(self, namespace: str, labels: str = "") -> list[Json]:
        """Pods that are Ready and not being deleted."""
        return [pod for pod in await self.items("Pod", namespace, labels) if is_ready(pod)]

    async def wait_ready(self, count: int, namespace: str, labels: str = "", seconds: float = 60.0) -> list[Json]:
        """Wait until exactly `count` pods are Ready; those pods."""

        async def as_many() -> list[Json] | None:
            pods = await self.ready_pods(namespace, labels)
            return pods if len(pods) == count else None

        return await self.wait_for(as_many, f"{count} pods ready in {namespace} {labels}", seconds)

    async def _exchange(
        self, method: str, path: str, data: str | None, headers: dict[str, str], query: dict[str, str]
    ) -> tuple[int, str]:
        """Once more on a new connection when the kept one is of an API server that has been restarted since.

        (No connection would be kept with `force_close`, but aiohttp does not wait for the end of those.)
        """
        try:
            return await self._exchange_once(method, path, data, headers, query)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._exchange_once(method, path, data, headers, query)

    async def _exchange_once(
        self, method: str, path: str, data: str | None, headers: dict[str, str], query: dict[str, str]
    ) -> tuple[int, str]:
        async with self._session.request(method, path, data=data, headers=headers, params=query) as response:
            self.last_audit_id = response.headers.get("Audit-Id", "")
            return response.status, await response.text()

    async def _apply(self, obj: Json) -> Json:
        metadata = obj["metadata"]
        path = (await self._resource(_kind(obj))).path(metadata.get("namespace"), metadata["name"])
        query = {"fieldManager": "testbed", "force": "true"}
        return await self.request("PATCH", path, obj, content_type="application/apply-patch+yaml", **query)

    async def _resource(self, kind: str) -> _Resource:
        if kind not in self._resources:
            await self._discover()
        if kind not in self._resources:
            raise ApiError("GET", "/apis", 404, f"no such kind: {kind}")
        return self._resources[kind]

    async def _discover(self) -> None:
        for root in ("api", "apis"):
            async with self._session.get(f"/{root}", headers={"Accept": _DISCOVERY}) as response:
                for group in (await response.json())["items"]:
                    self._learn(root, group)

    def _learn(self, root: str, group: Json) -> None:
        group_name = group["metadata"].get("name", "")
        for version in group["versions"]:  # the preferred version comes first
            api_version = "/".join(part for part in (group_name, version["version"]) if part)
            for resource in version.get("resources", []):
                kind = resource["responseKind"]["kind"]
                found = _Resource(f"{root}/{api_version}", resource["resource"], resource["scope"] == "Namespaced")
                self._resources.setdefault(kind, found)
                self._resources[f"{api_version}/{kind}"] = found


def is_ready(obj: Json, condition: str = "Ready") -> bool:
    """Whether an object has the condition with status True and is not being deleted."""
    conditions = obj.get("status", {}).get("conditions") or []
    met = any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)
    return met and "deletionTimestamp" not in obj["metadata"]


def _kinds_of(crd: Json) -> list[str]:
    """`group/version/Kind` of each version that a CRD serves."""
    spec = crd["spec"]
    return [f"{spec['group']}/{each['name']}/{spec['names']['kind']}" for each in spec["versions"] if each["served"]]


def _kind(obj: Json) -> str:
    return f"{obj['apiVersion']}/{obj['kind']}"


def _flatten(objects: Iterable[Json | str]) -> list[Json]:
    flat: list[Json] = []
    for obj in objects:
        if isinstance(obj, dict):
            flat.append(obj)
        else:
            flat += [document for document in yaml.safe_load_all(obj) if document]
    return flat
