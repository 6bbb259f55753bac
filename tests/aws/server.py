"""A queue that answers as SQS's JSON protocol does: long polls, visibility, receipt handles, signatures (SigV4)."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

KEY_ID, SECRET, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-1"
SENT_MILLISECONDS = "1799999980000"
MOST_POLL_SECONDS = 0.5  # the server ends a poll earlier than asked, as it may
DATE = "20270115T080000Z"


class KeySigner:
    """Signs with the key that the server knows, at a fixed instant: Signature Version 4 by its own description."""

    async def signed(self, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """The headers with date and signature."""
        all_headers = {**headers, "Host": url.split("/")[2], "X-Amz-Date": DATE}
        names = sorted(name.lower() for name in all_headers)
        scope = f"{DATE[:8]}/{REGION}/sqs/aws4_request"
        given = signature({name.lower(): value for name, value in all_headers.items()}, names, body)
        said = f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{scope}, SignedHeaders={';'.join(names)}, Signature={given}"
        return {**all_headers, "Authorization": said}


def signature(headers: Mapping[str, str], names: list[str], body: bytes) -> str:
    """The signature of a POST to `/`."""
    date = headers["x-amz-date"]
    scope = f"{date[:8]}/{REGION}/sqs/aws4_request"
    canonical = "".join(f"{name}:{headers[name].strip()}\n" for name in names)
    request = f"POST\n/\n\n{canonical}\n{';'.join(names)}\n{hashlib.sha256(body).hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in (date[:8], REGION, "sqs", "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


@dataclass
class _Message:
    id: str
    body: str
    hidden_seconds: float = 0.0
    receives: int = 0


@dataclass
class SqsServer:
    """One queue. `asked`: the actions that were called; `refuses`: actions that are answered with AccessDenied."""

    name: str = "capacity-notices"
    tags: dict[str, str] = field(default_factory=dict)
    refuses: set[str] = field(default_factory=set)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""
    _messages: dict[str, _Message] = field(default_factory=dict)
    _sent: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, body: str) -> str:
        """Put a message into the queue; its id."""
        name = f"00000000-0000-4000-8000-{len(self.asked):06d}{len(self._messages):06d}"
        self._messages[name] = _Message(name, body)
        self._sent.set()
        return name

    def lapse(self, seconds: float = inf) -> None:
        """So much time passes for what was received: it is delivered again once its visibility timeout is over."""
        for message in self._messages.values():
            message.hidden_seconds = max(0.0, message.hidden_seconds - seconds)
        self._sent.set()

    @property
    def there(self) -> list[str]:
        """Ids of messages that nobody has deleted."""
        return list(self._messages)

    def receives(self, name: str) -> int:
        """How often a message was delivered."""
        return self._messages[name].receives

    async def answer(self, request: web.Request) -> web.Response:
        """One call."""
        body = await request.read()
        action = request.headers["X-Amz-Target"].removeprefix("AmazonSQS.")
        said = dict(
            part.split("=", 1) for part in request.headers.get("Authorization", "").split(" ", 1)[-1].split(", ")
        )
        names = said.get("SignedHeaders", "").split(";")
        headers = {name.lower(): value for name, value in request.headers.items()}
        if said.get("Signature") != signature(headers, names, body):
            return _refusal(
                "com.amazon.coral.service#InvalidSignatureException", "The request signature does not match"
            )
        asked = json.loads(body)
        self.asked.append((action, asked))
        if asked.pop("QueueUrl") != self.url:
            return _refusal("com.amazonaws.sqs#QueueDoesNotExist", "The specified queue does not exist.")
        if action in self.refuses:
            return _refusal("com.amazon.coral.service#AccessDeniedException", f"no right to sqs:{action}")
        return web.json_response(await getattr(self, f"_{action}")(asked), content_type="application/x-amz-json-1.0")

    async def _ReceiveMessage(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802  SQS's word
        if all(one.hidden_seconds > 0.0 for one in self._messages.values()):
            self._sent.clear()
            try:
                await asyncio.wait_for(self._sent.wait(), min(asked["WaitTimeSeconds"], MOST_POLL_SECONDS))
            except TimeoutError:
                return {}
        taken = [one for one in self._messages.values() if one.hidden_seconds == 0.0][: asked["MaxNumberOfMessages"]]
        for one in taken:
            one.hidden_seconds, one.receives = asked["VisibilityTimeout"], one.receives + 1
        return {"Messages": [_as_sent(one) for one in taken]} if taken else {}

    async def _DeleteMessageBatch(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802  SQS's word
        done, failed = [], []
        for entry in asked["Entries"]:
            name, _, receives = entry["ReceiptHandle"].rpartition("#")
            message = self._messages.get(name)
            if message is not None and str(message.receives) == receives:
                del self._messages[name]
                done.append({"Id": entry["Id"]})
            else:
                failed.append({"Id": entry["Id"], "Code": "ReceiptHandleIsInvalid", "SenderFault": True})
        return {"Successful": done, "Failed": failed}

    async def _ListQueueTags(self, _asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802  SQS's word
        return {"Tags": self.tags} if self.tags else {}


def _as_sent(message: _Message) -> dict[str, Any]:
    return {
        "MessageId": message.id,
        "ReceiptHandle": f"{message.id}#{message.receives}",
        "MD5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "Body": message.body,
        "Attributes": {"SentTimestamp": SENT_MILLISECONDS, "ApproximateReceiveCount": str(message.receives)},
    }


def _refusal(kind: str, message: str) -> web.Response:
    return web.json_response(
        {"__type": kind, "message": message}, status=400, content_type="application/x-amz-json-1.0"
    )


@asynccontextmanager
async def sqs_server(name: str = "capacity-notices") -> AsyncIterator[SqsServer]:
    """A queue of that name, on loopback."""
    queue = SqsServer(name)
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/", queue.answer)
    async with TestServer(app) as running:
        queue.url = str(running.make_url(f"/123456789012/{name}"))
        yield queue
