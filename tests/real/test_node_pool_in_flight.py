"""A leader dies with its call to a NodePool under way, which arrives when the next one leads."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from tests.real.api_proxy import ApiProxy
from tests.real.policies import model, policy, pool
from tests.real.test_leadership import Pair, _ended, _epoch, pair  # noqa: F401  # a fixture reaches tests by its name
from tests.real.test_node_grant import _gpu_limit, _world
from tests.real.traffic import Traffic
from tests.testbed.karpenter import Karpenter
from tests.testbed.objects import GPU


@dataclass
class Door(ApiProxy):
    """The first patch of a NodePool is kept and nothing passes from then on; `late()` sends it to the API server."""

    kept_back: asyncio.Event = field(default_factory=asyncio.Event)
    _url: str = ""
    _headers: dict[str, str] = field(default_factory=dict)
    _body: bytes = b""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH" and "/nodepools/" in request.path and not self.kept_back.is_set():
            self._url = f"{self.access.server}{request.raw_path}"
            wanted = ("Authorization", "Content-Type", "User-Agent")
            self._headers = {name: request.headers[name] for name in wanted}
            self._body = await request.read()
            self.swallow()
            self.kept_back.set()
        return await super().handle(request)

    async def late(self) -> int:
        """The status that the API server answers."""
        async with self.session.patch(self._url, headers=self._headers, data=self._body) as answer:
            return answer.status


@pytest.mark.timeout(240, func_only=True)
async def test_what_a_dead_leader_asked_of_a_node_pool_is_settled_before_the_next_one_asks_and_refused_after(
    karpenter: Karpenter,
    pair: Pair,  # noqa: F811  # the fixture
    account: str,
    traffic: Traffic,
    ours: dict[str, str],
) -> None:
    namespace, kube = pair.namespace, pair.kube
    async with Door.before(pair.cluster.access) as door:
        kubeconfig = pair.first.folder / "through-the-door"
        access = replace(pair.cluster.access, server=door.url)
        await asyncio.to_thread(kubeconfig.write_text, access.kubeconfig(account))
        pair.first.settings["KUBECONFIG"] = str(kubeconfig)
        await _world(kube, namespace, ours, instance_type="gpu-1", gpus=1)
        growing = pool("gpus", ours, 3, nodePools=[namespace], gpusPerNode=1)
        for each in (pair.first, pair.second):
            await each.policy(policy([growing], [model("chat", namespace, 1, 1, 9)]))
        await traffic.past("chat", running=8)
        await pair.first.start()
        await pair.leads("rb-0")
        await pair.second.start()
        one = await pair.epoch()

        traffic.says("chat", running=28)
        async with asyncio.timeout(60.0):
            await door.kept_back.wait()
        await pair.leads("rb-1")
        await kube.wait_for(lambda: _ended(pair.first), "the first one has ended itself", 20.0)

        async def asked() -> bool:
            return bool(await _gpu_limit(kube, namespace) == {GPU: "2"})

        await kube.wait_for(asked, "the next one asks for the nodes itself", 30.0)
        assert await door.late() == 409, "the NodePool is no more as the dead leader had read it"
    await kube.wait_ready(3, namespace, "app=chat", 90)
    written = [write for write in await pair.first.writes(kube) if write.resource == "nodepools" and write.succeeded]
    assert [(_epoch(write), write.request["spec"]["limits"][GPU]) for write in written] == [(await pair.epoch(), "2")]
    assert await pair.epoch() > one
    lines = [line for line in await pair.second.journal() if line["line"] in {"intent", "outcome"}]
    of_pool = [
        line
        for line in lines
        if line[line["line"]].get("intent", line[line["line"]])["object"] == f"nodepool/{namespace}"
    ]
    assert [line["line"] for line in of_pool[:2]] == ["outcome", "intent"], "what was left is settled before it acts"
    assert of_pool[0]["outcome"]["status"] == "unknown"
