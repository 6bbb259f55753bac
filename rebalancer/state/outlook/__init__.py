"""The look-ahead: what every count of replicas of a model is worth, judged by replays of its own past.

In the order in which data flows: `past` (running sums) -> `level` (the slow level) -> `learning` (how level, dispersion
and errors carried over; `period`, `shift`) -> `replays`, `scenarios` (paths of work to the horizon) -> `value` (what
each count costs on each path) -> `outlook` (the curve of each model with what explains it). `rule` holds the constants;
`cache` holds all models' outlooks and renews those that have changed (`staleness`).
Pure numpy: no sum here depends on a library for linear algebra, everything that leaves is quantised to 1e-6.
"""

from rebalancer.domain.outlook import Outlook
from rebalancer.state.outlook.cache import Group, OutlookCache
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.outlook import ModelTerms, Terms, outlooks
from rebalancer.state.outlook.past import Past, from_cells, per_second
from rebalancer.state.outlook.value import Serving, Standing

__all__ = [
    "Group",
    "Learned",
    "ModelTerms",
    "Outlook",
    "OutlookCache",
    "Past",
    "Serving",
    "Standing",
    "Terms",
    "from_cells",
    "learn",
    "outlooks",
    "per_second",
]
