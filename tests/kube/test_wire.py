"""Bytes to values: nothing is invented, nothing is lost."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.kube.errors import Gone, Temporary
from rebalancer.kube.wire import LineSplitter, change_decoder, decode_list
from tests.kube.server import bookmark, line, status


class PodMeta(msgspec.Struct):
    name: str


class PodWire(msgspec.Struct):
    metadata: PodMeta


def a_list(items: object, **metadata: str) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "7", **metadata}, "items": items})


@given(
    st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")), max_size=10),
    st.lists(st.integers(min_value=0, max_value=220), max_size=10),
)
def test_lines_do_not_depend_on_how_the_bytes_arrive(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(text + b"\n" for text in lines)
    edges = [0, *sorted(cuts), len(data)]
    splitter = LineSplitter()
    chunks = [data[a:b] for a, b in pairwise(edges)]
    assert [got for chunk in chunks for got in splitter.feed(chunk)] == list(filter(None, lines))


def test_issue_192_a_line_beyond_the_librarys_4_mib_is_a_line() -> None:
    splitter = LineSplitter()
    for _ in range(80):
        assert splitter.feed(b"x" * 65_536) == []
    assert [len(got) for got in splitter.feed(b"\n")] == [80 * 65_536]


def test_an_endless_line_is_cut_off_before_it_eats_the_memory() -> None:
    splitter = LineSplitter(max_line_bytes=100)
    splitter.feed(b"x" * 60)
    with pytest.raises(Gone, match="longer than 100 bytes"):
        splitter.feed(b"x" * 60)


def test_a_list_gives_items_revision_and_token() -> None:
    page = decode_list(a_list([{"metadata": {"name": "a"}}], **{"continue": "next"}))
    assert page.items == [{"metadata": {"name": "a"}}]
    assert (page.resource_version, page.continue_token, page.malformed) == ("7", "next", [])


def test_typed_items_skip_what_is_not_asked_for() -> None:
    body = a_list([{"metadata": {"name": "a", "uid": "1"}, "spec": {"nodeName": "n"}}])
    assert decode_list(body, PodWire).items == [PodWire(PodMeta("a"))]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"<html>",
        b'{"items": []}',
        b'{"metadata": {}}',
        b'{"metadata": {"resourceVersion": "1"}}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_list_is_never_an_empty_list(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_list(body)
    with pytest.raises(msgspec.DecodeError):
        decode_list(body, PodWire)


def test_an_empty_list_may_be_null() -> None:
    assert decode_list(a_list(None)).items == []


def test_a_malformed_item_is_named_and_loses_no_neighbour() -> None:
    items = [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": 5}},
        {"metadata": {"name": "b"}},
        7,
    ]
    page = decode_list(a_list(items), PodWire)
    assert [item.metadata.name for item in page.items] == ["a", "b"]
    assert page.malformed == [
        "an object without a name: Expected `str`, got `int` - at `$.metadata.name`",
        "an object without a name: Expected `object`, got `int`",
    ]


def test_a_malformed_item_is_named_by_namespace_and_name() -> None:
    class Strict(msgspec.Struct):
        spec: dict[str, str]

    page = decode_list(a_list([{"metadata": {"namespace": "serving", "name": "a"}}]), Strict)
    assert page.malformed == ["serving/a: Object missing required field `spec`"]


def test_a_change_has_its_object_and_revision() -> None:
    obj = {"metadata": {"name": "a", "resourceVersion": "9"}}
    change = change_decoder()(line("MODIFIED", obj))
    assert change == ("MODIFIED", obj, "9", "")
    assert change_decoder(PodWire)(line("DELETED", obj)).obj == PodWire(PodMeta("a"))


def test_a_bookmark_moves_the_revision_and_has_no_object() -> None:
    assert change_decoder(PodWire)(bookmark(12)) == ("BOOKMARK", None, "12", "")


def test_issue_136_410_in_the_stream_asks_for_a_new_list() -> None:
    with pytest.raises(Gone, match="410 too old"):
        change_decoder()(line("ERROR", status(410, "Expired", "too old")))


def test_another_error_in_the_stream_is_temporary() -> None:
    with pytest.raises(Temporary, match="500 etcd"):
        change_decoder()(line("ERROR", status(500, "InternalError", "etcd")))


@pytest.mark.parametrize(
    "data",
    [
        b"<html>bad gateway</html>",
        b"{",
        b"\xff",
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": {}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}',
        b'{"type": "NEW", "object": {"metadata": {"resourceVersion": "1"}}}',
        b'{"type": "ERROR", "object": 5}',
    ],
)
def test_a_line_that_cannot_be_read_asks_for_a_new_list(data: bytes) -> None:
    with pytest.raises(Gone):
        change_decoder()(data)
