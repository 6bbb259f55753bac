"""The fluid world, compiled: a day of three models in about a second.

Work arrives and waits (serving) for replicas that start, wait for GPUs and go (fleet), on nodes that Karpenter may
bring (karpenter); controllers live in it (fast).
"""
