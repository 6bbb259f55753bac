"""Records that each run begins with: our own in `corpus/DECODER/`, and public ones where they lie beside the checkout.

Those of the corpus are written by us in the shape of real ones. What once broke a decoder stays in it as `broke-WHY`.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.beside import folder_if_any

CORPUS = Path(__file__).parent / "corpus"


def corpus(decoder: str) -> list[bytes]:
    """The corpus of one decoder, in the order of its files' names."""
    return [path.read_bytes() for path in sorted((CORPUS / decoder).glob("*"))]


def recorded(kind: str, pattern: str) -> Iterator[bytes]:
    """Public records of a folder of the artefacts; none where those are not here."""
    artefacts = folder_if_any("artefacts", "REBALANCER_ARTEFACTS")
    if artefacts is not None:
        yield from (path.read_bytes() for path in sorted((artefacts / kind).glob(pattern)))
