"""The support file: a packed archive of texts, written whole or not at all, for its owner's eyes."""

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rebalancer.cli.failure import Failed
from rebalancer.obs.journal_lines import BUNDLE

POLICY, TRAFFIC, README = "policy.yaml", "traffic.csv", "README.txt"
MODE: Final = 0o600


def packed(files: Mapping[str, bytes], at: float) -> bytes:
    """The archive with these files, dated `at` (epoch seconds)."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", mtime=int(at)) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{BUNDLE}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), MODE, int(at)
            tar.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def write(path: Path, archive: bytes) -> None:
    """Put it there, readable for its owner alone. Raises Failed, and then nothing is there that was not before."""
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
        with os.fdopen(handle, "wb") as file:
            file.write(archive)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        if name is not None:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        raise Failed(f"{path}: cannot be written ({error.strerror})") from error


def is_bundle(path: Path) -> bool:
    """Whether the file is named as bundles are, and can be opened as one."""
    return path.name.endswith((".tar.gz", ".tgz")) and path.is_file() and tarfile.is_tarfile(path)


def read(path: Path, name: str) -> bytes:
    """One file of a bundle. Raises Failed."""
    try:
        with tarfile.open(path) as tar:
            member = tar.extractfile(f"{BUNDLE}/{name}")
            if member is not None:
                return member.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise Failed(f"{path}: cannot be read ({error})") from error
    except KeyError:
        pass
    raise Failed(f"{path} has no {name}: it is no bundle, or was made without")
