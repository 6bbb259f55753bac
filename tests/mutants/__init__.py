"""Each guard broken on purpose, and the tests named after it seen to fail: `make mutants` prints which did."""
