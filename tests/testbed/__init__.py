"""Real Kafka, Kubernetes, kwok, Karpenter and KEDA on loopback, for tests and by hand (`make testbed`).

`build` makes the programs once, `stack` starts and ends them, `kube` and `objects` are for talking to
the cluster, `audit` says who wrote what, `fixtures` hands all of it to pytest.

What is not real: no container runs (kwok marks pods Running), NetworkPolicies are stored and not
enforced, and there is no cloud. A spot notice is an event that a test produces, and what Karpenter
would then do (delete the NodeClaim) the test does too. Nodes that Karpenter launches here have a
providerID `kwok://NODE`; nodes shaped as on AWS are made by hand (`objects.gpu_node`).
"""
