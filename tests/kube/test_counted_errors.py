"""Every call that fails is counted by what its failure means, the tries that were mended included."""

import pytest

from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Forbidden, Temporary
from rebalancer.kube.resources import PODS, Ref
from tests.kube.server import ApiServer, answers, hangs, html_502

pytestmark = pytest.mark.looptime

POD = Ref(PODS, "serving", "llama-0")


async def test_failures_are_counted_by_their_meaning(server: ApiServer, client: KubeClient) -> None:
    assert dict(client.errors) == {}
    await client.get(POD)
    server.on_call.append(html_502)
    await client.get(POD)
    assert dict(client.errors) == {"temporary": 1}
    server.on_call.append(answers(403))
    with pytest.raises(Forbidden):
        await client.get(POD)
    assert dict(client.errors) == {"temporary": 1, "forbidden": 1}


async def test_no_answer_in_time_is_counted(server: ApiServer, client: KubeClient) -> None:
    server.on_call.append(hangs)
    with pytest.raises(Temporary):
        await client.get(POD)
    assert dict(client.errors) == {"timeout": 1}
