"""The only room that writes to Kubernetes. Everything goes through one gate, which looks again before it writes.

`gate` carries out a plan: may we write, is the object as the plan saw it, do floor and budget hold now, is the intent
recorded; then one write with a precondition, and what became of it. The drivers (`scale`, `scaled_object`, `hpa`,
`node_pool`) know how one kind of object is read and written; `deletion_cost`, `override_status` and `events` are what
goes with it; `hand_back` gives everything back.
"""
