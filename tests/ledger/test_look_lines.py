"""Looks as lines: what is read is what was written, and a line is small."""

from itertools import pairwise

from hypothesis import given
from msgspec.structs import replace

from rebalancer.domain.readings import Carries
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ledger.look_lines import NOTHING, look_line, look_of
from rebalancer.ledger.looks import LedgerLook, look
from rebalancer.obs import journal
from tests.builders import NOW, a_load, a_snapshot
from tests.ledger.worlds import POLICY, looks

MOST_BYTES_A_MODEL = 80  # of a cycle in which nothing but its load changed


def read_back(seen: list[LedgerLook]) -> list[LedgerLook]:
    before, again = NOTHING, []
    for number, (last, each) in enumerate(pairwise([NOTHING, *seen])):
        line = journal.decode_ledger(journal.encode(look_line(last, each, number)))
        assert not isinstance(line, journal.PolicyLine)
        before = look_of(before, line)
        again.append(before)
    return again


@given(looks())
def test_looks_are_read_as_they_were_written(seen: list[Snapshot]) -> None:
    taken = [look(snapshot, POLICY) for snapshot in seen]
    assert read_back(taken) == taken


def test_a_model_that_leaves_the_policy_leaves_the_looks() -> None:
    both = look(a_snapshot(POLICY, {"a": 1, "b": 1}), POLICY)
    one = replace(both, models={"a": both.models["a"]}, bounds={"a": both.bounds["a"]})
    assert read_back([both, one])[1].models.keys() == {"a"}


def test_what_a_replica_carries_is_told_by_whole_looks_alone() -> None:
    first, second = (Carries(None, learnt, 30) for learnt in (8.0, 9.0))
    loads = [a_load("a", work=1.0), replace(a_load("a", work=2.0), carries=first)]
    seen = [look(a_snapshot(POLICY, {"a": 2}, loads=(load,)), POLICY) for load in loads]
    whole = replace(seen[1], carries={"a": second})
    assert look_line(NOTHING, whole, 0).carries == {"a": second}
    assert look_line(seen[0], whole, 1).carries == {}


def test_a_cycle_in_which_only_loads_changed_is_small() -> None:
    before, now = (
        look(replace(a_snapshot(POLICY, {"a": 2, "b": 1}, work={"a": work, "b": work}), at=NOW), POLICY)
        for work in (1.234567, 1.765432)
    )
    line = journal.encode(look_line(before, now, 7))
    assert b"held" not in line
    assert len(line) < 60 + 2 * MOST_BYTES_A_MODEL
