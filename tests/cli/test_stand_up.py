"""`rebalancer stand-up`: a person ends a stand-down, in their own name, after a look at what comes then."""

import pytest

from rebalancer.api.ports.requests import OverrideRequest, Subject
from rebalancer.sandbox.api.resources import OVERRIDES
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.conftest import Heeding
from tests.cli.night import Night
from tests.cli.running import rebalancer

pytestmark = pytest.mark.usefixtures("people")

Captured = pytest.CaptureFixture[str]


async def test_it_makes_an_override_with_actor_and_reason_that_lasts_as_the_service_says(
    kubernetes: EmbeddedKubernetes, night: Night, service: Heeding, capsys: Captured
) -> None:
    service.message = "foreign changes of qwen-32b count only since 03:12:07"
    assert await rebalancer("stand-up", "qwen-32b", "--reason", "argocd ignores it now", "--yes") == 0
    (made,) = kubernetes.store.list(OVERRIDES)
    assert made["metadata"]["namespace"] == "serving"
    assert made["spec"] == {
        "kind": "standUp",
        "target": {"model": "qwen-32b"},
        "reason": "argocd ignores it now",
        "expiresAt": "2027-01-16T03:42:07Z",  # what the preview showed
        "actor": "oncall",
    }
    ((ask, _),) = night.asks
    assert ask == OverrideRequest("standUp", Subject(model="qwen-32b"), "argocd ignores it now")
    out, err = capsys.readouterr()
    name = made["metadata"]["name"]
    assert out == f"{name} in force. Undo: rebalancer override delete {name}\n"
    assert "count only since 03:12:07" in err


async def test_without_words_it_gives_a_reason_of_its_own_and_asks_before_it_writes(
    kubernetes: EmbeddedKubernetes, night: Night, capsys: Captured
) -> None:
    assert await rebalancer("stand-up", "qwen-32b") == 2
    assert "nobody is there to ask: add --yes" in capsys.readouterr().err
    assert await rebalancer("stand-up", "qwen-32b", "--dry-run") == 0
    assert list(kubernetes.store.list(OVERRIDES)) == []
    assert {ask.reason for ask, _ in night.asks} == {"the other writer is settled"}


async def test_an_override_that_changes_nothing_meanwhile_says_why(service: Heeding, capsys: Captured) -> None:
    service.message = "waits: stand-down until 14:05:00: kubectl changed ScaledObject qwen-32b 2 times within 600 s; "
    service.message += "`rebalancer stand-up qwen-32b` ends it"
    assert await rebalancer("override", "add", "pin", "qwen-32b", "4", "--reason", "x", "--yes") == 0
    assert service.message in capsys.readouterr().err
