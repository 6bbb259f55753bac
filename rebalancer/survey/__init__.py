"""Looks at a cluster as it stands, live or as manifests in a folder, before or beside the service.

Its users are `rebalancer doctor` (what would hurt), `rebalancer init` (a first policy) and whoever asks what owns a
workload. Objects stay decoded JSON here, since a survey looks at kinds that the service itself never reads.
"""
