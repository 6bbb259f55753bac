"""What the chart renders: everything off, as it stands, everything on; rights by what is switched on."""

import pytest
import yaml

from rebalancer.settings.service import PREFIX, ServiceSettings
from tests.chart.helm import CHART, EVERY_ACTUATION, EVERYWHERE, Json, Refused, Rendered, Right, helm, render, values

KAFKA: Json = {
    "bootstrap": "kafka-0:9093,kafka-1:9093",
    "securityProtocol": "SASL_SSL",
    "username": "rebalancer",
    "passwordSecret": {"name": "kafka", "key": "password"},
    "caConfigMap": {"name": "kafka-ca", "key": "ca.crt"},
    "overrideKeysSecret": "signers",
    "certificateSecret": {"name": "kafka-user", "certificate": "user.crt", "privateKey": "user.key"},
    "tokenAudience": "kafka",
}
PROMETHEUS: Json = {
    "url": "https://prometheus.monitoring:9090",
    "tokenSecret": {"name": "prometheus", "key": "token"},
    "caConfigMap": {"name": "prometheus-ca", "key": "ca.crt"},
}
EVERYTHING_OFF: Json = {
    "admissionPolicies.enabled": False,
    "api.enabled": False,
    "login.enabled": False,
    "networkPolicy.enabled": False,
    "handBack.enabled": False,
    "policyConfigMap": "ours",
}
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/capacity-notices"
EVERYTHING_ON: Json = EVERY_ACTUATION | {
    "writeMode": "act",
    "namespaces": ["serving", "search"],
    "policy": {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Policy", "pools": [], "models": []},
    "clusterName": "eu-1",
    "kafka": KAFKA,
    "prometheus": PROMETHEUS,
    "login": {"operators": {"groups": ["sre"]}, "viewers": {"users": ["alice", "bob"]}},
    "journal.persistence.enabled": True,
    "networkPolicy.apiFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
    "networkPolicy.metricsFrom": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ],
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/rebalancer"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "serviceMonitor.enabled": True,
    "prometheusRule": {"enabled": True, "runbookUrl": "https://wiki.example.com/runbooks/"},
    "dashboard.enabled": True,
    "notices.queueUrl": QUEUE,
    "admissionPolicies": {"leastReplicas": 1, "mostReplicas": 100},
}
READS = {"get", "list", "watch"}
NEVER = {"secrets", "configmaps", "nodes/proxy", "pods/exec", "pods/eviction", "pods/log", "serviceaccounts/token"}


def environment(rendered: Rendered) -> dict[str, str]:
    """The service's settings in the Deployment, without our prefix."""
    (container,) = rendered.one("Deployment")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    return {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_everything_off_is_a_service_that_watches() -> None:
    assert render(EVERYTHING_OFF).kinds == {
        "ClusterRole": 1,
        "ClusterRoleBinding": 1,
        "Deployment": 1,
        "Role": 1,  # for the Lease
        "RoleBinding": 1,
        "ServiceAccount": 1,
    }


def test_as_it_stands_it_watches_and_can_be_asked() -> None:
    rendered = render()
    assert rendered.kinds == {
        "ClusterRole": 3,
        "ClusterRoleBinding": 3,
        "ConfigMap": 1,
        "Deployment": 1,
        "NetworkPolicy": 1,
        "Role": 1,
        "RoleBinding": 1,
        "Service": 1,
        "ServiceAccount": 3,
        "ValidatingAdmissionPolicy": 3,
        "ValidatingAdmissionPolicyBinding": 3,
    }
    deployment = rendered.one("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "RollingUpdate")
    assert environment(rendered)["WRITE_MODE"] == "shadow"


def test_everything_on() -> None:
    assert render(EVERYTHING_ON).kinds == {
        "ClusterRole": 3,
        "ClusterRoleBinding": 3,
        "ConfigMap": 2,
        "Deployment": 1,
        "Job": 1,
        "NetworkPolicy": 1,
        "PersistentVolumeClaim": 1,
        "PrometheusRule": 1,
        # Two namespaces, events about NodePools, three for the door, hand-back, Lease; people's: three, two logins.
        "Role": 13,
        "RoleBinding": 13,
        "Service": 1,
        "ServiceAccount": 3,
        "ServiceMonitor": 1,
        "ValidatingAdmissionPolicy": 10,
        "ValidatingAdmissionPolicyBinding": 10,
    }


@pytest.mark.parametrize("given", [{"kafka.bootstrap": "kafka:9093"}, EVERYTHING_ON], ids=["default", "everything on"])
def test_the_service_understands_every_setting_it_is_given(given: Json) -> None:
    settings = environment(render(given))
    fields = {name.lower(): value for name, value in settings.items()}
    assert set(fields) <= set(ServiceSettings.model_fields)
    assert ServiceSettings.model_validate(fields).account == "system:serviceaccount:gpu:rebalancer"


def test_a_default_installation_can_write_nothing_but_what_people_ask_and_what_it_tells_them() -> None:
    writes = {right[1:] for right in render().rights if right.verb not in READS}
    assert writes == {
        ("rebalancer.io", "overrides/status", "patch"),
        ("rebalancer.io", "overrides", "create"),
        ("rebalancer.io", "overrides", "delete"),
        ("rebalancer.io", "writestops", "create"),
        ("rebalancer.io", "writestops", "delete"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("coordination.k8s.io", "leases", "create"),  # who leads
        ("coordination.k8s.io", "leases", "patch"),
    }


OWN = Right("gpu", "apps", "deployments/scale", "get")
EVENTS = Right(EVERYWHERE, "events.k8s.io", "events", "create")


@pytest.mark.parametrize(
    ("actuation", "group", "resource", "verbs"),
    [
        ("keda", "keda.sh", "scaledobjects", ("get", "patch")),
        ("hpa", "autoscaling", "horizontalpodautoscalers", ("get", "patch")),
        ("scale", "apps", "deployments/scale", ("get", "update")),
        ("karpenter", "karpenter.sh", "nodepools", ("get", "patch")),
    ],
)
def test_an_actuation_brings_its_own_rights_and_its_own_policy(
    actuation: str, group: str, resource: str, verbs: tuple[str, ...]
) -> None:
    off = render()
    on = render({f"actuation.{actuation}": True, "actuation.deletionCost": False})
    brought = {Right(EVERYWHERE, group, resource, verb) for verb in verbs}
    assert on.rights - off.rights == brought | {EVENTS, OWN, OWN._replace(verb="update")}
    policies = {each["metadata"]["name"] for each in on.of("ValidatingAdmissionPolicy")}
    always = {"rebalancer.gpu.actors", "rebalancer.gpu.places", "rebalancer.gpu.leases"}
    stamped = set() if actuation == "scale" else {"rebalancer.gpu.terms"}
    assert policies == {*always, *stamped, f"rebalancer.gpu.{resource.removesuffix('/scale')}"}
    bound = {each["spec"]["policyName"] for each in on.of("ValidatingAdmissionPolicyBinding")}
    assert bound == policies


KINDS = ["statefulsets.apps", "leaderworkersets.leaderworkerset.x-k8s.io"]


def test_a_kind_of_targets_brings_its_own_rights_and_no_others() -> None:
    off, read = render(), render({"targetKinds": KINDS})
    lws = "leaderworkerset.x-k8s.io"
    reads = {
        *(Right(EVERYWHERE, "apps", "statefulsets", verb) for verb in ("list", "watch")),
        *(Right(EVERYWHERE, lws, "leaderworkersets", verb) for verb in ("list", "watch")),
        Right(EVERYWHERE, "apiextensions.k8s.io", "customresourcedefinitions", "get"),
    }
    assert read.rights - off.rights == reads
    definitions = [rule for rule in read.one("ClusterRole", "rebalancer.gpu")["rules"] if "resourceNames" in rule]
    assert [rule["resourceNames"] for rule in definitions] == [KINDS[1:]]
    on = render({"targetKinds": KINDS, "actuation.scale": True})
    writes = {
        *(Right(EVERYWHERE, "apps", "statefulsets/scale", verb) for verb in ("get", "update")),
        *(Right(EVERYWHERE, lws, "leaderworkersets/scale", verb) for verb in ("get", "update")),
    }
    assert on.rights - render({"actuation.scale": True}).rights == reads | writes


def test_the_objects_of_every_kind_of_targets_are_closed_to_our_account_but_for_their_scale() -> None:
    rendered = render({"targetKinds": KINDS, "actuation.scale": True})
    policy = rendered.one("ValidatingAdmissionPolicy", "rebalancer.gpu.deployments")["spec"]
    ruled = [(rule["apiGroups"], rule["resources"]) for rule in policy["matchConstraints"]["resourceRules"]]
    assert ruled == [
        (["apps"], ["deployments"]),
        (["apps"], ["statefulsets"]),
        (["leaderworkerset.x-k8s.io"], ["leaderworkersets"]),
    ]


@pytest.mark.parametrize("kind", ["nodepools.karpenter.sh", "*.apps", "statefulsets"])
def test_no_wildcard_and_no_node_pool_is_a_kind_of_targets(kind: str) -> None:
    with pytest.raises(Refused, match="/targetKinds/0"):
        render({"targetKinds": [kind]})


@pytest.mark.parametrize("actuation", ["keda", "hpa", "scale", "karpenter"])
def test_pods_are_marked_by_default_beside_what_makes_a_workload_smaller_and_by_nothing_else(actuation: str) -> None:
    without = render({f"actuation.{actuation}": True, "actuation.deletionCost": False})
    rendered = render({f"actuation.{actuation}": True})
    marks = actuation != "karpenter"
    brought = {Right(EVERYWHERE, "", "pods", "patch")} if marks else set()
    assert rendered.rights - without.rights == brought
    held = {each["spec"]["policyName"] for each in rendered.of("ValidatingAdmissionPolicyBinding")}
    assert ("rebalancer.gpu.pods" in held) == marks
    assert environment(rendered)["WRITE_DELETION_COST"] == "true"
    assert environment(without)["WRITE_DELETION_COST"] == "false"


def test_with_namespaces_named_nothing_is_written_to_a_workload_elsewhere() -> None:
    rendered = render(EVERYTHING_ON)
    everywhere = {right[1:] for right in rendered.rights if right.where == EVERYWHERE}
    assert {each for each in everywhere if each[2] not in READS} == {
        ("karpenter.sh", "nodepools", "patch"),
        ("rebalancer.io", "overrides/status", "patch"),
        ("rebalancer.io", "writestops", "create"),
        ("rebalancer.io", "writestops", "delete"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    ours = [role for role in rendered.of("Role") if role["metadata"]["name"] == "rebalancer.gpu"]
    assert {role["metadata"]["namespace"] for role in ours} == {"serving", "search", "default"}


def test_no_right_is_a_dangerous_one() -> None:
    for right in render(EVERYTHING_ON).rights | render(EVERY_ACTUATION).rights:
        assert "*" not in right, right
        assert right.resource not in NEVER, right
        assert right.verb not in {"impersonate", "bind", "escalate", "deletecollection"}, right
        assert right.verb != "delete" or right.group == "rebalancer.io", right


def test_every_file_that_a_setting_names_is_mounted() -> None:
    rendered = render(EVERYTHING_ON)
    spec = rendered.one("Deployment")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}
    settings = environment(rendered)
    for name in ("KAFKA_PASSWORD_FILE", "KAFKA_CA_FILE", "PROMETHEUS_TOKEN_FILE", "PROMETHEUS_CA_FILE", "POLICY_PATH"):
        folder, _, file = settings[name].rpartition("/")
        source = mounted[folder].get("secret") or mounted[folder]["configMap"]
        assert [item["path"] for item in source["items"]] == [file]
    assert mounted[settings["OVERRIDE_KEYS_DIR"]]["secret"]["secretName"] == "signers"


def test_a_user_and_a_certificate_prove_us_to_prometheus() -> None:
    given = {"url": "https://prometheus:9090", "username": "us", "passwordSecret.name": "p", "certificateSecret": "c"}
    rendered = render({f"prometheus.{key}": value for key, value in given.items()})
    spec = rendered.one("Deployment")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
    mounted = {mount["mountPath"]: volumes.get(mount["name"]) for mount in spec["containers"][0]["volumeMounts"]}
    settings = environment(rendered)
    assert settings["PROMETHEUS_USERNAME"] == "us"
    for name, secret in (("PASSWORD_FILE", "p"), ("CERTIFICATE_FILE", "c"), ("KEY_FILE", "c")):
        assert mounted[settings[f"PROMETHEUS_{name}"].rpartition("/")[0]] == secret


def test_a_service_that_only_takes_signed_records_cannot_end_what_people_decided() -> None:
    rights = render({"api.enabled": False, "kafka.overrideKeysSecret": "signers", "clusterName": "eu-1"}).rights
    assert {right.verb for right in rights if right.resource == "overrides"} == {"list", "watch", "get", "create"}


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_a_pod_may_do_nothing_a_pod_need_not(kind: str) -> None:
    pod = render(EVERYTHING_ON).one(kind)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security, own = pod["securityContext"], container["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"] > 10000) == (True, True)
    assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    token = next(volume for volume in pod["volumes"] if volume["name"] == "token")["projected"]["sources"]
    assert token[0]["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}
    assert {"requests", "limits"} == set(container["resources"])


def hooks(given: Json) -> dict[str, list[str]]:
    """By helm's moment, what the Job that it runs then is told."""
    jobs = render(given).of("Job")
    return {
        job["metadata"]["annotations"]["helm.sh/hook"]: job["spec"]["template"]["spec"]["containers"][0]["args"]
        for job in jobs
    }


def test_before_it_goes_and_on_the_way_to_shadow_it_hands_back_what_is_its_own() -> None:
    given = EVERY_ACTUATION | {"namespaces": ["serving"]}
    stopped = ["hand-back", "--stop=gpu/rebalancer", "--namespace=serving"]
    assert hooks(given | {"writeMode": "act"}) == {"pre-delete": stopped}
    assert hooks(given | {"writeMode": "shadow"}) == {
        "pre-delete": stopped,
        "post-upgrade,post-rollback": ["hand-back", "--after=gpu/rebalancer", "--namespace=serving"],
    }
    assert hooks(given | {"handBack.onShadow": False}) == {"pre-delete": stopped}
    assert hooks(given | {"handBack.enabled": False}) == {}
    assert hooks({"writeMode": "shadow"}) == {}


def test_what_carries_no_name_is_given_back_only_when_the_values_say_so() -> None:
    given = EVERY_ACTUATION | {"handBack.unnamed": True}
    assert all("--unnamed" in arguments for arguments in hooks(given).values())
    assert environment(render(given))["HAND_BACK_UNNAMED"] == "true"
    assert environment(render(EVERY_ACTUATION))["HAND_BACK_UNNAMED"] == "false"


def test_the_policy_arrives_as_it_was_given_as_a_map_or_as_text() -> None:
    text = (CHART.parents[1] / "config/policy.yaml").read_text()
    as_text = render({"policy": text}).one("ConfigMap")["data"]["policy.yaml"]
    as_map = render({"policy": yaml.safe_load(text)}).one("ConfigMap")["data"]["policy.yaml"]
    assert as_text.strip() == text.strip()
    assert yaml.safe_load(as_map) == yaml.safe_load(text)


@pytest.mark.parametrize("start", ["   # ours\n", "\n\n", "  \n# ours\n"])
def test_a_policy_may_begin_with_a_blank_or_an_indented_line(start: str) -> None:
    text = f"{start}apiVersion: rebalancer.io/v1alpha1\nkind: Policy\n"
    assert render({"policy": text}).one("ConfigMap")["data"]["policy.yaml"] == text


def test_a_change_of_the_policy_reaches_a_running_pod() -> None:
    """A file mounted by subPath would stay as it was when the pod started."""
    (container,) = render().one("Deployment")["spec"]["template"]["spec"]["containers"]
    mount = next(each for each in container["volumeMounts"] if each["name"] == "policy")
    assert mount == {"name": "policy", "mountPath": "/etc/rebalancer", "readOnly": True}


def rules(document: Json) -> list[Json]:
    found: list[Json] = [rule for group in document["groups"] for rule in group["rules"]]
    return found


def test_alerts_are_ours_with_your_address_of_the_runbooks() -> None:
    file = yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    rendered = rules(render(EVERYTHING_ON).one("PrometheusRule")["spec"])
    for ours, yours in zip(rules(file), rendered, strict=True):
        address = yours["annotations"].pop("runbook_url")
        assert address == f"https://wiki.example.com/runbooks/{yours['alert']}.md"
        ours["annotations"].pop("runbook_url")
        ours["expr"] = ours["expr"].replace("(rebalancer_build_info)", '(rebalancer_build_info{namespace="gpu"})')
        assert ours == yours
    without = rules(
        render({"prometheusRule.enabled": True, "serviceMonitor.enabled": True}).one("PrometheusRule")["spec"]
    )
    assert without == rules(file | {"groups": [{"rules": rendered}]})


def test_the_dashboard_is_ours_byte_by_byte() -> None:
    rendered = render(EVERYTHING_ON).one("ConfigMap", "rebalancer-dashboard")["data"]["rebalancer.json"]
    assert rendered.strip() == (CHART / "files/dashboard.json").read_text().strip()


def test_out_goes_what_is_needed_and_never_to_where_clouds_keep_credentials() -> None:
    spec = render(EVERYTHING_ON)
    policy = spec.one("NetworkPolicy")["spec"]
    blocks = [peer["ipBlock"] for rule in policy["egress"] for peer in rule.get("to", ())]
    assert all("169.254.0.0/16" in block["except"] for block in blocks if block["cidr"] == "0.0.0.0/0")
    open_to_all = [rule["ports"] for rule in policy["egress"] if not rule.get("to")]
    assert open_to_all == [[{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]]
    assert [rule["ports"][0]["port"] for rule in policy["ingress"]] == [8080, 8081]
    assert render().one("NetworkPolicy")["spec"]["ingress"] == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.enabled": False, "prometheus.url": "http://p", "notices.queueUrl": QUEUE}, "messages go into Kafka"),
        ({"notices.queueUrl": "capacity-notices"}, "at '/notices/queueUrl'"),
        ({"writemode": "act"}, "additional properties 'writemode' not allowed"),
        ({"kafka.bootstraps": "kafka:9093"}, "at '/kafka': additional properties 'bootstraps' not allowed"),
        ({"writeMode": "on"}, "at '/writeMode': value must be one of 'shadow', 'act'"),
    ],
)
def test_helm_says_which_value_is_wrong(given: Json, message: str) -> None:
    with pytest.raises(Refused) as refused:
        render(given)
    assert message in str(refused.value)


def test_no_release_name_makes_a_name_too_long() -> None:
    text = helm("template", "r" * 53, str(CHART), "--namespace", "n" * 63, *values(EVERY_ACTUATION))
    names = [obj["metadata"]["name"] for obj in yaml.safe_load_all(text) if obj]
    assert max(len(name) for name in names) <= 253
