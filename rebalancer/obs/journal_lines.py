"""The lines of a journal as it lies there: a folder, a file, standard input; plain, gzipped, packed by zstd, a bundle.

What packed a file is seen by its first bytes, whatever it is called.
"""

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

from rebalancer.obs import journal
from rebalancer.obs.journal_files import PATTERN, SINGLE

STANDARD_INPUT = Path("-")
GZIPPED, BY_ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"  # first bytes
BUNDLE = "rebalancer-bundle"  # the folder in the archive that `rebalancer bundle` writes
JOURNAL = "journal/journal-000001.jsonl"  # the journal in it
TAR, MAGIC = slice(257, 262), b"ustar"  # of the first block of an archive
PACKED = ("", ".gz", ".zst")  # how the names of a folder's files may end


class NoJournal(Exception):
    """No journal is there to read; the text says where it was looked for and what to do."""


def journal_files(place: Path) -> tuple[Path, ...]:
    """The files of a journal, oldest first: a folder's, or the one file. Raises NoJournal.

    Of a file with a packed copy beside it (`gzip -k`) the plain one counts: it may have grown since.
    """
    if place == STANDARD_INPUT or place.is_file():
        return (place,)
    files: dict[str, Path] = {}
    for end in reversed(PACKED):
        files |= {
            path.name.removesuffix(end): path for name in (PATTERN, SINGLE) for path in place.glob(f"{name}{end}")
        }
    if not files:
        raise NoJournal(f"no journal in {place}: give the service's folder (REBALANCER_JOURNAL_DIR) or a file of it")
    return tuple(files[name] for name in sorted(files))


def last_instant(files: Sequence[Path]) -> float:
    """The instant of the last recorded cycle. Raises NoJournal."""
    for path in reversed(files):
        latest = None
        for raw in lines_of(path):
            mark = journal.MARK.match(raw[: journal.MARK_BYTES])
            latest = float(mark[2]) if mark is not None else latest
        if latest is not None:
            return latest
    raise NoJournal(f"{files[-1]} has no cycle yet: let the service run for a minute")


def within(files: Sequence[Path], since: float) -> tuple[Path, ...]:
    """The files that may tell of what was from `since` on: all but those that end before."""
    begins = [(path, _first_instant(path)) for path in files]
    of_then = list(files)
    for (path, _), (_, begin) in pairwise(begins):
        if begin is not None and begin <= since:
            of_then.remove(path)
    return tuple(of_then)


def lines_of(path: Path, lost: Callable[[str], None] = lambda _: None) -> Iterator[bytes]:
    """The lines of a file; `lost` is told, as a sentence, why one ends before its end."""
    try:
        with _opened(path) as raw, closing(_unpacked(raw)) as handle:
            yield from handle
    except ModuleNotFoundError:
        lost(f"{path.name} is packed by zstd: unpack it (zstd -d {path.name}), or pip install 'rebalancer[sim]'")
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        lost(f"{path.name} cannot be read to its end ({why})")


def _opened(path: Path) -> BufferedReader:
    return open(0, "rb", closefd=False) if path == STANDARD_INPUT else path.open("rb")  # no path; who asks closes it


def _unpacked(raw: BufferedReader) -> BinaryIO:
    begin = raw.peek(len(BY_ZSTD))
    if begin.startswith(GZIPPED):
        unzipped = gzip.GzipFile(fileobj=raw)
        return _of_bundle(unzipped) if unzipped.peek(TAR.stop)[TAR] == MAGIC else cast("BinaryIO", unzipped)
    return _by_zstd(raw) if begin.startswith(BY_ZSTD) else raw


def _of_bundle(unzipped: gzip.GzipFile) -> BinaryIO:
    """Raises OSError where the archive has no journal."""
    archive = tarfile.open(fileobj=unzipped, mode="r|")  # noqa: SIM115  # who asks closes what is below
    for entry in archive:
        content = archive.extractfile(entry) if entry.name == f"{BUNDLE}/{JOURNAL}" else None
        if content is not None:
            return cast("BinaryIO", content)
    raise OSError(f"it is no bundle: it has no {BUNDLE}/{JOURNAL}")


def _by_zstd(raw: BufferedReader) -> BinaryIO:
    """Raises ModuleNotFoundError without pyarrow."""
    from pyarrow import CompressedInputStream, PythonFile  # noqa: PLC0415  # an extra, half a second

    return cast("BinaryIO", BufferedReader(CompressedInputStream(PythonFile(raw, "r"), "zstd")))


def _first_instant(path: Path) -> float | None:
    for raw in lines_of(path):
        mark = journal.MARK.match(raw[: journal.MARK_BYTES])
        if mark is not None:
            return float(mark[2])
    return None
