"""Overrides from the command line: one object, in the person's own name, after a look at what it would do."""

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.api.ports.requests import OverrideRequest, Subject
from rebalancer.domain.plan import OverrideState
from rebalancer.sandbox.api.resources import OVERRIDES, Obj, Target
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.sandbox.api.status import StatusError
from tests.cli.conftest import Heeding
from tests.cli.night import SAYS, Night
from tests.cli.running import rebalancer
from tests.cli.scene import PLAN, RESUME_PREVIEW

pytestmark = pytest.mark.usefixtures("people")

CAP = ("override", "add", "cap", "qwen-32b", "2", "--for", "30m", "--reason", "TICKET-1")
NOBODY_THERE = "http://127.0.0.1:1"
Captured = pytest.CaptureFixture[str]


def made(kubernetes: EmbeddedKubernetes) -> list[Obj]:
    return list(kubernetes.store.list(OVERRIDES))


async def test_an_override_becomes_an_object_in_the_persons_name(
    kubernetes: EmbeddedKubernetes, night: Night, capsys: Captured
) -> None:
    assert await rebalancer(*CAP, "--yes") == 0
    (override,) = made(kubernetes)
    assert override["spec"] == {
        "kind": "cap",
        "target": {"model": "qwen-32b"},
        "value": 2,
        "reason": "TICKET-1",
        "expiresAt": "2027-01-16T03:42:07Z",  # what the preview showed
        "actor": "oncall",
    }
    assert override["metadata"]["namespace"] == "serving"
    name = override["metadata"]["name"]
    out, err = capsys.readouterr()
    assert out == f"{name} in force. Undo: rebalancer override delete {name}\n"
    assert err.splitlines() == list(night.preview.lines)
    (ask, key), *more = night.asks
    assert ask == OverrideRequest("cap", Subject(model="qwen-32b"), "TICKET-1", 2, 1800.0)
    assert len(key) >= 32
    assert not more


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_lost_reply_makes_no_second_object(kubernetes: EmbeddedKubernetes, lost: int, capsys: Captured) -> None:
    kubernetes.faults.lose_next_replies(lost, method="POST", path_part="/overrides")
    assert await rebalancer(*CAP, "--yes") == 0
    assert len(made(kubernetes)) == 1
    assert "in force" in capsys.readouterr().out


async def test_the_same_key_twice_is_the_same_decision_and_another_decision_is_refused(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    for _ in range(2):
        assert await rebalancer(*CAP, "--yes", "--key", "pager-17") == 0
    assert len(made(kubernetes)) == 1
    other = ("override", "add", "cap", "qwen-32b", "1", "--reason", "TICKET-1")
    assert await rebalancer(*other, "--yes", "--key", "pager-17") == 1
    assert "another decision, made with the same --key" in capsys.readouterr().err
    assert await rebalancer(*CAP, "--yes") == 0
    assert len(made(kubernetes)) == 2


async def test_what_the_preview_refuses_is_not_written(
    kubernetes: EmbeddedKubernetes, night: Night, capsys: Captured
) -> None:
    night.preview = replace(night.preview, refused="cap 0 is below the floor 1 of qwen-32b; set allowBelowFloor")
    for way in ("--yes", "--dry-run"):
        assert await rebalancer(*CAP, way) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("error: it would be refused: cap 0 is below the floor 1")
    assert made(kubernetes) == []


@pytest.mark.parametrize(
    ("phase", "message", "code", "said"),
    [
        ("Refused", "no such model", 1, "is refused: no such model; take it back: rebalancer override delete"),
        ("Superseded", "by ov-1", 0, "accepted; superseded, by ov-1. Undo:"),
        ("InForce", "applied as far as it fits: 3 of 4", 0, "applied as far as it fits: 3 of 4\n"),
    ],
)
async def test_what_becomes_of_it_is_told(
    service: Heeding, phase: str, message: str, code: int, said: str, capsys: Captured
) -> None:
    service.phase, service.message = phase, message
    assert await rebalancer(*CAP, "--yes") == code
    out, err = capsys.readouterr()
    assert said in out + err


@pytest.mark.parametrize("code", [503, 403])
async def test_an_override_that_is_made_and_then_cannot_be_read_is_made(
    kubernetes: EmbeddedKubernetes, code: int, capsys: Captured
) -> None:
    kubernetes.faults.fail_next(99, code, method="GET", path_part="/overrides/")
    assert await rebalancer(*CAP, "--yes") == 0
    (override,) = made(kubernetes)
    name = override["metadata"]["name"]
    out, err = capsys.readouterr()
    assert out == f"{name} accepted; not seen in force. Undo: rebalancer override delete {name}\n"
    assert (
        f"what became of it cannot be read: get /apis/rebalancer.io/v1alpha1/namespaces/serving/overrides/{name}" in err
    )


async def test_without_anybody_there_nothing_is_written_unless_yes_is_said(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    assert await rebalancer(*CAP) == 2
    assert made(kubernetes) == []
    assert "nobody is there to ask: add --yes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("drain", "spot-2"), "spot-2"),
        (("exclude", "pool/spot"), "spot"),
        (("cap", "qwen-32b", "0", "--allow-below-floor"), "qwen-32b"),
    ],
)
async def test_what_is_severe_wants_its_name_typed_and_yes_is_not_enough(
    kubernetes: EmbeddedKubernetes, arguments: tuple[str, ...], name: str, capsys: Captured
) -> None:
    add = ("override", "add", *arguments, "--reason", "x")
    for wrong in (("--yes",), ("--yes", "--confirm", "spot-3")):
        assert await rebalancer(*add, *wrong) == 2
        assert f"--confirm {name}" in capsys.readouterr().err
    assert made(kubernetes) == []
    assert await rebalancer(*add, "--confirm", name) == 0
    (override,) = made(kubernetes)
    assert name in override["spec"]["target"].values()


async def test_a_dry_run_writes_nothing_and_says_what_it_would_write(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    assert await rebalancer(*CAP, "--dry-run") == 0
    assert "would create Override serving/ov-" in capsys.readouterr().out
    assert await rebalancer("override", "add", "drain", "spot-2", "--reason", "x", "--dry-run") == 0
    assert made(kubernetes) == []


async def test_with_the_service_away_it_says_so_and_goes_on(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    away = (*CAP, "--yes", "--server", NOBODY_THERE)
    assert await rebalancer(*away) == 2
    assert "add -n NAMESPACE" in capsys.readouterr().err
    assert await rebalancer(*away, "-n", "serving") == 0
    assert capsys.readouterr().err.startswith(f"no preview: no answer from {NOBODY_THERE}")
    (override,) = made(kubernetes)
    lasts = datetime.fromisoformat(override["spec"]["expiresAt"]) - datetime.fromisoformat(
        override["metadata"]["creationTimestamp"]
    )
    assert abs(lasts.total_seconds() - 1800) <= 3


async def test_a_service_that_does_not_let_us_in_is_no_obstacle_to_what_kubernetes_allows(
    kubernetes: EmbeddedKubernetes, night: Night, capsys: Captured
) -> None:
    night.token = "another"
    assert await rebalancer(*CAP, "--yes", "-n", "serving") == 0
    assert "run rebalancer login" in capsys.readouterr().err
    assert len(made(kubernetes)) == 1


async def test_what_kubernetes_forbids_is_said_and_not_done(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    def no(target: Target, old: Obj | None, new: Obj) -> None:
        raise StatusError(403, "overrides.rebalancer.io is forbidden: oncall cannot create")

    kubernetes.verbs.admit = no
    assert await rebalancer(*CAP, "--yes") == 1
    assert "you may not create overrides" in capsys.readouterr().err
    assert made(kubernetes) == []


async def test_json_is_the_override_as_the_api_tells_it(capsys: Captured) -> None:
    assert await rebalancer(*CAP, "--yes", "-o", "json") == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["kind"], told["actor"], told["phase"]) == ("cap", "oncall", "InForce")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["expiresAt"])
    assert "now  qwen-32b" in err


async def test_quiet_is_the_name_alone(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    assert await rebalancer(*CAP, "--yes", "-q") == 0
    (override,) = made(kubernetes)
    assert capsys.readouterr() == (f"{override['metadata']['name']}\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cap", "qwen-32b"), "cap needs a number of replicas"),
        (("pause", "qwen-32b", "3"), "pause takes no number"),
        (("cap", "node/spot-2", "2"), "cap is about a model, not a node"),
        (("drain", "model/x"), "drain is about a node or a pool"),
        (("drain", "spot-2", "--model", "x"), "--model is for exclude"),
        (("floor", "qwen-32b", "2", "--allow-below-floor"), "--allow-below-floor is for pin and cap"),
        (("cap", "qwen-32b", "2", "--for", "soon"), "--for soon: say a duration"),
        (("cap", "qwen-32b", "2", "--for", "0m"), "more than 0 s"),
        (("shrink", "qwen-32b"), "no 'shrink'; allowed: pause"),
    ],
)
async def test_words_that_make_no_sense_are_usage_and_reach_nobody(
    kubernetes: EmbeddedKubernetes, night: Night, arguments: tuple[str, ...], said: str, capsys: Captured
) -> None:
    assert await rebalancer("override", "add", *arguments, "--reason", "x", "--yes") == 2
    assert said in capsys.readouterr().err
    assert night.asks == []
    assert made(kubernetes) == []


async def test_a_list_comes_from_kubernetes_while_the_service_is_away(capsys: Captured) -> None:
    assert await rebalancer(*CAP, "--yes", "-q") == 0
    name = capsys.readouterr().out.strip()
    assert await rebalancer("override", "list", "--server", NOBODY_THERE) == 0
    out, err = capsys.readouterr()
    assert name in out
    assert "as Kubernetes has it" in err


async def test_a_list_says_of_each_override_what_the_plan_does_with_it(night: Night, capsys: Captured) -> None:
    (cap,) = night.overrides.overrides
    assert cap.phase == ""
    state = OverrideState(cap.namespace, cap.name, cap.uid, "Superseded", "pin-sdxl is newer")
    night.now = replace(night.now, plan=replace(PLAN, overrides=(state,)))
    assert await rebalancer("override", "list", "-o", "wide") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if cap.name in line]
    assert "Superseded" in line
    assert line.endswith("pin-sdxl is newer")


async def test_a_list_is_told_as_the_objects_have_it_where_the_status_is_of_another_version(
    monkeypatch: pytest.MonkeyPatch, night: Night, capsys: Captured
) -> None:
    monkeypatch.setitem(SAYS, "/v1/status", lambda _: ["of another version"])
    assert await rebalancer("override", "list") == 0
    assert night.overrides.overrides[0].name in capsys.readouterr().out


async def test_a_list_is_of_one_namespace_and_of_what_is_not_over_in_json_too(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    async def listed(*choice: str) -> list[str]:
        assert await rebalancer("override", "list", "-o", "json", *choice, "--server", NOBODY_THERE) == 0
        return [each["name"] for each in json.loads(capsys.readouterr().out)["overrides"]]

    assert await rebalancer(*CAP, "--yes", "-q") == 0
    name = capsys.readouterr().out.strip()
    assert [await listed(), await listed("-n", "serving"), await listed("-n", "elsewhere")] == [[name], [name], []]

    (override,) = made(kubernetes)
    kubernetes.store.put({**override, "status": {"phase": "Expired"}})
    assert [await listed(), await listed("--all")] == [[], [name]]


async def test_delete_finds_the_override_wherever_it_is(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    assert await rebalancer(*CAP, "--yes", "-q") == 0
    name = capsys.readouterr().out.strip()
    assert await rebalancer("override", "delete", name, "--dry-run", "--server", NOBODY_THERE) == 0
    assert len(made(kubernetes)) == 1
    assert "no preview: " in capsys.readouterr().out, "it ends whether or not the service answers"
    kubernetes.faults.lose_next_replies(1, method="DELETE")
    assert await rebalancer("override", "delete", name) == 0
    assert made(kubernetes) == []
    assert await rebalancer("override", "delete", name) == 1
    assert f"no override {name}" in capsys.readouterr().err


async def test_delete_in_a_namespace_where_it_is_not_says_where_it_is(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    assert await rebalancer(*CAP, "--yes", "-q") == 0
    name = capsys.readouterr().out.strip()
    assert await rebalancer("override", "delete", name, "-n", "elsewhere") == 1
    assert capsys.readouterr().err == f"error: override {name} is in serving, not in elsewhere; it was not taken back\n"
    assert len(made(kubernetes)) == 1
    assert await rebalancer("override", "delete", name, "-n", "serving") == 0
    assert made(kubernetes) == []


async def test_delete_of_what_is_gone_from_its_namespace_already_is_no_error(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    assert await rebalancer(*CAP, "--yes", "-q") == 0
    delete = ("override", "delete", capsys.readouterr().out.strip(), "-n", "serving")
    for last in ("deleted", "was gone already"):
        assert await rebalancer(*delete) == 0
        out, err = capsys.readouterr()
        assert out.splitlines()[-1] == f"{delete[2]} {last}"
        assert err == ""
    assert await rebalancer(*delete, "--dry-run") == 0
    assert capsys.readouterr().out == f"{delete[2]} was gone already\n"
    kubernetes.faults.fail_next(1, 403, method="GET", path_part="v1alpha1/overrides")
    assert await rebalancer(*delete) == 0
    out, err = capsys.readouterr()
    assert out == f"{delete[2]} was gone already\n"
    assert err.startswith(f"warning: {delete[2]} is not in serving; you may not look whether")


async def test_delete_takes_several_and_one_that_is_not_there_holds_up_none(
    kubernetes: EmbeddedKubernetes, capsys: Captured
) -> None:
    for _ in range(2):
        assert await rebalancer(*CAP, "--yes", "-q") == 0
    first, second = capsys.readouterr().out.split()
    printed = f"override.rebalancer.io/{second}"  # as kubectl does
    assert await rebalancer("override", "delete", f"override/{first}", "none", printed, "--yes", "-q") == 1
    assert capsys.readouterr() == (
        f"{first}\n{second}\n",
        "error: no override none; rebalancer override list shows them\n",
    )
    assert made(kubernetes) == []


async def test_delete_shows_first_what_comes_without_it(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    assert await rebalancer(*CAP, "--yes", "-q") == 0
    name = capsys.readouterr().out.strip()
    assert await rebalancer("override", "delete", name) == 0
    line, deleted = capsys.readouterr().out.splitlines()
    assert (line, deleted) == (RESUME_PREVIEW.lines[0], f"{name} deleted")


async def test_delete_does_not_guess_between_namespaces(kubernetes: EmbeddedKubernetes, capsys: Captured) -> None:
    for namespace in ("serving", "batch"):
        spec = {
            "kind": "pause",
            "target": {"model": "m"},
            "reason": "r",
            "actor": "a",
            "expiresAt": "2027-01-16T00:00:00Z",
        }
        metadata = {"name": "same", "namespace": namespace}
        kubernetes.store.put(
            {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Override", "metadata": metadata, "spec": spec}
        )
    assert await rebalancer("override", "delete", "same") == 1
    assert "same is in batch, serving: say which with -n" in capsys.readouterr().err
    assert await rebalancer("override", "delete", "same", "-n", "batch") == 0
    assert [each["metadata"]["namespace"] for each in made(kubernetes)] == ["serving"]


async def test_without_a_kubeconfig_it_says_what_is_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    assert await rebalancer(*CAP, "--yes", "--kubeconfig", str(home / "none")) == 2
    assert f"kubeconfig {home / 'none'}: no such file" in capsys.readouterr().err
    monkeypatch.delenv("KUBECONFIG")
    assert await rebalancer(*CAP, "--yes") == 2
    assert capsys.readouterr().err.endswith(
        "error: no kubeconfig: there is no ~/.kube/config; name one with --kubeconfig or KUBECONFIG\n"
    )


async def test_a_context_that_is_not_there_is_said(home: Path, capsys: Captured) -> None:
    assert await rebalancer(*CAP, "--yes", "--context", "prod-ue") == 1
    assert "prod-ue" in capsys.readouterr().err
