"""An HTTP server that KEDA's metrics-api triggers ask: a test says what each ScaledObject is told."""

from collections import Counter

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.testbed.kube import Json
from tests.testbed.objects import metrics_api_trigger


class Triggers:
    """What KEDA is told about each model: the number of replicas that its trigger asks for; how often it was told."""

    def __init__(self) -> None:
        self.wants: dict[str, int] = {}
        self.answered: Counter[tuple[str, int]] = Counter()
        app = web.Application()
        app.router.add_get("/{model}", self._answer)
        self.server = TestServer(app)

    def of(self, name: str) -> Json:
        return metrics_api_trigger(str(self.server.make_url(f"/{name}")), "replicas", "1")

    async def _answer(self, request: web.Request) -> web.Response:
        model = request.match_info["model"]
        self.answered[model, self.wants[model]] += 1
        return web.json_response({"replicas": self.wants[model]})
