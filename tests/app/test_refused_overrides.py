"""An override that planning refused sets nothing: neither a preview nor a model's page reckons with it."""

import pytest
from msgspec.structs import replace

from rebalancer.api.pages.overview import running_overrides
from rebalancer.api.text.summary import changes_when
from rebalancer.domain.people import Override
from rebalancer.planning import plan
from tests.api.decided import some_status_port
from tests.app.test_preview import a_scene, preview
from tests.builders import NOW, an_override

IN_30_DAYS = NOW + 30 * 86_400.0


def refused(kind: str, value: int | None = None, **fields: object) -> Override:
    """Planning refuses it: its end is too far away, unless `fields` say another reason."""
    fields = {"expires_at": IN_30_DAYS, **fields}
    return an_override(kind, "qwen-32b", value, name="old", uid="old", created_at=NOW - 60.0, **fields)


ELSEWHERE: dict[str, object] = {"expires_at": NOW + 600.0, "namespace": "elsewhere"}


@pytest.mark.parametrize("fields", [{}, ELSEWHERE, {**ELSEWHERE, "phase": "Refused", "message": "told before"}])
def test_a_preview_is_in_conflict_with_no_override_that_was_refused(fields: dict[str, object]) -> None:
    known = a_scene(refused("pause", None, **fields))
    decided = plan(known.snapshot, known.policy, known.memory).plan
    assert {each.phase for each in decided.overrides} <= {"Refused"}, "what was told already is not told again"
    seen = preview(known, "cap", "qwen-32b", 2)
    assert (seen.conflicts, seen.lines) == ((), preview(a_scene(), "cap", "qwen-32b", 2).lines)


def test_a_floor_guards_the_same_beside_a_floor_that_was_refused() -> None:
    alone, beside = (
        preview(known, "floor", "qwen-32b", 3).lines for known in (a_scene(), a_scene(refused("floor", 9)))
    )
    assert "qwen-32b keeps 3 of the 3 it has" in alone[0]
    assert beside == alone


@pytest.mark.parametrize(("expires_at", "ends"), [(IN_30_DAYS, 0), (NOW + 600.0, 1)])
def test_the_end_of_a_refused_override_changes_nothing(expires_at: float, ends: int) -> None:
    known = a_scene(refused("cap", 1, expires_at=expires_at))
    decided = plan(known.snapshot, known.policy, known.memory).plan
    status = replace(some_status_port().status(), plan=decided, overrides=known.snapshot.overrides, at=NOW)
    model, decision = known.policy.models[1], decided.models[1]
    assert model.id == decision.model == "qwen-32b"
    overrides = running_overrides(status, model.id)
    said = list(changes_when(model, decision, known.snapshot, decided.models, (), (), overrides))
    assert len([line for line in said if line.startswith("cap 1 by alice ends at")]) == ends
