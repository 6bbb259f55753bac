"""The two images that the Dockerfile starts from, made from Debian packages instead of a registry's images.

debootstrap makes the one that builds (Python with venv and a shell). The one that runs is cut out of it: Python and
the libraries it needs, and no shell, no package manager, no pip, as in a distroless image.
"""

import fcntl
import hashlib
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.build import Missing, cache_folder
from tests.testbed.system import program

SUITE = "bookworm"  # its Python is 3.11, as in the Dockerfile's default bases
INCLUDED = ("python3", "python3-venv")
KEPT = re.compile(
    r"(base-files|gcc-12-base|media-types|netbase|tzdata|zlib1g|python3(\.11)?(-minimal)?|lib(?!apt|pam|python3-).*"
    r"|libpython3-stdlib)(:\w+)?"
)
DROPPED = ("./dev/", "./usr/share/doc/", "./usr/share/locale/", "./usr/share/man/", "./var/cache/", "./var/lib/apt/")
MERGED = ("bin", "lib", "lib64", "sbin")  # links into usr/
_MINUTES = 10 * 60


@dataclass(frozen=True)
class Bases:
    """Tarballs of root file systems; `key` changes when what is in them does."""

    key: str
    build: Path
    run: Path


def bases() -> Bases:
    """From the cache; the first time debootstrap takes a minute or two. Raises `Missing`."""
    key = hashlib.sha256(f"{SUITE} {INCLUDED} {DROPPED} {KEPT.pattern}".encode()).hexdigest()[:16]
    folder = cache_folder() / f"image-bases-{key}"
    found = Bases(key, folder / "build.tar", folder / "run.tar")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.run.exists():
            _make(found, folder / "root")
    return found


def _make(wanted: Bases, root: Path) -> None:
    command = [str(program("debootstrap")), "--variant=minbase", f"--include={','.join(INCLUDED)}", SUITE, str(root)]
    subprocess.run(["rm", "-rf", str(root)], check=True)
    done = subprocess.run(
        [*command, mirror()], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_MINUTES, check=False
    )
    if done.returncode != 0:
        raise Missing(f"debootstrap failed: {(done.stdout + done.stderr)[-1000:]}")
    with tarfile.open(wanted.build, "w") as tar:
        tar.add(root, ".", filter=lambda member: None if member.name.startswith(DROPPED) else member)
    part = wanted.run.with_suffix(".part")
    with tarfile.open(part, "w") as tar:
        for name in [*MERGED, *sorted(_kept_files(root))]:
            tar.add(root / name, name, recursive=False)
    part.rename(wanted.run)
    subprocess.run(["rm", "-rf", str(root)], check=True)


def _kept_files(root: Path) -> set[str]:
    """Files and links of the kept packages, by the paths they have since /bin and /lib are links into /usr."""
    names: set[str] = set()
    for listing in (root / "var/lib/dpkg/info").glob("*.list"):
        if not KEPT.fullmatch(listing.stem):
            continue
        for line in listing.read_text().splitlines():
            path = root / line.lstrip("/")
            path = path.parent.resolve() / path.name
            if path.is_symlink() or path.is_file():
                names.add(str(path.relative_to(root)))
    return names


def mirror() -> str:
    """Address of a Debian mirror as this machine's apt is told. Raises `Missing`."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for file in files:
        text = file.read_text() if file.is_file() else ""
        for stanza in text.split("\n\n"):
            fields = dict(re.findall(r"^(\w+): *(.+)$", stanza, re.MULTILINE))
            if SUITE in fields.get("Suites", "").split():
                return str(fields["URIs"].split()[0])
        line = re.search(rf"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+{SUITE}\s", text, re.MULTILINE)
        if line:
            return str(line[1])
    raise Missing(f"apt's sources name no mirror of Debian {SUITE}, from which the image's base is made")
