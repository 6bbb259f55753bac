"""Python on the pages runs, with warnings as errors."""

import pytest

from tests.docs.blocks import Block, runnable


@pytest.mark.parametrize("block", runnable("python"), ids=str)
def test_a_python_block_runs(block: Block) -> None:
    exec(compile(block.text, str(block), "exec"), {})  # noqa: S102  # our own pages


def test_there_is_one() -> None:
    assert runnable("python")
