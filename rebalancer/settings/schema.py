"""The policy's JSON schema, as `config/policy.schema.json` holds it."""

import json

from rebalancer.domain.policy import json_schema


def schema_text() -> str:
    """The whole file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
