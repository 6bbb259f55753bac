"""Who changed the numbers that we write: by the field managers that the API server notes."""

import json

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.memory import Memory
from rebalancer.domain.snapshot import ForeignChange
from rebalancer.state import ClusterState, checkpoint
from tests.builders import NOW, a_model, a_policy
from tests.state.objects import a_cluster_node, a_scaled_object, a_state, a_workload, an_hpa, changed, feed, gone

OURS = Originals(1, 10)


def repaired_at(state: ClusterState) -> float | None:
    """Since when others have put b's numbers back."""
    (target,) = next(model for model in state.peek(NOW).models if model.id == "b").targets
    return target.repaired_at


def seen(*objects: ClusterObject, state: ClusterState) -> tuple[ForeignChange, ...]:
    """Foreign changes of b's target after these versions of its objects, 10 s apart."""
    for step, found in enumerate(objects, 1):
        feed(state, changed(replace(found, resource_version=str(100 + step)), at=NOW + 10.0 * step))
    (target,) = next(model for model in state.peek(NOW).models if model.id == "b").targets
    return target.foreign


def scaled(minimum: int, maximum: int, *writers: str, originals: Originals | None = OURS) -> ClusterObject:
    one = a_scaled_object()
    return replace(one, minimum=minimum, maximum=maximum, originals=originals, writers=writers or ("", ""))


def with_scaled_object(first: ClusterObject) -> ClusterState:
    return a_state(None, a_cluster_node(), a_workload(replicas=2), first)


def test_bounds_that_somebody_else_set_are_foreign_and_named() -> None:
    state = with_scaled_object(scaled(1, 4))
    assert seen(scaled(1, 9, "", "argocd"), scaled(1, 4), scaled(2, 4, "kubectl-edit", ""), state=state) == (
        ForeignChange(NOW + 10.0, "argocd"),
        ForeignChange(NOW + 30.0, "kubectl-edit"),
    )
    assert state.foreign_changes() == {"a": 0, "b": 2}


def test_our_own_writes_are_not_foreign_though_others_set_the_other_bound() -> None:
    assert seen(scaled(1, 6, "kubectl", ""), state=with_scaled_object(scaled(1, 4, "kubectl", ""))) == ()


def test_before_we_have_taken_it_over_everybody_may_write() -> None:
    state = with_scaled_object(scaled(1, 4, originals=None))
    assert seen(scaled(1, 9, "", "helm", originals=None), state=state) == ()


@pytest.mark.parametrize(("last", "repaired"), [(9, None), (4, NOW + 50.0)])
def test_bounds_of_ours_are_known_after_a_pause_in_which_somebody_scaled(last: int, repaired: float | None) -> None:
    state = with_scaled_object(scaled(1, 4))
    state.note_write("b", a_workload().ref, 4, NOW, minimum=1)
    theirs, by_hand = scaled(1, 9, "", "argocd"), replace(a_workload(replicas=1), writer="kubectl")
    seen(
        replace(theirs, paused=True),
        by_hand,
        theirs,
        scaled(1, 7, "", "argocd"),
        scaled(1, last, "", "argocd"),
        state=state,
    )
    assert repaired_at(state) == repaired


def test_who_takes_our_annotation_away_with_the_bounds_is_foreign() -> None:
    state = with_scaled_object(scaled(1, 4))
    assert seen(scaled(1, 9, "", "helm", originals=None), state=state) == (ForeignChange(NOW + 10.0, "helm"),)


def test_keda_follows_our_bounds_in_its_own_hpa_and_fights_nobody() -> None:
    made = replace(an_hpa(), owner_scaled_object="b", originals=OURS)
    state = with_scaled_object(scaled(1, 4))
    feed(state, changed(made))
    assert seen(replace(made, maximum=9, writers=("", "keda-operator")), state=state) == ()


def test_replicas_count_where_no_autoscaler_owns_them() -> None:
    by_hand = replace(a_workload(replicas=5), writer="kubectl")
    alone = a_state(None, a_cluster_node(), a_workload(replicas=2))
    assert seen(by_hand, by_hand, state=alone) == (ForeignChange(NOW + 10.0, "kubectl"),)
    assert seen(by_hand, state=with_scaled_object(scaled(1, 4))) == ()


def test_what_is_no_target_belongs_to_others_who_may_scale_it_as_they_like() -> None:
    state = a_state(a_policy(a_model("a")), a_cluster_node(), a_workload(replicas=2))
    for step, replicas in enumerate((5, 2, 5)):
        scaled = a_workload(replicas=replicas, writer="kubectl", resource_version=f"{50 + step}")
        feed(state, changed(scaled, at=NOW + step))
    state.set_policy(a_policy(a_model("a"), a_model("b")), NOW + 5.0)
    assert seen(state=state) == ()
    assert state.foreign_changes() == {"a": 0, "b": 0}
    by_hand = replace(a_workload(replicas=4), writer="kubectl")
    assert seen(by_hand, state=state) == (ForeignChange(NOW + 10.0, "kubectl"),)


def test_a_restart_forgets_no_foreign_change_and_adds_what_comes_then() -> None:
    before = with_scaled_object(scaled(1, 4))
    fought = seen(scaled(1, 9, "", "argocd"), scaled(1, 7, "", "argocd"), state=before)
    entry = checkpoint.memory_entry(Memory(), 41, NOW, {}, before.foreign_past())
    after = with_scaled_object(scaled(1, 4))
    after.restore_foreign(checkpoint.read([entry], ["b"], NOW + 30.0).foreign)
    assert seen(state=after) == fought
    assert after.foreign_past() == before.foreign_past()
    assert seen(scaled(2, 4, "kubectl-edit", ""), state=after) == (fought[1], ForeignChange(NOW + 10.0, "kubectl-edit"))


@pytest.mark.parametrize(
    ("found", "changes"),
    [
        (scaled(1, 9, "", "argocd"), [("argocd", 10.0)]),  # as it stood: known already
        (scaled(1, 7, "", "helm"), [("argocd", 10.0), ("helm", 50.0)]),
        (scaled(1, 4, "", "helm"), [("argocd", 10.0)]),  # ours, put back
        (scaled(1, 6), [("argocd", 10.0)]),  # ours, later
        (scaled(1, 7, "", "helm", originals=None), [("argocd", 10.0)]),  # not ours any more
    ],
)
def test_a_start_counts_what_others_set_while_nobody_looked(
    found: ClusterObject, changes: list[tuple[str, float]]
) -> None:
    """Of a fight that had begun it would write over them once more, and call home for a model that we leave alone."""
    before = with_scaled_object(scaled(1, 4))
    seen(scaled(1, 9, "", "argocd"), state=before)
    entry = checkpoint.memory_entry(Memory(), 41, NOW, {}, before.foreign_past())
    after = ClusterState(a_policy(a_model("a"), a_model("b")), NOW)
    after.restore_foreign(checkpoint.read([entry], ["b"], NOW + 20.0).foreign)
    feed(after, changed(a_workload(replicas=2), at=NOW + 50.0), changed(found, at=NOW + 50.0))
    assert [(one.manager, one.at - NOW) for one in seen(state=after)] == changes


def test_what_is_made_anew_with_other_numbers_is_no_change() -> None:
    state = a_state(None, a_cluster_node(), a_workload(replicas=2))
    assert len(seen(replace(a_workload(replicas=5), writer="helm"), state=state)) == 1
    feed(state, gone(a_workload(replicas=5), at=NOW + 20.0))
    anew = replace(a_workload(replicas=3), writer="helm", uid="another", resource_version="110")
    feed(state, changed(anew, at=NOW + 30.0))
    assert len(seen(state=state)) == 1


def test_what_is_no_target_any_more_leaves_the_checkpoint() -> None:
    state = with_scaled_object(scaled(1, 4))
    seen(scaled(1, 9, "", "argocd"), state=state)
    assert len(state.foreign_past()) == 1
    state.set_policy(a_policy(a_model("a")), NOW)
    assert state.foreign_past() == ()


def test_only_the_last_two_are_kept_and_all_are_counted() -> None:
    state = a_state(None, a_cluster_node(), a_workload(replicas=2))
    versions = [replace(a_workload(replicas=3 + n), writer="kubectl") for n in range(4)]
    assert [one.at for one in seen(*versions, state=state)] == [NOW + 30.0, NOW + 40.0]
    assert state.foreign_changes()["b"] == 4


class TestRepairs:
    """Foreign at 10 s, put back at 20 s; our bounds are 1-4."""

    def test_who_puts_our_numbers_back_fights_nobody(self) -> None:
        state = with_scaled_object(scaled(1, 4))
        found = seen(scaled(1, 9, "", "argocd"), scaled(1, 4, "", "kubectl-edit"), state=state)
        assert found == (ForeignChange(NOW + 10.0, "argocd"),)
        assert repaired_at(state) == NOW + 20.0
        (target,) = next(model for model in state.peek(NOW).models if model.id == "b").targets
        assert target.ours == (1, 4)
        assert state.foreign_changes()["b"] == 1

    def test_one_bound_after_the_other_is_a_repair_with_the_last_of_them(self) -> None:
        state = with_scaled_object(scaled(1, 4))
        by_hand = scaled(1, 9, "kubectl-edit", "argocd")
        assert len(seen(scaled(2, 9, "argocd", "argocd"), by_hand, state=state)) == 1
        assert repaired_at(state) is None
        feed(state, changed(replace(scaled(1, 4, "", "kubectl-edit"), resource_version="103"), at=NOW + 30.0))
        assert repaired_at(state) == NOW + 30.0

    def test_what_is_neither_theirs_nor_ours_is_foreign(self) -> None:
        state = with_scaled_object(scaled(1, 4))
        assert len(seen(scaled(1, 9, "", "argocd"), scaled(1, 5, "", "kubectl-edit"), state=state)) == 2
        assert repaired_at(state) is None

    def test_ours_is_what_we_asked_for_last(self) -> None:
        state = with_scaled_object(scaled(1, 4))
        corrected, back = scaled(1, 6), scaled(1, 6, "", "kubectl-edit")
        found = seen(scaled(1, 9, "", "argocd"), corrected, scaled(1, 9, "", "argocd"), back, state=state)
        assert [one.at for one in found] == [NOW + 10.0, NOW + 30.0]
        assert repaired_at(state) == NOW + 40.0

    def test_ours_is_what_was_written_though_somebody_wrote_over_it_before_a_watch_showed_it(self) -> None:
        state, ref = with_scaled_object(scaled(1, 4)), a_workload().ref
        state.note_write("b", ref, 6, NOW, minimum=2)
        found = seen(scaled(1, 9, "argocd", "argocd"), scaled(2, 6, "argocd", "argocd"), state=state)
        assert (len(found), repaired_at(state)) == (1, NOW + 20.0)
        state.note_write("b", ref, 7, NOW, minimum=2)
        over = replace(scaled(1, 5, "kubectl-edit", "kubectl-edit"), resource_version="103")
        back = replace(scaled(2, 7, "kubectl-edit", "kubectl-edit"), resource_version="104")
        feed(state, changed(over, at=NOW + 30.0), changed(back, at=NOW + 40.0))
        assert repaired_at(state) == NOW + 40.0

    def test_after_a_restart_ours_is_what_was_written_before_it(self) -> None:
        """Also where somebody wrote over it while nobody looked; our own later write is seen by its name."""
        before = with_scaled_object(scaled(1, 4))
        before.note_write("b", a_workload().ref, 6, NOW, minimum=2)
        entry = checkpoint.memory_entry(Memory(), 41, NOW, {}, before.foreign_past())
        for found, ours in ((scaled(1, 9, "argocd", "argocd"), (2, 6)), (scaled(3, 9, "", "argocd"), (3, 6))):
            after = ClusterState(a_policy(a_model("a"), a_model("b")), NOW)
            after.restore_foreign(checkpoint.read([entry], ["b"], NOW).foreign)
            kedas = replace(an_hpa(), owner_scaled_object="b", minimum=1, maximum=9)
            feed(after, changed(a_workload(replicas=2), at=NOW), changed(kedas, at=NOW), changed(found, at=NOW))
            assert seen(scaled(*ours, "kubectl-edit", "kubectl-edit"), state=after) == ()
            assert repaired_at(after) == NOW + 10.0

    def test_ours_is_what_the_server_made_of_it(self) -> None:
        state = with_scaled_object(scaled(1, 4))
        state.note_write("b", a_workload().ref, 6, NOW, minimum=0)
        found = seen(scaled(1, 6), scaled(1, 9, "", "argocd"), scaled(1, 6, "", "argocd"), state=state)
        assert (len(found), repaired_at(state)) == (1, NOW + 30.0)

    def test_a_change_soon_after_it_goes_on_with_the_fight_and_a_later_one_begins_another(self) -> None:
        for seconds, fought in ((29.0, 2), (30.0, 1)):
            state = with_scaled_object(scaled(1, 4))
            seen(scaled(1, 9, "", "argocd"), scaled(1, 4, "", "kubectl-edit"), state=state)
            again = replace(scaled(1, 8, "", "argocd"), resource_version="103")
            feed(state, changed(again, at=NOW + 20.0 + seconds))
            assert len(seen(state=state)) == fought
            assert repaired_at(state) is None

    def test_replicas_without_an_autoscaler_are_put_back_too(self) -> None:
        alone = a_state(None, a_cluster_node(), a_workload(replicas=2))
        by_hand = [replace(a_workload(replicas=count), writer="kubectl") for count in (5, 2)]
        assert len(seen(*by_hand, state=alone)) == 1
        assert repaired_at(alone) == NOW + 20.0

    def test_a_restart_knows_it_and_sees_what_was_put_back_meanwhile(self) -> None:
        before = with_scaled_object(scaled(1, 4))
        seen(scaled(1, 9, "", "argocd"), state=before)
        entry = checkpoint.memory_entry(Memory(), 41, NOW, {}, before.foreign_past())
        after = ClusterState(a_policy(a_model("a"), a_model("b")), NOW)
        after.restore_foreign(checkpoint.read([entry], ["b"], NOW).foreign)
        feed(after, changed(a_workload(replicas=2), at=NOW), changed(scaled(1, 4, "", "kubectl-edit"), at=NOW + 30.0))
        assert repaired_at(after) == NOW + 30.0
        entry = checkpoint.memory_entry(Memory(), 42, NOW, {}, after.foreign_past())
        (past,) = checkpoint.read([entry], ["b"], NOW).foreign
        assert (past.ours, past.repaired_at) == ((1, 4), NOW + 30.0)

    def test_a_checkpoint_from_before_numbers_were_kept_is_read(self) -> None:
        before = with_scaled_object(scaled(1, 4))
        seen(scaled(1, 9, "", "argocd"), state=before)
        (past,) = before.foreign_past()
        key, value = checkpoint.memory_entry(Memory(), 41, NOW, {}, (past,))
        entry = json.loads(value)
        for name in ("ours", "repaired_at"):
            del entry["foreign"][0][name]
        (old,) = checkpoint.read([(key, json.dumps(entry).encode())], ["b"], NOW).foreign
        assert (old.changes, old.ours, old.repaired_at) == (past.changes, None, None)
