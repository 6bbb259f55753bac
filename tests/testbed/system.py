"""Programs that come as system packages: Chromium, buildah, debootstrap, faketime, Prometheus.

As root on a Debian-like system they are installed when first asked for; elsewhere the one command that installs them
is the reason of the skip. With CI set a skip is a failure, as for every other part of the real tier.
"""

import fcntl
import functools
import os
import shutil
import subprocess
from pathlib import Path

from tests.testbed.build import Missing, cache_folder

# program -> the packages that bring it
PACKAGES = {
    "buildah": ("buildah",),
    "chromium": ("chromium", "fonts-dejavu-core"),
    "debootstrap": ("debootstrap",),
    "faketime": ("faketime",),
    "prometheus": ("prometheus",),
    "promtool": ("prometheus",),
}
_INSTALL = ("apt-get", "install", "--yes", "--quiet", "--no-install-recommends")
_TIMEOUT_SECONDS = 600


@functools.cache
def program(name: str) -> Path:
    """Where `name` is; installed first if it is not there and we may. Raises `Missing` with the command to run."""
    found = shutil.which(name)
    if found is None:
        _install(name, PACKAGES[name])
        found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not on the PATH although {', '.join(PACKAGES[name])} is installed")
    return Path(found)


def _install(name: str, packages: tuple[str, ...]) -> None:
    command = " ".join([*_INSTALL[:2], *packages])
    if shutil.which("apt-get") is None:
        raise Missing(f"no {name}: install your system's package for it (on Debian: {command})")
    if os.geteuid() != 0:
        raise Missing(f"no {name}: sudo {command}")
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for step in (("apt-get", "update", "--quiet"), (*_INSTALL, *packages)):
            _run(name, step)


def _run(name: str, step: tuple[str, ...]) -> None:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        step, env=quiet, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    if done.returncode != 0:
        raise Missing(f"no {name}, and `{' '.join(step)}` failed: {done.stderr.strip()[-500:]}")
