"""Every environment variable of the service."""

from rebalancer.app.reference.table import code, table
from rebalancer.settings.allowed import words
from rebalancer.settings.service import PREFIX, ServiceSettings

_HEAD = """\
# Settings

The service reads these environment variables when it starts; a change needs a restart. What it decides by is in the
[policy](policy.md), which is read again when its file changes. A misspelled name or a bad value ends the start with
one line per problem. Secrets come from files, never from variables.

"""


def settings_page() -> str:
    """The page."""
    properties = ServiceSettings.model_json_schema()["properties"]
    rows = [_row(name, properties[name]) for name in ServiceSettings.model_fields]
    return _HEAD + table(("variable", "allowed", "default", "meaning"), rows)


def _row(name: str, part: dict[str, object]) -> tuple[str, ...]:
    field = ServiceSettings.model_fields[name]
    default = "required" if name == "kafka_bootstrap" else _default(field.default)
    return code(PREFIX + name.upper()), _allowed(part), default, str(field.description or "")


def _default(value: object) -> str:
    if isinstance(value, bool):
        return code(str(value).lower())
    return "none" if value is None or value == "" else code(value)


def _allowed(part: dict[str, object]) -> str:
    """In words; a file that need not be there is `anyOf` a path and null."""
    choices = part.get("anyOf")
    kinds = [each for each in choices if each.get("type") != "null"] if isinstance(choices, list) else [part]
    if kinds and kinds[0].get("format") == "path":
        return "a path"
    return words(kinds[0]) if kinds else "text"
