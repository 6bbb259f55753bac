"""Faro (EuroSys '24) and the baselines of its paper, over plain values: jobs, their latency, replicas and forecasts."""
