"""Who may do what over HTTP, by the real API server's reviews: tokens for our audience, RBAC as the chart writes it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from tests.real.policies import Json, model, policy, pool
from tests.real.service import ACCOUNT, Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

AUDIENCE = "rebalancer"
GROUP = "rebalancer.io"
READ = {"apiGroups": [GROUP], "resources": ["decisions"], "verbs": ["get"]}
OVERRIDE = {"apiGroups": [GROUP], "resources": ["overrides"], "verbs": ["create", "delete"]}
STOP = {"apiGroups": [GROUP], "resources": ["writestops"], "verbs": ["create", "delete"]}
RBAC = "rbac.authorization.k8s.io"
DEEDS = ("read", "override a", "override b", "delete a", "delete b", "stop", "resume")
RIGHT_SECONDS = 10.0  # a right that was taken away may be kept this long


@dataclass(frozen=True)
class Matrix:
    """The service, two namespaces with a model in each, and everybody's tokens by their names."""

    url: str
    a: str
    b: str
    tokens: dict[str, str]

    async def status(self, who: str, deed: str) -> int:
        """The status that answers `who` who tries it; what was made so is taken back as the operator of everything."""
        if deed.startswith("delete"):
            namespace = self._namespace(deed)
            made = await self._override("operator", namespace)
            return (await self.ask(who, "DELETE", f"/v1/overrides/{namespace}/{made['override']['name']}"))[0]
        if deed.startswith("override"):
            return await self._tried_override(who, self._namespace(deed))
        if deed == "read":
            return (await self.ask(who, "GET", "/v1/plan"))[0]
        body = {"reason": "the matrix"} if deed == "stop" else {"confirm": "resume"}
        return (await self.ask(who, "POST", f"/v1/writes/{deed}", body))[0]

    async def ask(self, who: str, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """One request as `who`."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if self.tokens[who] else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path, headers=headers, json=body) as response,
        ):
            return response.status, await response.json() if response.status != 204 else {}

    def ask_for(self, namespace: str) -> Json:
        """An override that changes nothing: a cap at what the model may have anyway."""
        name = "chat" if namespace == self.a else "code"
        return {
            "kind": "cap",
            "target": {"model": name},
            "value": 4,
            "reason": "the matrix",
            "forSeconds": 60,
            "namespace": namespace,
        }

    def _namespace(self, deed: str) -> str:
        return self.a if deed.endswith(" a") else self.b

    async def _override(self, who: str, namespace: str) -> Json:
        status, made = await self.ask(who, "POST", "/v1/overrides", self.ask_for(namespace))
        assert status == 201, made
        return made

    async def _tried_override(self, who: str, namespace: str) -> int:
        status, made = await self.ask(who, "POST", "/v1/overrides", self.ask_for(namespace))
        if status == 201:
            path = f"/v1/overrides/{namespace}/{made['override']['name']}"
            assert (await self.ask("operator", "DELETE", path))[0] == 204
        return status


def _role(kind: str, name: str, rules: list[Json], account: str, home: str, namespace: str | None = None) -> list[Json]:
    """A role and its binding to service account `home/account`."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
        },
    ]


def _people(a: str, b: str) -> list[Json]:
    """Accounts and rights: a viewer, an operator of `a`, one of everything, and one who has none."""
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": a}}
        for name in ("viewer", "operator-a", "operator", "stranger")
    ]
    rules = [
        *_role("ClusterRole", f"{a}.viewer", [READ], "viewer", a),
        *_role("ClusterRole", f"{a}.operator-a", [READ], "operator-a", a),
        *_role("Role", "operator-a", [OVERRIDE], "operator-a", a, a),
        *_role("ClusterRole", f"{a}.operator", [READ, OVERRIDE, STOP], "operator", a),
        # The service itself manages `a`; overrides in `b` it makes and ends by this.
        *_role("Role", "door", [{**OVERRIDE, "verbs": ["create", "delete", "get"]}], ACCOUNT, a, b),
    ]
    return [*accounts, *rules]


async def _token(kube: Kube, namespace: str, name: str, audiences: list[str]) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    spec = {"audiences": audiences, "expirationSeconds": 3600} if audiences else {"expirationSeconds": 3600}
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = (await kube.request("POST", path, wanted))["status"]["token"]
    return token


@pytest.fixture
async def matrix(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> AsyncIterator[Matrix]:
    b = f"{namespace}-b"
    people = _people(namespace, b)
    await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": b}}, *people)
    await kube.create(gpu_node(f"{namespace}-gpus", gpus=4, labels=ours))
    for name, home in (("chat", namespace), ("code", b)):
        await kube.apply(deployment(name, home, 2, node_labels=ours))
    models = [model(name, home, floor=1, entitlement=2, most=4) for name, home in (("chat", namespace), ("code", b))]
    await service.policy(policy([pool("gpus", ours, 4)], models))
    service.settings |= {"API_AUTH": "kubernetes"}
    for name in ("chat", "code"):
        traffic.says(name, running=15)
    await service.start()
    tokens = {
        name: await _token(kube, namespace, name, [AUDIENCE])
        for name in ("viewer", "operator-a", "operator", "stranger")
    }
    tokens |= {
        "nobody": "",
        "a liar": tokens["operator"][:-6] + "AAAAAA",
        "another audience": await _token(kube, namespace, "operator", ["somebody-else"]),
        "the API server's audience": await _token(kube, namespace, "operator", []),
    }
    yield Matrix(f"http://127.0.0.1:{service.settings['API_PORT']}", namespace, b, tokens)
    for obj in people:
        if obj["kind"].startswith("Cluster"):
            await kube.delete(obj["kind"], obj["metadata"]["name"])
    await kube.delete("Namespace", b)


EXPECTED: dict[str, tuple[int, ...]] = {
    "nobody": (401,) * 7,
    "a liar": (401,) * 7,
    "another audience": (401,) * 7,
    "the API server's audience": (401,) * 7,
    "stranger": (403,) * 7,
    "viewer": (200, 403, 403, 403, 403, 403, 403),
    "operator-a": (200, 201, 403, 204, 403, 403, 403),
    "operator": (200, 201, 201, 204, 204, 200, 200),
}


async def test_everybody_does_what_they_may_and_nothing_else(matrix: Matrix, kube: Kube, service: Service) -> None:
    found = {who: tuple([await matrix.status(who, deed) for deed in DEEDS]) for who in EXPECTED}
    width = max(map(len, EXPECTED))
    print("\n".join(f"{who:{width}} {dict(zip(DEEDS, codes, strict=True))}" for who, codes in found.items()))
    assert found == EXPECTED
    left = [*await kube.items("Override", matrix.a), *await kube.items("Override", matrix.b)]
    assert {override["spec"]["actor"] for override in left} == {f"system:serviceaccount:{matrix.a}:operator"}, (
        "what others may not delete is there, and nothing of what they may not make"
    )
    assert await kube.items("WriteStop") == []
    log = await service.log()
    assert all(token not in log for token in matrix.tokens.values() if token), "tokens are in no log"


async def test_the_object_bears_the_name_of_who_asked_and_a_lost_right_is_lost_within_seconds(
    matrix: Matrix, kube: Kube
) -> None:
    status, made = await matrix.ask("operator-a", "POST", "/v1/overrides", matrix.ask_for(matrix.a))
    assert status == 201, made
    stored = await kube.get("Override", made["override"]["name"], matrix.a)
    assert stored["spec"]["actor"] == f"system:serviceaccount:{matrix.a}:operator-a"
    session = (await matrix.ask("operator-a", "GET", "/v1/session"))[1]
    rights = {"read": True, "override": [matrix.a], "end": [matrix.a], "stop": False, "resume": False}
    assert session["may"] == rights | {"asked": [matrix.a, matrix.b]}

    await kube.delete("RoleBinding", "operator-a", matrix.a)
    lost = asyncio.get_running_loop().time()

    async def refused() -> bool:
        path = f"/v1/overrides/{matrix.a}/{made['override']['name']}-not"
        return (await matrix.ask("operator-a", "DELETE", path))[0] == 403

    await kube.wait_for(refused, "the right is gone", RIGHT_SECONDS + 5)
    assert asyncio.get_running_loop().time() - lost < RIGHT_SECONDS + 2
    assert (await matrix.ask("operator-a", "GET", "/v1/plan"))[0] == 200
