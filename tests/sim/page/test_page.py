"""The page: complete in itself, the same bytes again, in both themes, with words and numbers beside each plot."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from rebalancer.drawing.bins import bins
from rebalancer.drawing.panels import COLOUR
from rebalancer.drawing.style import STYLE
from rebalancer.sim.contest.outcome import ContestRun, ModelOutcome, Paid, RunOutcome, SimulatedMove, outcome
from rebalancer.sim.contest.telling import OutcomeDifference, headline, rows, verdicts
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.page.beside import pictures
from rebalancer.sim.page.figures import figures
from rebalancer.sim.page.html import page
from rebalancer.sim.peers.hpa import HpaMetric
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.signals import WorkRate
from rebalancer.sim.peers.static import Static
from rebalancer.sim.scenario import Scenario, ScenarioModel

SECONDS = 2400
OWNED = (3, 3)
FIGURES = ["SLO violations", "Replicas", "Lent GPUs", "Queue", "Cost"]
TITLES = [
    "GPUs by model, and late requests",
    "keda@0.8 beside static, by model",
    "What came of it",
    *FIGURES,
    "What moved, and why",
]


def scenario() -> Scenario:
    """`busy` needs 2 replicas and, for ten minutes, 5; `calm` 1 all the time."""
    work = np.full(SECONDS, 2.0)
    work[900:1500] = 5.0
    busy = ScenarioModel("busy", work, work * 10, first=3)
    calm = ScenarioModel("calm <&>", np.ones(SECONDS), np.ones(SECONDS), first=3, floor=0)
    return Scenario("made", "0", (busy, calm), (8,), SECONDS, usd_per_gpu_hour=2.0)


@pytest.fixture(scope="module")
def runs() -> tuple[ContestRun, ...]:
    records = [play(scenario(), Static(), "static"), play(scenario(), Keda([HpaMetric(WorkRate(), 0.8)]), "keda@0.8")]
    moves: tuple[list[SimulatedMove], ...] = (
        [],
        [SimulatedMove(65.0, "busy gets 1 replica: it has 2.1 replicas of work on 2 <&>")],
    )
    return tuple(
        ContestRun(record, outcome(record, record.controller, OWNED), OWNED, of)
        for record, of in zip(records, moves, strict=True)
    )


@pytest.fixture(scope="module")
def html(runs: tuple[ContestRun, ...]) -> str:
    return made(runs)


def made(runs: tuple[ContestRun, ...]) -> str:
    return page("made <&>: two models", ["keda@0.8 <&> violates less."], rows([run.outcome for run in runs]), runs)


class Tags(HTMLParser):
    """Every tag with its attributes, and whether all that opened closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in {"meta", "line", "rect"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_same_runs_give_the_same_bytes(runs: tuple[ContestRun, ...], html: str) -> None:
    assert made(runs) == html


def test_nothing_is_loaded_from_anywhere_and_nothing_runs(html: str) -> None:
    tags = Tags(html)
    assert tags.open == []
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags.found}
    addresses = [value for _, given in tags.found for name, value in given.items() if name in {"src", "href"}]
    linked = [value for _, given in tags.found for name, value in given.items() if name == "xlink:href"]
    assert addresses == []
    assert all(value and value.startswith("#") for value in linked)
    assert set(re.findall(r"https?://[^\"'\s<]+", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in html


def test_every_reference_inside_finds_one_target(html: str) -> None:
    ids = [given["id"] for _, given in Tags(html).found if "id" in given]
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r"(?:url\(|xlink:href=\")#([^)\"]+)", html))
    assert referred
    assert referred <= set(ids)


def test_every_question_has_a_plot_words_and_numbers(html: str) -> None:
    assert [re.sub(r"<[^>]+>", "", each) for each in re.findall(r"<h2[^>]*>.*?</h2>", html)] == TITLES
    plots = [given for tag, given in Tags(html).found if tag == "svg" and given.get("role") == "img"]
    assert len(plots) == len(FIGURES) + 2
    assert all(len(given["aria-label"] or "") > 20 for given in plots)
    assert html.count("<details>") == len(FIGURES) + 2
    assert html.count("<table ") == len(FIGURES) + 3


def test_the_words_of_a_plot_are_its_numbers(runs: tuple[ContestRun, ...]) -> None:
    _, drawn = figures(runs)
    said = {figure.title: figure.caption for figure in drawn}
    static, keda = runs
    assert f"static: {100 * (static.outcome.violation or 0):.2f} % of all requests" in said["SLO violations"]
    assert "most Ready replicas: busy 3 at 0:00" in said["Replicas"]
    assert f"keda@0.8: {keda.outcome.lent_gpu_hours:,.1f} GPU-hours lent" in said["Lent GPUs"]
    assert f"static: {static.outcome.cost_usd:,.2f} USD in all" in said["Cost"]


def test_what_a_stranger_named_is_text(html: str) -> None:
    """The title, what is said under it, a model."""
    assert {"made &lt;&amp;&gt;", "keda@0.8 &lt;&amp;&gt;", "calm &lt;&amp;&gt;"} <= set(
        re.findall(r"[\w@.]+ &lt;&amp;&gt;", html)
    )
    assert "<&>" not in html


def test_svgs_are_well_formed_xml(html: str) -> None:
    drawn = [each for each in re.findall(r"<svg.*?</svg>", html, re.DOTALL) if "role=" in each[:2000]]
    assert len(drawn) == len(FIGURES) + 2
    for each in drawn:
        ET.fromstring(each)  # noqa: S314  our own text


def test_every_colour_is_the_themes(html: str) -> None:
    """Names that stand for colours are all replaced, and each is defined for light and for dark."""
    assert not set(COLOUR.values()) & set(re.findall(r"#[0-9a-f]{6}", html))
    used = set(re.findall(r"var\((--[\w-]+)\)", html))
    light, dark = STYLE.split("@media", 1)
    assert all(f"{name}:" in light and f"{name}:" in dark.split("} }")[0] for name in used)


def test_the_page_opens_with_what_it_is_worth_and_then_shows_who_held_the_gpus(html: str) -> None:
    assert re.search(r"<h1>keda@0.8 &lt;&amp;&gt; violates less\.</h1>\n<p>made &lt;&amp;&gt;: two models</p>", html)
    assert html.index('id="beside"') < html.index('id="verdicts"') < html.index('id="numbers"')
    assert html.index('id="numbers"') < html.index('id="violations"') < html.index('id="moves"')


def test_both_halves_of_the_first_picture_have_the_same_scales(runs: tuple[ContestRun, ...]) -> None:
    halves = pictures(runs, bins(SECONDS, 60))
    assert len({half.panels[1].least for half in halves}) == 1
    assert halves[0].panels[1].least == max(line.values.max() for half in halves for line in half.panels[1].lines)
    assert [half.panels[0].levels[0].value for half in halves] == [8, 8]


def test_every_move_of_the_service_is_told_with_its_reason_and_a_peer_has_none(html: str) -> None:
    assert "1 moves of keda@0.8" in html
    assert "moves of static" not in html
    assert ">0:01:05</th><td>busy gets 1 replica: it has 2.1 replicas of work on 2 &lt;&amp;&gt;</td>" in html


# --- words


LATER = "b is late with 2.00 points more of the requests than a"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (
            0.01,
            0.03,
            f"{LATER} (95 % interval +1.00 to +3.00): this counts",
        ),
        (
            -0.01,
            0.05,
            f"{LATER} (95 % interval -1.00 to +5.00): this does not count, it",
        ),
        (None, None, "too short to say"),
    ],
)
def test_a_difference_is_said_in_plain_words(low: float | None, high: float | None, words: str) -> None:
    counts = None if low is None or high is None else not low <= 0 <= high
    assert words in OutcomeDifference("a", "b", 0.02, low, high, counts).sentence


def _late(name: str, late: float) -> RunOutcome:
    only = ModelOutcome("chat", 1000.0, late / 1000, None, 0.0, 8.0, 0.0)
    return RunOutcome(name, 1000.0, late / 1000, None, "chat", late / 1000, 8.0, None, 0, 0.0, 0, (only,))


@pytest.mark.parametrize(
    ("before", "after", "gpus", "words"),
    [
        (200, 50, (8, 8), "75 % fewer late requests than under a on the same 8 GPUs: 50 instead of 200"),
        (50, 75, (8, 6), "50 % more late requests than under a on 6 GPUs instead of 8: 75 instead of 50"),
        (0, 3, (8, 8), "3 late requests on the same 8 GPUs, and none under a"),
        (0, 0, (8, 8), "As many late requests as under a on the same 8 GPUs: 0"),
        (1000, 999, (8, 8), "Less than 1 % fewer late requests than under a on the same 8 GPUs: 999 instead of 1,000"),
    ],
)
def test_the_headline_says_what_the_second_run_is_worth(
    before: int, after: int, gpus: tuple[int, int], words: str
) -> None:
    assert headline(_late("a", before), _late("b", after), gpus) == words


def test_a_verdict_says_better_or_worse_and_by_how_much() -> None:
    assert verdicts(_late("a", 200), _late("b", 50)) == ["chat: better, 5.00 % late instead of 20.00 %"]
    assert verdicts(_late("a", 50), _late("b", 200)) == ["chat: worse, 20.00 % late instead of 5.00 %"]
    assert verdicts(_late("a", 50), _late("b", 50)) == ["chat: no difference, 5.00 % late"]


def test_a_change_says_whether_it_is_better() -> None:
    table = {row[0]: row[-1] for row in rows([_late("a", 200), _late("b", 50)])}
    assert (table["violation"], table["GPU-hours"]) == ("-15.00 better", "0")
    assert {row[0]: row[-1] for row in rows([_late("a", 50), _late("b", 200)])}["violation"] == "+15.00 worse"


def test_owned_gpus_cost_the_same_whoever_uses_them_and_rented_ones_while_they_are_held() -> None:
    paid = Paid(8, 2.0, 1.0)
    assert paid.bill(np.full(3600, 3)) == (16.0, 0.0)
    assert paid.bill(np.full(3600, 8)) == (16.0, 0.0)
    assert paid.bill(np.full(1800, 12)) == (8.0, 2.0)


def test_what_rounds_to_nothing_has_no_minus() -> None:
    assert OutcomeDifference("a", "b", -0.000004, -0.00001, 0.02, counts=False).sentence == (
        "b is late with 0.00 points more of the requests than a (95 % interval +0.00 to +2.00): "
        "this does not count, it may be chance"
    )


def test_who_has_a_deadline_and_is_not_finished_waits_to_the_end_and_no_longer() -> None:
    work = np.full(SECONDS, 2.0)
    late = ScenarioModel("late", work, work, first=1, slo_wait_seconds=1e6, patience_seconds=1e6, deferred=True)
    record = play(Scenario("made", "0", (late,), (8,), SECONDS), Static(), "static")
    assert not np.isfinite(record.wait[0, -1])
    run = ContestRun(record, outcome(record, "static", (1,)), (1,))
    queue = next(each for each in figures([run])[1] if each.title == "Queue")
    # What comes at half time would be finished at the end; whoever comes then waits as long as is left.
    assert queue.caption == "static, most seconds of waiting: late 1200 at 0:19:50."
    assert queue.numbers[-1] == ["0:38", "120.0"]
