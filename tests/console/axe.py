"""axe-core, the accessibility checker, from its npm package: pinned, verified, kept in the testbed's cache."""

import base64
import fcntl
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.testbed.build import Missing, cache_folder

VERSION = "4.10.3"
SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
TIMEOUT_SECONDS = 60


def axe_source() -> str:
    """The script. Raises Missing without npm, AssertionError when the package is not the one that was pinned."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"axe-core-{VERSION}.tgz"
    with (folder / "axe-core.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not package.exists():
            _fetch(package)
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    assert found == SHA512, f"{package} is not axe-core {VERSION} as pinned: sha512-{found}; delete it"
    with tarfile.open(package) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def _fetch(package: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Missing(f"no npm, which brings axe-core {VERSION}: install Node.js (on Debian: apt-get install npm)")
    with tempfile.TemporaryDirectory(dir=package.parent) as scratch:
        done = subprocess.run(  # noqa: S603  # npm, with arguments of ours
            [npm, "pack", "--ignore-scripts", f"axe-core@{VERSION}"],
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise Missing(f"npm pack axe-core@{VERSION} failed: {done.stderr.strip()[-300:]}")
        (Path(scratch) / package.name).rename(package)
