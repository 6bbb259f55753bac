"""`rebalancer bundle`: what leaves holds no secret, and on another machine it replays and simulates."""

import asyncio
import io
import json
import stat
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.cli.commands.bundle.pseudonyms import Pseudonyms
from rebalancer.cli.commands.bundle.secrets import without_secrets
from rebalancer.cli.entry import run
from rebalancer.domain.memory import Memory
from rebalancer.obs import journal
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.recorder import Recorder
from rebalancer.planning import plan
from tests.builders import NOW, a_model, a_policy, a_snapshot, an_override

pytestmark = pytest.mark.slow  # 10 s

Captured = pytest.CaptureFixture[str]

CANARY = "hunter2canary0123456789"
JWT = f"eyJhbGciOiJSUzI1NiJ9.{CANARY}.sig-{CANARY}"
PLANTED = (
    f"http://admin:{CANARY}@proxy:3128",
    f"Authorization: Bearer {CANARY}",
    f"password={CANARY}",
    f'"client_secret": "{CANARY}"',
    f"--api-key {CANARY}",
    f"kafka://user:{CANARY}@broker:9092 refused",
    JWT,
    f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
    f"ghp_{CANARY}",
)
NAMES = ("fraudwatch", "creditline", "paymentsteam", "xena", "prodeast", "acmechat")
POLICY = a_policy(
    a_model(
        "fraudwatch",
        entitlement=4,
        team="paymentsteam",
        aliases=("acmechat/v2",),
        signals={"concurrency": {"per_replica": 4.0}},
    ),
    a_model(
        "creditline-7",
        entitlement=4,
        team="paymentsteam",
        namespace="prodeast",
        signals={"concurrency": {"per_replica": 4.0}},
    ),
    plan_every_seconds=30.0,
)


async def _recorded(file: Path, reason: str) -> None:
    """An hour in which one surges and is lent replicas, while a person's override has a secret for a reason."""
    files = JournalFiles(file.parent, max_bytes=1 << 30, single=file)
    files.start()

    async def nowhere(_key: bytes, _line: bytes) -> bool:
        return True

    recorder = Recorder(files, nowhere, lambda _key, _line: None, 300.0)
    recorder.code = await asyncio.to_thread(journal.code_digest)
    recorder.policy(POLICY, NOW)
    memory = Memory()
    held = an_override("cap", "creditline-7", 3, actor="xena", reason=reason, expires_at=NOW + 7200.0)
    for cycle in range(120):
        work = {"fraudwatch": 4.5 if cycle % 60 > 30 else 2.0, "creditline-7": 0.5}
        readings = {name: {"concurrency": 4.0 * busy} for name, busy in work.items()}
        seen = a_snapshot(POLICY, {"fraudwatch": 4, "creditline-7": 3}, readings, work, overrides=(held,))
        at = NOW + 30.0 * cycle
        loads = tuple(
            replace(
                load,
                signals={
                    name: replace(each, at=at) if hasattr(each, "at") else each for name, each in load.signals.items()
                },
            )
            for load in seen.loads
        )
        snapshot = replace(seen, cycle=cycle + 1, at=at, loads=loads)
        decision = plan(snapshot, POLICY, memory)
        recorder.begin(snapshot, memory)
        recorder.cycle(decision)
        memory = decision.memory
    await recorder.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the service has it, with a secret in everything that a person or a producer may write."""
    folder = tmp_path_factory.mktemp("service")
    asyncio.run(_recorded(folder / "journal.jsonl", " ".join(PLANTED)))
    (folder / "service.log").write_text("\n".join(["started", *PLANTED, "fraudwatch has 4 replicas"]))
    return folder


class _Leaky(BaseHTTPRequestHandler):
    """Status and metrics of a service that tells too much."""

    def do_GET(self) -> None:
        told = json.dumps({"at": NOW, "password": CANARY, "said": list(PLANTED)})
        body = (told if self.path.startswith("/v1") else f'up{{url="{PLANTED[0]}"}} 1\n').encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def leaky() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Leaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def bundled(service: Path, to: Path, url: str, *more: str) -> int:
    kubeconfig = service / "kubeconfig"
    kubeconfig.write_text("{}")
    where = ["--server", url, "--probes", url, "--kubeconfig", str(kubeconfig)]
    what = ["--journal", str(service / "journal.jsonl"), "--log", str(service / "service.log")]
    return run(["bundle", str(to), *what, *where, *more])


def contents(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as tar:
        return {
            member.name.partition("/")[2]: found.read().decode()
            for member in tar.getmembers()
            if (found := tar.extractfile(member)) is not None
        }


ALL = {
    *("policy.yaml", "settings.json", "status.json", "doctor.json", "metrics.txt", "service.log"),
    *("journal/journal-000001.jsonl", "traffic.csv", "README.txt"),
}


@pytest.mark.parametrize("form", [(), ("--anonymous",)])
def test_no_secret_leaves_wherever_it_was_planted_and_the_file_is_its_owners_alone(
    form: tuple[str, ...], service: Path, leaky: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", "broker:9092")
    monkeypatch.setenv("REBALANCER_CLUSTER_NAME", f"password={CANARY}")
    bundle = tmp_path / "out.tar.gz"
    assert bundled(service, bundle, leaky, *form) == 0
    found = contents(bundle)
    assert set(found) == ALL
    assert CANARY in (service / "journal.jsonl").read_text()
    assert [name for name, text in found.items() if CANARY in text] == []
    assert CANARY not in capsys.readouterr().out
    assert CANARY.encode() not in bundle.read_bytes()
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    for name in ("status.json", "service.log", "metrics.txt", "settings.json", "journal/journal-000001.jsonl"):
        assert "[removed]" in found[name], name


@pytest.mark.parametrize("form", [(), ("--anonymous",)])
def test_in_an_empty_folder_elsewhere_it_replays_byte_by_byte_and_simulates(
    form: tuple[str, ...], service: Path, leaky: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    made, elsewhere = tmp_path / "made.tar.gz", tmp_path / "elsewhere"
    assert bundled(service, made, leaky, *form, "--last", "30m") == 0
    assert "otherwise" not in capsys.readouterr().err
    elsewhere.mkdir()
    bundle = made.rename(elsewhere / "bundle.tar.gz")
    monkeypatch.chdir(elsewhere)
    assert run(["replay", bundle.name, "-o", "json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert 60 <= replayed["cycles"] <= 71  # half an hour, from the last keyframe before it on
    assert (replayed["differences"], replayed["skipped"], replayed["other_code"]) == ([], 0, None)
    assert run(["simulate", bundle.name, "--compare", "none", "-o", "json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] > 1700


def test_under_other_names_no_name_of_theirs_is_left(service: Path, leaky: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.tar.gz", tmp_path / "other.tar.gz"
    assert bundled(service, plain, leaky) == bundled(service, other, leaky, "--anonymous") == 0
    told, hidden = (" ".join(contents(each).values()) for each in (plain, other))
    assert [name for name in NAMES if name not in told] == []
    assert [name for name in NAMES if name in hidden] == []


def test_the_list_says_what_would_go_out_and_writes_nothing(
    service: Path, leaky: str, tmp_path: Path, capsys: Captured
) -> None:
    assert bundled(service, tmp_path / "out.tar.gz", leaky, "--list") == 0
    assert ALL - {"settings.json"} == {line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_written_nothing_is_left_behind_and_what_was_there_stays(
    service: Path, leaky: str, tmp_path: Path, capsys: Captured
) -> None:
    taken = tmp_path / "out.tar.gz"
    taken.mkdir()
    assert bundled(service, taken, leaky) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["out.tar.gz"]


def test_what_cannot_be_read_is_told_and_the_rest_goes_out(service: Path, tmp_path: Path, capsys: Captured) -> None:
    bundle = tmp_path / "out.tar.gz"
    assert bundled(service, bundle, "http://127.0.0.1:1") == 0
    said = capsys.readouterr().err
    for word in ("status: no answer", "metrics: http://127.0.0.1:1/metrics does not answer", "settings: none here"):
        assert f"note: {word}" in said
    assert "status: no answer" in contents(bundle)["README.txt"]
    assert "journal/journal-000001.jsonl" in contents(bundle)


def test_a_damaged_line_costs_what_follows_up_to_the_next_keyframe(
    service: Path, leaky: str, tmp_path: Path, capsys: Captured
) -> None:
    lines = (service / "journal.jsonl").read_bytes().splitlines(keepends=True)
    cut = next(at for at, line in enumerate(lines) if line.startswith(b'{"delta"') and b'"cycle":50,' in line)
    lines[cut] = lines[cut][:40] + b"\n"
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "journal.jsonl").write_bytes(b"".join(lines))
    (damaged / "service.log").write_text("")
    bundle = tmp_path / "out.tar.gz"
    assert bundled(damaged, bundle, leaky) == 0
    assert "a line is not a journal's" in capsys.readouterr().err
    assert run(["replay", str(bundle), "-o", "json"]) == 0
    assert 100 < json.loads(capsys.readouterr().out)["cycles"] < 120


def test_a_file_that_is_no_bundle_is_said_to_be_none(tmp_path: Path, capsys: Captured) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("x"), io.BytesIO(b""))
    assert run(["replay", str(other)]) == 1
    assert "it is no bundle" in capsys.readouterr().err


@given(st.text(max_size=40), st.sampled_from(PLANTED), st.text(max_size=40))
def test_a_secret_is_taken_out_whatever_stands_around_it(before: str, planted: str, after: str) -> None:
    assert CANARY not in without_secrets(f"{before} {planted} {after}")


def test_what_is_no_secret_stays() -> None:
    for text in ("generated_tokens 5", "tokens: 12", "REBALANCER_KAFKA_PASSWORD_FILE=/etc/kafka/password", "at 10:30"):
        assert without_secrets(text) == text


PARTS = st.from_regex(r"zz[a-z0-9]{1,6}|[0-9]{1,3}|[0-9]zz[a-z]{0,2}", fullmatch=True)  # no words of ours


@given(st.lists(st.lists(PARTS, min_size=1, max_size=3).map("-".join), min_size=2, max_size=8, unique=True))
def test_other_names_stand_in_the_same_order_and_are_as_many(names: list[str]) -> None:
    renamed = [Pseudonyms(names).rewrite(name) for name in sorted(names)]
    assert renamed == sorted(set(renamed))
