"""What the pages tell a reader to type works, and prints what they show."""

import asyncio
import shutil

import pytest

from tests.docs.blocks import blocks, runnable
from tests.docs.conftest import Shell
from tests.docs.shape import missing

ITS_OWN = {"first-look.md"}  # it starts the service that it asks: test_first_look.py
PAGES = sorted({block.page for block in runnable("console", "bash")} - ITS_OWN)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_commands_of_a_page_work_one_after_another_and_print_what_it_shows(page: str, shell: Shell) -> None:
    wrong = []
    of_page = [block for block in runnable("console", "bash") if block.page == page]
    if shutil.which("kubectl") is None and any("kubectl " in block.text for block in of_page):
        pytest.skip("kubectl is not on the PATH")
    for block in of_page:
        for command, shown in block.commands if block.language == "console" else [(block.text, [])]:
            done = await asyncio.to_thread(shell, command)
            said = f"$ {command}\n{done.stdout}{done.stderr}"
            if done.returncode != 0:
                wrong.append(f"{block}: exit code {done.returncode}\n{said}")
            wrong += [f"{block}: not printed: {line}\n{said}" for line in missing(shown, done.stdout)]
            if shown == ["..."] and not done.stdout.strip() + done.stderr.strip():
                wrong.append(f"{block}: prints nothing\n{said}")
    assert not wrong, "\n".join(wrong)


def test_a_block_that_is_not_run_says_why() -> None:
    languages = {"console", "bash", "json", "yaml", "python", "toml", "ini"}
    strange = [block for block in blocks() if block.language not in languages]
    unknown = [f"{block}: {block.language!r}" for block in strange if block.language != "text" or not block.why_not]
    assert not unknown, unknown
    assert runnable("console")


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a100  16 GPUs  owned ...", "a100 16 GPUs  owned 14  free 2"),
        ("chat ...", "chat      3     3"),
        ("12 cycles", "3456 cycles"),
        ("...chat...", "name chat pin"),
    ],
)
def test_what_a_page_shows_is_found_in_what_is_printed(shown: str, printed: str) -> None:
    assert missing([shown], f"first\n{printed}\nlast") == []
    assert missing([shown], "first\nlast") == [shown]
