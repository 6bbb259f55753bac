"""The fault catalogue: each row injected while GPUs change hands on real parts, then judged by the invariants."""
