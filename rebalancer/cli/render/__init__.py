"""Domain values as text for a terminal: pure functions, no colour, unknown is `?`."""

from rebalancer.api.text.explain import render_explain
from rebalancer.cli.render.plan import render_plan
from rebalancer.cli.render.problems import render_problems
from rebalancer.cli.render.status import render_status

__all__ = ["render_explain", "render_plan", "render_problems", "render_status"]
