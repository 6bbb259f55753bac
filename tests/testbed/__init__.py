"""Real Kafka, Kubernetes, kwok, Karpenter and KEDA on loopback, for tests and by hand (`make testbed`)."""
