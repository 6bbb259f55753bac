"""One queue of SQS by its JSON protocol: take messages, delete them, read the queue's tags."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import aiohttp
import msgspec
from msgspec import Struct

from rebalancer.aws.address import QueueAddress
from rebalancer.aws.identity import Signer
from rebalancer.domain import codec
from rebalancer.obs.effects import effect

AT_ONCE = 10  # the most that SQS gives
POLL_SECONDS = 20  # the longest that SQS waits for a message; shorter ones cost more requests
VISIBILITY_SECONDS = 30  # six times what a send to Kafka may take; then another replica is given it
MARGIN_SECONDS = 10.0
SESSION_HEADER = "X-Amz-Security-Token"  # AWS repeats it, with all that was signed, where a signature does not match
MAX_ANSWER_BYTES = 12 * 1024 * 1024  # ten messages of 1 MiB, the most that SQS takes, and what is around them

T = TypeVar("T")


class NoQueue(OSError):
    """The queue gave no answer, or a refusal; the text says which, for people."""


class QueueRefusal(NoQueue):
    """SQS answered, and would not: there is no such queue, or we may not."""


class QueueMessage(Struct, frozen=True, rename="pascal"):
    """One message as `ReceiveMessage` gives it.

    message_id: SQS's name of it, the same at each delivery.
    receipt_handle: what this delivery is deleted by.
    body: what was sent.
    attributes: what SQS knows of it: SentTimestamp in milliseconds, ApproximateReceiveCount.
    """

    message_id: str
    receipt_handle: str
    body: str
    attributes: dict[str, str] = {}


class Received(Struct, frozen=True, rename="pascal"):
    """What `ReceiveMessage` answers: no messages where none came in time."""

    messages: tuple[QueueMessage, ...] = ()


class _Deleted(Struct, frozen=True, rename="pascal"):
    failed: tuple[dict[str, object], ...] = ()


class _Tags(Struct, frozen=True, rename="pascal"):
    tags: dict[str, str] = {}


class _Refusal(Struct, frozen=True):
    type: str = msgspec.field(default="", name="__type")
    message: str = ""
    upper_message: str = msgspec.field(default="", name="Message")


class SqsQueue:
    """Call it inside of a running event loop, and close it. Every call ends within its deadline."""

    def __init__(self, address: QueueAddress, signer: Signer) -> None:
        self.address = address
        self._signer = signer
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections; a later call opens others."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def take(self) -> tuple[QueueMessage, ...]:
        """Up to ten messages, hidden from others for `VISIBILITY_SECONDS`; waits for the first of them.

        Who ends before they are deleted delays what they say by that, and loses nothing. Raises NoQueue and NoIdentity.
        """
        request = {
            "MaxNumberOfMessages": AT_ONCE,
            "WaitTimeSeconds": POLL_SECONDS,
            "VisibilityTimeout": VISIBILITY_SECONDS,
            "MessageSystemAttributeNames": ["SentTimestamp", "ApproximateReceiveCount"],
        }
        with effect("sqs/receive", self.address.name):
            return (await self._call("ReceiveMessage", request, Received, POLL_SECONDS)).messages

    async def delete(self, messages: Sequence[QueueMessage]) -> int:
        """Delete up to ten; how many SQS would not, which it delivers again. Raises NoQueue and NoIdentity."""
        entries = [{"Id": str(number), "ReceiptHandle": one.receipt_handle} for number, one in enumerate(messages)]
        with effect("sqs/delete", self.address.name):
            return len((await self._call("DeleteMessageBatch", {"Entries": entries}, _Deleted)).failed)

    async def tags(self) -> Mapping[str, str]:
        """The queue's tags. Raises NoQueue (QueueRefusal where we may not) and NoIdentity."""
        return (await self._call("ListQueueTags", {}, _Tags)).tags

    async def _call(self, action: str, request: Mapping[str, object], into: type[T], seconds: float = 0.0) -> T:
        body = msgspec.json.encode({"QueueUrl": self.address.url, **request})
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
        signed = await self._signer.signed(self.address.endpoint, headers, body)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        timeout = aiohttp.ClientTimeout(seconds + MARGIN_SECONDS)
        try:
            async with self._session.post(
                self.address.endpoint, data=body, headers=signed, timeout=timeout, allow_redirects=False
            ) as answer:
                text = await _read(answer)
                if token := signed.get(SESSION_HEADER):
                    text = text.replace(token.encode(), b"(our login)")  # people are shown what a refusal says
                return answered(f"{action} of queue {self.address.name}", answer.status, text, into)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoQueue(f"{action} of queue {self.address.name}: no answer ({type(error).__name__})") from error


def answered(call: str, status: int, text: bytes, into: type[T]) -> T:
    """What SQS answered to `call`. Raises QueueRefusal where it would not, NoQueue where that is no answer of SQS."""
    if status != 200:  # noqa: PLR2004  the one status that is an answer
        raise QueueRefusal(f"{call}: {_why(status, text)}")
    try:
        return codec.from_bytes(text, into)
    except msgspec.DecodeError as error:
        raise NoQueue(f"{call}: no answer of SQS ({error})") from error


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises NoQueue where it is longer than any answer of SQS."""
    body = bytearray()
    async for chunk in answer.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise NoQueue(f"an answer of more than {MAX_ANSWER_BYTES} bytes: that is no SQS")
    return bytes(body)


def _why(status: int, text: bytes) -> str:
    """SQS's word for a refusal, `QueueDoesNotExist` say, and its sentence."""
    try:
        refusal = codec.from_bytes(text, _Refusal)
    except msgspec.DecodeError:
        return f"status {status}"
    sentence = refusal.message or refusal.upper_message
    return f"{refusal.type.rpartition('#')[2] or status}{f': {sentence[:300]}' if sentence else ''}"
