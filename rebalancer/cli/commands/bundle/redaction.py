"""Rewrites JSON values word by word, and a journal so that it still replays."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from rebalancer.cli.commands.bundle.secrets import GONE, names_a_secret
from rebalancer.domain.codec import digest, to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.loop.replay import Replay, replay
from rebalancer.obs.journal_reading import JournalRead, turns_in
from rebalancer.planning import Memo, plan_apart

Rewrite = Callable[[str], str]

OURS = ("code", "digest", "memory", "policy", "version")  # hashes and the version in a journal's lines: no name


class Redacted(NamedTuple):
    """A journal that may leave.

    lines: lines of the journal, redacted.
    cycles: cycles that can be replayed.
    differing: those which this version decides otherwise than was recorded; the bundle keeps what was recorded.
    renamed: those which are decided otherwise because names are others, which breaks ties; the bundle has the new.
    """

    lines: Sequence[bytes]
    cycles: int
    differing: int
    renamed: int


def rewritten(value: Any, rewrite: Rewrite) -> Any:  # noqa: ANN401  any JSON
    """A copy of which every text was rewritten, keys too; what a key calls a secret is gone."""
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, list):
        return [rewritten(each, rewrite) for each in value]
    if isinstance(value, dict):
        return {
            rewrite(key): GONE
            if isinstance(each, str) and each and names_a_secret(key) and not each.startswith("/")
            else rewritten(each, rewrite)
            for key, each in value.items()
        }
    return value


def redacted(lines: Sequence[bytes], rewrite: Rewrite) -> Redacted:
    """The journal with every text rewritten. Where that changes what a cycle was given, it is decided again."""
    result = replay(lines)
    differing = {each.line for each in result.differences}
    out = [_line(line, rewrite) for line in lines]
    if out == list(lines):
        return Redacted(lines, result.cycles, len(differing), 0)
    return _decided_again(out, result, differing)


def _line(line: bytes, rewrite: Rewrite) -> bytes:
    known = msgspec.json.decode(line)
    ours = {key: known[key] for key in OURS if isinstance(known.get(key), str)}
    return to_bytes(rewritten(known, rewrite) | ours) + b"\n"


def _decided_again(out: list[bytes], result: Replay, differing: Iterable[int]) -> Redacted:
    memory, memo, renamed = Memory(), Memo(), 0
    for turn in turns_in(list(out), JournalRead()):
        decision = plan_apart(turn.snapshot, turn.policy, memory if turn.memory is None else turn.memory, memo)
        memory = decision.memory
        if turn.line in differing:
            continue
        line = msgspec.json.decode(out[turn.line - 1])
        made = to_bytes(decision.plan)
        renamed += made != to_bytes(line["plan"])
        line |= {"plan": msgspec.Raw(made), "memory": digest(memory)}
        out[turn.line - 1] = to_bytes(line) + b"\n"
    return Redacted(out, result.cycles, len(set(differing)), renamed)
