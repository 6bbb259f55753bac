"""A day of 20 models: the sums of the report, its advice, and every form of it."""

import csv
import re
from collections import Counter
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from pyarrow import parquet

from rebalancer.domain.policy import Model
from rebalancer.domain.readings import Carries
from rebalancer.domain.signals import Signals
from rebalancer.ledger.books import MICRO
from rebalancer.ledger.states import STATES
from rebalancer.report.advice import Advice, advice, patch
from rebalancer.report.bill import ShelfRow, bill
from rebalancer.report.export import COLUMNS, as_csv, write_parquet
from rebalancer.report.free_hours import FreeHour, free_hours
from rebalancer.report.gathering import Gathered
from rebalancer.report.page import page
from rebalancer.report.prices import PriceUnknown, prices
from rebalancer.report.report import UNCOUNTED, Report, headline, report, worth
from rebalancer.report.telling import columns, lines, pool_rows, request_rows
from rebalancer.settings.policy_file import check_bytes
from tests.report.conftest import STEP_SECONDS, STEPS
from tests.report.month import GPUS, IDLE, NODES, a_month_policy

POLICY = a_month_policy()
TAKES_IDLE: dict[str, object] = {
    "takes_idle": True,
    "workload_class": "batch",
    "entitlement": 0,
    "min_replicas": 0,
    "signals": Signals(),
    "slo": None,
}
THERE = NODES * GPUS * (STEPS - 1) * STEP_SECONDS  # GPU-seconds: nodes x GPUs x time, by hand


@pytest.fixture(scope="module")
def made(gathered: Gathered) -> Report:
    return report(gathered, {})


def test_every_way_of_adding_up_comes_to_the_capacity_times_the_time(gathered: Gathered, made: Report) -> None:
    assert gathered.books.residual() == gathered.fine.residual() == {}
    assert sum(gathered.books.charged.values()) == THERE * MICRO
    assert sum(gathered.fine.charged.values()) == THERE * MICRO
    assert made.bill.residual_gpu_microseconds == 0
    for rows in (made.bill.models, made.bill.teams, made.bill.cost_centers):
        assert sum(row.gpu_hours for row in rows) == pytest.approx(THERE / 3600)
        assert sum(row.usd or 0.0 for row in rows) == pytest.approx(2.5 * THERE / 3600)
    assert made.bill.capacity_gpu_hours == pytest.approx(THERE / 3600)


def test_an_instance_type_may_have_a_price_of_its_own(gathered: Gathered) -> None:
    shelves = {shelf for _, shelf in gathered.books.capacity}
    dear = bill(gathered.books, POLICY, prices(POLICY, {"p5.48xlarge": 5.0, "h100": 1.0}, shelves))
    assert [row.usd_per_gpu_hour for row in dear.shelves] == [5.0, 1.0]  # p5.48xlarge, p5e.48xlarge
    assert dear.usd == pytest.approx((5.0 + 1.0) * THERE / 3600 / 2)
    with pytest.raises(PriceUnknown, match="no pool or instance type p4"):
        prices(POLICY, {"p4": 1.0}, shelves)


def test_csv_and_parquet_have_the_exact_accounts(gathered: Gathered, tmp_path: Path) -> None:
    of = prices(POLICY, {}, set())
    rows = list(csv.DictReader(StringIO(as_csv(gathered.books, POLICY, of, "lab"))))
    assert sum(int(row["gpu_microseconds"]) for row in rows) == THERE * MICRO
    assert {row["cluster"] for row in rows} == {"lab"}
    write_parquet(tmp_path / "x.parquet", gathered.books, POLICY, of, "lab")
    table = parquet.read_table(tmp_path / "x.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert sum(table["gpu_microseconds"].to_pylist()) == THERE * MICRO


def test_what_lending_was_worth_is_told_first_and_with_its_baselines(made: Report) -> None:
    lending = made.lending
    assert lending.left_out == {f"model-{IDLE}": UNCOUNTED}
    assert lending.autoscaler == "keda"
    assert lending.spared == pytest.approx(lending.late_alone - lending.late)
    assert re.fullmatch(r"[\d,]+ GPU-hours for [\d,]+ USD: .*% free", headline(made))
    said = list(worth(made))
    assert said[0].startswith("Lending ")
    assert "alone" in said[0]
    assert said[1].startswith("With KEDA within their recorded bounds")


def test_requests_that_were_counted_for_part_of_the_time_have_no_price_and_late_ones_are_of_that_part(
    gathered: Gathered, made: Report
) -> None:
    """Nobody counted the busiest model's requests before noon; in half of the hours of another not all of them."""
    short = Gathered(**{name: getattr(gathered, name) for name in Gathered.__slots__})
    noon = gathered.hours[0].hour + 12
    short.hours = [
        hour._replace(requests=None, counted_work=0.0)
        if hour.model == "model-14" and hour.hour < noon
        else hour._replace(counted_work=0.5 * hour.work)
        if hour.model == "model-00" and hour.hour < noon
        else hour
        for hour in gathered.hours
    ]
    services = {each.model: each for each in report(short, {}).services}
    assert [services[f"model-{n}"].usd_per_1000_requests is None for n in ("00", "01", "14")] == [True, False, True]
    late = sum(hour.late for hour in gathered.hours if hour.model == "model-14" and hour.hour >= noon)
    assert services["model-14"].late == pytest.approx(late)
    assert all(each.usd_per_1000_requests for each in made.services if each.model in {"model-00", "model-14"})
    (note,) = [note for note in report(short, {}).notes if "1,000 requests" in note]
    assert "unknown of model-00, model-14: requests were counted of less than 90 %" in note


def test_the_picture_has_the_late_requests_of_the_table(gathered: Gathered, made: Report) -> None:
    """Also where late is told of a model whose requests nobody counts: that is work."""
    counted = [each for each in made.services if each.requests is not None]
    assert gathered.late.sum() == pytest.approx(sum(each.late for each in counted))
    assert len(counted) < len(made.services)


def test_where_nothing_was_written_nothing_is_told_of_before(gathered: Gathered) -> None:
    """What came is what the autoscalers made of it."""
    shadow = Gathered(**{name: getattr(gathered, name) for name in Gathered.__slots__})
    shadow.writes = 0
    made = report(shadow, {})
    assert made.lending.late_by_autoscaler is None
    assert [row[4] for row in request_rows(made)] == ["before", *["-"] * len(made.services)]
    assert not any(sentence.startswith("With ") for sentence in worth(made))


def test_a_million_tokens_cost_what_their_requests_do_and_nothing_where_nobody_counts_them(made: Report) -> None:
    services = {each.model: each for each in made.services}
    assert [each.model for each in made.services if each.tokens is None] == [f"model-{n:02}" for n in range(3, 20, 4)]
    rows = {row.name: row for row in made.bill.models}
    for name, each in services.items():
        if each.tokens:
            per_million = 1e6 * (rows[name].usd or 0.0) / each.tokens
            assert each.usd_per_million_tokens == pytest.approx(per_million)
            # A request has 1,000 tokens; what waits is a request already, and its tokens come when it is served.
            assert each.tokens == pytest.approx(1000.0 * (each.requests or 0.0), rel=0.25)
    assert services["model-03"].usd_per_million_tokens is None
    (note,) = [note for note in made.notes if "tokens" in note]
    assert "of model-03, model-07, model-11, model-15, model-19: tokens were counted in less than 90 %" in note


def test_a_model_without_work_is_idle_and_owns_too_much(made: Report) -> None:
    assert [each.model for each in made.idle] == [f"model-{IDLE}"]
    assert any(each.subject == f"model/model-{IDLE}" and each.key == "entitlement" for each in made.advice)


def with_models(gathered: Gathered, change: Callable[[Model], dict[str, object]]) -> Gathered:
    """The same recorded under a policy whose models are others."""
    other = Gathered(**{name: getattr(gathered, name) for name in Gathered.__slots__})
    models = tuple(each.model_copy(update=change(each)) for each in gathered.policy.models)
    other.policy = gathered.policy.model_copy(update={"models": models})
    return other


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: {}, id="as it was recorded"),
        pytest.param(lambda model: {"max_replicas": model.entitlement}, id="who may have no more than it owns"),
        pytest.param(
            lambda model: TAKES_IDLE if model.id == "model-14" else {},
            id="who takes what is idle",
        ),
    ],
)
def test_the_advised_patch_makes_a_policy_that_is_in_order(
    gathered: Gathered, change: Callable[[Model], dict[str, object]]
) -> None:
    recorded = with_models(gathered, change)
    changes = yaml.safe_load(patch(advice(recorded)))
    whole = recorded.policy.to_mapping()
    for section, name in (("pools", "name"), ("models", "id")):
        entries = whole[section]
        assert isinstance(entries, list)
        by_name = {each[name]: each for each in entries}
        for each in changes.get(section, ()):
            by_name[each[name]] |= each
    policy, problems = check_bytes(yaml.safe_dump(whole, default_flow_style=False).encode(), "advised.yaml")
    assert (policy is not None, [str(each) for each in problems]) == (True, [])


def test_less_than_a_day_advises_nothing_of_replicas(gathered: Gathered) -> None:
    first = min(hour.hour for hour in gathered.hours)
    short = Gathered(**{name: getattr(gathered, name) for name in Gathered.__slots__})
    short.hours = [hour for hour in gathered.hours if hour.hour < first + 5]
    assert advice(short) == ()


@pytest.mark.parametrize(("readings", "advised"), [(130, [24.0]), (5, [])])
def test_per_replica_is_advised_once_enough_replicas_were_seen_under_load(
    gathered: Gathered, readings: int, advised: list[float]
) -> None:
    short = Gathered(**{name: getattr(gathered, name) for name in Gathered.__slots__})
    short.hours, short.carries = [], {"model-00": Carries(16.0, 24.0, readings, low=20.0, high=30.0)}
    assert [each.better for each in advice(short)] == advised


def test_a_patch_is_nested_as_the_policy_is() -> None:
    one = Advice("model/a", "signals.concurrency.perReplica", 16.0, 24.0, "because")
    assert yaml.safe_load(patch([one])) == {"models": [{"id": "a", "signals": {"concurrency": {"perReplica": 24}}}]}


def test_gpus_are_free_when_nine_of_ten_such_hours_had_them() -> None:
    least = {(24 * day + 3, "p"): free for day, free in enumerate([5, 5, 5, 5, 5, 5, 5, 5, 4, 0])}
    assert free_hours(least) == (FreeHour("p", 3, likely=0, usual=5, days=10),)


def test_a_name_that_is_too_long_for_its_column_stands_whole_above_its_numbers() -> None:
    cells = [["1,000.00"] * 7 for _ in range(3)]
    names = ("llama-70b-chat", "llama-70b-code", "qwen")
    table = [*columns([[name, *row] for name, row in zip(names, cells, strict=True)])]
    assert [line.split()[0] for line in table] == ["llama-70b-chat", "1,000.00", "llama-70b-code", "1,000.00", "qwen"]
    assert max(map(len, table)) <= 80


def test_the_pools_table_has_a_column_for_each_word_of_the_ledger(made: Report) -> None:
    seconds = dict.fromkeys(STATES, 3600.0)
    shelf = ShelfRow("h100", "p5", seconds, sum(seconds.values()), None, None)
    _, row = pool_rows(structs.replace(made, bill=structs.replace(made.bill, shelves=(shelf,))))
    assert row == ["h100", "p5", f"{len(STATES)}.0", *["1.00"] * len(STATES)]


def test_tables_fit_80_columns(made: Report) -> None:
    tables = [line for line in lines(made) if not re.search(r"[.:;] |[.:]$", line)]
    assert len(tables) > 60
    assert max(len(each) for line in tables for each in line.split("\n")) <= 80


def test_the_page_stands_alone_and_says_everything_once(made: Report, gathered: Gathered) -> None:
    text = page(made, gathered)
    assert headline(made) in text
    assert not re.search(r"<(?:script|link|img)|https?://(?!www\.w3\.org)|url\((?!#)", text)
    sections = ("picture", "models", "requests", "teams", "pools", "free", "advice")
    order = [text.index(f'id="{name}"') for name in sections]
    assert all(one < other for one, other in pairwise(order))
    ids = Counter(re.findall(r' id="([^"]+)"', text))
    assert max(ids.values()) == 1
    assert "13 other models" in text
    assert "2027" in text
