"""What pip installs in the image, fetched beforehand: the build then needs no network."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

from tests.house.repository import ROOT
from tests.testbed.build import Missing, cache_folder

PYTHON = "3.11"
_SECONDS = 300


def wheels() -> Path:
    """Folder with the wheels of `requirements/base.txt` and of the build backend. Raises `Missing`."""
    locks = [(ROOT / "requirements/base.txt").read_text(), _backend()]
    folder = cache_folder() / f"image-wheels-{hashlib.sha256(''.join(locks).encode()).hexdigest()[:16]}"
    done = folder / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    if not done.exists():
        for number, lock in enumerate(locks):
            file = folder / f"lock-{number}.txt"
            file.write_text(lock)
            _download(file, folder)
        done.touch()
    return folder


def _backend() -> str:
    """The pins that the Dockerfile takes out of the tests' lock, by the very expression it uses."""
    expression = re.search(r"sed -nE '/\^(\([^']+\))==/", (ROOT / "docker/Dockerfile").read_text())
    assert expression, "docker/Dockerfile picks the build backend's pins with sed"
    pin = re.compile(rf"^{expression[1]}==(.*\\\n)+.*\n", re.MULTILINE)
    return "".join(found[0] for found in pin.finditer((ROOT / "requirements/test.txt").read_text()))


def _download(lock: Path, folder: Path) -> None:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--only-binary", ":all:",
        "--python-version", PYTHON, "--requirement", str(lock), "--dest", str(folder),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode != 0:
        raise Missing(f"the image's wheels cannot be fetched: {done.stderr[-1000:]}")
