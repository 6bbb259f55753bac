"""What readers are answered over HTTP: pages, explanations, decisions; what is not there; hostile names."""

from collections.abc import AsyncIterator
from dataclasses import replace as changed
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Trusting
from rebalancer.api.handlers.event_stream import page_parts
from rebalancer.api.http.json_codec import from_wire
from rebalancer.api.pages.more_gpus import MoreGpus
from rebalancer.api.pages.values.decisions import DecisionPage, Decisions
from rebalancer.api.pages.values.explanation import Explanation, NodeExplanation
from rebalancer.api.pages.values.model import ModelPage
from rebalancer.api.pages.values.overview import Overview
from rebalancer.api.pages.values.pool import PoolPage
from rebalancer.api.ports.page_data import NotRecorded, PageData, RecordedCycle, RecordsBusy
from rebalancer.api.ports.timeline import DecisionRow, TimelineEvent
from rebalancer.api.serving.server import Servers
from rebalancer.api.text.explain import render_explain
from rebalancer.domain.account import GoingReplica, NoticeAccount
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.loop.clock import RealClock
from tests.api.decided import some_status_port
from tests.api.page_data import SomePageData
from tests.api.scenes import PAGE_DATA, SNAPSHOT, chart, the_model_page, the_overview, the_pool_page
from tests.cli.scene import NOW, PLAN

RECORDED_CYCLE = RecordedCycle(
    PLAN,
    SNAPSHOT,
    "policy-1",
    "code-1",
    (
        Outcome(
            Intent("1-sdxl", 48_216, NOW, "release", "sdxl", "deployment/serving/sdxl", 6, 2, "drain"), NOW, WRITTEN
        ),
    ),
)


class Reads:
    """The API over the scene."""

    def __init__(self) -> None:
        self.source = SomePageData(seen=PAGE_DATA)
        self.source.charts = {"llama-70b": chart()}
        self.servers = Servers(
            some_status_port(),
            Authentication(Trusting(), RealClock()),
            ("127.0.0.1", 0),
            ("127.0.0.1", 0),
            page_parts(self.source),
        )

    async def get(self, path: str, **headers: str) -> tuple[int, bytes, Any]:
        """Status, body and headers."""
        url = f"http://127.0.0.1:{self.servers.api_port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
            return response.status, await response.read(), response.headers

    async def refused(self, path: str) -> tuple[int, str]:
        """Status and words of an error."""
        status, body, _ = await self.get(path)
        said = msgspec.json.decode(body)
        return status, f"{said['error']}; {said['fix']}; {said['where']}"


@pytest.fixture
async def reads() -> AsyncIterator[Reads]:
    made = Reads()
    await made.servers.start()
    yield made
    await made.servers.stop()


async def test_pages_are_answered_as_the_values_that_they_are(reads: Reads) -> None:
    assert from_wire((await reads.get("/v1/overview"))[1], Overview) == the_overview()
    page = from_wire((await reads.get("/v1/models/llama-70b"))[1], ModelPage)
    assert replace(page, more_gpus=None) == the_model_page()
    assert page.more_gpus == from_wire((await reads.get("/v1/models/llama-70b/more-gpus"))[1], MoreGpus)
    assert from_wire((await reads.get("/v1/pools/spot"))[1], PoolPage) == the_pool_page("spot")


async def test_rows_are_asked_for_in_the_url(reads: Reads) -> None:
    _, body, _ = await reads.get("/v1/overview?q=chat&state=lending&sort=model&page=1")
    assert [row.model for row in from_wire(body, Overview).models] == ["mixtral-8x7b"]


@pytest.mark.parametrize("query", ["state=sad", "sort=colour", "page=0", "page=x", "q=" + "x" * 64, "colour=red"])
async def test_a_question_that_nobody_understands_is_refused(reads: Reads, query: str) -> None:
    status, said = await reads.refused(f"/v1/overview?{query}")
    assert status == 400
    assert f"query.{query.partition('=')[0]}" in said


async def test_an_explanation_is_the_lines_that_explain_prints_and_those_of_the_models_page(reads: Reads) -> None:
    found = from_wire((await reads.get("/v1/explain/llama-70b"))[1], Explanation)
    assert "\n".join(found.explanation) == render_explain(PLAN, SNAPSHOT, "llama-70b")
    page = from_wire((await reads.get("/v1/models/llama-70b"))[1], ModelPage)
    assert page.explanation == found.explanation
    assert [row.model for row in found.unmet] == ["llama-70b"]
    assert [change.model for change in found.changes] == ["llama-70b"]


async def test_an_instant_is_explained_by_what_was_decided_then(reads: Reads) -> None:
    asked: list[float | None] = []

    def records(_cycle: int | None, at: float | None) -> RecordedCycle:
        asked.append(at)
        return RECORDED_CYCLE

    reads.source.records = records
    reads.source.show(changed(PAGE_DATA, status=replace(PAGE_DATA.status, plan=replace(PLAN, cycle=99_999))))
    found = from_wire((await reads.get("/v1/explain/sdxl?at=2027-01-16T03:12:07Z"))[1], Explanation)
    assert (asked, found.cycle) == ([NOW], 48_216)


async def test_what_the_journal_does_not_have_is_404_with_the_oldest_instant_that_it_has(reads: Reads) -> None:
    def records(_cycle: int | None, _at: float | None) -> RecordedCycle:
        raise NotRecorded("the journal does not reach back to then", oldest=NOW)

    reads.source.records = records
    for path, where in (("/v1/explain/sdxl?at=2020-01-01T00:00:00Z", "query.at"), ("/v1/decisions/7", "path.cycle")):
        assert await reads.refused(path) == (
            404,
            f"the journal does not reach back to then; it reaches back to 2027-01-16T03:12:07Z; {where}",
        )


async def test_a_replica_that_stands_by_says_that_it_records_nothing_and_who_leads(reads: Reads) -> None:
    standing_by = replace(PAGE_DATA.status, instance="rb-1", leader="rb-0")
    reads.source.show(changed(PAGE_DATA, status=standing_by))
    for path, where in (("/v1/explain/sdxl?at=2020-01-01T00:00:00Z", "query.at"), ("/v1/decisions/7", "path.cycle")):
        said = "the journal does not have it: rb-1 stands by and records nothing; ask rb-0, which leads"
        assert await reads.refused(path) == (404, f"{said}; by the kubeconfig our command line does; {where}")
    _, body, headers = await reads.get("/v1/decisions")
    page = from_wire(body, Decisions)
    assert (page.decisions, page.instance, page.leader) == ((), "rb-1", "rb-0")
    assert headers["Rebalancer-Leader"] == "rb-0"


async def test_a_busy_journal_is_503_and_says_when_to_come_back(reads: Reads) -> None:
    def records(_cycle: int | None, _at: float | None) -> RecordedCycle:
        raise RecordsBusy("4 others read the journal")

    reads.source.records = records
    status, _, headers = await reads.get("/v1/decisions/7")
    assert (status, headers["Retry-After"]) == (503, "5")


async def test_a_cycle_is_answered_with_inputs_plan_and_outcomes_whole_or_for_one_model(reads: Reads) -> None:
    reads.source.records = lambda _cycle, _at: RECORDED_CYCLE
    whole = from_wire((await reads.get("/v1/decisions/48216"))[1], DecisionPage)
    assert (whole.plan, whole.inputs, whole.outcomes) == (PLAN, SNAPSHOT, RECORDED_CYCLE.outcomes)
    assert (whole.policy_digest, whole.code_digest) == ("policy-1", "code-1")
    alone = from_wire((await reads.get("/v1/decisions/48216?model=qwen-32b"))[1], DecisionPage)
    assert [each.model for each in alone.plan.models] == ["qwen-32b"]
    assert [each.id for each in alone.inputs.models] == ["qwen-32b"]
    assert [each.name for each in alone.inputs.pools] == ["a100"]
    assert alone.outcomes == ()
    assert alone.plan.models[0].steps == PLAN.models[2].steps


async def test_decisions_are_paged_newest_first_and_filtered(reads: Reads) -> None:
    def row(cycle: int) -> DecisionRow:
        kind, model = ("grant", "a") if cycle % 2 else ("refusal", "b")
        return DecisionRow(cycle, NOW + cycle, (TimelineEvent(NOW + cycle, kind, "x", cycle, model),))

    reads.source.rows = tuple(row(cycle) for cycle in range(1, 11))
    assert await cycles(reads, "?limit=4") == ([10, 9, 8, 7], 7)
    assert await cycles(reads, "?limit=4&before=7") == ([6, 5, 4, 3], 3)
    assert await cycles(reads, "?limit=4&before=3") == ([2, 1], None)
    assert await cycles(reads, "?model=a&limit=2") == ([9, 7], 7)
    assert await cycles(reads, "?kind=refusal&before=4") == ([2], None)
    assert await cycles(reads, "?kind=refusal&model=a") == ([], None)


async def cycles(reads: Reads, query: str) -> tuple[list[int], int | None]:
    found = from_wire((await reads.get(f"/v1/decisions{query}"))[1], Decisions)
    return [each.cycle for each in found.decisions], found.next_before


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/models/gpt", "no model 'gpt' in the policy; models: llama-70b, mixtral-8x7b, qwen-32b, sdxl; path.model"),
        (
            "/v1/explain/gpt",
            "no model 'gpt' in the policy; models: llama-70b, mixtral-8x7b, qwen-32b, sdxl; path.model",
        ),
        ("/v1/pools/h100", "no pool 'h100' in the policy; pools: a100, spot; path.pool"),
        ("/v1/decisions/last", "no cycle 'last'; cycles are whole numbers; path.cycle"),
        (
            "/v1/decisions/9999999999999999999999",
            "no cycle '99999999999999999999'; cycles are whole numbers; path.cycle",
        ),
    ],
)
async def test_what_is_not_there_is_404_and_names_what_is(reads: Reads, path: str, said: str) -> None:
    assert await reads.refused(path) == (404, said)


@pytest.mark.parametrize("path", ["/v1/models/sdxl", "/v1/explain/sdxl", "/v1/plan"])
async def test_before_the_first_decision_it_says_where_to_look(reads: Reads, path: str) -> None:
    reads.source.show(changed(PAGE_DATA, status=replace(PAGE_DATA.status, plan=None)))
    if path == "/v1/plan":
        return
    status, said = await reads.refused(path)
    assert (status, "/readyz" in said) == (503, True)


async def test_big_answers_are_packed_for_who_unpacks(reads: Reads) -> None:
    _, plain, headers = await reads.get("/v1/models/llama-70b", **{"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in headers
    _, unpacked, headers = await reads.get("/v1/models/llama-70b", **{"Accept-Encoding": "gzip"})
    assert headers["Content-Encoding"] == "gzip"
    assert unpacked == plain
    assert int(headers["Content-Length"]) < len(plain) / 3


# --- names, reasons and messages come from elsewhere

HOSTILE = ("<script>alert(1)</script>", "a\u202eb\u2066", "a\nb\r\x1b[31m", "x" * 63, "a\x00b", "\u200b")


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_name_is_data_in_every_read_and_never_draws(reads: Reads, name: str) -> None:
    reads.source.show(hostile_page_data(name))
    for path in ("/v1/overview", f"/v1/models/{HOSTILE_MODEL}", "/v1/pools/a100", f"/v1/explain/{HOSTILE_MODEL}"):
        status, body, headers = await reads.get(path)
        assert status == 200
        assert headers["Content-Type"].startswith("application/json")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert [text for text in texts(msgspec.json.decode(body)) if not text.isprintable()] == [], path
        assert name.isprintable() is (name in body.decode()), path


HOSTILE_MODEL = "llama-70b"


def hostile_page_data(name: str) -> PageData:
    """The scene in which everything that comes from elsewhere is called `name`."""
    seen = PAGE_DATA.snapshot
    model, *others = seen.models
    targets = tuple(
        replace(target, pods=tuple(replace(pod, name=name) for pod in target.pods)) for target in model.targets
    )
    nodes = tuple(replace(node, name=name) if node.name == "a100-2" else node for node in seen.pools[0].nodes)
    pools = (replace(seen.pools[0], nodes=nodes), *seen.pools[1:])
    override = replace(seen.overrides[0], name=name, actor=name, reason=name, subject="llama-70b", message=name)
    notice = replace(seen.notices[0], node=name, kind=name, source=name)
    plan = replace(
        PLAN,
        models=(replace(PLAN.models[0], why=name), *PLAN.models[1:]),
        unmet=(replace(PLAN.unmet[0], why=name, constraint=name),),
        refusals=(replace(PLAN.refusals[0], why=name, until=None),),
        changes=tuple(replace(change, reason=name) for change in PLAN.changes),
    )
    status = replace(
        PAGE_DATA.status, cluster=name, policy_problems=(name,), plan=plan, overrides=(override,), notices=(notice,)
    )
    snapshot = replace(
        seen, models=(replace(model, targets=targets), *others), pools=pools, overrides=(override,), notices=(notice,)
    )
    return changed(PAGE_DATA, status=status, snapshot=snapshot)


def texts(value: object) -> list[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in value.values() for text in texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in texts(each)]
    return []


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a%0Ab", "%E2%80%AE", "x" * 200, "..%2F..%2Fetc", "%00"])
async def test_a_hostile_path_is_told_back_as_text(reads: Reads, name: str) -> None:
    for path in (f"/v1/models/{name}", f"/v1/explain/{name}", f"/v1/pools/{name}", f"/v1/decisions/{name}"):
        status, said = await reads.refused(path)
        assert status == 404
        assert said.isprintable()
        assert len(said) < 300


async def test_a_node_under_notice_is_explained_by_its_accounts_and_another_is_404(reads: Reads) -> None:
    gone = GoingReplica("u1", "b", 2.0, ended=True, gone_by="rebalancer", gone_at=NOW - 10)
    account = NoticeAccount(
        "n9", "fault", "kubernetes", "a100", "likely", NOW - 80, NOW - 80, NOW + 40, (gone, GoingReplica("u2", "b"))
    )
    reads.source.show(changed(PAGE_DATA, accounts=(account,)))
    found = from_wire((await reads.get("/v1/nodes/n9"))[1], NodeExplanation)
    assert found.accounts == (account,)
    assert found.explanation[0] == str(account)
    assert [line for line in found.explanation if line.startswith("replica")] == [
        "replica  u1 of b gone 03:11:57 by rebalancer, 2 requests in flight",
        "replica  u2 of b is there, unknown requests in flight",
    ]
    status, said = await reads.refused("/v1/nodes/n8")
    assert status == 404
    assert said.startswith(
        "no notice about node 'n8' stands, and none ended in the last hour; "
        "nodes with a notice now or in the last hour: n9, "
    )
