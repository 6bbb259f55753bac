"""Only plain YAML is read, every value remembers its line, and no input can make the reader stumble or swell."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.settings.document import MAX_CHARACTERS, read_document
from rebalancer.settings.problems import check_text
from tests.settings.a_policy_text import GOOD, line_of, spoilt

LAUGHS = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (LAUGHS, 1, "anchors and aliases are not allowed"),
        ("a: 1\nb: *a\n", 2, "anchors and aliases are not allowed"),
        ("a: 1\nb: !!binary aGk=\n", 2, "the tag !!binary is not allowed"),
        ("a: 1\nb: !python/object:os.system x\n", 2, "tag"),
        ("a: 1\n\tb: 2\n", 2, "a tab in the indentation"),
        ("a:\t16\n", 1, "not YAML we read: a tab"),
        ("a: 1\rb:\t2\r", 2, "not YAML we read: a tab"),
        ("a: 1\n---\nb: 2\n", 2, "another document begins here"),
        ("a: 1\n---\n", 2, "another document begins here"),
        ("a: [1, 2\n", 2, "a bracket is not closed that opens on line 1"),
        ("a: [\nb:\n- c: 1\n", 3, "a bracket is not closed here"),
        ("a: 1\n  b: 2\n", 2, "a colon where no key can be"),
        ("a: " + "[" * 100_000, 1, "maximum depth"),
        ("".join(" " * depth + "a:\n" for depth in range(200)), 20, "maximum depth"),
        ("a: \x01\n", 0, "not YAML"),
        ('a: "\\U80000000"\n', 0, "not YAML"),
        ('a: "\\U00200000"\n', 0, "not YAML"),
        ("%YAML 9.9\n---\na: 1\n", 1, "not YAML"),
        ("%YAML 1.3\n---\na: 1\n", 0, "not YAML we read: version"),
        ("%YAML 1.0\n---\na: 1\n", 0, "not YAML we read: version"),
        ("", 0, "the file is empty"),
        ("# nothing yet\n", 0, "the file is empty"),
        ("# " + "x" * MAX_CHARACTERS, 0, "characters"),
    ],
)
def test_what_is_not_plain_yaml_is_refused_where_it_stands(text: str, line: int, what: str) -> None:
    policy, (problem,) = check_text(text, "policy.yaml")
    assert policy is None
    assert what in problem.what
    assert problem.line == line


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("a: 1\n---\n", "a policy is one document: leave the --- out, and what is after it"),
        ("a:\t16\n", "put a space there"),
        ("a: 1\n\tb: 2\n", "indent with spaces"),
    ],
)
def test_what_can_be_mended_in_a_word_says_how(text: str, fix: str) -> None:
    (problem,) = check_text(text, "policy.yaml")[1]
    assert problem.fix == fix


def test_a_key_given_twice_is_reported_and_the_first_one_counts() -> None:
    document, (problem,) = read_document("a: 1\nb:\n  c: 2\n  c: 3\n")
    assert document is not None
    assert document.value == {"a": 1, "b": {"c": 2}}
    assert (problem.line, problem.path, problem.fix) == (4, "b.c", "first on line 3; keep one")


def test_numbers_too_long_to_parse_are_a_problem() -> None:
    text = spoilt(("gpuLimit: 16", "gpuLimit: " + "9" * 5_000))
    assert any("too long" in problem.what for problem in check_text(text, "policy.yaml")[1])


def test_huge_numbers_are_out_of_range_like_any_other() -> None:
    text = spoilt(("gpuLimit: 16", "gpuLimit: " + "9" * 4_000))
    (problem,) = check_text(text, "policy.yaml")[1]
    assert problem.path == "pools.a100.gpuLimit"


@pytest.mark.parametrize("spelled", ["yes", "no", "on", "2026-11-20", "0o7x", "1:30"])
def test_words_that_old_yaml_took_for_something_else_are_text(spelled: str) -> None:
    document, found = read_document(f"a: {spelled}\n")
    assert document is not None
    assert (document.value, found) == ({"a": spelled}, ())


def test_lines_and_names_follow_the_text() -> None:
    document, _ = read_document(GOOD)
    assert document is not None
    path = ("models", 0, "targets", 1, "pool")
    assert document.line(path) == line_of(GOOD, "{pool: spot, name: qwen-spot}")
    assert document.spell(path) == "models.qwen-32b.targets.qwen-spot.pool"
    assert document.line(("models", 1, "no", "such", "key")) == line_of(GOOD, "- id: sdxl")
    assert document.spell(("pools", 7, "nvidia.com/gpu")) == 'pools[7]["nvidia.com/gpu"]'


@given(
    start=st.integers(0, len(GOOD)),
    length=st.integers(0, 40),
    put=st.text(max_size=20)
    | st.sampled_from(["[", "{", "- ", "? ", "*a", "&a ", "!!x ", "\t", "\x00", '"\\UFFFFFFFF"']),
)
def test_no_text_makes_the_check_stumble(start: int, length: int, put: str) -> None:
    policy, found = check_text(GOOD[:start] + put + GOOD[start + length :], "policy.yaml")
    assert (policy is None) == bool(found)
    assert all(str(problem).splitlines() == [str(problem)] for problem in found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "pool", "x"]), inner),
    max_leaves=5,
)


@given(
    value=VALUES,
    key=st.sampled_from(["pools", "models", "surge", "classes", "gpuLimit", "targets", "signals", "nodeLabels", "slo"]),
)
def test_any_value_anywhere_is_answered_by_problems_not_by_an_error(value: object, key: str) -> None:
    spelled = json.dumps(value)  # JSON is YAML
    lines = [f"{line[: line.index(key)]}{key}: {spelled}" if f"{key}:" in line else line for line in GOOD.splitlines()]
    policy, found = check_text("\n".join(lines), "policy.yaml")
    assert (policy is None) == bool(found)
