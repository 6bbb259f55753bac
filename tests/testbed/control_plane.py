"""etcd, API server, controller manager and scheduler."""

import json
import subprocess
from dataclasses import dataclass

from tests.testbed.build import Built
from tests.testbed.line import chosen_line
from tests.testbed.place import Access, Certificates, Place, answers, issue_certificates, new_token
from tests.testbed.process import Failed, Process, free_port, start_together

ADMIN = "testbed"
# Each program has a name of its own, so that the audit log tells who wrote; all are system:masters.
_GATES = [f"--feature-gates={gate}=true" for gate in chosen_line().gates]
_USERS = (ADMIN, "controller-manager", "scheduler", "kwok", "karpenter", "keda")

# Writes are logged with bodies; reads only those of service accounts, for the rights they use. First match wins.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "verbs": ["get", "list", "watch"]},
        {"level": "None", "verbs": ["get", "list", "watch"]},
        # A kubelet's delete ends a pod: from then on its GPUs are free.
        {"level": "Metadata", "users": ["kwok"], "verbs": ["delete"]},
        # And its word on a pod says from when on that serves.
        {"level": "Request", "users": ["kwok"], "resources": [{"group": "", "resources": ["pods/status"]}]},
        # Fake kubelets renew leases and report status all the time; nobody asks what else they wrote.
        {"level": "None", "users": ["kwok"]},
        {"level": "None", "nonResourceURLs": ["*"]},
        {"level": "RequestResponse"},
    ],
}


@dataclass(frozen=True)
class Timing:
    """Clocks of the controller manager, in seconds; the first is Kubernetes' default."""

    hpa_sync_seconds: float = 15.0
    # Fake nodes renew their leases each 4 s; a silent one is NotReady after this.
    node_grace_seconds: float = 40.0


class ControlPlane:
    """The four processes; `access` says how to reach the API, `audit_log` is what it wrote down."""

    etcd: Process
    apiserver: Process
    controller_manager: Process
    scheduler: Process

    def __init__(self, place: Place, built: Built, timing: Timing) -> None:
        self._place, self._built = place, built
        self.certificates = issue_certificates(place.subfolder("certificates"))
        self._signing_key = _signing_key(self.certificates)
        self._tokens = {user: new_token() for user in _USERS}
        self._port = free_port()
        server = f"https://127.0.0.1:{self._port}"
        self.access = Access(server, self.certificates.ca.read_text(), self._tokens[ADMIN])
        self.kubeconfigs = {
            user: place.write(f"kubeconfigs/{user}", self.access.kubeconfig(token))
            for user, token in self._tokens.items()
        }
        self.audit_log = place.folder / "audit.log"
        self.etcd = self._etcd()
        self.apiserver = self._apiserver()
        self.controller_manager = self._controller_manager(timing)
        self.scheduler = self._controller("scheduler", "kube-scheduler")

    @property
    def processes(self) -> list[Process]:
        """In the order in which they start."""
        return [self.etcd, self.apiserver, self.controller_manager, self.scheduler]

    def start(self) -> None:
        self.etcd.start()
        self.apiserver.start()
        start_together([self.controller_manager, self.scheduler])

    def _etcd(self) -> Process:
        self._etcd_port, peer_port = free_port(), free_port()
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peer_port}"
        command = [
            self._built.program("server"), "--name=etcd", f"--data-dir={self._place.subfolder('etcd')}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=etcd={peer}", "--unsafe-no-fsync", "--log-level=warn",
        ]  # fmt: skip
        return self._place.process("etcd", command, lambda: answers(self._etcd_port, "/readyz"))

    def _apiserver(self) -> Process:
        certificates, key = self.certificates, self._signing_key
        users = "".join(f'{token},{user},{user},"system:masters"\n' for user, token in self._tokens.items())
        command = [
            self._built.program("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1", f"--secure-port={self._port}", "--advertise-address=127.0.0.1",
            # The `kubernetes` Service may not point at loopback, and nothing here needs it.
            "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
            f"--tls-cert-file={certificates.certificate}", f"--tls-private-key-file={certificates.key}",
            f"--token-auth-file={self._place.write('tokens.csv', users)}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            # Pods need no service account token: no container runs.
            "--disable-admission-plugins=ServiceAccount", *_GATES,
            f"--audit-policy-file={self._place.write('audit-policy.json', json.dumps(_AUDIT_POLICY))}",
            # One file, however long the run: by default the server moves it away at 100 MB, and who wrote what with it.
            f"--audit-log-path={self._place.folder / 'audit.log'}", "--audit-log-maxsize=100000",
            # For aggregated APIs (KEDA's external metrics): how the adapter knows that we are the API server.
            f"--requestheader-client-ca-file={certificates.ca}", "--requestheader-allowed-names=testbed",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={certificates.certificate}", f"--proxy-client-key-file={certificates.key}",
        ]  # fmt: skip
        token = self.access.token
        return self._place.process(
            "apiserver", command, lambda: answers(self._port, "/readyz", ca=self.certificates.ca, token=token)
        )

    def _controller_manager(self, timing: Timing) -> Process:
        return self._controller(
            "controller-manager",
            "kube-controller-manager",
            f"--horizontal-pod-autoscaler-sync-period={timing.hpa_sync_seconds}s",
            f"--node-monitor-grace-period={timing.node_grace_seconds}s",
            f"--service-account-private-key-file={self._signing_key}",
            f"--root-ca-file={self.certificates.ca}",
        )

    def _controller(self, user: str, program: str, *flags: str) -> Process:
        port = free_port()
        command = [
            self._built.program(program), f"--kubeconfig={self.kubeconfigs[user]}", "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--secure-port={port}",
            f"--tls-cert-file={self.certificates.certificate}", f"--tls-private-key-file={self.certificates.key}",
            *_GATES, *flags,
        ]  # fmt: skip
        return self._place.process(user, command, lambda: answers(port, "/healthz", ca=self.certificates.ca))


def _signing_key(certificates: Certificates) -> str:
    """The key of service account tokens; the API server checks tokens with the private key's public half."""
    key = certificates.folder / "service-accounts.key"
    done = subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"no signing key: {done.stderr}")
    return str(key)
