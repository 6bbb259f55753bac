"""A broker as in production: TLS, users with SCRAM, certificates or tokens, and nobody may what no ACL says."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from typing import Any

from confluent_kafka import admin

from tests.testbed.build import Built
from tests.testbed.place import Certificates, Place, issue_certificates
from tests.testbed.process import Failed, free_port

clients: Any = admin  # the library exports them, and does not say so
_LOGIN = "org.apache.kafka.common.security"
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=ADMIN://127.0.0.1:{admin},SASL://127.0.0.1:{sasl},MTLS://127.0.0.1:{mtls},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=ADMIN://127.0.0.1:{admin},SASL://127.0.0.1:{sasl},MTLS://127.0.0.1:{mtls}
listener.security.protocol.map=ADMIN:PLAINTEXT,SASL:SASL_SSL,MTLS:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=ADMIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl.scram-sha-512.sasl.jaas.config={login}.scram.ScramLoginModule required;
listener.name.sasl.oauthbearer.sasl.jaas.config={login}.oauthbearer.OAuthBearerLoginModule required {claim};
listener.name.mtls.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
log.dirs={data}
auto.create.topics.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class SecuredKafka:
    """The broker. `admin`: a listener on which everybody may do all; `sasl`, `mtls`: those for users."""

    def __init__(self, place: Place, built: Built, user: str, password: str) -> None:
        admin, sasl, mtls = free_port(), free_port(), free_port()
        self.admin, self.sasl, self.mtls = (f"127.0.0.1:{port}" for port in (admin, sasl, mtls))
        self.certificates: Certificates = issue_certificates(place.subfolder("certificates"))
        whole = self.certificates.key.read_text() + self.certificates.certificate.read_text()
        self._user = user
        self._file = place.write(
            "kafka.properties",
            _PROPERTIES.format(
                admin=admin,
                sasl=sasl,
                mtls=mtls,
                controller=free_port(),
                login=_LOGIN,
                claim='unsecuredLoginStringClaim_sub="broker"',
                keystore=place.write("keystore.pem", whole),
                ca=self.certificates.ca,
                data=place.subfolder("kafka"),
            ),
        )
        self._java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{built.jars}/*"]
        cluster = "A" + urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()[1:]
        scram = f"SCRAM-SHA-512=[name={user},password={password}]"
        self._tool("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._file), "--add-scram", scram)
        self.process = place.process("kafka", [*self._java, "kafka.Kafka", str(self._file)], self._started)
        self.process.start()

    def configure(self, *arguments: str) -> None:
        """Kafka's own kafka-configs, as the administrator."""
        self._tool("kafka.admin.ConfigCommand", "--bootstrap-server", self.admin, *arguments)

    def grant(self, *arguments: str) -> None:
        """What kafka-acls would do with these arguments; that tool is not among the testbed's jars."""
        named: dict[str, list[str]] = {}
        for name, value in zip(arguments[1::2], arguments[2::2], strict=True):
            named.setdefault(name, []).append(value)
        (principal,) = named["--allow-principal"]
        bindings = [
            clients.AclBinding(clients.ResourceType.TOPIC, topic, clients.ResourcePatternType.LITERAL, principal, "*",
                       clients.AclOperation[operation.upper()], clients.AclPermissionType.ALLOW)
            for topic in named["--topic"]
            for operation in named["--operation"]
        ]  # fmt: skip
        client = clients.AdminClient({"bootstrap.servers": self.admin})  # it ends what is under way when nobody has it
        for future in client.create_acls(bindings).values():
            future.result()

    def rights(self, principal: str) -> set[tuple[str, str, str]]:
        """What a principal may: resource type, name and operation of each right, as the broker lists them."""
        anything = clients.AclBindingFilter(clients.ResourceType.ANY, None, clients.ResourcePatternType.ANY, principal,
                                            None, clients.AclOperation.ANY, clients.AclPermissionType.ANY)  # fmt: skip
        client = clients.AdminClient({"bootstrap.servers": self.admin})
        described = client.describe_acls(anything).result()
        assert all((each.host, each.permission_type.name) == ("*", "ALLOW") for each in described)
        assert all(each.resource_pattern_type.name == "LITERAL" for each in described)
        return {(each.restype.name, each.name, each.operation.name) for each in described}

    def set_password(self, password: str) -> None:
        scram = f"SCRAM-SHA-512=[password={password}]"
        self.configure("--alter", "--entity-type", "users", "--entity-name", self._user, "--add-config", scram)

    def _tool(self, *command: str) -> str:
        done = subprocess.run([*self._java, *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{command}:\n{done.stderr}{done.stdout}")
        return done.stdout

    def _started(self) -> bool:
        return "Kafka Server started" in self.process.log_since_start()
