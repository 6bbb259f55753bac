"""The journal's local files, and the ledger's: appended by a thread of their own, oldest gone first within a budget."""

import asyncio
import contextlib
import gzip
import os
import queue
import re
import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextvars import copy_context
from pathlib import Path
from typing import BinaryIO, Final

from rebalancer.obs.effects import effect

SHARE_PER_FILE = 8  # a file is an eighth of the budget: rotation forgets at most an eighth at once
PATTERN = "journal-*.jsonl"
SINGLE = "journal.jsonl"  # of who does not rotate: the demo
LEDGER_PATTERN = "ledger-*.jsonl"
PACKED = ".gz"

EFFECTS: Final[Mapping[str, str]] = {
    "journal/open": "the next file of the local journal is begun",
    "journal/append": "a line of the local journal",
    "journal/delete": "the oldest file of the local journal goes",
    "ledger/open": "the next file of the ledger beside the journal is begun",
    "ledger/append": "a line of the ledger beside the journal",
    "ledger/pack": "a file of the ledger that is over is packed in place of the plain one",
    "ledger/delete": "the oldest file of the ledger beside the journal goes",
}

_Order = bytes | Future[bool] | Path | None  # a line, a flush to answer, the next file, the end


class JournalFiles:
    """Appends lines to `folder/journal-NNNNNN.jsonl`, or to the one file `single` without rotation (the demo's).

    All files together are at most `max_bytes`, beside the cycle that fills the newest. `name`: what they are called in
    place of journal. `packs`: files that are over are gzipped. Nothing here blocks the caller or raises: a full disk is
    `trouble` (text for people), and `flushed` says False. What else lies in the folder is left alone.
    """

    def __init__(
        self, folder: Path, max_bytes: int, single: Path | None = None, *, name: str = "journal", packs: bool = False
    ) -> None:
        self._name = name
        self._packs = packs
        self._folder = folder
        self._max_bytes = max_bytes
        self._single = single
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)
        self._number = 0
        self._size = 0
        self._handle: BinaryIO | None = None  # the thread's own
        self._not_opened = False
        self._lost = False  # lines of the current file, on which the next ones may rest
        self.trouble: str | None = None

    def start(self) -> None:
        """Begin; the first `append` must follow a `rotate`."""
        self._thread.start()

    def paths(self) -> tuple[Path, ...]:
        """The files there are, oldest first."""
        if self._single is not None:
            return (self._single,)
        return tuple(path for path in self._files(self._folder) if not path.name.endswith(PACKED))

    def _files(self, folder: Path) -> list[Path]:
        """Those we wrote, oldest first: a copy that somebody keeps beside them has no number, or ends otherwise."""
        ours = re.compile(rf"{self._name}-\d+\.jsonl({re.escape(PACKED)})?")
        there = folder.glob(f"{self._name}-*")
        return sorted((each for each in there if ours.fullmatch(each.name)), key=lambda each: each.name)

    @property
    def full(self) -> bool:
        """Whether the next lines belong into a new file: the current one has had its share, or could not be opened.

        So is one that lacks lines, once a later line found room: while the disk is full a new one would lack them too.
        """
        broken = self._not_opened or (self._lost and self.trouble is None)
        return self._single is None and (broken or self._size >= self._max_bytes // SHARE_PER_FILE)

    def rotate(self) -> None:
        """Continue in the next file."""
        self._size = 0
        self._not_opened = False
        self._orders.put(self._single or self._folder)

    def append(self, line: bytes) -> None:
        """Queue one line (with its newline)."""
        self._size += len(line)
        self._orders.put(line)

    async def flushed(self) -> bool:
        """Wait until everything appended so far is on disk; False when it could not be written."""
        done: Future[bool] = Future()
        self._orders.put(done)
        return await asyncio.wrap_future(done) and self.trouble is None

    async def close(self) -> None:
        """Write what is queued and end."""
        self._orders.put(None)
        if self._thread.ident is not None:  # else it was never begun: a start ended before
            await asyncio.to_thread(self._thread.join, 5.0)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                self._carry_out(order)
            except Exception as error:  # noqa: BLE001  # it is told; without this thread every flush would wait for ever
                why = error.strerror if isinstance(error, OSError) and error.strerror else error
                self.trouble = f"{self._name} in {self._folder}: {why}; free space or set REBALANCER_JOURNAL_DIR"
                self._not_opened = self._handle is None
                self._lost = True
                if isinstance(order, Future):
                    order.set_result(False)
        self._close()

    def _carry_out(self, order: bytes | Future[bool] | Path) -> None:
        if isinstance(order, Path):
            self._close()
            self._handle = self._open(order)
            self._lost = False
        elif isinstance(order, Future):
            if order.set_running_or_notify_cancel():  # False: who waited for it has given up
                self._flush(order)
        elif self._handle is not None:
            self._append(order, self._handle)
            self.trouble = None

    def _flush(self, waiter: Future[bool]) -> None:
        if self._handle is not None:
            self._handle.flush()
        waiter.set_result(self._handle is not None)

    def _append(self, line: bytes, handle: BinaryIO) -> None:
        with effect(f"{self._name}/append", handle.name):
            handle.write(line)
            if self._orders.empty():
                handle.flush()

    def _close(self) -> None:
        """What is still buffered may find no room; the file is closed all the same."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                handle.close()

    def _open(self, place: Path) -> BinaryIO:
        path = place if place == self._single else self._next(place)
        with effect(f"{self._name}/open", path.name):
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("wb")

    def _next(self, place: Path) -> Path:
        """The next file's name, once the oldest ones beyond the budget are deleted."""
        files = self._files(place)
        if self._number == 0 and files:
            self._number = int(files[-1].name.removeprefix(f"{self._name}-").partition(".")[0])
        self._number += 1
        self._forget([self._packed(path) for path in files] if self._packs else files)
        return place / f"{self._name}-{self._number:06d}.jsonl"

    def _forget(self, files: list[Path]) -> None:
        """Delete the oldest until the next file has room for its share."""
        sizes = {path: path.stat().st_size for path in files}
        left = sum(sizes.values())
        for path, size in sizes.items():
            if left <= self._max_bytes - self._max_bytes // SHARE_PER_FILE:
                break
            with effect(f"{self._name}/delete", path.name):
                path.unlink(missing_ok=True)
            left -= size

    def _packed(self, path: Path) -> Path:
        """The packed file in place of a plain one. The name is there once the content is; then the plain one goes.

        Ended in between, both are there and say the same: the next start packs it again.
        """
        if path.name.endswith(PACKED):
            return path
        packed, making = path.with_name(path.name + PACKED), path.with_name(f"packing-{path.name}")
        with effect(f"{self._name}/pack", path.name):
            with path.open("rb") as plain, making.open("wb") as raw:
                with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as into:
                    shutil.copyfileobj(plain, into)
                raw.flush()
                os.fsync(raw.fileno())
            making.replace(packed)
            path.unlink()
        return packed
