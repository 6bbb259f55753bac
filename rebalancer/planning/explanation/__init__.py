"""Why: each step of a decision in numbers, what is unmet, and what overrides are told."""
