"""One bad entry of a policy file concerns itself alone, and a file with problems takes nothing away."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.policy import Policy
from rebalancer.settings.entries import Taken, take_over
from tests.settings.a_policy_text import GOOD, line_of, spoilt

NEW_POOL = "  - {name: h100, kind: primary, nodeLabels: {pool: h100}, gpuLimit: %s}\n"
NEW_MODEL = """\
  - {id: new, namespace: serving, targets: [{pool: %s, name: new}], gpusPerReplica: 1, minReplicas: 0, maxReplicas: %s,
     entitlement: 0, signals: {queue: {high: 10}}}
"""
MORE_SDXL = ("maxReplicas: 4", "maxReplicas: 5")


def good() -> Policy:
    policy = take_over(GOOD, "policy.yaml", None).policy
    assert policy is not None
    return policy


def after(text: str) -> Taken:
    return take_over(text, "policy.yaml", good())


def refused(taken: Taken) -> list[tuple[str, str]]:
    return [(each.entry, each.form) for each in taken.refused]


def most(taken: Taken) -> dict[str, int]:
    """The maxReplicas of each model in force."""
    assert taken.policy is not None
    return {model.id: model.max_replicas for model in taken.policy.models}


def test_without_a_last_good_policy_it_is_all_or_nothing() -> None:
    taken = take_over(spoilt(("maxReplicas: 8", "maxReplicas: -8")), "policy.yaml", None)
    assert (taken.policy, taken.refused, len(taken.problems)) == (None, (), 1)


def test_a_good_file_is_taken_whole_and_what_it_does_not_name_has_left() -> None:
    taken = after(GOOD[: GOOD.index("  - id: sdxl")])
    assert (most(taken), taken.refused, taken.problems) == ({"qwen-32b": 8}, (), ())


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        (("maxReplicas: 8", "maxReplicas: -8"), "models.qwen-32b"),
        (("entitlement: 4\n", "entitlement: 4\n    entitlement: 3\n"), "models.qwen-32b"),
        (("minReplicas: 3, maxReplicas: 6", "minReplicas: 6, maxReplicas: 3"), "models.qwen-32b"),
        (("gpuLimit: 16", "gpuLimit: -1"), "pools.a100"),
        (("gpuLimit: 16", "gpuLimit: 2"), "pools.a100"),
        (("elasticGpus: 4", "elasticGpus: many"), "teams.chat"),
        (("shortWindowSeconds: 15", "shortWindowSeconds: 500"), "surge"),
        (("turnSeconds: 900", "trunSeconds: 900"), "deferral"),
    ],
)
def test_an_entry_with_a_problem_keeps_its_last_good_form_and_its_neighbours_are_taken_over(
    change: tuple[str, str], entry: str
) -> None:
    taken = after(spoilt(change, MORE_SDXL))
    assert refused(taken) == [(entry, "kept")]
    assert taken.problems
    wanted = take_over(spoilt(MORE_SDXL), "policy.yaml", None).policy
    assert taken.policy == wanted


def test_its_problem_is_told_with_the_line_of_the_file() -> None:
    text = spoilt(("maxReplicas: 8", "maxReplicas: -8"))
    (problem,) = after(text).problems
    assert (problem.file, problem.line) == ("policy.yaml", line_of(text, "maxReplicas: -8"))


def test_a_problem_is_told_once_at_its_place_in_the_file_though_what_stays_is_put_before_it() -> None:
    """Qwen, which the file does not name, goes before the model that has no name."""
    start, sdxl = GOOD.index("  - id: qwen-32b"), GOOD.index("  - id: sdxl")
    taken = after(GOOD[:start] + GOOD[sdxl:].replace("id: sdxl", "ident: sdxl"))
    assert [problem.path for problem in taken.problems] == [
        "teams.chat.name",
        "models[0].id",
        "models[0].ident",
        "models[0].targets.sdxl.name",
    ]


def test_a_number_that_is_to_be_text_is_told_once_as_the_file_spells_it() -> None:
    (problem,) = after(spoilt(("    nodePools: [spot-1]\n", "    deviceClass: 0123\n"))).problems
    assert problem.fix == 'put it in quotes: "0123"'


def test_a_new_entry_with_a_problem_is_left_out() -> None:
    taken = after(GOOD.replace("maxReplicas: 4", "maxReplicas: 5") + NEW_MODEL % ("spot", "none"))
    assert refused(taken) == [("models.new", "left-out")]
    assert most(taken) == {"qwen-32b": 8, "sdxl": 5}


def test_a_model_on_a_pool_that_is_left_out_is_left_out_with_it_and_one_that_was_there_keeps_its_pools() -> None:
    moved = spoilt(
        ("- {pool: spot, name: sdxl}", "- {pool: h100, name: sdxl}"), ("surge:", NEW_POOL % "all" + "surge:")
    )
    taken = after(moved + NEW_MODEL % ("h100", 3))
    assert refused(taken) == [("models.new", "left-out"), ("models.sdxl", "kept"), ("pools.h100", "left-out")]
    assert taken.policy == good()


def test_a_model_whose_name_cannot_be_read_has_not_left() -> None:
    taken = after(spoilt(("id: qwen-32b", "id: Qwen_32b"), MORE_SDXL))
    assert refused(taken) == [("models.Qwen_32b", "left-out"), ("models.qwen-32b", "stays")]
    assert most(taken) == {"sdxl": 5, "qwen-32b": 8}


def test_nothing_leaves_by_a_file_with_problems() -> None:
    text = spoilt(("surge: {shortWindowSeconds: 15", "surge: {shortWindowSeconds: none"))
    taken = after(text[: text.index("  - id: sdxl")])
    assert refused(taken) == [("models.sdxl", "stays"), ("surge", "kept")]
    assert taken.policy == good()


def test_a_misspelt_section_is_not_the_end_of_the_one_that_was_there() -> None:
    before = take_over(spoilt(("turnSeconds: 900", "turnSeconds: 800")), "policy.yaml", None).policy
    taken = take_over(spoilt(("deferral:", "deferal:")), "policy.yaml", before)
    assert refused(taken) == [("deferal", "left-out"), ("deferral", "stays")]
    assert taken.policy == before


def test_of_two_entries_of_one_name_neither_is_taken() -> None:
    again = (
        GOOD[GOOD.index("  - id: sdxl") :].replace("maxReplicas: 4", "maxReplicas: 9").replace("name: sdxl", "name: x")
    )
    taken = after(spoilt(MORE_SDXL) + again)
    assert refused(taken) == [("models.sdxl", "kept")]
    assert taken.policy == good()


RENAMED = (
    ("  - name: spot", "  - name: burst"),
    ("{pool: spot, name: qwen-spot}", "{pool: burst, name: qwen-spot}"),
    ("{pool: spot, name: sdxl}", "{pool: burst, name: sdxl}"),
)


def test_a_pool_is_renamed_though_something_else_in_the_file_is_wrong() -> None:
    """Qwen has the problem: it keeps its last good form, on the pool by its new name, and its neighbours are taken."""
    taken = after(spoilt(*RENAMED, MORE_SDXL, ("maxReplicas: 8", "maxReplicas: -8")))
    assert refused(taken) == [("models.qwen-32b", "kept")]
    assert taken.policy == take_over(spoilt(*RENAMED, MORE_SDXL), "policy.yaml", None).policy


def test_a_renamed_pool_with_a_problem_of_its_own_keeps_its_last_good_form_under_its_new_name() -> None:
    taken = after(spoilt(*RENAMED, MORE_SDXL, ("gpuLimit: 8", "gpuLimit: -8")))
    assert refused(taken) == [("pools.burst", "kept")]
    assert taken.policy == take_over(spoilt(*RENAMED, MORE_SDXL), "policy.yaml", None).policy


@pytest.mark.parametrize("slip", ["sport", "a100"])
def test_a_slip_in_a_pool_s_name_renames_nothing_while_models_say_the_old_one(slip: str) -> None:
    taken = after(spoilt(("  - name: spot", f"  - name: {slip}"), MORE_SDXL))
    assert ("pools.spot", "stays") in refused(taken)
    assert (f"pools.{slip}", "kept" if slip == "a100" else "left-out") in refused(taken)
    assert taken.policy == take_over(spoilt(MORE_SDXL), "policy.yaml", None).policy
    assert taken.problems


def test_a_new_name_that_is_none_is_a_problem_of_the_pool_and_of_the_models_on_it() -> None:
    taken = after(spoilt(*((old, new.replace("burst", "Burst_1")) for old, new in RENAMED), MORE_SDXL))
    assert refused(taken) == [
        ("models.qwen-32b", "kept"),
        ("models.sdxl", "kept"),
        ("pools.Burst_1", "left-out"),
        ("pools.spot", "stays"),
    ]
    assert taken.policy == good()


def test_a_model_is_renamed_when_the_file_has_no_problem_any_more() -> None:
    """Two names for one workload: which of them is meant, nobody can say while something in the file is wrong."""
    taken = after(spoilt(("id: sdxl", "id: sdxl-2"), ("turnSeconds: 900", "turnSeconds: none")))
    assert refused(taken) == [("deferral", "kept"), ("models.sdxl", "stays"), ("models.sdxl-2", "left-out")]
    assert taken.policy == good()
    assert set(most(after(spoilt(("id: sdxl", "id: sdxl-2"))))) == {"qwen-32b", "sdxl-2"}


SLIP = ("turnSeconds: 900", "turnSeconds: none")


@pytest.mark.parametrize(
    "change",
    [
        (("teams:\n  - {name: chat, elasticGpus: 4}\n", ""), ("    team: chat\n", "")),
        (("name: chat, elastic", "name: talk, elastic"), ("team: chat", "team: talk")),
    ],
)
def test_a_team_leaves_with_its_last_model_or_is_renamed_though_something_else_is_wrong(
    change: tuple[tuple[str, str], ...],
) -> None:
    taken = after(spoilt(*change, SLIP))
    assert refused(taken) == [("deferral", "kept")]
    assert taken.policy == take_over(spoilt(*change), "policy.yaml", None).policy


@pytest.mark.parametrize("slips", [(), (("elasticGpus: 4", "elasticGpus: four"),)])
def test_a_team_that_its_last_model_has_left_is_left_out_alone_though_the_file_still_has_it(
    slips: tuple[tuple[str, str], ...],
) -> None:
    taken = after(spoilt(("    team: chat\n", ""), *slips, MORE_SDXL))
    assert refused(taken) == [("teams.chat", "left-out")]
    gone = ("teams:\n  - {name: chat, elasticGpus: 4}\n", "")
    assert taken.policy == take_over(spoilt(gone, ("    team: chat\n", ""), MORE_SDXL), "policy.yaml", None).policy
    assert taken.problems[-1].what == "no model is of team chat"


def test_a_team_is_kept_that_a_model_put_back_is_of_though_it_had_been_left_out_without_one() -> None:
    """Qwen names a pool that is left out only as soon as sums are checked; until then nobody is of the team."""
    taken = after(
        spoilt(
            ("    team: chat\n", ""),
            ("elasticGpus: 4", "elasticGpus: four"),
            ("- {pool: spot, name: qwen-spot}", "- {pool: h100, name: qwen-spot}"),
            ("surge:", NEW_POOL % "all" + "surge:"),
        )
    )
    assert refused(taken) == [("models.qwen-32b", "kept"), ("pools.h100", "left-out"), ("teams.chat", "kept")]
    assert taken.policy == good()


def test_a_team_that_the_file_drops_stays_while_a_model_of_it_keeps_its_last_good_form() -> None:
    taken = after(
        spoilt(
            ("teams:\n  - {name: chat, elasticGpus: 4}\n", ""),
            ("    team: chat\n", ""),
            ("maxReplicas: 8", "maxReplicas: -8"),
        )
    )
    assert refused(taken) == [("models.qwen-32b", "kept"), ("teams.chat", "stays")]
    assert taken.policy == good()


def test_of_a_file_of_which_nothing_can_be_taken_only_its_own_problems_are_told() -> None:
    """Pool a100 takes in the nodes of spot, which is gone: right by itself, but spot stays while a section is wrong."""
    zones = (("{pool: a100}", "{gpu: a100, zone: a}"), ("{pool: spot}", "{gpu: a100, zone: b}"))
    before = take_over(spoilt(*zones), "policy.yaml", None).policy
    merged = (
        ("{pool: a100}", "{gpu: a100}"),
        ("  - name: spot\n    kind: elastic\n    nodeLabels: {pool: spot}\n    gpuLimit: 8\n", ""),
        ("nodePools: [a100-1]\n", "nodePools: [a100-1, spot-1]\n"),
        ("    nodePools: [spot-1]\n    gpusPerNode: 8\n", ""),
        ("      - {pool: spot, name: qwen-spot}\n", ""),
        ("{pool: spot, name: sdxl}", "{pool: a100, name: sdxl}"),
    )
    assert take_over(spoilt(*merged), "policy.yaml", before).problems == ()
    taken = take_over(spoilt(*merged, SLIP), "policy.yaml", before)
    assert taken.policy is None
    assert [problem.path for problem in taken.problems] == ["deferral.turnSeconds"]


def test_a_renamed_model_s_gpus_are_not_counted_twice_and_each_problem_is_told_once_the_file_s_own_first() -> None:
    more = (("gpuLimit: 16", "gpuLimit: 12"), ("id: qwen-32b", "id: qwen-3"))
    taken = after(spoilt(*more, ("entitlement: 4\n", "entitlement: 5\n"), ("{high: 10}", "{high: ten}")))
    assert refused(taken) == [("models.qwen-3", "left-out"), ("models.qwen-32b", "stays"), ("models.sdxl", "kept")]
    assert taken.policy is not None
    assert taken.policy.pools[0].gpu_limit == 12
    assert [problem.what for problem in taken.problems] == [
        "high is not a number",
        "model name qwen is used twice",
        "workload serving/Deployment/qwen is used twice",
        "workload serving/Deployment/qwen-spot is used twice",
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("models: [\n", id="no YAML"),
        pytest.param(spoilt(("v1alpha1", "v2")), id="another version"),
        pytest.param(spoilt(("kind: Policy", "kind: Police")), id="another kind"),
        pytest.param(GOOD[: GOOD.index("models:")] + "models: 7\n", id="no list"),
        pytest.param("[]\n", id="no mapping"),
    ],
)
def test_what_is_wrong_with_the_file_as_a_whole_refuses_all_of_it(text: str) -> None:
    taken = after(text)
    assert (taken.policy, taken.refused) == (None, ())
    assert taken.problems


def test_entries_that_do_not_go_together_refuse_the_file() -> None:
    """One more model with an entitlement than the pool has GPUs for: nobody alone is at fault."""
    text = GOOD + (NEW_MODEL % ("a100", 20)).replace("entitlement: 0", "entitlement: 12")
    taken = after(text)
    assert (taken.policy, taken.refused) == (None, ())
    assert "gpuLimit is 16" in taken.problems[0].what


TOKENS = sorted({token for line in GOOD.splitlines() for token in line.split() if token.strip("-{}[]:,")})


@settings(max_examples=40)
@given(st.sampled_from(TOKENS), st.sampled_from(["x", "-1", "{}", "[]", '""', "1e400", "null"]), st.integers(0, 2))
def test_whatever_is_spoilt_every_model_and_pool_of_before_is_there_and_the_file_is_never_half_understood(
    token: str, instead: str, nth: int
) -> None:
    pieces = GOOD.split(token)
    cut = 1 + nth % (len(pieces) - 1)
    taken = after(token.join(pieces[:cut]) + instead + token.join(pieces[cut:]))
    if taken.problems and taken.policy is not None:
        assert taken.refused
        assert {model.id for model in taken.policy.models} >= {model.id for model in good().models}
        assert {pool.name for pool in taken.policy.pools} >= {pool.name for pool in good().pools}
    assert bool(taken.policy) or bool(taken.problems)
