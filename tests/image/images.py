"""The image, built from docker/Dockerfile with buildah, and a container of it: what a kubelet would do with both."""

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house.repository import ROOT
from tests.image.bases import Bases, bases
from tests.image.wheels import wheels
from tests.testbed.build import Missing, cache_folder
from tests.testbed.system import program

NAME = "localhost/rebalancer:test"
_SECONDS = 400
# Mounts as a pod with a read-only root has them: /dev, /proc, and the one folder that may be written.
_READ_ONLY = """
set -e
mount --bind "$ROOT" "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount -t proc proc "$ROOT/proc"
mount --bind "$WRITABLE" "$ROOT$WRITABLE"
mount -o remount,bind,ro "$ROOT"
exec env -i "$@"
"""


@dataclass(frozen=True)
class Image:
    """A built image as it lies in buildah's storage; `config` as OCI spells it."""

    store: "Store"
    config: Mapping[str, Any]
    root: Path

    @property
    def size_mib(self) -> float:
        """All its files."""
        files = (path.lstat().st_size for path in self.root.rglob("*") if not path.is_dir() or path.is_symlink())
        return sum(files) / 2**20

    def command(self, writable: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Sequence[str]:
        """What starts a container: the image's entrypoint and user, a read-only root, `writable` at the same path."""
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in (environment or {}).items())]
        for mount_point in ("dev", "proc", str(writable).lstrip("/")):
            (self.root / mount_point).mkdir(parents=True, exist_ok=True)
        outside = [f"ROOT={self.root}", f"WRITABLE={writable}"]
        mounting = ["unshare", "--mount", "--", "sh", "-c", _READ_ONLY, "container", *variables]
        entering = [_which("chroot"), f"--userspec={self.config['User']}", str(self.root)]
        return ["env", *outside, *mounting, *entering, *self.config["Entrypoint"], *(arguments or self.config["Cmd"])]


@dataclass(frozen=True)
class Store:
    """buildah with a storage of its own under `folder`."""

    folder: Path

    def buildah(self, *arguments: str) -> str:
        """Run it; what it printed. Raises AssertionError with the end of its output."""
        storage = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"), "--storage-driver=vfs"]
        done = subprocess.run(
            [str(program("buildah")), *storage, *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"buildah {' '.join(arguments)}\n{(done.stdout + done.stderr)[-4000:]}"
        return done.stdout.strip()

    def imported(self, name: str, tarball: Path) -> str:
        """The image `name`, made of one tarball unless it is there; it takes the place of those made otherwise."""
        present = self.buildah("images", "--format", "{{.Name}}:{{.Tag}}").splitlines()
        if name not in present:
            for old in present:
                if old.startswith(name.rpartition(":")[0] + ":"):
                    self.buildah("rmi", old)
            container = self.buildah("from", "scratch")
            self.buildah("add", "--quiet", container, str(tarball), "/")
            self.buildah("commit", "--quiet", "--rm", container, name)
        return name

    @contextmanager
    def mounted(self, image: str) -> Iterator[Path]:
        """Its root file system, in a container that goes afterwards."""
        container = self.buildah("from", "--pull-never", image)
        try:
            yield Path(self.buildah("mount", container))
        finally:
            self.buildah("rm", container)


@contextmanager
def built() -> Iterator[Image]:
    """The image of this checkout. Raises `Missing` when the machine has not got what building it takes."""
    if os.geteuid() != 0:
        raise Missing("debootstrap, buildah's chroot isolation and the mounts of a container want root")
    program("buildah")
    made, fetched = bases(), wheels()
    store = Store(cache_folder() / "image-store")
    store.folder.mkdir(parents=True, exist_ok=True)
    with (store.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one run at a time
        yield from _built(store, made, fetched)


def _built(store: Store, made: Bases, fetched: Path) -> Iterator[Image]:
    store.buildah("rm", "--all")  # of runs that were killed
    build_base = store.imported(f"localhost/build-base:{made.key}", made.build)
    base = store.imported(f"localhost/base:{made.key}", made.run)
    arguments = {"BUILD_BASE": build_base, "BASE": base, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    store.buildah(
        "bud", "--isolation=chroot", "--pull-never", "--file=docker/Dockerfile", f"--volume={fetched}:/wheels:ro",
        *(f"--build-arg={name}={value}" for name, value in arguments.items()), f"--tag={NAME}", str(ROOT),
    )  # fmt: skip
    with store.mounted(NAME) as root:
        inspected = json.loads(store.buildah("inspect", "--type=image", NAME))
        yield Image(store, inspected["OCIv1"]["config"], root)
    store.buildah("rmi", NAME)


def _which(name: str) -> str:
    """A program of this machine by its path: inside, the image's own PATH holds."""
    folders = os.environ["PATH"].split(os.pathsep)
    return next(f"{folder}/{name}" for folder in [*folders, "/usr/sbin"] if Path(folder, name).exists())
