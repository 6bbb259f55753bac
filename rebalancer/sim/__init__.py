"""The judge: scenarios from traces, controllers on a simulated cluster, and what came of it.

Data goes one way. A trace is read (`traces`) into a `Demand`, and a scenario says what serves it. A world plays it,
each second: `fluid` (compiled, the fast one), `requests` and `batching` request by request; `product` is the service
itself in them. Controllers decide there: `peers`, and the `limits` that nobody passes. A `Record` keeps what happened,
a score sums it up, and somebody tells it: `contest` for `rebalancer simulate`, `suite` for the benchmarks, `page`.
"""
