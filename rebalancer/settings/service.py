"""The service's own settings, from environment variables `REBALANCER_...`; secrets come from files.

A Kubernetes Service named `rebalancer-api` would put `REBALANCER_API_PORT=tcp://...` into every pod of its namespace:
run the pod with `enableServiceLinks: false`.
"""

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticKnownError
from pydantic_settings import BaseSettings, SettingsConfigDict

from rebalancer.settings.allowed import words
from rebalancer.settings.kafka_login import kafka_problem
from rebalancer.settings.prometheus_login import login_problem
from rebalancer.settings.prometheus_matchers import matchers_problem
from rebalancer.settings.prometheus_url import problem_of
from rebalancer.settings.queue_url import queue_problem

PREFIX = "REBALANCER_"
Port = Annotated[int, Field(ge=0, le=65_535)]
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
Period = Annotated[FiniteFloat, Field(ge=1, le=86_400)]


class BadSettings(ValueError):
    """The environment does not make settings; the text has one line per variable, for people."""


class PasswordUnreadable(BadSettings, OSError):
    """Also an OSError, as for a certificate: a file that is away while a Secret is replaced is there again soon."""


class ServiceSettings(BaseSettings):
    """Everything that is not policy. Changing any of it needs a restart."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid")

    dev: bool = Field(
        default=False,
        description="This is no production: a Kafka without TLS is allowed. One on this machine always is.",
    )
    cluster_name: str = Field(default="", max_length=63, description="Name of the cluster, shown to people.")

    kafka_enabled: bool = Field(
        default=True,
        description="false: no Kafka is reached; the service observes, in shadow, with all readings from Prometheus.",
    )
    kafka_bootstrap: str = Field(
        default="", validate_default=True, description="HOST:PORT of Kafka brokers, separated by commas."
    )
    topic_prefix: str = Field(
        default="rebalancer.",
        pattern=r"^[A-Za-z0-9._-]*$",
        max_length=200,
        description="Put before every topic's name, so that several installations share a Kafka.",
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="SSL", description="PLAINTEXT must be asked for: whoever reaches the broker could forge events."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"] = Field(
        default="SCRAM-SHA-512",
        description="How the user is proved; for SASL_PLAINTEXT and SASL_SSL. AWS_MSK_IAM needs the extra msk.",
    )
    kafka_username: str = Field(default="", description="SASL user; for OAUTHBEARER by URL the client's id.")
    kafka_password_file: Path | None = Field(
        default=None, description="File with the SASL password, or the client's secret; changed, it is read again."
    )
    kafka_token_file: Path | None = Field(
        default=None, description="File with the token of OAUTHBEARER, read at each connection."
    )
    kafka_token_url: str = Field(
        default="",
        description="Where OAUTHBEARER's tokens come from (client credentials), without a token file.",
    )
    kafka_token_scope: str = Field(
        default="", max_length=1024, description="Scope to ask these tokens for, where their issuer demands one."
    )
    kafka_aws_region: str = Field(default="", max_length=63, description="Region of the cluster, for AWS_MSK_IAM.")
    kafka_cert_file: Path | None = Field(
        default=None, description="PEM file with our certificate, where brokers want one (mTLS); changed, it is read."
    )
    kafka_key_file: Path | None = Field(default=None, description="PEM file with its key, without a passphrase.")
    kafka_ca_file: Path | None = Field(
        default=None, description="PEM file with the brokers' CA; without it the system's CAs are trusted."
    )

    aggregated: bool = Field(
        default=False,
        description="true: others read the topic `metrics` for us (`rebalancer aggregate`), and their topic `readings` "
        "is read in its place.",
    )

    notices_queue_url: str = Field(
        default="",
        max_length=1024,
        description="https://sqs.REGION.amazonaws.com/ACCOUNT/NAME: a queue of our own, whose messages we bring into "
        "the topic `notices` and delete. Needs the extra aws.",
    )
    notices_queue_region: str = Field(
        default="", max_length=63, description="Region of that queue, where its URL does not name it."
    )

    override_keys_dir: Path | None = Field(
        default=None,
        description="Folder of keys (file name = key id) whose signed Kafka records may override; none: no record may.",
    )

    kubeconfig: Path | None = Field(
        default=None, description="Kubeconfig file; without it the pod's service account, else the user's own file."
    )
    kube_context: str = Field(default="", description="Context in the kubeconfig; empty means its current one.")
    own_namespace: str = Field(default="rebalancer", max_length=63, description="Namespace the service runs in.")
    account_name: str = Field(
        default="rebalancer", max_length=253, description="Our service account: its writes are not foreign ones."
    )

    lease_name: str = Field(
        default="",
        max_length=253,
        description="Lease in our own namespace by which replicas agree who acts; empty: this is the only one.",
    )
    instance: str = Field(
        default="", max_length=63, description="Name of this replica, shown to people; empty: the host's, as in a pod."
    )

    prometheus_url: str = Field(
        default="", description="http(s)://HOST:PORT of a Prometheus that scrapes vLLM: a second source of readings."
    )
    prometheus_interval_seconds: Period = Field(
        default=15.0, description="Seconds between questions to it: its scrape interval of the model servers."
    )
    prometheus_token_file: Path | None = Field(default=None, description="File with a bearer token for it.")
    prometheus_username: str = Field(default="", description="User of basic authentication for it.")
    prometheus_password_file: Path | None = Field(default=None, description="File with that user's password.")
    prometheus_certificate_file: Path | None = Field(
        default=None, description="PEM file with our own certificate, where it asks for one (mTLS)."
    )
    prometheus_key_file: Path | None = Field(
        default=None, description="PEM file with its key; without it the certificate's file has it."
    )
    prometheus_ca_file: Path | None = Field(
        default=None, description="PEM file with its CA; without it the usual CAs are trusted."
    )

    prometheus_sigv4_region: str = Field(
        default="",
        max_length=63,
        description="Region of Amazon Managed Prometheus: requests are signed (SigV4). Needs the extra aws.",
    )
    prometheus_matchers: str = Field(
        default="",
        max_length=4096,
        description="LABEL=VALUE, separated by commas: labels of this cluster's series, where it has others', too.",
    )

    backfill_hours: FiniteFloat = Field(
        default=24.0,
        ge=0,
        le=24 * 90,
        description="Hours of its past that a start without Kafka reads first: 0 for none.",
    )

    policy_path: Path = Field(default=Path("/etc/rebalancer/policy.yaml"), description="The policy file.")
    allow_empty_policy: bool = Field(
        default=False, description="Accept a reload that removes more than half of the models (guard `empty`)."
    )

    write_mode: Literal["shadow", "act"] = Field(
        default="shadow", description="shadow: decide and tell, write nothing. act: write."
    )
    hand_back_unnamed: bool = Field(
        default=False,
        description="Give back also what an older version wrote to, which put no installation's name there, once the "
        "policy does not name it; what the policy names is taken over either way.",
    )
    write_deletion_cost: bool = Field(
        default=False, description="Write the deletion cost on pods before a release, so that the right ones go."
    )
    drain_nodes: bool = Field(
        default=False,
        description="Cordon nodes under notice and evict replicas from them, in pools whose policy says drain.",
    )

    api_auth: Literal["kubernetes", "none"] = Field(
        default="kubernetes",
        description="kubernetes: callers bring a token that the API server reviews. none: everybody is `local`, so the "
        "API stays on loopback.",
    )
    api_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address of the API; :: for all, of IPv4 and IPv6, with tokens only. 0.0.0.0 is IPv4 alone.",
    )
    api_hosts: str = Field(
        default="",
        max_length=4096,
        description="Names under which people reach the API, separated by commas; localhost, addresses and services "
        "of the cluster need none.",
    )
    probe_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address of the probe port; :: (all, of IPv4 and IPv6) where a kubelet asks.",
    )
    api_port: Port = Field(default=8080, description="Port of the API; 0 takes a free one.")
    probe_port: Port = Field(default=8081, description="Port of /livez, /readyz and /metrics; 0 takes a free one.")

    journal_dir: Path = Field(default=Path("/var/lib/rebalancer/journal"), description="Folder of the local journal.")
    journal_max_mib: int = Field(
        default=256, ge=1, le=1_048_576, description="MiB of local journal; the oldest file goes first."
    )
    ledger_max_mib: int = Field(
        default=256,
        ge=1,
        le=1_048_576,
        description="MiB of ledger beside the journal, which `rebalancer report` reads once the journal had to forget;"
        " the oldest hour goes first.",
    )
    predict_days: bool = Field(
        default=False,
        description="Each UTC day that has ended is predicted, for `rebalancer report` and its metric; wants the"
        " packages of `rebalancer[sim]`, 600 MiB and minutes of a core.",
    )
    keyframe_seconds: Period = Field(
        default=300.0, description="Seconds between full snapshots in the journal: the most a replay reads in vain."
    )
    checkpoint_seconds: Period = Field(
        default=30.0, description="Seconds between memory checkpoints: the most a restart reads again from decisions."
    )
    rings_seconds: Period = Field(
        default=300.0, description="Seconds in which every model's history is checkpointed once, one after another."
    )

    crash_at: str = Field(
        default="",
        pattern=r"^([a-z0-9/-]+:[1-9][0-9]{0,8}:(before|after))?$",
        description="EFFECT:NTH:before or EFFECT:NTH:after kills the process at that time of that effect; for tests of "
        "crashes, with DEV alone.",
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level logged.")
    log_format: Literal["json", "text"] = Field(default="json", description="json for machines, text for a terminal.")

    @field_validator("kafka_bootstrap")
    @classmethod
    def _brokers(cls, bootstrap: str, info: ValidationInfo) -> str:
        if not bootstrap and info.data.get("kafka_enabled", True):
            raise PydanticKnownError("missing")
        return bootstrap

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if not self.kafka_enabled and (problem := self._not_observing()):
            raise ValueError(f"{PREFIX}KAFKA_ENABLED=false: {problem}")
        if self.kafka_enabled and (problem := kafka_problem(self, PREFIX)):
            raise ValueError(problem)
        if self.notices_queue_url and (problem := queue_problem(self, PREFIX)):
            raise ValueError(problem)
        if self.override_keys_dir is not None and not self.cluster_name:
            raise ValueError(
                f"{PREFIX}OVERRIDE_KEYS_DIR={self.override_keys_dir}: set {PREFIX}CLUSTER_NAME too; a signature is good"
                " for one cluster, by its name"
            )
        if self.api_auth == "none" and self.api_host not in LOOPBACK:
            raise ValueError(
                f"{PREFIX}API_AUTH=none on {PREFIX}API_HOST={self.api_host}: whoever reaches it could do everything; "
                f"use kubernetes, or one of {', '.join(sorted(LOOPBACK))}"
            )
        if self.crash_at and not self.dev:
            raise ValueError(
                f"{PREFIX}CRASH_AT={self.crash_at} kills the service; leave it out, or set {PREFIX}DEV=true in a test"
            )
        if problem := self._prometheus_problem():
            raise ValueError(problem)
        if self.api_port == self.probe_port != 0:
            raise ValueError(f"{PREFIX}API_PORT and {PREFIX}PROBE_PORT are both {self.api_port}: choose two ports")
        return self

    def _prometheus_problem(self) -> str | None:
        """What is wrong with where Prometheus is and how we say there who we are, None when nothing is."""
        if self.prometheus_url and (problem := problem_of(self.prometheus_url)):
            return f"{PREFIX}PROMETHEUS_URL: {problem}"
        if problem := matchers_problem(self.prometheus_matchers):
            return f"{PREFIX}PROMETHEUS_MATCHERS: {problem}"
        of_prometheus = {
            name.removeprefix("prometheus_"): value for name, value in self if name.startswith("prometheus_")
        }
        given = [name for name, value in of_prometheus.items() if value]
        return login_problem(given, lambda field: f"{PREFIX}PROMETHEUS_{field.upper()}")

    def _not_observing(self) -> str | None:
        """Why these are no settings of a service that only observes; None when they are."""
        if self.write_mode != "shadow":
            return (
                f"{PREFIX}WRITE_MODE={self.write_mode} needs Kafka, which keeps what was written over a crash; "
                "without it the service observes, in shadow"
            )
        if not self.prometheus_url:
            return f"set {PREFIX}PROMETHEUS_URL: without Kafka every reading comes from there"
        if self.lease_name:
            return f"{PREFIX}LEASE_NAME={self.lease_name} would be written to; leave it out, for one replica observes"
        if self.override_keys_dir is not None:
            return f"{PREFIX}OVERRIDE_KEYS_DIR={self.override_keys_dir} is for records in Kafka; leave it out"
        if self.api_auth != "none":
            return (
                f"{PREFIX}API_AUTH={self.api_auth} would ask for token reviews, which are writes; "
                "use none, with the API on loopback"
            )
        return None

    @property
    def account(self) -> str:
        """Our user name as Kubernetes writes it in audit logs and reviews."""
        return f"system:serviceaccount:{self.own_namespace}:{self.account_name}"

    @property
    def pod_namespace(self) -> str:
        """Namespace of our pods; "" where none is set, as it is in each pod: we run outside of the cluster."""
        return self.own_namespace if "own_namespace" in self.model_fields_set else ""

    @property
    def installation(self) -> str:
        """Our name on what we write to: `namespace/account`, of which a cluster has one."""
        return f"{self.own_namespace}/{self.account_name}"

    @property
    def api_names(self) -> frozenset[str]:
        """The names of `api_hosts`."""
        return frozenset(name.strip() for name in self.api_hosts.split(",")) - {""}

    def kafka_password(self) -> SecretStr | None:
        """The password in its file as it is now, None without a file. Raises PasswordUnreadable."""
        if self.kafka_password_file is None:
            return None
        try:
            return SecretStr(self.kafka_password_file.read_text().rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise PasswordUnreadable(
                f"{PREFIX}KAFKA_PASSWORD_FILE={self.kafka_password_file}: cannot be read ({error})"
            ) from None


def read_settings(kafka_bootstrap: str | None = None) -> ServiceSettings:
    """Settings from the environment, with these brokers where some are given.

    Raises BadSettings with everything that is wrong, misspelled names included.
    """
    wrong = [_misspelled(name) for name in sorted(os.environ) if name.startswith(PREFIX)]
    try:
        settings = ServiceSettings() if kafka_bootstrap is None else ServiceSettings(kafka_bootstrap=kafka_bootstrap)
    except ValidationError as error:
        wrong += [_error_words(problem) for problem in error.errors(include_url=False)]
    else:
        if not any(wrong):
            return settings
    raise BadSettings("\n".join(line for line in wrong if line))


def _misspelled(name: str) -> str:
    """Names unlike any of ours are none of our business: Kubernetes puts some there for a Service of our name."""
    known = [PREFIX + field.upper() for field in ServiceSettings.model_fields]
    close = get_close_matches(name.upper(), known, n=1, cutoff=0.9)
    return "" if name.upper() in known or not close else f"{name}: no such setting; did you mean {close[0]}?"


def _error_words(problem: Any) -> str:  # noqa: ANN401  pydantic's ErrorDetails
    if not problem["loc"]:
        return str(problem["ctx"]["error"])
    field = str(problem["loc"][0])
    part = ServiceSettings.model_json_schema()["properties"][field]
    about = ServiceSettings.model_fields[field].description
    if problem["type"] == "missing":
        return f"{PREFIX}{field.upper()} is not set: {about}"
    return f"{PREFIX}{field.upper()}={problem['input']}: allowed {words(part)}. {about}"
