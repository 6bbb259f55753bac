"""What is wrong with single fields: pydantic's findings in our words, with line, path and the allowed range."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from rebalancer.domain.policy import Policy
from rebalancer.domain.zones import zone_names
from rebalancer.settings.allowed import keys_at, part_at, words
from rebalancer.settings.document import Document, Path
from rebalancer.settings.problem import Problem, show

OUT_OF_RANGE = ("greater_than", "less_than", "too_short", "too_long", "string_too_short", "string_too_long")
WHAT = {
    "bool_type": "is not true or false",
    "date": "is no date of the calendar",
    "dict_type": "is not a mapping",
    "finite_number": "is not a finite number",
    "float_type": "is not a number",
    "int_type": "is not a whole number",
    "literal_error": "is none of the allowed values",
    "model_type": "is not a mapping",
    "string_pattern_mismatch": "is not spelled as allowed",
    "string_type": "is not text",
    "time_zone": "is no time zone of the IANA database",
    "tuple_type": "is not a list",
}


def check_shape(document: Document) -> tuple[Policy | None, tuple[Problem, ...]]:
    """The policy when every single field is as the schema says, else all fields that are not."""
    try:
        return Policy.model_validate(document.value, by_alias=True, by_name=False), ()
    except ValidationError as error:
        return None, tuple(_problems(document, error.errors(include_url=False)))


def _problems(document: Document, errors: Iterable[Any]) -> Iterable[Problem]:
    known = list(errors)
    meant = {(*error["loc"][:-1], _meant(error["loc"])) for error in known if error["type"] == "extra_forbidden"}
    for error in known:
        path: Path = tuple(error["loc"])
        if error["type"] == "missing" and path in meant:
            continue  # it is there, misspelled: said once
        if error["type"] == "too_short" and error["input"]:
            continue  # its items are wrong, and said so themselves
        yield _problem(document, path, error)


def _problem(document: Document, path: Path, error: Any) -> Problem:  # noqa: ANN401  pydantic's ErrorDetails
    key = document.spell(path[-1:]) or "the policy"
    if error["type"] == "missing":
        what, value, allowed, fix = f"{key} is missing", "", words(part_at(path)), _add(path)
    elif error["type"] == "extra_forbidden":
        what, value, allowed, fix = f"unknown key {key}", show(error["input"]), "", _unknown(path)
    else:
        what, value, allowed, fix = (
            f"{key} {_error_words(error)}",
            show(error["input"]),
            words(part_at(path)),
            _spelling(document, path, error),
        )
    return Problem(
        line=document.line(path), path=document.spell(path), value=value, what=what, allowed=allowed, fix=fix, at=path
    )


def _error_words(error: Any) -> str:  # noqa: ANN401  pydantic's ErrorDetails
    kind: str = error["type"]
    if kind.startswith("too_short") and not error["input"]:
        return "is empty"
    return "is out of range" if kind.startswith(OUT_OF_RANGE) else WHAT.get(kind, f"is wrong: {error['msg']}")


def _add(path: Path) -> str:
    meaning = str(part_at(path).get("description", "")).rstrip(".")
    return f"add it: {meaning}" if meaning else "add it"


def _meant(path: Path) -> str | None:
    """The key that an unknown one was probably meant to be; snake_case and other cases count as the same word."""
    keys = keys_at(path[:-1])
    plain = {key.lower(): key for key in keys}
    close = get_close_matches(str(path[-1]).replace("_", "").lower(), plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def _unknown(path: Path) -> str:
    meant = _meant(path)
    if meant:
        return f"did you mean {meant}?"
    return f"known here: {', '.join(keys_at(path[:-1]))}" if keys_at(path[:-1]) else "remove it"


def _spelling(document: Document, path: Path, error: Any) -> str:  # noqa: ANN401  pydantic's ErrorDetails
    given = error["input"]
    if error["type"] == "string_type" and isinstance(given, bool | int | float):
        return f'put it in quotes: "{document.spelled.get(path, show(given))}"'
    if error["type"] == "time_zone":
        close = get_close_matches(given, zone_names(), n=1)
        return f"did you mean {close[0]}?" if close else "name it as in Europe/Berlin or UTC"
    if error["type"] == "literal_error" and isinstance(given, str):
        close = get_close_matches(given.lower(), part_at(path).get("enum", ()), n=1)
        return f"did you mean {close[0]}?" if close else ""
    return ""
