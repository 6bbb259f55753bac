"""What a GPU costs: the command's word, then a table with dates, then the policy's; unknown is not zero."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rebalancer.domain.placement import INSTANCE_TYPE
from rebalancer.domain.pool_view import PoolView
from rebalancer.ledger.books import Books, patience_seconds
from rebalancer.ledger.inventory import Shelf, capacity_type, inventory
from rebalancer.report.bill import bill
from rebalancer.report.gathering import Gathered
from rebalancer.report.prices import Prices, PriceUnknown, dated_prices, prices
from rebalancer.report.report import report
from tests.builders import a_model, a_node, a_policy, a_pool, a_snapshot
from tests.house.repository import ROOT

SPOT, OWNED = Shelf("a100", "p5", "spot"), Shelf("a100", "p5", "on-demand")
HOUR = 494_000  # since the epoch: 2026-05-10 08:00 UTC
TABLE = """since,instance_type,capacity_type,usd_per_gpu_hour
2026-05-10T08:00:00Z,p5,spot,1.5
,p5,spot,2.0
2026-05-10T10:00:00+01:00,p5,spot,1.25
"""


def test_the_policy_may_name_an_instance_type_and_how_it_was_bought() -> None:
    pool = a_pool("a100", price_per_gpu_hour=3.0, instance_prices={"p5": 4.0, "p5/spot": 1.0})
    of = prices(a_policy(pools=(pool,)), {}, set())
    assert [of.of(shelf, HOUR) for shelf in (SPOT, OWNED, Shelf("a100", "p4"))] == [1.0, 4.0, 3.0]
    assert Prices({}).of(SPOT, HOUR) is None


def test_an_instance_type_that_costs_nothing_costs_nothing() -> None:
    pool = a_pool("a100", price_per_gpu_hour=3.0, instance_prices={"p5": 0.0})
    assert prices(a_policy(pools=(pool,)), {}, set()).of(Shelf("a100", "p5"), 0) == 0.0


def test_an_hour_costs_what_the_table_says_at_its_begin_and_other_capacity_what_it_did() -> None:
    pool = a_pool("a100", price_per_gpu_hour=3.0)
    of = prices(a_policy(pools=(pool,)), {}, set(), dated_prices(TABLE.splitlines(), "spot.csv"))
    assert [of.of(SPOT, HOUR + n) for n in (-1, 0, 1, 2)] == [2.0, 1.5, 1.25, 1.25]
    assert of.of(OWNED, HOUR) == 3.0
    given = prices(a_policy(pools=(pool,)), {"p5/spot": 0.5}, {SPOT}, dated_prices(TABLE.splitlines(), "spot.csv"))
    assert given.of(SPOT, HOUR) == 0.5


def test_capitals_and_blanks_make_no_difference_in_a_table() -> None:
    table = "Since, Instance_Type , capacity_type,USD_per_GPU_hour\n, P5 ,Spot, 1.5\n,Standard_ND96,,4\n"
    of = Prices({}, {}, dated_prices(table.splitlines(), "spot.csv"))
    assert [of.of(shelf, HOUR) for shelf in (SPOT, OWNED, Shelf("a100", "Standard_ND96"))] == [1.5, None, 4.0]


def test_what_a_table_prices_and_was_not_there_then_is_named() -> None:
    table = f"{TABLE},p4,spot,1\n,p5,on-demand,3\n2027-01-01T00:00:00Z,p5,reserved,2\n,,,1\n"
    dated = dated_prices(table.splitlines(), "spot.csv")
    there = [(HOUR, SPOT), (HOUR, OWNED), (HOUR, Shelf("a100", "p5", "reserved"))]
    assert Prices({}, {}, dated).unused(there) == ["", "p4/spot", "p5/reserved"]
    assert Prices({}, {"p5/spot": 1.0}, dated).unused(there) == ["", "p4/spot", "p5/reserved", "p5/spot"]


def test_the_report_says_which_prices_of_a_table_priced_nothing(gathered: Gathered) -> None:
    dated = dated_prices([*TABLE.splitlines(), ",p5.48xlarge,,3"], "spot.csv")
    (note,) = [note for note in report(gathered, {}, (), dated).notes if note.startswith("--prices")]
    assert note == "--prices: p5/spot priced nothing of this time; there are p5.48xlarge, p5e.48xlarge."


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("when,price\n", "spot.csv: its first line must name since, instance_type"),
        ("since,instance_type,capacity_type,usd_per_gpu_hour\n,p5,spot,free\n", "spot.csv, line 2: could not convert"),
        ("since,instance_type,capacity_type,usd_per_gpu_hour\n,p5,spot,nan\n", "line 2: nan USD .* not between 0 and"),
        ("since,instance_type,capacity_type,usd_per_gpu_hour\nmonday,p5,,1\n", "line 2: Invalid isoformat string"),
        ("since,instance_type,capacity_type,usd_per_gpu_hour\n,p5\n", "line 2: it has fewer columns than the first"),
    ],
)
def test_a_table_that_is_none_says_in_which_line(table: str, said: str) -> None:
    with pytest.raises(PriceUnknown, match=said):
        dated_prices(table.splitlines(), "spot.csv")


@pytest.mark.parametrize(
    ("labels", "bought"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on-demand"),
        ({"kubernetes.azure.com/scalesetpriority": "regular"}, "on-demand"),
        ({"cloud.google.com/gke-spot": "true"}, "spot"),
        ({"cloud.google.com/gke-preemptible": "false"}, ""),
        ({}, ""),
    ],
)
def test_how_a_node_was_bought_is_read_from_its_labels(labels: dict[str, str], bought: str) -> None:
    assert capacity_type(labels) == bought


def test_two_hours_at_two_prices_add_up_in_every_sum() -> None:
    pool = a_pool("a100", price_per_gpu_hour=3.0)
    policy = a_policy(a_model("a", entitlement=1), pools=(pool,), plan_every_seconds=600.0)
    labels = {**pool.node_labels, INSTANCE_TYPE: "p5", "karpenter.sh/capacity-type": "spot"}
    books = Books()
    for at in range(HOUR * 3600, (HOUR + 2) * 3600 + 1, 600):
        nodes = (a_node("a100-1", 8, labels=labels), a_node("a100-2", 8, labels=labels))
        seen = a_snapshot(policy, {"a": 1}, at=float(at), pools=(PoolView("a100", nodes),))
        books.see(inventory(seen, policy), patience_seconds(policy))
    made = bill(books, policy, prices(policy, {}, set(), dated_prices(TABLE.splitlines(), "spot.csv")))
    assert made.usd == pytest.approx(16 * (1.5 + 1.25))
    assert sum(row.usd or 0.0 for row in made.models) == pytest.approx(made.usd)
    (shelf,) = made.shelves
    assert (shelf.instance_type, shelf.capacity_type) == ("p5", "spot")
    assert shelf.usd_per_gpu_hour == pytest.approx(1.375)


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq: install your system's package for it")
def test_the_recipe_of_the_docs_makes_a_table_of_aws_own_history(tmp_path: Path) -> None:
    history = [
        {"AvailabilityZone": "us-east-1a", "InstanceType": name, "SpotPrice": price, "Timestamp": at}
        for name, price, at in (
            ("p5.48xlarge", "12.160000", "2027-01-15T08:30:00+00:00"),
            ("g6.12xlarge", "1.200000", "2027-01-15T07:00:00.000Z"),
            ("p5.48xlarge", "11.200000", "2027-01-15T07:00:00+00:00"),
        )
    ]
    (tmp_path / "history.json").write_text(json.dumps({"SpotPriceHistory": history}))
    recipe = re.search(r"^jq -r .*?> prices.csv$", (ROOT / "docs/report.md").read_text(), re.DOTALL | re.MULTILINE)
    assert recipe is not None
    subprocess.run(["sh", "-ec", recipe[0]], cwd=tmp_path, check=True, timeout=30)  # noqa: S603, S607  # as users do
    table = dated_prices((tmp_path / "prices.csv").read_text().splitlines(), "prices.csv")
    assert {kind: [price.usd for price in each] for kind, each in table.items()} == {
        "p5.48xlarge/spot": [1.4, 1.52],
        "g6.12xlarge/spot": [0.3],
    }
