"""The threat model tells of a stolen token what was tried on the API server, and how it was answered."""

from tests.chart.deeds import ALLOWED, BY_POLICY, BY_RBAC, deeds, with_keda
from tests.house.repository import ROOT

PAGE = ROOT / "docs/security.md"
TRIED = [*deeds("ns", "a", "b", "uid"), *with_keda("ns")]


def test_each_deed_of_a_thief_stands_in_the_threat_model_under_its_answer() -> None:
    text = PAGE.read_text()
    rows = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")}
    refused = {
        answer: " ".join(text.split(said)[1].split(".\n")[0].split())
        for answer, said in ((BY_POLICY, "grants the verb:"), (BY_RBAC, "refused by RBAC:"))
    }
    assert {deed.what for deed in TRIED if deed.answer == ALLOWED} <= rows
    for answer, told in refused.items():
        assert told == ", ".join(deed.what for deed in TRIED if deed.answer == answer)
