"""The doors: whatever writes outside of the process stands in a block of `effect`, or in a list here with a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.repository import ROOT, tracked

CLI = "the command line: what it writes is of who typed it"
NOT_THE_SERVICE = {"cli": CLI, "sandbox": "the demo", "sim": "the simulator", "generate.py": "the checkout's own pages"}
"""Rooms of which no process of the service is made."""
BESIDE_AN_EFFECT = {
    "kafka/outbox.py Outbox._connect": "connects: each record passes `Outbox.send`",
    "kafka/outbox.py send_once": CLI,
    "kafka/topic_plan.py create": CLI,
    "kafka/acls.py give": CLI,
}
WRITERS = {
    *("commit", "AIOKafkaProducer", "send_and_wait", "create_topics", "create_partitions", "alter_configs"),
    *("delete_topics", "delete_records", "CreateAclsRequest", "write_bytes", "write_text", "mkdir", "unlink"),
    *("rename", "rmdir", "rmtree", "symlink_to", "mkstemp", "mkdtemp", "NamedTemporaryFile"),
}
"""What changes a disk or a broker, by the name that is called; the API server and SQS have one door each
(`test_rooms.py`)."""
A_DOOR = """
class Files:
    def begin(self, path):
        {}
"""


def outside(tree: ast.AST, within: tuple[str, ...] = ()) -> Iterator[tuple[str, int, str]]:
    """Where something is written and no `effect` is around it: in what, on which line, by what."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.With | ast.AsyncWith) and any(map(_is_effect, node.items)):
            continue
        name = (node.name,) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else ()
        if isinstance(node, ast.Call) and _writes(node):
            yield ".".join(within), node.lineno, ast.unparse(node.func)
        yield from outside(node, (*within, *name))


def _is_effect(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and _called(item.context_expr) == "effect"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _writes(call: ast.Call) -> bool:
    if _called(call) not in {"open", "fdopen", "GzipFile"}:
        return _called(call) in WRITERS
    words = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    modes = [each.value for each in words if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return any(set(mode) <= set("rwxabt+") and set(mode) & set("wxa+") for mode in modes)


def of_the_service() -> list[Path]:
    return [path for path in tracked("rebalancer/**/*.py") if path.parts[1] not in NOT_THE_SERVICE]


def test_whatever_the_service_writes_passes_an_effect() -> None:
    beside, used = [], set()
    for path in of_the_service():
        for place, line, what in outside(ast.parse((ROOT / path).read_text())):
            name = f"{path.relative_to('rebalancer')} {place}"
            used.add(name)
            if name not in BESIDE_AN_EFFECT:
                beside.append(f"{path}:{line}: {what} in {place}")
    assert not beside, "\n".join(["give it a name at its door (`EFFECTS`), or a reason here:", *beside])
    assert used == BESIDE_AN_EFFECT.keys(), "each reason is of something"


@pytest.mark.parametrize(
    "writing",
    [
        "path.open('wb')",
        "open(path, mode='a')",
        "path.write_bytes(b'')",
        "path.parent.mkdir()",
        "await consumer.commit(offsets)",
        "AIOKafkaProducer(acks='all')",
        "with suppress(OSError): path.unlink()",
    ],
)
def test_a_writer_that_stands_outside_is_seen(writing: str) -> None:
    assert [place for place, _, _ in outside(ast.parse(A_DOOR.format(writing)))] == ["Files.begin"]
    within = A_DOOR.format(f"with effect('disk/write', ''):\n            {writing}")
    assert not list(outside(ast.parse(within)))


@pytest.mark.parametrize("reading", ["path.open('rb')", "open(path)", "sessions.open('w-token')", "path.read_bytes()"])
def test_a_reader_needs_no_name(reading: str) -> None:
    assert not list(outside(ast.parse(A_DOOR.format(reading))))
