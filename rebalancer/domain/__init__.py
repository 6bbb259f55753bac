"""The vocabulary: frozen values that every other room speaks, and nothing that acts.

Data goes one way through them: `events` (what came in) -> `snapshot` (the world as one cycle sees it, built from
`cluster` objects and `readings`) -> `plan` (what to do, what was refused, what stays unmet) -> `outcome` (what
became of it) -> `memory` (what the next cycle must not forget). `policy` is what people ask for.

Values are msgspec structs (policy: pydantic, because people write it and its schema is published). Instants are UTC
epoch seconds (`at`, `since`, `..._at`), durations carry `_seconds`, ratios are 0-1, replicas and GPUs are integers.
"""
