"""A wrong policy is answered with line, path, value, allowed range and a way out: for everything at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.policy import Policy
from rebalancer.settings.allowed import FORMS
from rebalancer.settings.draft import DraftPart, pools_by_name, primary_pool
from rebalancer.settings.problems import Problem, check_text
from tests.settings.a_policy_text import GOOD, line_of, spoilt


def problems(text: str) -> tuple[Problem, ...]:
    policy, found = check_text(text, "policy.yaml")
    assert (policy is None) == bool(found)
    return found


def test_a_good_policy_has_no_problems_and_keeps_its_numbers() -> None:
    policy, found = check_text(GOOD, "policy.yaml")
    assert found == ()
    assert policy is not None
    assert [model.entitlement for model in policy.models] == [4, 0]


def test_a_signal_that_learns_its_number_is_enough_to_vote() -> None:
    assert problems(GOOD.replace("{queue: {high: 10}}", "{concurrency: {}}")) == ()


SINGLE_FIELDS = [
    ("gpuLimit: 16", "gpuLimit: -1", "pools.a100.gpuLimit", "-1", "out of range", "0 to 1000000", ""),
    ("gpuLimit: 16", "gpuLimit: sixteen", "pools.a100.gpuLimit", '"sixteen"', "not a whole number", "0 to 1000000", ""),
    ("gpuLimit: 16", "gpuLimit: 16.5", "pools.a100.gpuLimit", "16.5", "not a whole number", "0 to 1000000", ""),
    ("gpuLimit: 16", "gpuLimit: true", "pools.a100.gpuLimit", "true", "not a whole number", "0 to 1000000", ""),
    ("entitlement: 4", "entitlement:", "models.qwen-32b.entitlement", "null", "not a whole number", "0 to 100000", ""),
    ("high: 0.8", "high: 80", "models.qwen-32b.signals.kvCache.high", "80", "out of range", "0 to 1", ""),
    ("low: 0.4", "low: .nan", "models.qwen-32b.signals.kvCache.low", "NaN", "not a finite number", "0 to 1", ""),
    ("latencySeconds: 2", "latencySeconds: .inf", "models.qwen-32b.slo.latencySeconds", "Infinity", "finite", "", ""),
    ("latencySeconds: 2", "latencySeconds: 0", "models.qwen-32b.slo.latencySeconds", "0", "range", "above 0, at", ""),
    (
        "kind: elastic",
        "kind: elastik",
        "pools.spot.kind",
        '"elastik"',
        "none of",
        "primary or elastic",
        "mean elastic?",
    ),
    ("kind: elastic", "kind: 3", "pools.spot.kind", "3", "none of", "primary or elastic", ""),
    ("{pool: spot}", "{pool: 1}", "pools.spot.nodeLabels.pool", "1", "not text", "text", 'put it in quotes: "1"'),
    ("{pool: spot}", "{pool: 0123}", "pools.spot.nodeLabels.pool", "123", "not text", "text", 'quotes: "0123"'),
    ("{pool: spot}", "{pool: True}", "pools.spot.nodeLabels.pool", "true", "not text", "text", 'quotes: "True"'),
    ("{pool: spot}", "{}", "pools.spot.nodeLabels", "{}", "nodeLabels is empty", "at least one key", ""),
    ("surge: {", "guards: {sudden: {drop: 1}}\nsurge: {", "guards.sudden.drop", "1", "out of range",
     "above 0, below 1", ""),
    ("name: a100\n", "name: A100\n", "pools.A100.name", '"A100"', "not spelled as allowed", "lower-case letters", ""),
    ("latency: true", "latency: 1", "models.qwen-32b.signals.latency", "1", "not true or false", "true or false", ""),
    ("surge: {", "serge: {", "serge", "a mapping", "unknown key serge", "", "did you mean surge?"),
    ("surge: {", "zzz: 1\nsurge: {", "zzz", "1", "unknown key zzz", "", "known here: apiVersion, kind, pools, models"),
    ("    entitlement: 4\n", "", "models.qwen-32b.entitlement", "", "entitlement is missing", "0 to 100000", "add it"),
    ("minReplicas: 1", "min_replicas: 1", "models.qwen-32b.min_replicas", "1", "unknown", "", "mean minReplicas?"),
    ("v1alpha1", "v9", "apiVersion", '"rebalancer.io/v9"', "apiVersion is none of", "rebalancer.io/v1alpha1", ""),
    ("aliases: [qwen]", "aliases: qwen", "models.qwen-32b.aliases", '"qwen"', "not a list", "a list", ""),
    ("slo: {latencySeconds: 2}", "slo: 2", "models.qwen-32b.slo", "2", "not a mapping", "a mapping", ""),
    ("Europe/Berlin", "Europe/Berln", "models.qwen-32b.schedules.rush.timeZone", '"Europe/Berln"',
     "is no time zone of the IANA database", "text", "did you mean Europe/Berlin?"),
    ("Europe/Berlin", "CEST+", "models.qwen-32b.schedules.rush.timeZone", '"CEST+"', "no time zone", "", ""),
    ('"07:30"', '"7:30"', "models.qwen-32b.schedules.rush.from", '"7:30"', "not spelled", "HH:MM, 00:00 to", ""),
    ('"10:00"', '"24:00"', "models.qwen-32b.schedules.rush.until", '"24:00"', "not spelled", "HH:MM, 00:00 to", ""),
    ("[mon, fri]", "[mon, friday]", "models.qwen-32b.schedules.rush.days[1]", '"friday"', "none of", "mon", "fri?"),
    ("[mon, fri]", "[]", "models.qwen-32b.schedules.rush.days", "a list of 0", "is empty", "at least 1", ""),
    ("2027-11-26", "2027-02-30", "models.qwen-32b.schedules.rush.firstDate", '"2027-02-30"', "no date of", "YYYY", ""),
    ("2027-11-26", "26.11.2027", "models.qwen-32b.schedules.rush.firstDate", '"26.11.2027"', "spelled", "YYYY", ""),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "path", "value", "what", "allowed", "fix"), SINGLE_FIELDS)
def test_a_wrong_field_is_named_with_line_path_value_and_allowed_range(
    old: str, new: str, path: str, value: str, what: str, allowed: str, fix: str
) -> None:
    text = spoilt((old, new))
    found = [problem for problem in problems(text) if problem.path == path]
    assert len(found) == 1, problems(text)
    (problem,) = found
    assert problem.value == value
    assert what in problem.what
    assert allowed in problem.allowed
    assert fix in problem.fix
    assert problem.line == (line_of(text, new) if new else line_of(text, "- id: qwen-32b"))


QUEUE = "{queue: {high: 10}}"
FIELDS_TOGETHER = [
    # names
    ("name: spot\n", "name: a100\n", "pools.a100.name", "pool name a100 is used twice"),
    ("elasticGpus: 4}", "elasticGpus: 4}\n  - {name: chat, elasticGpus: 2}", "teams.chat.name",
     "team name chat is used twice"),
    ("name: chat, elasticGpus", "name: chot, elasticGpus", "teams.chot.name", "no model is of team chot"),
    ("id: sdxl", "id: qwen-32b", "models.qwen-32b.id", "model name qwen-32b is used twice"),
    ("[qwen]", "[sdxl]", "models.qwen-32b.aliases[0]", "model name sdxl is used twice"),
    ("{pool: a100, name: qwen}", "{pool: a10, name: qwen}", "models.qwen-32b.targets.qwen.pool",
     "no pool is named a10"),
    ("{pool: spot, name: qwen-spot}", "{pool: a100, name: qwen-spot}", "models.qwen-32b.targets.qwen-spot.pool",
     "target in pool a100 is used twice"),
    ("{pool: spot, name: qwen-spot}", "{pool: spot, name: qwen}", "models.qwen-32b.targets.qwen.name",
     "workload serving/Deployment/qwen is used twice"),
    ("namespace: media\n    targets:\n      - {pool: spot, name: sdxl}",
     "namespace: serving\n    targets:\n      - {pool: spot, name: qwen-spot}", "models.sdxl.targets.qwen-spot.name",
     "workload serving/Deployment/qwen-spot is used twice"),
    ("[spot-1]", "[a100-1]", "pools.spot.nodePools[0]", "NodePool a100-1 is used twice"),
    ("nodePools: [spot-1]", "nodeGroups: [eks-*, eks-*]", "pools.spot.nodeGroups[1]", "node group eks-* is used twice"),
    ("nodePools: [spot-1]", "warmGpus: 8", "pools.spot.warmGpus", "no node comes to this pool"),
    ("nodePools: [spot-1]", "deviceClass: gpu.nvidia.com\n    preemptiblePriorityClasses: [batch]",
     "pools.spot.preemptiblePriorityClasses", "deviceClass counts claims"),
    ("{pool: spot}\n", "{pool: a100}\n", "pools.spot.nodeLabels", "belongs to pool a100 already"),
    ("{pool: spot}\n", "{pool: a100, zone: b}\n", "pools.spot.nodeLabels", "belongs to pool a100 already"),
    # replicas
    ("minReplicas: 1", "minReplicas: 5", "models.qwen-32b.entitlement", "minReplicas 5 > entitlement 4"),
    ("entitlement: 4", "entitlement: 9", "models.qwen-32b.entitlement", "entitlement 9 > maxReplicas 8"),
    ("minReplicas: 1", "minReplicas: 9", "models.qwen-32b.minReplicas", "minReplicas 9 > maxReplicas 8"),
    ("entitlement: 0", "entitlement: 2", "models.sdxl.entitlement", "entitlement 2 has no primary pool"),
    # GPUs
    ("gpuLimit: 16", "gpuLimit: 7", "pools.a100.gpuLimit", "entitlement needs 8 GPUs of pool a100, its gpuLimit is 7"),
    ("gpusPerReplica: 2", "gpusPerReplica: 3\n    podsPerReplica: 2", "models.qwen-32b.gpusPerReplica",
     "gpusPerReplica 3 is no multiple of podsPerReplica 2"),
    ("gpusPerReplica: 2", "gpusPerReplica: 2\n    podsPerReplica: 2", "models.qwen-32b.podsPerReplica",
     "podsPerReplica 2: a Deployment's replica is one pod"),
    ("name: qwen}", "name: qwen, kind: Deploymnt}", "models.qwen-32b.targets.qwen.kind", "no kind Deploymnt is known"),
    ("name: qwen}", "name: qwen, kind: CloneSet}", "models.qwen-32b.targets.qwen.kind", "no kind CloneSet is known"),
    ("name: qwen}", "name: qwen, kind: NodePool, apiVersion: karpenter.sh/v1}", "models.qwen-32b.targets.qwen.kind",
     "a NodePool is no target: its scale counts nodes"),
    ("name: qwen}", "name: qwen, kind: StatefulSet, victims: replicaSet}", "models.qwen-32b.targets.qwen.victims",
     "victims replicaSet: of a StatefulSet those go that are told by ordinal"),
    ("name: sdxl}", "name: sdxl, kind: Deployment, apiVersion: apps.kruise.io/v1}",
     "models.sdxl.targets.sdxl.apiVersion", "kind Deployment is of apps elsewhere in the policy"),
    # watermarks, windows, signals
    ("high: 0.8, low: 0.4", "high: 0.4, low: 0.4", "models.qwen-32b.signals.kvCache.low",
     "low 0.4 is not below high 0.4"),
    ("lowUtilisation: 0.3", "lowUtilisation: 0.8", "classes.realtime.lowUtilisation",
     "lowUtilisation 0.8 is not below"),
    ("longWindowSeconds: 300", "longWindowSeconds: 15", "surge.shortWindowSeconds",
     "shortWindowSeconds 15 is not below"),
    ("surge: {shortWindowSeconds: 15, longWindowSeconds: 300", "surge: {shortWindowSeconds: 400",
     "surge.shortWindowSeconds", "shortWindowSeconds 400 is not below longWindowSeconds 300"),
    ("turnSeconds: 900", "turnSeconds: 3600", "deferral.turnSeconds", "turnSeconds 3600 is not below"),
    ("{queue: {high: 10}}", "{queue: {high: 10}}\n    deferral: {deadlineSeconds: 60}", "models.sdxl.deferral",
     "only batch is deferred, and class is interactive"),
    ("{queue: {high: 10}}", "{queue: {high: 10}}\n    class: batch\n    deferral: {deadlineSeconds: 60, share: 0.5}",
     "models.sdxl.deferral", "deferral has both"),
    ("{queue: {high: 10}}", "{queue: {high: 10}}\n    class: batch\n    deferral: {}", "models.sdxl.deferral",
     "deferral has neither"),
    ("leaveRatio: 1.2", "leaveRatio: 1.6", "surge.leaveRatio", "leaveRatio 1.6 > enterRatio 1.5"),
    ("    slo: {latencySeconds: 2}\n", "", "models.qwen-32b.signals.latency", "latency has no slo"),
    ("{queue: {high: 10}}", "{}", "models.sdxl.signals", "no signal votes for this model"),
    ("{queue: {high: 10}}", "{utilisation: false}", "models.sdxl.signals", "no signal votes for this model"),
    # who takes what is idle
    (QUEUE, "{}\n    takesIdle: true", "models.sdxl.takesIdle", "who serves people needs GPUs"),
    ("minReplicas: 0\n", "minReplicas: 1\n    class: batch\n    takesIdle: true\n", "models.sdxl.minReplicas",
     "minReplicas 1 beside takesIdle"),
    (QUEUE, QUEUE + "\n    class: batch\n    takesIdle: true", "models.sdxl.signals.queue", "queue beside takesIdle"),
    (QUEUE, "{}\n    class: batch\n    takesIdle: true", "models.sdxl.targets.sdxl.pool", "nodes come and go"),
    # roles
    (QUEUE, QUEUE + "\n    ratio: {to: qwen, min: 0.5, max: 2}", "models.sdxl.ratio.to", "no model is named qwen"),
    (QUEUE, QUEUE + "\n    ratio: {to: sdxl, min: 0.5, max: 2}", "models.sdxl.ratio.to", "no role beside itself"),
    (QUEUE, QUEUE + "\n    ratio: {to: qwen-32b, min: 2, max: 1}", "models.sdxl.ratio.min", "min 2 > max 1"),
    (QUEUE, QUEUE + "\n    ratio: {to: qwen-32b, min: 0.5, max: 2}", "models.sdxl.minReplicas",
     "minReplicas 0 of a role: sdxl and qwen-32b cannot come from 0 in one write"),
    ("entitlement: 4", "entitlement: 4\n    ratio: {to: sdxl, min: 0.5, max: 2}", "models.sdxl.minReplicas",
     "minReplicas 0 of a role: qwen-32b and sdxl cannot come from 0 in one write"),
    # schedules
    ("- {name: rush,", "- {name: rush, from: 01:00, until: 02:00, timeZone: UTC, minReplicas: 2}\n      - {name: rush,",
     "models.qwen-32b.schedules.rush.name", "schedule rush is used twice in the model"),
    ("minReplicas: 3, maxReplicas: 6,", "", "models.qwen-32b.schedules.rush", "the schedule changes nothing"),
    ("minReplicas: 3, maxReplicas: 6,", "minReplicas: 7, maxReplicas: 6,",
     "models.qwen-32b.schedules.rush.minReplicas", "minReplicas 7 > maxReplicas 6"),
    ("minReplicas: 3, maxReplicas: 6,", "minReplicas: 9,",
     "models.qwen-32b.schedules.rush.minReplicas", "minReplicas 9 > the model's maxReplicas 8"),
    ("minReplicas: 3, maxReplicas: 6,", "maxReplicas: 0,",
     "models.qwen-32b.schedules.rush.maxReplicas", "maxReplicas 0 < the model's minReplicas 1"),
    ("lastDate: 2027-11-29", "lastDate: 2027-11-25", "models.qwen-32b.schedules.rush.lastDate",
     "lastDate 2027-11-25 is before firstDate 2027-11-26: the window never happens"),
    ("[mon, fri]", "[tue]", "models.qwen-32b.schedules.rush",
     "the window never happens: it begins on no day from 2027-11-26 to 2027-11-29"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "path", "what"), FIELDS_TOGETHER)
def test_fields_that_do_not_agree_are_named(old: str, new: str, path: str, what: str) -> None:
    (problem,) = (problem for problem in problems(spoilt((old, new))) if problem.path == path)
    assert what in problem.what


def test_floors_are_held_to_the_pool_even_when_entitlements_are_unreadable() -> None:
    text = spoilt(
        ("gpuLimit: 16", "gpuLimit: 7"), ("minReplicas: 1", "minReplicas: 4"), ("entitlement: 4", "entitlement: x")
    )
    assert [problem.what for problem in problems(text) if problem.path == "pools.a100.gpuLimit"] == [
        "minReplicas needs 8 GPUs of pool a100, its gpuLimit is 7: qwen-32b 8"
    ]


def test_one_run_reports_yaml_field_and_agreement_problems_together_in_order_of_lines() -> None:
    text = spoilt(
        ("gpuLimit: 8", "gpuLimit: 8\n    gpuLimit: 9"),
        ("leaveRatio: 1.2", "leaveRatio: 2"),
        ("maxReplicas: 8", "maxReplicas: 3"),
        ("maxReplicas: 4", "maxReplicas: -4"),
    )
    found = problems(text)
    assert [problem.path for problem in found] == [
        "pools.spot.gpuLimit",
        "surge.leaveRatio",
        "models.qwen-32b.entitlement",
        "models.sdxl.maxReplicas",
    ]
    assert [problem.line for problem in found] == sorted(problem.line for problem in found)


def test_a_problem_reads_as_one_sentence_with_place_and_remedy() -> None:
    text = spoilt(("minReplicas: 1", "minReplicas: 9"), ("gpuLimit: 16", "gpuLimit: 32"))
    (problem,) = problems(text)
    assert str(problem) == (
        f"minReplicas 9 > maxReplicas 8 at policy.yaml:{line_of(text, 'minReplicas: 9')} models.qwen-32b.minReplicas; "
        "is 9, allowed 0 to 8; raise maxReplicas or lower minReplicas"
    )


def test_a_misspelled_required_key_is_one_problem_not_two() -> None:
    (problem,) = problems(spoilt(("maxReplicas: 4", "maxReplica: 4")))
    assert problem.what == "unknown key maxReplica"


def test_hostile_values_are_shown_in_one_short_printable_line() -> None:
    (problem,) = problems(spoilt(("id: sdxl", r'id: "\e[31m\n\u202E' + "x" * 500 + '"')))
    assert str(problem).isprintable()
    assert len(problem.value) <= 60
    assert len(str(problem)) < 500


def test_every_spelling_rule_of_the_schema_has_words() -> None:
    text = str(Policy.model_json_schema())
    assert [form for form in FORMS if form not in text] == []
    assert text.count("'pattern'") == sum(text.count(f"'pattern': '{form}'") for form in FORMS)


@given(
    minimum=st.integers(0, 6),
    own=st.integers(0, 6),
    maximum=st.integers(1, 6),
    gpus=st.integers(1, 4),
    limit=st.integers(0, 24),
    pools=st.sampled_from(["a100", "spot"]),
)
def test_an_accepted_policy_keeps_every_promise(
    minimum: int, own: int, maximum: int, gpus: int, limit: int, pools: str
) -> None:
    text = spoilt(
        ("gpuLimit: 16", f"gpuLimit: {limit}"),
        ("gpusPerReplica: 1", f"gpusPerReplica: {gpus}"),
        ("minReplicas: 0", f"minReplicas: {minimum}"),
        ("maxReplicas: 4", f"maxReplicas: {maximum}"),
        ("entitlement: 0", f"entitlement: {own}"),
        ("{pool: spot, name: sdxl}", f"{{pool: {pools}, name: sdxl}}"),
    )
    ordered = minimum <= own <= maximum
    housed = own == 0 or pools == "a100"
    fits = 8 + (own * gpus if pools == "a100" else 0) <= limit
    assert (not problems(text)) == (ordered and housed and fits)


@pytest.mark.parametrize(
    ("kind", "victims"),
    [
        ("kind: StatefulSet", "ordinal"),
        ("kind: LeaderWorkerSet, apiVersion: leaderworkerset.x-k8s.io/v1", "ordinal"),
        ("kind: Rollout", "replicaSet"),
        ("kind: DynamoGraphDeploymentScalingAdapter", ""),
        ("kind: StormService, victims: ordinal", "ordinal"),
        ("kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1", ""),
        ("kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1, victims: replicaSet", "replicaSet"),
    ],
)
def test_a_kind_that_is_known_or_says_where_it_is_served_is_a_target(kind: str, victims: str) -> None:
    policy, problems = check_text(spoilt(("name: qwen}", f"name: qwen, {kind}}}")), "policy.yaml")
    assert problems == ()
    assert policy is not None
    assert policy.models[0].targets[0].of.victims == victims


def test_a_misspelled_kind_is_told_which_was_meant() -> None:
    _, problems = check_text(spoilt(("name: qwen}", "name: qwen, kind: Statefulset}")), "policy.yaml")
    assert [each.fix for each in problems] == ["did you mean StatefulSet?"]


def test_the_primary_pool_is_the_first_primary_one_among_the_targets() -> None:
    draft = DraftPart((), {"pools": ({"name": "s", "kind": "elastic"}, {"name": "p", "kind": "primary"})})
    model = DraftPart(("models", 0), {"targets": ({"pool": "s"}, {"pool": "p"})})
    assert primary_pool(model, pools_by_name(draft)) == "p"


@pytest.mark.parametrize(
    ("row", "path", "what"),
    [
        ("{kind: fault}", "nodes.signs[0]", "no taint, condition or label"),
        ("{taint: a, label: b, kind: fault}", "nodes.signs[0]", "taint and label"),
        ("{taint: karpenter.sh/disrupted, kind: none}", "nodes.signs[0].taint", "NodeClaim"),
        ("{label: a, message: b, kind: fault}", "nodes.signs[0].message", "a label has no message"),
        ("{taint: a, deadline: message, kind: fault}", "nodes.signs[0].deadline", "a taint has no message"),
        ("{taint: a, kind: meteor}", "nodes.signs[0].kind", "none of"),
        ("{taint: a, kind: fault, confidence: 1}", "nodes.signs[0].confidence", "none of"),
        ("{taint: a, kind: fault, withinSeconds: -1}", "nodes.signs[0].withinSeconds", "out of range"),
    ],
)
def test_a_sign_names_one_place_and_says_what_can_be_read_there(row: str, path: str, what: str) -> None:
    (found,) = problems(f"{GOOD}nodes: {{signs: [{row}]}}\n")
    assert (found.path, what in found.what) == (path, True), found


def test_signs_of_every_place_are_good() -> None:
    rows = "{taint: a, kind: none}, {label: b, deadline: value, kind: fault}, {condition: C, message: d, kind: fault}"
    assert problems(f"{GOOD}nodes: {{signs: [{rows}]}}\n") == ()


ROLES = """\
apiVersion: rebalancer.io/v1alpha1
kind: Policy
pools:
  - {name: a100, kind: primary, nodeLabels: {pool: a100}, gpuLimit: 64}
models:
  - {id: prefill, namespace: serving, targets: [{pool: a100, name: prefill}], gpusPerReplica: 1, minReplicas: 2,
     maxReplicas: 8, entitlement: 2, signals: {queue: {high: 10}}, ratio: {to: decode, min: 0.5, max: 2}}
  - {id: decode, namespace: serving, targets: [{pool: a100, name: decode}], gpusPerReplica: 4, minReplicas: 2,
     maxReplicas: 8, entitlement: 2, signals: {queue: {high: 10}}}
"""


def test_two_models_are_roles_of_one_with_a_ratio_that_has_room_for_a_step() -> None:
    policy, found = check_text(ROLES, "policy.yaml")
    assert found == ()
    assert policy is not None
    ratio = policy.models[0].ratio
    assert ratio is not None
    assert (ratio.to, ratio.least, ratio.most) == ("decode", 0.5, 2.0)


@pytest.mark.parametrize(
    ("ratio", "what"),
    [
        ("min: 1, max: 1", "ratio 1 to 1 leaves no step from 2 of prefill beside 2 of decode"),
        ("min: 0.9, max: 1.1", "ratio 0.9 to 1.1 leaves no step from 2 of prefill beside 2 of decode"),
        ("min: 2, max: 3", "the floors, 2 of prefill and 2 of decode, are not within the ratio 2 to 3"),
    ],
)
def test_a_ratio_that_the_floors_do_not_keep_or_that_lets_nobody_go_first_is_refused(ratio: str, what: str) -> None:
    (problem,) = problems(ROLES.replace("min: 0.5, max: 2", ratio))
    assert problem.what == what
    assert problem.path == "models.prefill.ratio"


def test_a_model_is_a_role_of_one_couple() -> None:
    text = ROLES + ROLES[ROLES.index("  - {id: prefill") : ROLES.index("  - {id: decode")].replace("prefill", "third")
    (problem,) = problems(text)
    assert problem.what == "decode is a role of another couple already"
