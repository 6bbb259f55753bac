"""One self-contained HTML page about one run, or about two of them on the same traffic."""

from rebalancer.sim.page.html import Run, page

__all__ = ["Run", "page"]
