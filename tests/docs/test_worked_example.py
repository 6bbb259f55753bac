"""The policy guide's worked example, played: each row of its table is what planning really does."""

import re

from rebalancer.domain.zones import local
from rebalancer.settings.problems import check_text
from tests.builders import a_snapshot
from tests.docs.blocks import DOCS, blocks
from tests.planning.story import Story, moves

TURNS = 40  # of 10 s: longer than the longest cooldown
EXAMPLE = next(block for block in blocks("yaml") if block.page == "policy.md" and "kind: Policy" in block.text)
SCHEDULED = next(block for block in blocks("yaml") if block.page == "policy.md" and "schedules:" in block.text)
MONDAY_0720 = 253_200.0  # in Berlin, after NOW
HOURS = re.findall(
    r"^\| (\d\d:\d\d) \| (\d+) \| ([^|]+) \| (\d+) \| (\d+) \|$", (DOCS / "policy.md").read_text(), re.MULTILINE
)
ROWS = re.findall(
    r"^\| [^|]+ \| (\d+) \| (\d+) \| ([^|]+) \| (\d+) \| (\d+) \|$", (DOCS / "policy.md").read_text(), re.MULTILINE
)


def test_each_row_of_the_worked_example_is_what_planning_does() -> None:
    policy, problems = check_text(EXAMPLE.text, str(EXAMPLE))
    assert policy is not None, problems
    signals = {model.id: model.signals.concurrency for model in policy.models}
    carries = {name: concurrency.per_replica or 0.0 for name, concurrency in signals.items() if concurrency}
    story = Story(policy, a_snapshot(policy, {"chat": 4, "summary": 8}))
    assert len(ROWS) == 3
    for chat, summary, writes, has_chat, has_summary in ROWS:
        for model, flying in (("chat", float(chat)), ("summary", float(summary))):
            story.load(model, {"concurrency": flying}, flying / carries[model])
        written = [
            f"{model} {before} -> {after}"
            for plan in story.turns(TURNS)
            for model, (before, after) in moves(plan).items()
        ]
        assert ", then ".join(written) == ("" if writes == "nothing" else writes)
        assert (story.replicas("chat"), story.replicas("summary")) == (int(has_chat), int(has_summary))


def test_each_hour_of_the_worked_schedule_is_what_planning_does() -> None:
    policy, problems = check_text(SCHEDULED.text, str(SCHEDULED))
    assert policy is not None, problems
    story = Story(policy, a_snapshot(policy, {"chat": 4, "summary": 8}))
    story.wait(MONDAY_0720)
    assert f"{local(story.snapshot.at, 'Europe/Berlin'):%a %H:%M}" == "Mon 07:20"
    story.load("chat", {"concurrency": 40.0}, 40 / 16)
    assert len(HOURS) == 4
    for until, summary, writes, has_chat, has_summary in HOURS:
        story.load("summary", {"concurrency": float(summary)}, float(summary) / 8)
        written = []
        while f"{local(story.snapshot.at, 'Europe/Berlin'):%H:%M}" < until:
            plan = story.turn()
            written += [f"{model} {before} -> {after}" for model, (before, after) in moves(plan).items()]
        assert ", then ".join(written) == ("" if writes == "nothing" else writes)
        assert (story.replicas("chat"), story.replicas("summary")) == (int(has_chat), int(has_summary))


def test_the_arithmetic_of_the_guards_in_the_text_is_that_of_the_code() -> None:
    policy, _ = check_text(EXAMPLE.text, str(EXAMPLE))
    assert policy is not None
    text = " ".join((DOCS / "policy.md").read_text().split())
    summary = next(model for model in policy.models if model.id == "summary")
    share = policy.guards.shift.share
    assert f"floor({share} x ({summary.entitlement} - {summary.min_replicas})) = 3" in text
    assert int(share * (summary.entitlement - summary.min_replicas)) == 3
