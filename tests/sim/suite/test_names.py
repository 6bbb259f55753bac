"""Every name of a contender that any output prints can be given back, to `simulate` and to the suite."""

import dataclasses
import gc
import itertools

import msgspec
import pytest

from rebalancer.sim.contest.contenders import play_entry
from rebalancer.sim.page import report
from rebalancer.sim.page.cases import cases_of
from rebalancer.sim.record import Record
from rebalancer.sim.suite.__main__ import main
from rebalancer.sim.suite.names import BEST, Entry, Ours, UnknownController, called, chosen, contender, kind
from rebalancer.sim.suite.peers import LIMITS, PEERS, Peer
from rebalancer.sim.suite.row import BOUND, OURS, Played, Row
from rebalancer.sim.suite.scenarios import s7
from rebalancer.sim.suite.table import table
from rebalancer.sim.suite.tuning import read_tuned


def row(controller: str, tuning: str | None = None, actuation: str | None = None) -> Row:
    return Row("S2", "1", 32, 60, controller, actuation, tuning, 0, violation=0.1, gpu_hours=1.0)


def tuned_rows() -> list[Row]:
    """Every peer as it was ever tuned for some budget."""
    found = {(name.rpartition("/")[2], entry.tuning) for name, entry in read_tuned().items()}
    return [row(controller, tuning) for controller, tuning in sorted(found)]


ROWS = [
    *(row(peer.name, None if not peer.targets else f"{peer.begins[0]}@{peer.default:g}") for peer in PEERS),
    *tuned_rows(),
    row(BOUND),
    row(OURS, actuation="scale"),
    row(OURS, actuation="bounds"),
]


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peers_every_signal_and_target_is_taken_as_it_is_printed(peer: Peer) -> None:
    for signal, target in itertools.product(peer.signals, {*peer.targets[::8], peer.default} if peer.targets else ()):
        printed = called(row(peer.name, f"{signal}@{target:g}"))
        entry = contender(printed)

        assert isinstance(entry, Entry)
        assert (entry.name, entry.peer.name, entry.tuning) == (printed, peer.name, f"{signal}@{target:g}")


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_what_a_bare_name_is_told_as_asks_for_the_same(peer: Peer) -> None:
    entry = contender(peer.name)

    assert isinstance(entry, Entry)
    assert contender(entry.name) == entry


@pytest.mark.parametrize("each", ROWS, ids=called)
def test_who_stands_in_a_row_is_taken_as_it_is_printed(each: Row) -> None:
    for printed in (called(each), kind(each)):
        chosen([printed])
        if each.controller != BOUND:
            who = contender(printed)
            assert (OURS if isinstance(who, Ours) else who.peer.name) == each.controller


@pytest.mark.parametrize("each", ROWS, ids=called)
def test_the_suites_table_prints_such_names(each: Row) -> None:
    shown = table([Played(each, [(1.0, 10.0)])])

    (names,) = [list(column.cells) for column in shown.columns if column.header == "controller"]
    assert names == [called(each)]


def test_the_page_of_benchmarks_prints_such_names() -> None:
    rows = [each for each in ROWS if each.controller not in LIMITS]
    heads = next(line for line in report.tables(rows, "abc", "2026-01-02").splitlines() if line.startswith("| day"))

    printed = [cell.strip() for cell in heads.strip("|").split("|")][3:]
    assert {"ours", "ours@bounds", "keda", "kueue"} <= set(printed)
    assert all(chosen([name]) for name in printed)
    (case,) = cases_of([msgspec.structs.replace(each, seed=0) for each in rows], [])
    assert case.best is not None
    assert chosen([called(case.best)])


def test_the_best_found_is_told_by_a_name_that_plays_the_same_again() -> None:
    scenario = dataclasses.replace(s7(16, 60), seconds=2400)
    best = contender("keda:work@best")
    assert isinstance(best, Entry)

    found = play_entry(best, scenario, 0, lambda _: None)
    again = contender(found.controller)

    assert isinstance(again, Entry)
    assert (play_entry(again, scenario, 0, lambda _: None).late == found.late).all()


@pytest.mark.parametrize(
    ("names", "kinds", "settings"),
    [
        (["ours", "keda"], ["ours", "keda"], {}),
        (["ours@scale", "ours@bounds"], ["ours@scale", "ours@bounds"], {}),
        (["keda:kv-queue@0.8", "faro@99"], ["keda", "faro"], {"keda": "kv-queue@0.8", "faro": "fair-sum@99"}),
        ([f"hpa@{BEST}", BOUND], ["hpa", BOUND], {}),
    ],
)
def test_the_suite_plays_whom_it_is_asked_for(names: list[str], kinds: list[str], settings: dict[str, str]) -> None:
    assert chosen(names) == (kinds, settings)


THERE = (
    "ours, static, hpa, keda, kueue, kpa, ray-serve, apa, wva, faro, aiad (of S1a, S1b only), oneshot (of S1a, S1b"
    " only), spothedge (of S6 only), foresight"
)
KNOBS = "kueue has no signal floors; it has work, gpu-util, kv-queue, and what knobs add to them, as "


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nobody", f"no controller nobody; there are {THERE}"),
        ("@0.7", f"@0.7 names no controller; there are {THERE}"),
        ("keda@", "keda@: after @ comes a number, or best"),
        ("static@", "static@: after @ comes a number, or best"),
        ("keda:@0.7", "keda:@0.7: after : comes a signal: work, gpu-util, kv-queue"),
        ("kueue:floors", KNOBS),
        ("faro@100", "a target is a number above 0 up to 99.99, or best"),
        ("keda@99", "a target is a number above 0 up to 2, or best"),
    ],
)
def test_an_unknown_name_is_told_with_what_there_is(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownController, match=r".*"):
        contender(name)
    assert main(["--quick", "--controllers", f"ours,{name}"]) == 2
    assert said in capsys.readouterr().err


def test_nothing_that_decides_nothing_is_simulated() -> None:
    with pytest.raises(UnknownController, match="bound decides nothing"):
        contender(BOUND)


def test_two_settings_of_one_peer_are_not_played_at_once() -> None:
    with pytest.raises(UnknownController, match="keda is played with one setting at a time"):
        chosen(["keda@0.8", "keda@0.9"])


def records() -> int:
    """Runs that are in memory."""
    return sum(isinstance(each, Record) for each in gc.get_objects())


def test_of_the_runs_that_a_search_tries_only_the_best_stays_in_memory() -> None:
    scenario = dataclasses.replace(s7(16, 60), seconds=1200)
    best = contender("hpa:work@best")
    assert isinstance(best, Entry)
    before, turns, most = records(), itertools.count(), []

    def tell(_share: float) -> None:
        if next(turns) % 50 == 0:  # a look takes some 30 ms
            most.append(records() - before)

    play_entry(best, scenario, 0, tell)
    assert len(most) > 5
    assert max(most) <= 1
