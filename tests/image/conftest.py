"""The image is built once per run; every test that needs it is of the real tier."""

from collections.abc import Iterator

import pytest

from tests.image.images import Image, built
from tests.testbed.build import Missing


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image, mounted."""
    try:
        with built() as image:
            yield image
    except Missing as missing:
        pytest.skip(f"the image cannot be built: {missing.reason}")
