"""Runs a Python program as if nobody had asked, and says each second how many asyncio tasks it has.

python counted.py FILE PROGRAM ARGUMENT...: no system call tells that of a process, so the process itself writes it
into FILE. Its threads are one more than else.
"""

import asyncio
import runpy
import sys
import threading
from pathlib import Path

EVERY_SECONDS = 1.0


def main() -> None:
    """The program, and a thread that counts beside it."""
    file = Path(sys.argv[1])
    del sys.argv[:2]
    threading.Thread(target=_count, args=(file,), daemon=True).start()
    runpy.run_path(sys.argv[0], run_name="__main__")


def _count(file: Path) -> None:
    fresh = file.with_suffix(".new")
    while not threading.Event().wait(EVERY_SECONDS):
        everywhere = tuple(asyncio.tasks._all_tasks)  # type: ignore[attr-defined]  # noqa: SLF001  all_tasks() counts one loop
        fresh.write_text(str(sum(not task.done() for task in everywhere)))
        fresh.replace(file)


if __name__ == "__main__":
    main()
