"""Admission webhooks as a cluster's owners have them, on loopback: one denies, one stores another number.

Both look at `/scale` of Deployments in one namespace, and only at what one user writes.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.testbed.kube import Json, Kube
from tests.testbed.place import Certificates

MOST = 3  # replicas that the mutating one stores


class Webhooks:
    """Denies writes to the Deployment `denied`, and lowers those to `changed`, for the user `of`."""

    def __init__(self, of: str, denied: str, changed: str) -> None:
        self._of, self._denied, self._changed = of, denied, changed
        self.denials = 0

    @asynccontextmanager
    async def served(self, kube: Kube, certificates: Certificates, namespace: str) -> AsyncIterator[None]:
        """In force until the block ends."""
        app = web.Application()
        app.router.add_post("/deny", self._deny)
        app.router.add_post("/lower", self._lower)
        context, bundle = await asyncio.to_thread(_tls, certificates)
        server = TestServer(app, scheme="https")
        await server.start_server(ssl=context)
        made = [
            _configuration(kind, f"{namespace}-{path}", f"https://localhost:{server.port}/{path}", bundle, namespace)
            for kind, path in (("Validating", "deny"), ("Mutating", "lower"))
        ]
        try:
            await kube.apply(*made)
            yield
        finally:
            for each in made:
                await kube.delete(each["kind"], each["metadata"]["name"])
            await server.close()

    async def _deny(self, request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        denies = self._is(asked, self._denied)
        self.denials += denies
        return _verdict(asked, allowed=not denies, status={"message": "nobody scales on Fridays", "code": 403})

    async def _lower(self, request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        more = self._is(asked, self._changed) and asked["object"]["spec"].get("replicas", 0) > MOST
        if not more:
            return _verdict(asked)
        patch = msgspec.json.encode([{"op": "replace", "path": "/spec/replicas", "value": MOST}])
        return _verdict(asked, patchType="JSONPatch", patch=base64.b64encode(patch).decode())

    def _is(self, asked: Json, name: str) -> bool:
        return bool(asked["name"] == name and asked["userInfo"]["username"] == self._of)


def _verdict(asked: Json, *, allowed: bool = True, **more: object) -> web.Response:
    response = {"uid": asked["uid"], "allowed": allowed, **(more if more.get("patch") or not allowed else {})}
    return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def _tls(certificates: Certificates) -> tuple[ssl.SSLContext, str]:
    """The server's end, and the CA by which the API server knows it."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context, base64.b64encode(certificates.ca.read_bytes()).decode()


def _configuration(kind: str, name: str, url: str, bundle: str, namespace: str) -> Json:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/scale"]}
    webhook = {
        "name": f"{name}.rebalancer.test",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
