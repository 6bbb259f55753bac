"""Each guard broken on purpose, and the tests named after it seen to fail: `python -m tests.mutants` tells which."""
