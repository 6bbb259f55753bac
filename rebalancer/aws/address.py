"""Where a queue is: its URL, taken apart."""

from typing import NamedTuple
from urllib.parse import urlsplit


class QueueAddress(NamedTuple):
    """A queue's URL, as AWS gives it, and the region whose keys are good for it."""

    url: str
    region: str

    @property
    def endpoint(self) -> str:
        """Where its requests go: the URL without account and name."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/"

    @property
    def name(self) -> str:
        """The queue's name, the last part of its URL."""
        return self.url.rpartition("/")[2]
