"""A first policy from one look at a cluster: a pure function from a `Survey` to a draft whose every value says why.

In the order in which it is made: `things` (typed objects), `workloads` (what asks for GPUs and has a scale),
`autoscalers` (today's bounds, and what votes), `placement` (which workloads may stand where), `labels` and `pools`,
`models`, `entitlements`; `drafting` calls them, `text` writes the YAML. `recent` asks Prometheus about the last week.
"""
