"""Switches that make the embedded API misbehave, for tests. Each matches by method and by a part of the path."""

import asyncio
from dataclasses import dataclass
from typing import Literal

Deed = Literal["fail", "hang", "lose reply"]


@dataclass
class Fault:
    """What happens to the next requests that match.

    deed: `fail`: nothing is done, and the answer is an error; `hang`: the request waits for `ApiFaults.release`, and is
        served then; `lose reply`: what it asks is done, and the connection is cut instead of an answer.
    left: requests that it is still to happen to.
    method: HTTP method of the requests, "" for any.
    path_part: text that their path and query contain, "" for any.
    code: HTTP status of the answer where the deed is `fail`.
    retry_after_seconds: seconds after which such an answer asks its client to try again, None where it does not.
    """

    deed: Deed
    left: int
    method: str = ""
    path_part: str = ""
    code: int = 500
    retry_after_seconds: int | None = None

    def matches(self, method: str, path: str) -> bool:
        """Whether it concerns this request."""
        return self.left > 0 and self.method in {"", method} and self.path_part in path


class ApiFaults:
    """The faults in force; the first match wins. `clear` ends them all. `hanging`: requests that are held now."""

    def __init__(self) -> None:
        self.hanging = 0
        self._faults: list[Fault] = []
        self._released = asyncio.Event()

    def fail_next(
        self, count: int, code: int, *, method: str = "", path_part: str = "", retry_after_seconds: int | None = None
    ) -> None:
        """Answer the next `count` matching requests with a Status of `code`, without doing anything."""
        self._faults.append(Fault("fail", count, method, path_part, code, retry_after_seconds))

    def hang_next(self, count: int, *, method: str = "", path_part: str = "") -> None:
        """Hold the next `count` matching requests until `release`; then they are served."""
        self._released.clear()
        self._faults.append(Fault("hang", count, method, path_part))

    def lose_next_replies(self, count: int, *, method: str = "", path_part: str = "") -> None:
        """Do what the next `count` matching requests ask, then cut the connection instead of answering."""
        self._faults.append(Fault("lose reply", count, method, path_part))

    def release(self) -> None:
        """Let the requests that hang go on."""
        self._released.set()

    def clear(self) -> None:
        """End all faults and let go what hangs."""
        self._faults.clear()
        self.release()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that befalls this request, used up by one; None when all is well."""
        for fault in self._faults:
            if fault.matches(method, path):
                fault.left -= 1
                return fault
        return None

    async def released(self) -> None:
        """Wait until `release` or `clear` is called."""
        self.hanging += 1
        try:
            await self._released.wait()
        finally:
            self.hanging -= 1
