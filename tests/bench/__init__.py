"""Figures of the engine: `make bench`. No test asserts a time; ratios are taken side by side in one run."""
