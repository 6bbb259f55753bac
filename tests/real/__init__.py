"""Tests on the real Kafka, Kubernetes, KEDA and Karpenter (tests/testbed starts them)."""
