"""Faro's score of a run on the fast path: an estimate of what the request-level world would say."""

import numpy as np

from rebalancer.sim.record import Record
from rebalancer.sim.requests.arrivals import MINUTE_SECONDS
from rebalancer.sim.requests.minutes import QUANTILE, Minutes
from rebalancer.sim.requests.scenarios import OWN_SECONDS, SLO_SECONDS


def fluid_minutes(record: Record, slo_seconds: float = SLO_SECONDS, own_seconds: float = OWN_SECONDS) -> Minutes:
    """A minute's p99 is its longest wait and `own_seconds`; inf when more than a hundredth was turned away."""
    models = record.scenario.models
    minutes = record.scenario.seconds // MINUTE_SECONDS
    shape = len(models), minutes, MINUTE_SECONDS
    part = slice(minutes * MINUTE_SECONDS)
    requests = np.stack([model.requests[part] for model in models]).reshape(shape)
    total = requests.sum(axis=2)
    wait = np.where(requests > 0.0, record.wait[:, part].reshape(shape), 0.0).max(axis=2)
    share = np.where(total > 0.0, 1.0 / np.maximum(total, 1e-12), np.nan)
    lost = record.lost[:, part].reshape(shape).sum(axis=2) * share
    p99 = np.where(np.isnan(lost), np.nan, np.where(lost > 1.0 - QUANTILE, np.inf, wait + own_seconds))
    late = record.late[:, part].reshape(shape).sum(axis=2) * share
    return Minutes(total, p99, late, np.minimum(1.0, slo_seconds / p99))


def lost_utility(record: Record) -> float:
    """Jobs less the sum of their mean utilities over minutes, in the fluid form."""
    return fluid_minutes(record).lost_utility
