"""Kueue between KEDA and the scheduler, as llm-d's guide `workload-autoscaling/kueue-rebalancing` sets it up.

Each model has a ClusterQueue of one cohort; KEDA's HPA says how many replicas there shall be, and the pods of those
wait behind a gate until their queue, or what others of the cohort leave, has quota for them. Read from
kubernetes-sigs/kueue at ff69552 (0.19 and after). Left out: cohorts of cohorts, several flavours and resources, pod
groups, admission checks, topology, and the policies that Kueue has for jobs only.
"""
